"""R2 of factors regressed on a block of codes, linear and nonlinear."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import check_codes_and_factors, split_samples
from candlelight.evaluation.causal.estimation.kernel_ridge import predict_by_kernel, r2_score_of_factors
from candlelight.evaluation.causal.estimation.linear_regression import predict_by_line
from candlelight.loaders.check_choice import check_choice

Regression = Literal["linear", "kernel"]


@dataclass(frozen=True)
class BlockR2:
    """The coefficient of determination of factors regressed on codes.

    Attributes:
        score: mean over the factors that vary, at most 1; higher is better.
        per_factor: R2 of each factor; nan if the factor has one value among the rows to fit on or to score.
    """

    score: Float[Tensor, ""]
    per_factor: Float[Tensor, " factors"]


def block_r2(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    regression: Regression = "linear",
    training: Bool[Tensor, " samples"] | None = None,
) -> BlockR2:
    """Measure how well a block of codes determines each factor: identifiability up to a map of the block.

    ``R2_i = 1 - sum (g_i - f_i(z))^2 / sum (g_i - mean g_i)^2``. "linear" fits f by least squares with an
    intercept (identifiability up to an affine map); "kernel" fits kernel ridge regression, see
    `predict_by_kernel`, as in von Kuegelgen et al. 2021, sec. 5 (block identifiability: content codes should
    determine all content factors, R2 near 1, and no style factor, R2 near 0). Give the columns of one block
    of codes.

    Blind to: mixing within the block, and codes that are useless. Factors that depend on each other raise R2
    of factors that the block does not represent: a style factor caused by content has R2 above 0. In sample,
    R2 grows with the number of codes, to 1 for as many codes as samples. Classes in no order are not numbers:
    give one column for each class.

    Args:
        codes: one code vector per sample, of one block.
        factors: numbers.
        regression: "linear" or "kernel".
        training: true for rows to fit on, the others are scored; None fits and scores all rows.

    Returns:
        Values in float64; below 0 out of sample if predictions are worse than the mean of the scored rows.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``regression`` is misspelt, ``training`` is not boolean or leaves no varying factor, or "kernel"
            has fewer than three rows to fit on.

    Example:
        >>> factors = torch.linspace(-1, 1, 60)[:, None]
        >>> held_in = torch.arange(60) % 2 == 0
        >>> [
        ...     round(float(block_r2(factors, factors**2, kind, held_in).score), 1)
        ...     for kind in ("linear", "kernel")
        ... ]
        [-0.0, 1.0]
    """
    check_choice("regression", regression, Regression)
    check_codes_and_factors(codes, factors)
    fitted, scored, varies = split_samples(training, factors)
    predict = predict_by_line if regression == "linear" else predict_by_kernel
    predicted = predict(codes[fitted], factors[fitted][:, varies], codes[scored])
    per_factor = torch.full([len(varies)], torch.nan, dtype=torch.float64, device=codes.device)
    per_factor[varies] = r2_score_of_factors(predicted, factors[scored][:, varies])
    return BlockR2(per_factor[varies].mean(), per_factor)
