"""Measurement exclusivity of codes by tests of conditional independence (T-MEX, Yao et al. 2025)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.block_r2 import Regression
from candlelight.evaluation.causal.estimation.code_inputs import check_codes_and_factors, standardise
from candlelight.evaluation.causal.estimation.covariance_measure import covariance_measure_test
from candlelight.evaluation.causal.estimation.kernel_ridge import predict_by_kernel
from candlelight.evaluation.causal.estimation.linear_regression import predict_by_line
from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

_ROUNDING = 1e-9  # residuals of a determined variable, as a share of its standard deviation


@dataclass(frozen=True)
class TMEX:
    """The number of disagreements with an assumed measurement graph, and the tests.

    Attributes:
        score: number of decisions that disagree with the graph, from 0 to codes times varying factors; lower
            is better.
        decisions: true where the test rejects that the code is independent of the factor given the other
            factors; false if the factor has one value.
        p_values: p-value of each test; nan if the factor has one value.
    """

    score: Int[Tensor, ""]
    decisions: Bool[Tensor, "codes factors"]
    p_values: Float[Tensor, "codes factors"]


def t_mex(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    graph: Bool[Tensor, "codes factors"],
    regression: Regression = "linear",
    alpha: float = 0.05,
) -> TMEX:
    """Count the tests of conditional independence that disagree with the codes' assumed measurement graph.

    In the graph, code l measures factor i if entry (l, i) is true; exclusive codes have one true entry in
    each row. If the graph is right, code l is independent of factor i given all other factors exactly where
    the entry is false. ``T-MEX = sum_li [decision_li != graph_li]``, where the decision is a test of this
    independence at level ``alpha``: Yao et al. 2025 (The Third Pillar of Causal Analysis? A Measurement
    Perspective on Causal Representations, NeurIPS). The test here is the generalised covariance measure, see
    `covariance_measure_test`, of code l and factor i, both regressed on the other factors by least squares
    ("linear") or by kernel ridge regression, each with its own penalty and width ("kernel", see
    `predict_by_kernel`), in sample, like the test's authors. With 50 to 500 samples, residuals of held-out
    rows rejected true independence more often.

    Holds for dependent factors, because other factors are held fixed. Even a code that follows the graph has
    on average ``alpha`` disagreements for each false entry: read 0 of 90 and 4 of 90 alike. The graph is an
    assumption: for codes without names choose the factor of each code on other rows, see the example.

    Blind to: the strength of a relation (with many samples a trace of another factor counts as a
    disagreement, with few samples a lost factor counts once and mixing not at all); everything that the test
    is blind to, such as a code that is an even function of a symmetric factor. If factors or codes depend on
    other factors in a way that the regression does not fit, such as a curve by "linear", dependence between
    factors is taken for mixing. A factor that the others determine is independent of every code. Classes in
    no order are not numbers.

    Args:
        codes: one code vector per sample.
        factors: numbers.
        graph: true where a code is assumed to measure a factor.
        regression: "linear" or "kernel"; the time of "kernel" grows with the cube of the samples.
        alpha: level of each test, between 0 and 1.

    Returns:
        p-values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``graph`` is not boolean or has another shape, ``regression`` is misspelt, ``alpha`` is not
            between 0 and 1, or "kernel" has fewer than three samples.

    Example:
        >>> from candlelight.evaluation.causal import mcc
        >>> factors = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
        >>> factors[:, 1] += factors[:, 0]
        >>> codes = factors[:, [2, 1, 0]] + 0.1 * factors.cos()
        >>> graph = torch.zeros(3, 3, dtype=torch.bool)
        >>> graph[mcc(codes[:200], factors[:200]).assigned, torch.arange(3)] = True
        >>> t_mex(codes[200:], factors[200:], graph).score
        tensor(0)
        >>> t_mex(codes[200:] + codes[200:, [0, 0, 2]], factors[200:], graph).score  # code 1 mixes
        tensor(1)
    """
    check_choice("regression", regression, Regression)
    varies = check_codes_and_factors(codes, factors)
    check_shapes(
        codes=(codes, "samples codes"), factors=(factors, "samples factors"), graph=(graph, "codes factors")
    )
    check_bool(graph=graph)
    if not 0 < alpha < 1:
        raise InputError(f"`alpha` must lie between 0 and 1, got {alpha:g}")
    table, numbers = standardise(codes), standardise(factors)
    p_values = torch.full_like(graph, torch.nan, dtype=torch.float64)
    for column in varies.nonzero().flatten().tolist():
        others = numbers[:, [other for other in range(len(varies)) if other != column]]
        residuals = _residuals(others, torch.cat([table, numbers[:, column : column + 1]], dim=1), regression)
        p_values[:, column] = covariance_measure_test(residuals[:, :-1], residuals[:, -1])
    decisions = p_values < alpha
    return TMEX((decisions != graph)[:, varies].sum(), decisions, p_values)


def _residuals(
    others: Float[Tensor, "samples others"], values: Float[Tensor, "samples columns"], regression: Regression
) -> Float[Tensor, "samples columns"]:
    """Subtract from standardised columns what the other factors predict; 0 where these determine them."""
    if regression == "linear":
        found = values - predict_by_line(others, values, others)
    else:
        found = values - predict_by_kernel(others, values, others, separate=True)
    return torch.where(found.square().mean(0).sqrt() > _ROUNDING, found, 0)
