"""Chromaticities of illuminants with a hue: from equal energy towards the spectral locus, in CIE 1931 xy."""

import numpy as np
import torch
from jaxtyping import Float64, Real
from torch import Tensor

from loaders.errors import InputError

EQUAL_ENERGY = (1 / 3, 1 / 3)
_FIRST, _STEP = 460, 5  # nm
# x and y of the spectral locus of the CIE 1931 observer (ISO/CIE 11664-1), from 460 to 615 nm.
_LOCUS = np.array(
    [
        *((0.1440, 0.0297), (0.1355, 0.0399), (0.1241, 0.0578), (0.1096, 0.0868), (0.0913, 0.1327)),
        *((0.0687, 0.2007), (0.0454, 0.2950), (0.0235, 0.4127), (0.0082, 0.5384), (0.0039, 0.6548)),
        *((0.0139, 0.7502), (0.0389, 0.8120), (0.0743, 0.8338), (0.1142, 0.8262), (0.1547, 0.8059)),
        *((0.1929, 0.7816), (0.2296, 0.7543), (0.2658, 0.7243), (0.3016, 0.6923), (0.3373, 0.6589)),
        *((0.3731, 0.6245), (0.4087, 0.5896), (0.4441, 0.5547), (0.4788, 0.5202), (0.5125, 0.4866)),
        *((0.5448, 0.4544), (0.5752, 0.4242), (0.6029, 0.3965), (0.6270, 0.3725), (0.6482, 0.3514)),
        *((0.6658, 0.3340), (0.6801, 0.3197)),
    ]
)
_LAST = _FIRST + _STEP * (len(_LOCUS) - 1)


def hue_directions(hues: Real[Tensor, " hues"]) -> Float64[Tensor, "hues 2"]:
    """Return the direction from equal energy to each dominant wavelength, in CIE 1931 xy.

    Args:
        hues: dominant wavelengths from 460 to 615 nm; negative for the opposite direction of that wavelength.

    Returns:
        Vectors of length 1.

    Raises:
        InputError: another wavelength.

    Example:
        >>> hue_directions(torch.tensor([574.0, -574.0])).round(decimals=2)
        tensor([[ 0.5800,  0.8100],
                [-0.5800, -0.8100]], dtype=torch.float64)
    """
    waves = hues.double()
    if not bool(((waves.abs() >= _FIRST) & (waves.abs() <= _LAST)).all()):
        raise InputError(
            f"`hues` must be dominant wavelengths from {_FIRST} to {_LAST} nm, negative for complements, got "
            f"{waves.tolist()}"
        )
    tabulated = np.arange(_FIRST, _LAST + 1, _STEP)
    places = [np.interp(waves.abs().cpu().numpy(), tabulated, column) for column in _LOCUS.T]
    away = torch.from_numpy(np.stack(places, 1)).to(hues.device) - waves.new_tensor(EQUAL_ENERGY)
    return waves.sign()[:, None] * away / away.norm(dim=1, keepdim=True)


def hue_chromaticities(
    hues: Real[Tensor, " hues"], radii: Real[Tensor, " hues"]
) -> Float64[Tensor, "hues 2"]:
    """Return the chromaticities at a distance from equal energy in the direction of each hue.

    ``(x, y) = (1/3, 1/3) + r u``, with u from `hue_directions`: the illuminants of Alabau-Bosque et al. 2024.

    Args:
        hues: dominant wavelengths from 460 to 615 nm, negative for complements.
        radii: distances in CIE 1931 xy, one for each hue.

    Raises:
        InputError: another wavelength.

    Example:
        >>> hue_chromaticities(torch.tensor([611.0]), torch.tensor([0.04])).round(decimals=4)
        tensor([[0.3733, 0.3331]], dtype=torch.float64)
    """
    directions = hue_directions(hues)
    return directions.new_tensor(EQUAL_ENERGY) + radii.double()[:, None] * directions
