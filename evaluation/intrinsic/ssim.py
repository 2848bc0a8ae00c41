"""Structural similarity (SSIM), DSSIM, and the variant with padded borders."""

from functools import partial

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d, pad

from candlelight.evaluation.intrinsic.image_errors import check_data_range, rescaled
from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    as_channels,
    check_masked,
    is_finite,
    masked_double,
    score_samples,
)
from candlelight.loaders.errors import InputError

SSIM_DEFINITION = "11x11 Gaussian windows, sigma 1.5, wholly in the image (valid), K1 = 0.01, K2 = 0.03"

SSIM_WINDOW, _SIGMA, _K1, _K2 = 11, 1.5, 0.01, 0.03
_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # of the five scales, Wang et al. 2003
_SMALLEST_MS = (SSIM_WINDOW - 1) * 2 ** (len(_WEIGHTS) - 1) + 1


def ssim(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float = 1.0,
) -> Float[Tensor, " batch"]:
    """Compute the structural similarity of each sample.

    The mean of Wang et al. 2004, eq. 13, over channels and over the windows of `SSIM_DEFINITION` that touch
    the mask. Values outside the mask are 0 in both images. Other programs pad the image, which moves the
    result by some thousandths: torchmetrics by 0.0035 in one trial (`ssim_padded`).

    Args:
        prediction: predicted values. Nothing is clipped or scaled; papers do so first, and compare albedo
            mostly as sRGB in [0, 1].
        target: ground truth in the same unit and colour space.
        mask: pixels of weight 0 are outside and never read; all other weights count alike.
        data_range: difference of the largest and the smallest possible value: 1 for images in [0, 1].

    Returns:
        One similarity per sample in [-1, 1], higher is better, 1 for equal images; nan if the prediction is
        not finite inside the mask (a failed prediction, see `is_failed`), if the target is not finite there,
        or if the mask is empty. Blind to colour as such, because channels are compared one by one; windows
        at the border of the mask are raised by the zeros outside, which are equal in both images.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], the image is
            smaller than a window, or ``data_range`` is not above 0.

    Example:
        >>> target = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> mask = torch.ones(1, 16, 16, dtype=torch.bool)
        >>> ssim(target, target, mask), ssim(1 - target, target, mask) < 0
        (tensor([1.]), tensor([True]))
    """
    check_ssim_images(prediction, target, mask, data_range, SSIM_WINDOW, "SSIM")
    return score_samples(partial(_similarities, data_range=data_range), prediction, target, mask)


def dssim(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float = 1.0,
    floor: float = 0.0,
) -> Float[Tensor, " batch"]:
    """Compute the structural dissimilarity of each sample after scaling it, as on MPI-Sintel.

    ``(1 - ssim(a p, t)) / 2`` with ``a = sum(m t p) / sum(m p^2)`` for all pixels and channels; the scaled
    prediction is not cut. Q. Chen, V. Koltun: A Simple Model for Intrinsic Image Decomposition with Depth
    Cues, ICCV 2013. A slower program of theirs also searches for the scale of the best SSIM; this is the
    fast one, which most papers use.

    Args:
        prediction: predicted values in any scale, in the colour space of the target.
        target: ground truth; the papers take the stored values of the 8-bit images over 255.
        mask: weights of the scale; in the SSIM, pixels of weight 0 are outside. They are never read.
        data_range: difference of the largest and the smallest possible value: 1 for images in [0, 1].
        floor: energy ``sum(m p^2)`` up to which the scale is 0.

    Returns:
        One dissimilarity per sample in [0, 1], lower is better; nan in the cases of `ssim`. Blind to the
        scale and the sign of the prediction, and to what `ssim` is blind to; 0 for every prediction if the
        target is black.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], the image is
            smaller than a window, ``data_range`` is not above 0, or ``floor`` is negative.

    Example:
        >>> target = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> dssim(3 * target, target, torch.ones(1, 16, 16)).round(decimals=6)
        tensor([0.])
    """
    check_ssim_images(prediction, target, mask, data_range, SSIM_WINDOW, "SSIM")
    scores = partial(_scaled_similarities, data_range=data_range, floor=floor)
    return (1 - score_samples(scores, prediction, target, mask)) / 2


def ms_ssim(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float = 1.0,
) -> Float[Tensor, " batch"]:
    """Compute the structural similarity of each sample at five scales.

    Wang et al. 2003, eq. 7, with their exponents: the product over scales of the mean contrast and structure,
    and at the last scale the mean SSIM, then the mean over channels. Each scale has half the pixels of the
    one before in each direction, the windows of `SSIM_DEFINITION`, and counts the windows that touch the
    mask. Values outside the mask are 0 in both images. Means below 0 count as 0.

    Args:
        prediction: predicted values. Nothing is clipped or scaled.
        target: ground truth in the same unit and colour space.
        mask: pixels of weight 0 are outside and never read; all other weights count alike.
        data_range: difference of the largest and the smallest possible value: 1 for images in [0, 1].

    Returns:
        One similarity per sample in [0, 1], higher is better, 1 for equal images; nan in the cases of `ssim`.
        Blind to what `ssim` is blind to, and nearly blind to luminance, which counts at the last scale alone.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], a side of the
            image is below 161 pixels, or ``data_range`` is not above 0.

    Example:
        >>> target = torch.rand(1, 161, 161, generator=torch.Generator().manual_seed(0))
        >>> ms_ssim(target, target, torch.ones(1, 161, 161))
        tensor([1.])
    """
    check_ssim_images(prediction, target, mask, data_range, _SMALLEST_MS, "MS-SSIM")
    return score_samples(partial(_multi_scale, data_range=data_range), prediction, target, mask)


def check_ssim_images(
    prediction: object, target: object, mask: object, data_range: float, smallest: int, name: str
) -> None:
    """Check the shapes of images and mask, the range, and the size of the images.

    Args:
        prediction: images.
        target: images of the same shape.
        mask: weight of each pixel.
        data_range: see `ssim`.
        smallest: smallest side of an image in pixels.
        name: name of the score in messages.

    Raises:
        InputError: see `ssim`.
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    check_data_range(data_range)
    height, width = mask.shape[1:] if isinstance(mask, Tensor) else (0, 0)
    if min(height, width) < smallest:
        raise InputError(
            f"{name} needs images of at least {smallest}x{smallest} pixels, got {height}x{width} "
            "(height x width); render larger"
        )


def _similarities(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float,
) -> Float64[Tensor, " batch"]:
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    found = mean_ssim(as_channels(predicted), as_channels(true), mask > 0, data_range).mean(1)
    return found.masked_fill(~(is_finite(predicted) & is_finite(true)), torch.nan)


def _scaled_similarities(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float,
    floor: float,
) -> Float64[Tensor, " batch"]:
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    found = _similarities(rescaled(predicted, true, mask, floor), true, mask, data_range)
    return found.masked_fill(~is_finite(predicted), torch.nan)


def _multi_scale(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    data_range: float,
) -> Float64[Tensor, " batch"]:
    predicted, true = (as_channels(masked_double(values, mask)) for values in (prediction, target))
    is_usable = is_finite(predicted) & is_finite(true)
    inside = mask > 0
    factors = []
    for level, weight in enumerate(_WEIGHTS):
        is_last = level == len(_WEIGHTS) - 1
        factors.append(mean_ssim(predicted, true, inside, data_range, is_last).relu() ** weight)
        odd = predicted.shape[2] % 2, predicted.shape[3] % 2
        predicted, true = (avg_pool2d(values, 2, padding=odd) for values in (predicted, true))
        inside = max_pool2d(inside.double().unsqueeze(1), 2, padding=odd).squeeze(1) > 0
    return torch.stack(factors).prod(0).mean(1).masked_fill(~is_usable, torch.nan)


def mean_ssim(
    prediction: Float64[Tensor, "batch channels height width"],
    target: Float64[Tensor, "batch channels height width"],
    inside: Bool[Tensor, "batch height width"],
    data_range: float,
    has_luminance: bool = True,
) -> Float64[Tensor, "batch channels"]:
    """Average the SSIM of each channel over the windows that touch the mask.

    Args:
        prediction: 0 outside the mask.
        target: 0 outside the mask.
        inside: the mask.
        data_range: see `ssim`.
        has_luminance: False leaves contrast and structure alone.
    """
    c1, c2 = (_K1 * data_range) ** 2, (_K2 * data_range) ** 2
    predicted, true = _window_means(prediction), _window_means(target)
    product, squares = predicted * true, predicted.square() + true.square()
    covariance = _window_means(prediction * target) - product
    # Only the sum of the variances counts, which saves a filter.
    variances = _window_means(prediction.square() + target.square()) - squares
    found = (2 * covariance + c2) / (variances + c2)
    if has_luminance:
        found = found * (2 * product + c1) / (squares + c1)
    means = found.flatten(2).mean(2)
    if bool(inside.all()):
        return means
    along_rows = max_pool2d(inside.double().unsqueeze(1), (1, SSIM_WINDOW), stride=1)
    touching = max_pool2d(along_rows, (SSIM_WINDOW, 1), stride=1).flatten(1)
    windows, counted = touching.shape[1], touching.sum(1, keepdim=True)
    # The SSIM of all other windows is exactly 1, because both images are 0 there.
    return (means * windows - (windows - counted)) / counted


def _window_means(
    values: Float64[Tensor, "batch channels height width"],
) -> Float64[Tensor, "batch channels rows columns"]:
    """Average each window with the Gaussian's weights, along columns and then along rows.

    Sums of shifted images: on a CPU, 7 to 14 times as fast as a convolution in float64.
    """
    reach = SSIM_WINDOW // 2
    across = torch.arange(-reach, reach + 1, dtype=torch.float64)
    weights = torch.softmax(-across.square() / (2 * _SIGMA**2), 0).tolist()
    for axis in (2, 3):
        size = values.shape[axis] - 2 * reach
        shifted = [values.narrow(axis, start, size) for start in range(SSIM_WINDOW)]
        total = weights[reach] * shifted[reach]
        for step in range(reach):
            total.add_(shifted[step] + shifted[-1 - step], alpha=weights[step])
        values = total
    return values


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
    return score_samples(partial(_padded_similarities, data_range=data_range), prediction, target, mask)


def _padded_similarities(
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
