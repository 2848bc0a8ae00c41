"""Local mean squared error (si-LMSE) of MPI-Sintel."""

from functools import partial

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    as_channels,
    best_scale,
    check_masked,
    is_finite,
    masked_double,
    score_samples,
)
from candlelight.loaders.errors import InputError


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
