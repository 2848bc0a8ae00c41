"""Change of the illuminant of images: a chromaticity shift in linear light, cut at the edge of sRGB."""

from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.adapters.adapted_network import decode_srgb
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.perception.mirror_resampling import check_srgb_batch
from candlelight.loaders.errors import InputError
from candlelight.loaders.illuminants import illuminant
from candlelight.loaders.primaries import D65

PAPER_HUES = (
    *(611, 591, 582, 574, 565, 554, 533, 510, 501, 495, 491, 486, 481, 467),
    *(-565, -554, -533, -510, -501, -495),
)
"""Dominant wavelengths of the paper's illuminants in nm; negative for the complement of a wavelength."""
PAPER_SATURATIONS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Steps of `candlelight.loaders.illuminants.XY_PER_STEP` from equal energy, as in the paper's code."""
_FROM = 3  # place of 574 nm, so that half of the hues has both ends of both colour axes


class TransformedImages(NamedTuple):
    """Images after a transform.

    Attributes:
        images: sRGB-encoded in [0, 1].
        clipped: share of the pixels of each image with a channel that reaches 1 and is cut, less that of the
            image before: over-exposed pixels are not counted. Below 0 if fewer reach 1 than before.
    """

    images: Float[Tensor, "batch channels height width"]
    clipped: Float[Tensor, " batch"]


def spread_hues(count: int) -> tuple[int, ...]:
    """Choose some of the paper's hues, evenly spread around equal energy.

    Args:
        count: a divisor of 20; 20 and 10 hues hold both ends of the axes red-green and yellow-blue
            (`COLOUR_AXES`), 5 hold one end of each.

    Raises:
        InputError: another number.

    Example:
        >>> spread_hues(5)
        (574, 510, 486, -554, -495)
    """
    if count < 1 or len(PAPER_HUES) % count:
        raise InputError(f"`count` must be a divisor of {len(PAPER_HUES)}, such as 10 or 5, got {count}")
    step = len(PAPER_HUES) // count
    return tuple(PAPER_HUES[place] for place in range(_FROM % step, len(PAPER_HUES), step))


def shift_illuminant(
    images: Float[Tensor, "batch 3 height width"],
    hue: float,
    saturation: float,
    white: tuple[float, float] = D65,
) -> TransformedImages:
    """Relight images by an illuminant of another chromaticity and the same luminance.

    Decoded values are multiplied by a gain for each channel, ``illuminant(hue, saturation, white) /
    illuminant(hue, 0, white)`` (`candlelight.loaders.illuminants.illuminant`), cut to [0, 1] and encoded. So
    a surface with the chromaticity ``white`` moves to ``white + 0.005 s u``, by the steps and in the
    directions of Alabau-Bosque et al. 2024 (arXiv 2407.17927), whose white is equal energy E. Gray is D65 in
    a photograph, and E in the references of the set `illuminant` of the recipe `invariance`, whose frames
    have the gains of E. The paper desaturates its photographs before, by an amount that is not known here;
    nothing is desaturated.

    Args:
        images: sRGB-encoded in [0, 1].
        hue: dominant wavelength, 440 to 650 nm; negative for its complement. The paper's: `PAPER_HUES`.
        saturation: steps of 0.005 in CIE xy, 0 to 8; 0 changes nothing. The paper's: `PAPER_SATURATIONS`. The
            paper's text names other radii, 0.0030 to 0.0400, than its code.
        white: chromaticity of gray in the images, CIE 1931 x and y.

    Returns:
        The images, of the same shape, dtype and device, and the share of cut pixels. A cut value has another
        chromaticity than the shift says. Blind to spectra: surfaces keep their colours relative to white, as
        in von Kries' law, but in the channels of Rec.709.

    Raises:
        InputError: the images have other axes or values, or hue or saturation are out of range.

    Example:
        >>> gray = torch.full((1, 3, 1, 1), 0.5)
        >>> shift_illuminant(gray, 611, 8).images.flatten()
        tensor([0.5944, 0.4702, 0.4714])
        >>> shift_illuminant(gray + 0.4, 611, 8).clipped
        tensor([1.])
    """
    check_shapes(images=(images, "batch 3 height width"))
    check_srgb_batch(images)
    if saturation == 0:
        illuminant(hue, saturation)  # checks the hue
        return TransformedImages(images.clone(), images.new_zeros(len(images)))
    gain = torch.tensor(_gains(hue, saturation, white), dtype=images.dtype, device=images.device)
    linear = decode_srgb(images) * gain[:, None, None]
    clipped, before = ((values >= 1).any(1).to(images.dtype).mean((1, 2)) for values in (linear, images))
    return TransformedImages(_encode(linear.clamp(0, 1)), clipped - before)


@cache
def _gains(hue: float, saturation: float, white: tuple[float, float]) -> tuple[float, ...]:
    pairs = zip(illuminant(hue, saturation, white), illuminant(hue, 0, white), strict=True)
    return tuple(channel / reference for channel, reference in pairs)


def _encode(linear: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
