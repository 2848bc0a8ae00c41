"""Local mean squared error (LMSE) of the Barron split of MIT Intrinsic Images, and the mean over images."""

from functools import partial
from itertools import product

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.intrinsic.masked import PixelMask, as_channels, check_masked, score_samples
from candlelight.evaluation.intrinsic.window_sums import window_error, window_sums
from candlelight.loaders.errors import InputError

# The program divides by the energy or by this, MATLAB's eps, if that is larger. The result is the same for
# images of 8 or 16 bits, whose energy is 0 or at least 65535^-2.
_FLOOR = 2**-52
_WINDOW = 20
# MATLAB counts from 1, so blocks that begin at element 20 / 2 begin 9 pixels after the first.
_OFFSETS = (0, 9)


def lmse_barron(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    floor: float = _FLOOR,
) -> Float[Tensor, " batch"]:
    """Compute LMSE over blocks that cover the image four times, channel by channel (``MIT_mse.m``).

    ``sum_w min_a sum(m (t - a p)^2) / sum_w sum(m t^2)`` in each channel, then the mean over channels. The
    windows are blocks of 20 pixels side by side, from pixel 0 and again from pixel 9 in either direction
    (the program means 10, and counts from 1); blocks that cross the right or bottom edge are filled with
    zeros, so that no pixel is left out. J. T. Barron, J. Malik: Shape, Illumination, and Reflectance from
    Shading, TPAMI 2015. Papers report the `geometric_mean` over images.

    Args:
        prediction: predicted reflectance or shading, scene-linear, in any scale.
        target: ground truth, scene-linear, in any scale.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        floor: energy ``sum(m p^2)`` of a window up to which its scale is 0; 2^-52 by default.

    Returns:
        One error per sample in [0, 1], lower is better; nan if the prediction is not finite inside the mask
        (a failed prediction, see `is_failed`), if the target is not finite there, or if the target is 0 in a
        channel or the mask is empty. Blind to scale and sign in each window and channel, hence to colour
        casts and to errors that vary slowly compared with a window.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or ``floor``
            is negative.

    Example:
        >>> target = torch.rand(1, 3, 25, 25, generator=torch.Generator().manual_seed(0))
        >>> mask = torch.ones(1, 25, 25, dtype=torch.bool)
        >>> cast = target * torch.tensor([1.0, 2.0, 3.0])[:, None, None]
        >>> lmse_barron(torch.zeros(1, 3, 25, 25), target, mask), lmse_barron(cast, target, mask).round()
        (tensor([1.]), tensor([0.]))
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    return score_samples(partial(_barron_errors, floor=floor), prediction, target, mask)


def lmse_barron_score(
    reflectance: Float[Tensor, "batch *channels height width"],
    shading: Float[Tensor, "batch *channels height width"],
    true_reflectance: Float[Tensor, "batch *channels height width"],
    true_shading: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    floor: float = _FLOOR,
) -> Float[Tensor, " batch"]:
    """Compute the LMSE of a decomposition on the Barron split of MIT Intrinsic Images.

    ``0.5 lmse_barron(S) + 0.5 lmse_barron(R)``. Papers report the `geometric_mean` over images.

    Args:
        reflectance: predicted reflectance, scene-linear, in any scale.
        shading: predicted shading, scene-linear, in any scale, with as many channels as the reflectance.
        true_reflectance: ground-truth reflectance, scene-linear.
        true_shading: ground-truth shading, scene-linear.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        floor: energy ``sum(m p^2)`` of a window up to which its scale is 0; 2^-52 by default.

    Returns:
        One score per sample in [0, 1], lower is better; nan if either `lmse_barron` is nan. Blind to what
        `lmse_barron` is blind to.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or ``floor``
            is negative.

    Example:
        >>> images = torch.rand(2, 1, 3, 24, 24, generator=torch.Generator().manual_seed(0))
        >>> lmse_barron_score(*images, *images, torch.ones(1, 24, 24)).round(decimals=6)
        tensor([0.])
    """
    axes = "batch *channels height width"
    check_shapes(
        reflectance=(reflectance, axes),
        shading=(shading, axes),
        true_reflectance=(true_reflectance, axes),
        true_shading=(true_shading, axes),
        mask=(mask, "batch height width"),
    )
    shading_error = lmse_barron(shading, true_shading, mask, floor)
    return 0.5 * shading_error + 0.5 * lmse_barron(reflectance, true_reflectance, mask, floor)


def geometric_mean(errors: Float[Tensor, " images"]) -> Float[Tensor, ""]:
    """Compute the geometric mean of the scores of images, ``exp(mean(log(e)))``, of the Barron split.

    Args:
        errors: one score per image, >= 0, such as `lmse_barron_score` or `si_mse`.

    Returns:
        The mean; 0 if a score is 0, nan if a score is nan or there is none.

    Raises:
        InputError: a score is negative.

    Example:
        >>> geometric_mean(torch.tensor([0.01, 1.0]))
        tensor(0.1000)
    """
    check_shapes(errors=(errors, "images"))
    if bool((errors < 0).any()):
        raise InputError(f"`errors` must be at least 0, got {float(errors.min()):g}")
    return errors.log().mean().exp()


def _barron_errors(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    floor: float,
) -> Float64[Tensor, " batch"]:
    height, width = mask.shape[1:]
    parts = []
    for top, left in product(_OFFSETS, _OFFSETS):
        if top >= height or left >= width:
            continue
        blank = 0, -(width - left) % _WINDOW, 0, -(height - top) % _WINDOW
        given, true, weights = (
            pad(values[..., top:, left:], blank)
            for values in (as_channels(prediction), as_channels(target), mask)
        )
        parts.append(window_sums(given, true, weights, _WINDOW, _WINDOW))
    errors = window_error(torch.cat([sums for sums, _ in parts], 3), floor).mean(1)
    is_usable = parts[0][1]  # the first blocks cover the whole image
    return errors.masked_fill(~is_usable, torch.nan)
