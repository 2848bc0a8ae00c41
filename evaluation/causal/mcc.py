"""Mean correlation coefficient of codes and factors (Hyvarinen and Morioka 2016)."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import (
    check_codes_and_factors,
    split_samples,
    standardise,
)
from candlelight.evaluation.causal.estimation.kernel_ridge import predict_by_kernel, r2_score_of_factors
from candlelight.evaluation.causal.estimation.mean_ranks import mean_ranks
from candlelight.loaders.check_choice import check_choice

Correlation = Literal["pearson", "spearman", "kernel"]


@dataclass(frozen=True)
class MCC:
    """The mean correlation coefficient and its parts.

    Attributes:
        score: mean over the factors that vary, in [0, 1]; higher is better.
        per_factor: correlation of each factor with its code; 0 without a code, nan if the factor has one
            value.
        matrix: absolute correlation of each code with each factor, of the scored rows; 0 for a constant code,
            nan if the factor has one value.
        assigned: code of each factor; -1 if there are fewer codes, or the factor has one value.
    """

    score: Float[Tensor, ""]
    per_factor: Float[Tensor, " factors"]
    matrix: Float[Tensor, "codes factors"]
    assigned: Int[Tensor, " factors"]


def mcc(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    correlation: Correlation = "pearson",
    training: Bool[Tensor, " samples"] | None = None,
) -> MCC:
    """Measure the correlation of factors and codes after the best one-to-one assignment.

    ``MCC = max over assignments a of mean_i |corr(z_a(i), g_i)|``: Hyvarinen and Morioka 2016 (Unsupervised
    Feature Extraction by Time-Contrastive Learning and Nonlinear ICA, NeurIPS), also out of sample as in
    Khemakhem et al. 2020 (ICE-BeeM, NeurIPS). "pearson" is for identifiability up to scale, "spearman" up to
    monotone maps of each code, and "kernel" up to any smooth map: there ``sqrt(max(R2, 0))`` of kernel ridge
    regression of the factor on one code (see `predict_by_kernel`) replaces the correlation.

    Blind to: mixing and duplicates, because only one entry of each row and column counts; codes beyond the
    number of factors. If factors depend on each other, codes that are all equal, or mixed, have high
    correlations: compare with the MCC of random mixtures. With few samples and many codes the assignment
    finds correlations in noise, and the kernel fits noise in sample: set ``training``. "kernel" is 1 for a
    code that mixes factors of few values, because it tells each of them. "pearson" is below 1 for a nonlinear
    map; neither it nor "spearman" sees a relation that is not monotone. Classes in no order are not numbers,
    and have no correlation.

    Args:
        codes: one code vector per sample.
        factors: numbers.
        correlation: "pearson", "spearman" or "kernel".
        training: true for rows that decide the assignment (and fit the kernel regression), the others are
            scored; None uses all rows for both.

    Returns:
        Values in float64. With fewer codes than factors, a factor without a code counts as 0.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``correlation`` is misspelt, ``training`` is not boolean or leaves no varying factor, or "kernel"
            has fewer than three rows to fit on.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
        >>> result = mcc(torch.stack([factors[:, 1].exp(), -factors[:, 0]], dim=1), factors, "spearman")
        >>> result.score, result.assigned
        (tensor(1., dtype=torch.float64), tensor([1, 0]))
    """
    from scipy.optimize import linear_sum_assignment

    check_choice("correlation", correlation, Correlation)
    check_codes_and_factors(codes, factors)
    fitted, scored, varies = split_samples(training, factors)
    numbers = factors if bool(varies.all()) else factors[:, varies]
    found = _correlations(codes, numbers, fitted, scored, correlation)
    deciding = found if training is None else _correlations(codes, numbers, fitted, fitted, correlation)
    matrix = torch.full([codes.shape[1], len(varies)], torch.nan, dtype=torch.float64, device=codes.device)
    matrix[:, varies] = found
    chosen, places = linear_sum_assignment(deciding.numpy(force=True), maximize=True)
    assigned = torch.full([len(varies)], -1, device=codes.device)
    assigned[varies.nonzero().flatten()[places.tolist()]] = torch.as_tensor(chosen, device=codes.device)
    per_factor = matrix.gather(0, assigned.clamp(min=0)[None])[0].where(assigned >= 0, 0)
    per_factor = per_factor.where(varies, torch.nan)
    return MCC(per_factor[varies].mean(), per_factor, matrix, assigned)


def _correlations(
    codes: Tensor,
    factors: Tensor,
    fitted: Tensor | slice,
    scored: Tensor | slice,
    correlation: Correlation,
) -> Float[Tensor, "codes factors"]:
    if correlation == "kernel":
        numbers = factors[fitted]
        predicted = [predict_by_kernel(code[fitted], numbers, code[scored]) for code in codes.T[:, :, None]]
        rows = [r2_score_of_factors(prediction, factors[scored]) for prediction in predicted]
        return torch.stack(rows).clamp(min=0).sqrt()
    code, factor = codes[scored], factors[scored]
    if correlation == "spearman":
        code, factor = mean_ranks(code), mean_ranks(factor)
    # In this order the product takes half the time of the product of the transposed codes and the factors.
    return (standardise(factor).T @ standardise(code) / len(code)).abs().clamp(max=1).T
