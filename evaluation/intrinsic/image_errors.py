"""Errors over a whole image: MSE, scale-invariant MSE, PSNR and the colour difference CIEDE2000."""

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
    result_dtype,
    score_samples,
    weighted,
)
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError
from candlelight.loaders.primaries import REC709, xyz_matrix


def mse(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Compute the mean squared error of each sample.

    ``sum(m (t - p)^2) / sum(m)``, both sums over pixels and channels.

    Args:
        prediction: predicted values, scene-linear.
        target: ground truth in the same unit.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        One error per sample, >= 0, lower is better; nan if the prediction is not finite inside the mask (a
        failed prediction, see `is_failed`), if the target is not finite there, or if the mask is empty. Blind
        to the places of the errors; not blind to the scale of the prediction (`si_mse` is).

    Raises:
        InputError: the shapes do not agree, or the mask is neither boolean nor weights in [0, 1].

    Example:
        >>> mse(torch.full((1, 2, 2), 0.5), torch.zeros(1, 2, 2), torch.ones(1, 2, 2))
        tensor([0.2500])
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    return score_samples(_errors, prediction, target, mask)


def _errors(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
    power: int = 2,
) -> Float64[Tensor, " batch"]:
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    errors = mean_weighted((true - predicted).abs() ** power, mask)
    return errors.masked_fill(~(is_finite(predicted) & is_finite(true)), torch.nan)


def mae(
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Compute the mean absolute error of each sample: ``sum(m |t - p|) / sum(m)``.

    Args:
        prediction: predicted values.
        target: ground truth in the same unit.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        One error per sample, >= 0, lower is better; nan in the cases of `mse`.

    Raises:
        InputError: see `mse`.

    Example:
        >>> mae(torch.full((1, 2, 2), 0.5), torch.zeros(1, 2, 2), torch.ones(1, 2, 2))
        tensor([0.5000])
    """
    check_masked(prediction, target, mask, "batch *channels height width")
    return score_samples(partial(_errors, power=1), prediction, target, mask)


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
    return score_samples(partial(_scaled_errors, cap=cap, floor=floor), prediction, target, mask)


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


def _scaled_errors(
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


_FULL_TURN = 360.0
_CHROMA_7 = 25.0**7


def linear_to_lab(image: Float[Tensor, "*rows 3"]) -> Float[Tensor, "*rows 3"]:
    """Convert scene-linear Rec.709 to CIE 1976 L*a*b* relative to the white D65.

    Args:
        image: scene-linear Rec.709, white 1, in [0, 1].

    Returns:
        L* in [0, 100], a* and b*, of the dtype of `candlelight.evaluation.intrinsic.masked.result_dtype`.

    Raises:
        InputError: the last axis is not 3 channels.

    Example:
        >>> linear_to_lab(torch.tensor([[1.0, 1.0, 1.0], [0.2140, 0.0, 0.0]])).round(decimals=1).abs()
        tensor([[100.0000,   0.0000,   0.0000],
                [ 25.4000,  47.9000,  37.9000]])
    """
    check_shapes(image=(image, "*rows 3"))
    matrix = torch.from_numpy(xyz_matrix(REC709)).to(image.device)
    # The share of white; a row of the matrix sums to the white's X, Y or Z.
    share = image.double() @ (matrix / matrix.sum(1, keepdim=True)).T
    small = 6 / 29
    curved = torch.where(share > small**3, share.clamp(min=0) ** (1 / 3), share / (3 * small**2) + 4 / 29)
    x, y, z = curved.unbind(-1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1).to(result_dtype(image))


def ciede2000(
    prediction: Float[Tensor, "*rows 3"], target: Float[Tensor, "*rows 3"]
) -> Float[Tensor, "*rows"]:
    """Compute the colour difference CIEDE2000 of pairs of colours, with all weights 1.

    Args:
        prediction: L*, a* and b*.
        target: L*, a* and b*.

    Returns:
        One difference per pair, >= 0, lower is better, about 1 for a difference that is just noticeable; the
        order of the two colours does not count. nan if a colour is not finite. The function jumps where the
        hues of a pair are opposite (Sharma et al. 2005, section on discontinuities).

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> ciede2000(torch.tensor([50.0, 2.5, 0.0]), torch.tensor([50.0, 0.0, -2.5])).round(decimals=4)
        tensor(4.3065)
    """
    check_shapes(prediction=(prediction, "*rows 3"), target=(target, "*rows 3"))
    (light, chroma, hue), (other_light, other_chroma, other_hue) = _rotated(
        prediction.double(), target.double()
    )
    coloured = chroma * other_chroma > 0  # the hue of gray is undefined
    turn = other_hue - hue
    turn = torch.where(turn > 180, turn - _FULL_TURN, torch.where(turn < -180, turn + _FULL_TURN, turn))
    turn = torch.where(coloured, turn, 0.0)  # eq. 10
    hue_step = 2 * (chroma * other_chroma).sqrt() * torch.sin(torch.deg2rad(turn) / 2)  # eq. 11
    mean_light, mean_chroma = (light + other_light) / 2, (chroma + other_chroma) / 2
    mean_hue = _mean_hue(hue, other_hue, coloured)
    light_part = (other_light - light) / _light_weight(mean_light)
    chroma_part = (other_chroma - chroma) / (1 + 0.045 * mean_chroma)
    hue_part = hue_step / (1 + 0.015 * mean_chroma * _hue_factor(mean_hue))
    rotation = _rotation(mean_chroma, mean_hue) * chroma_part * hue_part
    squares = light_part**2 + chroma_part**2 + hue_part**2 + rotation  # eq. 22
    return squares.clamp(min=0).sqrt().to(result_dtype(prediction))


def _rotated(*colours: Float64[Tensor, "*rows 3"]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Compute L', C' and h' (in degrees) of both colours: eq. 2 to 7."""
    chroma = torch.stack([torch.hypot(colour[..., 1], colour[..., 2]) for colour in colours]).mean(0)
    stretch = 1.5 - 0.5 * _saturation(chroma)
    found = []
    for colour in colours:
        light, a, b = colour.unbind(-1)
        hue = torch.rad2deg(torch.atan2(b, stretch * a)) % _FULL_TURN
        found.append((light, torch.hypot(stretch * a, b), hue))
    return found


def _saturation(chroma: Tensor) -> Tensor:
    return (chroma**7 / (chroma**7 + _CHROMA_7)).sqrt()


def _mean_hue(hue: Tensor, other: Tensor, coloured: Tensor) -> Tensor:
    """Average two hues along the shorter arc; the hue of gray does not count: eq. 14."""
    total = hue + other
    wrapped = torch.where(total < _FULL_TURN, total + _FULL_TURN, total - _FULL_TURN)
    mean = torch.where((hue - other).abs() <= 180, total, wrapped) / 2
    return torch.where(coloured, mean, total)


def _light_weight(light: Tensor) -> Tensor:
    return 1 + 0.015 * (light - 50) ** 2 / (20 + (light - 50) ** 2).sqrt()  # eq. 18


def _hue_factor(hue: Tensor) -> Tensor:
    """Compute T: eq. 15."""
    terms = ((-0.17, 1, -30.0), (0.24, 2, 0.0), (0.32, 3, 6.0), (-0.20, 4, -63.0))
    waves = [size * torch.cos(torch.deg2rad(times * hue + shift)) for size, times, shift in terms]
    return 1 + torch.stack(waves).sum(0)


def _rotation(chroma: Tensor, hue: Tensor) -> Tensor:
    """Compute R_T, which couples chroma and hue of blues: eq. 16, 17 and 21."""
    angle = 30 * torch.exp(-(((hue - 275) / 25) ** 2))
    return -torch.sin(torch.deg2rad(2 * angle)) * 2 * _saturation(chroma)
