"""Local mean squared error (Grosse et al. 2009), and the variants of it that later programs compute."""

from functools import partial
from itertools import product

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    as_channels,
    best_scale,
    check_masked,
    check_windows,
    is_finite,
    masked_double,
    result_dtype,
    score_samples,
    window_error,
    window_sums,
)
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

# The benchmark uses scale 0 in a window if the energy of the estimate is at most 1e-5, for images whose white
# is 257 (16-bit values over 255). Here white is 1.
ENERGY_FLOOR = 1e-5 / 257**2


def lmse(
    prediction: Float[Tensor, "batch height width"],
    target: Float[Tensor, "batch height width"],
    mask: PixelMask,
    window: int = 20,
    step: int | None = None,
    floor: float = ENERGY_FLOOR,
) -> Float[Tensor, " batch"]:
    """Compute the local mean squared error of each sample, normalised to 1 for a prediction of zeros.

    ``sum_w min_a sum(m (t - a p)^2) / sum_w sum(m t^2)`` over all windows w that lie wholly in the image:
    Grosse et al. 2009, eq. 7, 8 and one half of eq. 9 (the paper writes the truth first). Each window has
    its own scale ``a``, which is 0 if ``sum(m p^2)`` in the window is at most ``floor``. The mask is a
    factor of each pixel. Windows that would cross the right or bottom edge of the image are left out, as in
    the benchmark.

    Args:
        prediction: predicted reflectance or shading, gray, scene-linear, in any scale.
        target: ground truth, gray, scene-linear, in any scale.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        window: side of the square windows in pixels.
        step: distance between windows in pixels; half a window by default.
        floor: energy ``sum(m p^2)`` of a window up to which its scale is 0; the benchmark's by default.

    Returns:
        One error per sample in [0, 1], lower is better; nan if the prediction is not finite inside the mask
        (a failed prediction, see `is_failed`), if the target is not finite there, or if the target is 0 or
        the mask is empty in all windows. Blind to scale and sign in each window, hence to errors that vary
        slowly compared with a window, and to the last rows and columns (up to ``step - 1`` of each).

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], the image is
            smaller than a window, ``window`` or ``step`` is below 1, or ``floor`` is negative.

    Example:
        >>> target = torch.rand(1, 40, 40, generator=torch.Generator().manual_seed(0))
        >>> mask = torch.ones(1, 40, 40, dtype=torch.bool)
        >>> lmse(torch.zeros(1, 40, 40), target, mask), lmse(0.5 * target, target, mask).round(decimals=6)
        (tensor([1.]), tensor([0.]))
    """
    check_masked(prediction, target, mask, "batch height width")
    return lmse_chrislib_rgb(prediction, target, mask, window, step, floor)


def lmse_score(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    true_reflectance: Float[Tensor, "batch 3 height width"],
    true_shading: Float[Tensor, "batch 3 height width"],
    mask: PixelMask,
    floor: float = ENERGY_FLOOR,
) -> Float[Tensor, " batch"]:
    """Compute the benchmark's score of a decomposition: the mean LMSE of reflectance and shading.

    ``0.5 lmse(S) + 0.5 lmse(R)`` of the channel means: Grosse et al. 2009, eq. 9, windows of 20 pixels.

    Args:
        reflectance: predicted reflectance, scene-linear, in any scale.
        shading: predicted shading, scene-linear, in any scale.
        true_reflectance: ground-truth reflectance, scene-linear.
        true_shading: ground-truth shading, scene-linear.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        floor: energy ``sum(m p^2)`` of a window up to which its scale is 0; the benchmark's by default.

    Returns:
        One score per sample in [0, 1], lower is better; nan if either `lmse` is nan. Blind to colour, and to
        everything that `lmse` is blind to.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], the image is
            smaller than a window, or ``floor`` is negative.

    Example:
        >>> images = torch.rand(2, 1, 3, 24, 24, generator=torch.Generator().manual_seed(0))
        >>> lmse_score(*images, *images, torch.ones(1, 24, 24)).round(decimals=6)
        tensor([0.])
    """
    axes = "batch 3 height width"
    true = {"true_reflectance": (true_reflectance, axes), "true_shading": (true_shading, axes)}
    given = {"reflectance": (reflectance, axes), "shading": (shading, axes)}
    check_shapes(**given, **true, mask=(mask, "batch height width"))
    shading_error = lmse(gray(shading), gray(true_shading), mask, floor=floor)
    return 0.5 * shading_error + 0.5 * lmse(gray(reflectance), gray(true_reflectance), mask, floor=floor)


def gray(image: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch height width"]:
    """Average the channels, as Grosse et al. 2009 do, in single precision at least.

    Raises:
        InputError: the image has no channel axis.

    Example:
        >>> gray(torch.tensor([1.0, 2.0, 6.0]).reshape(1, 3, 1, 1))
        tensor([[[3.]]])
    """
    check_shapes(image=(image, "batch channels height width"))
    return image.mean(1, dtype=result_dtype(image))


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
    true = {"true_reflectance": (true_reflectance, axes), "true_shading": (true_shading, axes)}
    given = {"reflectance": (reflectance, axes), "shading": (shading, axes)}
    check_shapes(**given, **true, mask=(mask, "batch height width"))
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


def lmse_sintel(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    floor: float = 0.0,
) -> Float[Tensor, " batch"]:
    """Compute the si-LMSE of MPI-Sintel: the mean over windows of the MSE after scaling and cutting at 1.

    ``mean_w sum(m (t - min(a p, 1))^2) / sum(m)`` with ``a = sum(m t p) / sum(m p^2)`` in each window, for
    all channels alike; not divided by the energy of the target. Windows have a tenth of the longer side and
    are half of that apart; at the right and bottom edge they are cut off. Q. Chen, V. Koltun: A Simple Model
    for Intrinsic Image Decomposition with Depth Cues, ICCV 2013 (``levaluate_one_k.m``). Papers also report
    the mean of reflectance and shading.

    Args:
        prediction: predicted reflectance or shading, in any scale, in the colour space of the target.
        target: ground truth in [0, 1]; the papers take the stored values of the 8-bit images over 255.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read, and windows of weight 0 do
            not count.
        floor: energy ``sum(m p^2)`` of a window up to which its scale is 0. The program has none, and takes
            zeros as white, because MATLAB's ``min(NaN, 1)`` is 1.

    Returns:
        One error per sample, >= 0, lower is better; nan if the prediction is not finite inside the mask (a
        failed prediction, see `is_failed`), if the target is not finite there, or if the mask is empty. Blind
        to scale and sign in each window, hence to errors that vary slowly compared with a window; where the
        target is dark, errors are small, and where it is black, they are 0.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], the image has
            no window, or ``floor`` is negative.

    Example:
        >>> target, mask = torch.full((1, 3, 20, 20), 0.5), torch.ones(1, 20, 20)
        >>> lmse_sintel(3 * target, target, mask), lmse_sintel(0 * target, target, mask)
        (tensor([0.]), tensor([0.2500]))
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    return score_samples(partial(sintel_errors, floor=floor), prediction, target, mask)


def sintel_errors(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    floor: float,
    cap: float | None = 1,
    last: int = 0,
    empty: bool = False,
) -> Float64[Tensor, " batch"]:
    """Compute `lmse_sintel`, or its variant in another program.

    Args:
        prediction: see `lmse_sintel`.
        target: see `lmse_sintel`.
        mask: see `lmse_sintel`.
        floor: see `lmse_sintel`.
        cap: largest value of the scaled prediction; None cuts nothing.
        last: 1 adds the windows that begin exactly a step before the edge.
        empty: whether windows of weight 0 count, as perfect.

    Raises:
        InputError: the image has no window, or ``floor`` is negative.
    """
    height, width = mask.shape[1:]
    # Halves are rounded up, as MATLAB does.
    window = (max(height, width) + 5) // 10
    step = (window + 1) // 2
    if window < 1 or min(height, width) + last <= step:
        raise InputError(
            "images must be longer than 4 pixels, and wider than a twentieth of their length, got "
            f"{height}x{width} (height x width); LMSE of MPI-Sintel has no window in smaller ones"
        )
    predicted, true = (as_channels(masked_double(values, mask)) for values in (prediction, target))
    tops, lefts = range(0, height - step + last, step), range(0, width - step + last, step)
    # A negative number crops, where the last window ends one pixel before the edge.
    blank = 0, lefts[-1] + window - width, 0, tops[-1] + window - height
    images = [pad(values, blank) for values in (predicted, true, mask.double().unsqueeze(1))]
    rows = []
    for top in tops:  # one row of windows at a time, because windows repeat each pixel four times
        given, wanted, weights = (
            values[..., top : top + window, :].unfold(3, window, step).transpose(2, 3).flatten(3)
            for values in images
        )
        energy, cross = ((weights * given * other).sum((1, 3)) for other in (given, wanted))
        scaled = best_scale(energy, cross, floor)[:, None, :, None] * given
        squares = (weights * ((scaled if cap is None else scaled.clamp(max=cap)) - wanted).square()).sum(
            (1, 3)
        )
        rows.append(torch.stack([squares, weights.sum((1, 3)) * given.shape[1]]))
    squares, counts = torch.cat(rows, 2)
    has_pixels = counts > 0
    whole = (has_pixels | (has_pixels.any(1, keepdim=True) & empty)).sum(1)
    errors = (squares / torch.where(has_pixels, counts, 1.0)).sum(1) / whole
    return errors.masked_fill(~(is_finite(predicted) & is_finite(true)), torch.nan)
