"""Scores of MPI-Sintel as the Python program of CRefNet computes them, where they differ from MATLAB's.

J. Luo, N. Zhao, W. Li, C. Richardt: CRefNet: Learning consistent reflectance estimation with a
decoder-sharing transformer, IEEE TVCG 2024. Its si-MSE is ``si_mse(..., floor=CREFNET_FLOOR)``.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from candlelight.evaluation.intrinsic.lmse_sintel import sintel_errors
from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    as_channels,
    best_scale,
    check_masked,
    is_finite,
    masked_double,
    score_samples,
    weighted,
)
from candlelight.evaluation.intrinsic.ssim import SSIM_WINDOW, check_ssim_images, mean_ssim

CREFNET_FLOOR = 1e-5  # energy of a prediction, or of a window of it, up to which its scale is 0
_STEPS = tuple(sign * 2.0**-power for power in range(2, 11) for sign in (-1, 1))
_LARGEST_SCALE = 5.0


def lmse_crefnet(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Compute the si-LMSE of CRefNet: `lmse_sintel` without a cut at 1, with more windows at the edges.

    Windows also begin exactly a step before the right and the bottom edge, the scale of a window is 0 where
    its energy is at most `CREFNET_FLOOR`, the scaled prediction is not cut, and windows outside the mask
    count as perfect.

    Args:
        prediction: predicted reflectance or shading, in any scale, in the colour space of the target.
        target: ground truth in [0, 1]; the paper takes the stored values of the 8-bit images over 255.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        One error per sample, >= 0, lower is better; nan, and blind, as `lmse_sintel`.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or the image
            has no window.

    Example:
        >>> target, mask = torch.full((1, 3, 20, 20), 0.5), torch.ones(1, 20, 20)
        >>> lmse_crefnet(3 * target, target, mask), lmse_crefnet(0 * target, target, mask)
        (tensor([0.]), tensor([0.2500]))
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    errors = partial(sintel_errors, floor=CREFNET_FLOOR, cap=None, last=1, empty=True)
    return score_samples(errors, prediction, target, mask)


def dssim_crefnet(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Compute the DSSIM of CRefNet: with a search for the scale that gives the best SSIM.

    ``(1 - SSIM(a p, t)) / 2`` over all windows of `SSIM_DEFINITION`, where images are 0 outside the mask. The
    search begins at the scale of least squares, and goes on in steps of -1/4, 1/4, -1/8, 1/8, ... 1/1024 as
    long as each step improves the score and the scale stays between 0 and 5. It finds a local optimum.

    Args:
        prediction: predicted reflectance or shading, in any scale, in the colour space of the target.
        target: ground truth in [0, 1]; the paper takes the stored values of the 8-bit images over 255.
        mask: weights of the scale; in the SSIM, pixels of weight 0 are outside. They are never read.

    Returns:
        One dissimilarity per sample in [0, 1], lower is better; nan in the cases of `ssim`. Blind to what
        `dssim` is blind to.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or the image
            is smaller than a window.

    Example:
        >>> target = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> dssim_crefnet(3 * target, target, torch.ones(1, 16, 16)).round(decimals=6)
        tensor([0.])
    """
    check_ssim_images(prediction, target, mask, 1, SSIM_WINDOW, "SSIM")
    return score_samples(_dissimilarities, prediction, target, mask)


def _dissimilarities(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float64[Tensor, " batch"]:
    predicted, true = (as_channels(masked_double(one.detach(), mask)) for one in (prediction, target))
    energy = weighted(predicted.square(), mask).flatten(1).sum(1)
    cross = weighted(predicted * true, mask).flatten(1).sum(1)
    known = is_finite(predicted) & is_finite(true) & (mask > 0).flatten(1).any(1)
    scales = best_scale(energy, cross, CREFNET_FLOOR)
    found = [
        _search(one[None], other[None], float(scale)) if usable else torch.nan
        for one, other, scale, usable in zip(predicted, true, scales, known, strict=True)
    ]
    return torch.tensor(found, dtype=torch.float64, device=predicted.device)


def _search(
    predicted: Float64[Tensor, "1 channels height width"],
    true: Float64[Tensor, "1 channels height width"],
    scale: float,
) -> float:
    everywhere: Bool[Tensor, "1 height width"] = torch.ones_like(true[:, 0], dtype=torch.bool)

    def score(factor: float) -> float:
        return float((1 - mean_ssim(factor * predicted, true, everywhere, 1).mean()) / 2)

    best = score(scale)
    for step in _STEPS:
        while 0 < scale + step < _LARGEST_SCALE and (new := score(scale + step)) < best:
            scale, best = scale + step, new
    return best
