"""Scale-invariant mean squared error: MSE with the best single scale of the prediction."""

from functools import partial

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from candlelight.evaluation.intrinsic.lmse import ENERGY_FLOOR
from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    best_scale,
    check_masked,
    is_finite,
    masked_double,
    mean_weighted,
    score_samples,
    weighted,
)
from candlelight.loaders.errors import InputError


def si_mse(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    cap: float | None = None,
    floor: float = ENERGY_FLOOR,
) -> Float[Tensor, " batch"]:
    """Compute the scale-invariant mean squared error of each sample.

    ``min_a sum(m (t - a p)^2) / sum(m)`` with one ``a`` for all pixels and channels of a sample: Grosse et
    al. 2009, eq. 7, divided by the number of values. ``a`` is 0 if ``sum(m p^2)`` is at most ``floor``.
    Scores on MPI-Sintel (Chen and Koltun, ICCV 2013, and their successors) have ``cap=1, floor=0``: the
    error of ``min(a p, 1)``, with the same ``a``.

    Args:
        prediction: predicted values, scene-linear, in any scale.
        target: ground truth, scene-linear; its scale is the scale of the result.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        cap: largest value of the scaled prediction, to which larger ones are cut; None cuts nothing.
        floor: energy ``sum(m p^2)`` up to which the scale is 0.

    Returns:
        One error per sample, >= 0, lower is better; nan if the prediction is not finite inside the mask (a
        failed prediction, see `is_failed`), if the target is not finite there, or if the mask is empty. Blind
        to the scale and the sign of the prediction; 0 for every prediction if the target is black.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], ``cap`` is not
            above 0, or ``floor`` is negative.

    Example:
        >>> target = torch.tensor([[[1.0, 2.0]]])
        >>> si_mse(3 * target, target, torch.ones(1, 1, 2))
        tensor([0.])
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    if cap is not None and not cap > 0:
        raise InputError(f"`cap` must be above 0, got {cap:g}; None cuts nothing")
    return score_samples(partial(_errors, cap=cap, floor=floor), prediction, target, mask)


def rescaled(
    prediction: Float64[Tensor, "batch *channels height width"],
    target: Float64[Tensor, "batch *channels height width"],
    mask: PixelMask,
    floor: float,
) -> Float64[Tensor, "batch *channels height width"]:
    """Multiply each sample by the one scale that leaves the least squared error.

    Args:
        prediction: result of `masked_double`.
        target: result of `masked_double`.
        mask: weight of each pixel, in [0, 1].
        floor: energy ``sum(m p^2)`` up to which the scale is 0.

    Raises:
        InputError: ``floor`` is negative.

    Example:
        >>> prediction = torch.tensor([[[1.0, 1.0]]]).double()
        >>> rescaled(prediction, torch.tensor([[[1.0, 2.0]]]).double(), torch.ones(1, 1, 2), floor=0)
        tensor([[[1.5000, 1.5000]]], dtype=torch.float64)
    """
    energy = weighted(prediction.square(), mask).flatten(1).sum(1)
    cross = weighted(prediction * target, mask).flatten(1).sum(1)
    scale = best_scale(energy, cross, floor)
    return scale.reshape(-1, *(1 for _ in prediction.shape[1:])) * prediction


def _errors(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    cap: float | None,
    floor: float,
) -> Float64[Tensor, " batch"]:
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    scaled = rescaled(predicted, true, mask, floor)
    errors = mean_weighted((true - (scaled if cap is None else scaled.clamp(max=cap))).square(), mask)
    return errors.masked_fill(~(is_finite(predicted) & is_finite(true)), torch.nan)
