"""Scale-invariant mean squared error: MSE with the best single scale of the prediction."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from evaluation.intrinsic.lmse import ENERGY_FLOOR
from evaluation.intrinsic.masked import (
    PixelMask,
    check_masked,
    is_finite,
    masked_double,
    mean_weighted,
    score_samples,
    weighted,
)


def si_mse(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Compute the scale-invariant mean squared error of each sample.

    ``min_a sum(m (t - a p)^2) / sum(m)`` with one ``a`` for all pixels and channels of a sample: Grosse et
    al. 2009, eq. 7, divided by the number of values. ``a`` is 0 if ``sum(m p^2)`` is at most
    `ENERGY_FLOOR`.

    Args:
        prediction: predicted values, scene-linear, in any scale.
        target: ground truth, scene-linear; its scale is the scale of the result.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        One error per sample, >= 0, lower is better; nan if the prediction is not finite inside the mask (a
        failed prediction, see `is_failed`), if the target is not finite there, or if the mask is empty. Blind
        to the scale and the sign of the prediction.

    Raises:
        InputError: the shapes do not agree, or the mask is neither boolean nor weights in [0, 1].

    Example:
        >>> target = torch.tensor([[[1.0, 2.0]]])
        >>> si_mse(3 * target, target, torch.ones(1, 1, 2))
        tensor([0.])
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    return score_samples(_errors, prediction, target, mask)


def _errors(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float64[Tensor, " batch"]:
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    energy = weighted(predicted.square(), mask).flatten(1).sum(1)
    cross = weighted(predicted * true, mask).flatten(1).sum(1)
    scale = torch.where(energy > ENERGY_FLOOR, cross / energy.clamp(min=ENERGY_FLOOR), 0.0)
    scaled = scale.reshape(-1, *(1 for _ in predicted.shape[1:])) * predicted
    errors = mean_weighted((true - scaled).square(), mask)
    return errors.masked_fill(~(is_finite(predicted) & is_finite(true)), torch.nan)
