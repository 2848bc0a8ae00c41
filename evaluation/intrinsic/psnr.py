"""Peak signal-to-noise ratio (PSNR) over the pixels of a mask."""

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.intrinsic.masked import PixelMask, check_masked
from candlelight.evaluation.intrinsic.mse import mse
from candlelight.loaders.errors import InputError


def psnr(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float = 1.0,
) -> Float[Tensor, " batch"]:
    """Compute the peak signal-to-noise ratio of each sample in decibels.

    ``10 log10(data_range^2 / mse)`` with the `mse` over the pixels of the mask and all channels.

    Args:
        prediction: predicted values. Nothing is clipped or scaled; papers do so first, and compare albedo
            mostly as sRGB in [0, 1].
        target: ground truth in the same unit and colour space.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        data_range: difference of the largest and the smallest possible value: 1 for images in [0, 1].

    Returns:
        One ratio per sample, higher is better; inf for a prediction without error; nan if the prediction is
        not finite inside the mask (a failed prediction, see `is_failed`), if the target is not finite there,
        or if the mask is empty. Blind to the places of the errors.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or
            ``data_range`` is not above 0.

    Example:
        >>> psnr(torch.full((1, 2, 2), 0.6), torch.full((1, 2, 2), 0.5), torch.ones(1, 2, 2))
        tensor([20.0000])
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    check_data_range(data_range)
    return 10 * torch.log10(data_range**2 / mse(prediction, target, mask))


def check_data_range(data_range: float) -> None:
    """Refuse a range of values that is not above 0.

    Args:
        data_range: difference of the largest and the smallest possible value.

    Raises:
        InputError: the range is 0, negative, infinite or nan.

    Example:
        >>> check_data_range(255)
    """
    if not 0 < data_range < float("inf"):
        raise InputError(
            f"`data_range` must be a finite number above 0, got {data_range:g}; pass 1 for images in [0, 1]"
        )
