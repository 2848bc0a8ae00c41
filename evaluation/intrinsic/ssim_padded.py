"""Structural similarity (SSIM) over all windows of a padded image, as torchmetrics computes it."""

from functools import partial

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    as_channels,
    is_finite,
    masked_double,
    score_samples,
)
from candlelight.evaluation.intrinsic.ssim import SSIM_WINDOW, check_ssim_images, mean_ssim

_PADDING = SSIM_WINDOW // 2  # pixels on each side


def ssim_padded(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float = 1.0,
) -> Float[Tensor, " batch"]:
    """Compute the structural similarity of each sample, with a window around every pixel.

    Wang et al. 2004, eq. 13, with the windows of `SSIM_DEFINITION`, but in images that are mirrored at their
    edges (without repeating the outermost pixels), and averaged over all windows and channels, those outside
    the mask too, where both images are 0. This is ``StructuralSimilarityIndexMeasure(data_range=1.0)`` of
    torchmetrics 1.6 to 1.8; torchmetrics 1.2 left the windows that cross the edges out.

    Args:
        prediction: predicted values. Nothing is clipped or scaled.
        target: ground truth in the same unit and colour space.
        mask: pixels of weight 0 are outside and never read; all other weights count alike.
        data_range: difference of the largest and the smallest possible value: 1 for images in [0, 1].

    Returns:
        One similarity per sample in [-1, 1], higher is better, 1 for equal images; nan if the prediction is
        not finite inside the mask (a failed prediction, see `is_failed`), if the target is not finite there,
        or if the mask is empty. Blind to what `ssim` is blind to; the larger the part outside the mask, the
        nearer to 1, whatever the prediction.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], a side of the
            image is below 6 pixels, or ``data_range`` is not above 0.

    Example:
        >>> target = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> half = torch.arange(16).expand(1, 16, 16) < 8
        >>> ssim_padded(target, target, half), ssim_padded(0 * target, target, half).round(decimals=2)
        (tensor([1.]), tensor([0.2500]))
    """
    check_ssim_images(prediction, target, mask, data_range, _PADDING + 1, "padded SSIM")
    return score_samples(partial(_similarities, data_range=data_range), prediction, target, mask)


def _similarities(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float,
) -> Float64[Tensor, " batch"]:
    predicted, true = (as_channels(masked_double(values, mask)) for values in (prediction, target))
    one, other = (pad(values, (_PADDING,) * 4, mode="reflect") for values in (predicted, true))
    everywhere = torch.ones_like(one[:, 0], dtype=torch.bool)
    found = mean_ssim(one, other, everywhere, data_range).mean(1)
    known = is_finite(predicted) & is_finite(true) & (mask > 0).flatten(1).any(1)
    return found.masked_fill(~known, torch.nan)
