"""Colour difference CIEDE2000, and the CIE L*a*b* colours that it compares.

G. Sharma, W. Wu, E. N. Dalal: The CIEDE2000 color-difference formula: implementation notes, supplementary
test data, and mathematical observations, Color Research and Application 30(1), 2005. Equation numbers are
theirs.
"""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.intrinsic.masked import result_dtype
from candlelight.loaders.primaries import REC709, xyz_matrix

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
