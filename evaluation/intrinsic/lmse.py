"""Local mean squared error (LMSE) of the MIT intrinsic images benchmark.

R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset and baseline evaluations for
intrinsic image algorithms, ICCV 2009. Other papers use the name "LMSE" for other sums (`lmse_chrislib_rgb`,
`lmse_barron`, `lmse_sintel`); their numbers are not comparable with these.
"""

from functools import partial

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.intrinsic.masked import PixelMask, check_masked, result_dtype, score_samples
from candlelight.evaluation.intrinsic.window_sums import check_windows, window_error, window_sums

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
    step = max(1, window // 2) if step is None else step
    height, width = prediction.shape[1:]
    check_windows(height, width, window, step)
    return score_samples(partial(_errors, window=window, step=step, floor=floor), prediction, target, mask)


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
    check_shapes(
        reflectance=(reflectance, axes),
        shading=(shading, axes),
        true_reflectance=(true_reflectance, axes),
        true_shading=(true_shading, axes),
        mask=(mask, "batch height width"),
    )
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


def _errors(
    prediction: Float[Tensor, "batch height width"],
    target: Float[Tensor, "batch height width"],
    mask: PixelMask,
    window: int,
    step: int,
    floor: float,
) -> Float64[Tensor, " batch"]:
    sums, is_usable = window_sums(prediction.unsqueeze(1), target.unsqueeze(1), mask, window, step)
    return window_error(sums.squeeze(2), floor).masked_fill(~is_usable, torch.nan)
