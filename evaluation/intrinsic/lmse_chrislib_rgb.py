"""Local mean squared error (LMSE) of colour images, with one scale per window, as chrislib computes it."""

from functools import partial

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from candlelight.evaluation.intrinsic.masked import PixelMask, as_channels, check_masked, score_samples
from candlelight.evaluation.intrinsic.window_sums import check_windows, window_error, window_sums


def lmse_chrislib_rgb(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    window: int = 16,
    step: int | None = None,
    floor: float = 1e-5,
) -> Float[Tensor, " batch"]:
    """Compute LMSE with one scale per window for all channels, as chrislib does for ARAP.

    ``sum_w min_a sum(m (t - a p)^2) / sum_w sum(m t^2)`` over all windows w that lie wholly in the image; the
    inner sums are over pixels and channels. This is `lmse` but for channels, window and floor: C. Careaga, Y.
    Aksoy: Intrinsic Image Decomposition via Ordinal Shading, ACM Transactions on Graphics 43, 2023.

    Args:
        prediction: predicted reflectance or shading, scene-linear, in any scale.
        target: ground truth, scene-linear; white is 1.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        window: side of the square windows in pixels; 16 is that of the paper, for long sides of 512 pixels.
        step: distance between windows in pixels; half a window by default.
        floor: energy ``sum(m p^2)`` of a window up to which its scale is 0; chrislib's by default.

    Returns:
        One error per sample in [0, 1], lower is better; nan in the cases of `lmse`. Blind to what `lmse` is
        blind to, but not to colour.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], the image is
            smaller than a window, ``window`` or ``step`` is below 1, or ``floor`` is negative.

    Example:
        >>> target = torch.full((1, 3, 16, 16), 0.5)
        >>> blue = target * torch.tensor([0.0, 0.0, 1.0])[:, None, None]
        >>> lmse_chrislib_rgb(blue, target, torch.ones(1, 16, 16))
        tensor([0.6667])
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    step = max(1, window // 2) if step is None else step
    height, width = prediction.shape[-2:]
    check_windows(height, width, window, step)
    errors = partial(_chrislib_errors, window=window, step=step, floor=floor)
    return score_samples(errors, prediction, target, mask)


def _chrislib_errors(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    window: int,
    step: int,
    floor: float,
) -> Float64[Tensor, " batch"]:
    sums, is_usable = window_sums(as_channels(prediction), as_channels(target), mask, window, step)
    return window_error(sums.sum(2), floor).masked_fill(~is_usable, torch.nan)
