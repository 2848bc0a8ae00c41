"""Mean squared error over the pixels of a mask."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    check_masked,
    is_finite,
    masked_double,
    mean_weighted,
    score_samples,
)


def mse(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Compute the mean squared error of each sample.

    ``sum(m (t - p)^2) / sum(m)``, both sums over pixels and channels.

    Args:
        prediction: predicted values, scene-linear.
        target: ground truth in the same unit.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        One error per sample, >= 0, lower is better; nan if the prediction is not finite inside the mask (a
        failed prediction, see `is_failed`), if the target is not finite there, or if the mask is empty. Blind
        to the places of the errors; not blind to the scale of the prediction (`si_mse` is).

    Raises:
        InputError: the shapes do not agree, or the mask is neither boolean nor weights in [0, 1].

    Example:
        >>> mse(torch.full((1, 2, 2), 0.5), torch.zeros(1, 2, 2), torch.ones(1, 2, 2))
        tensor([0.2500])
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    return score_samples(_errors, prediction, target, mask)


def _errors(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float64[Tensor, " batch"]:
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    errors = mean_weighted((true - predicted).square(), mask)
    return errors.masked_fill(~(is_finite(predicted) & is_finite(true)), torch.nan)
