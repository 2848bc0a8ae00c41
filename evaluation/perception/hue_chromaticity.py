"""Chromaticities of illuminants with a hue: from equal energy towards the spectral locus, in CIE 1931 xy."""

import torch
from jaxtyping import Float64, Real
from torch import Tensor

from candlelight.loaders.illuminants import EQUAL_ENERGY, hue_direction


def hue_chromaticities(
    hues: Real[Tensor, " hues"], radii: Real[Tensor, " hues"]
) -> Float64[Tensor, "hues 2"]:
    """Return the chromaticities at a distance from equal energy in the direction of each hue.

    ``(x, y) = (1/3, 1/3) + r u``, with u from `candlelight.loaders.illuminants.hue_direction`: the
    illuminants of Alabau-Bosque et al. 2024.

    Args:
        hues: dominant wavelengths from 440 to 650 nm, negative for complements.
        radii: distances in CIE 1931 xy, one for each hue.

    Raises:
        InputError: another wavelength.

    Example:
        >>> hue_chromaticities(torch.tensor([611.0]), torch.tensor([0.04])).round(decimals=4)
        tensor([[0.3733, 0.3329]], dtype=torch.float64)
    """
    vectors = [hue_direction(float(hue)) for hue in hues.double().tolist()]
    directions = torch.tensor(vectors, dtype=torch.float64, device=hues.device).reshape(-1, 2)
    return directions.new_tensor(EQUAL_ENERGY) + radii.double()[:, None] * directions
