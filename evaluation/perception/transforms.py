"""Transforms of images: geometric ones, shifts of the illuminant, and families of them that are compared."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, Real
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.models.published_methods import decode_srgb
from candlelight.evaluation.views import MovedImages
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.illuminants import EQUAL_ENERGY, hue_direction, illuminant
from candlelight.loaders.primaries import D65

ResamplingKernel = Literal["cubic", "linear"]
_REACH = {"cubic": 2, "linear": 1}  # pixels on either side beyond which the kernel is 0
_DECIMALS = 9  # of positions, so that the rounding errors of a quarter turn do not blur


def resample_axis(
    images: Float[Tensor, "batch channels height width"],
    positions: Float64[Tensor, " size"],
    kernel: ResamplingKernel,
    stretch: float = 1.0,
) -> Float[Tensor, "batch channels height size"]:
    """Read images along their last axis at any positions.

    The value at x is the sum over the pixels j of ``k((x - j) / stretch)`` times pixel j, over the sum of the
    weights, with Keys 1981, eq. 15 (a = -1/2), or the triangle of width 2 for k. Both kernels are 1 at 0 and
    0 at all other whole numbers, so whole positions return the pixels exactly. Beyond an edge the image is
    mirrored, with the outermost pixel twice.

    Args:
        images: any values.
        positions: in pixels, on the device of the images; 0 is the middle of the first one. Rounded to 1e-9.
        kernel: "cubic" or "linear".
        stretch: width of the kernel, at least 1; against aliasing, the distance of the positions if that is
            above 1 pixel.

    Returns:
        The values, of the dtype of the images. The cubic kernel overshoots at edges.

    Example:
        >>> row = torch.tensor([0.0, 1.0, 4.0]).reshape(1, 1, 1, 3)
        >>> resample_axis(row, torch.tensor([1.5, 3.0, -1.0]).double(), "linear").flatten()
        tensor([2.5000, 4.0000, 0.0000])
    """
    taps = list(_taps(positions, kernel, stretch))
    total = torch.stack([weight for _, weight in taps]).sum(0)
    result = images.new_zeros((*images.shape[:3], len(positions)))
    for index, weight in taps:
        if bool(weight.any()):
            chosen = mirrored_index(index, images.shape[3])
            result += images[..., chosen] * (weight / total).to(images)
    return result


def resample_points(
    images: Float[Tensor, "batch channels height width"],
    rows: Float64[Tensor, "new_height new_width"],
    columns: Float64[Tensor, "new_height new_width"],
    kernel: ResamplingKernel,
) -> Float[Tensor, "batch channels new_height new_width"]:
    """Read images at any points, with the product of the kernel along rows and columns (`resample_axis`).

    Args:
        images: any values.
        rows: in pixels, on the device of the images; 0 is the middle of the first row. Rounded to 1e-9.
        columns: likewise.
        kernel: "cubic" or "linear".

    Returns:
        The values, of the dtype of the images.

    Example:
        >>> image = torch.tensor([[0.0, 1.0], [2.0, 3.0]])[None, None]
        >>> resample_points(image, torch.tensor([[0.5]]).double(), torch.tensor([[1.0]]).double(), "linear")
        tensor([[[[2.]]]])
    """
    height, width = images.shape[2:]
    flat = images.flatten(2)
    result = images.new_zeros((*images.shape[:2], rows.numel()))
    taps = _taps(columns.flatten(), kernel, 1.0)
    across = [(mirrored_index(column, width), weight) for column, weight in taps]
    for row, down in _taps(rows.flatten(), kernel, 1.0):
        start = mirrored_index(row, height) * width
        for column, weight in across:
            product = down * weight
            if bool(product.any()):
                result += flat[..., start + column] * product.to(images)
    return result.reshape(*images.shape[:2], *rows.shape)


def mirrored_index(index: Int64[Tensor, "*shape"], length: int) -> Int64[Tensor, "*shape"]:
    """Fold indices beyond the ends of an axis back, as in tiles that are mirrored at their edges.

    Example:
        >>> mirrored_index(torch.arange(-3, 5), 2).tolist()
        [1, 1, 0, 0, 1, 1, 0, 0]
    """
    folded = index % (2 * length)
    return torch.minimum(folded, 2 * length - 1 - folded)


def check_srgb_batch(images: Float[Tensor, "batch channels height width"]) -> None:
    """Refuse images whose values do not lie in [0, 1].

    Raises:
        InputError: the images have other axes, or a value is outside [0, 1] or nan.

    Example:
        >>> check_srgb_batch(torch.full((1, 3, 2, 2), 255.0))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `images` must be sRGB-encoded in [0, 1], got values from 255 \
to 255; divide 8-bit values by 255
    """
    check_shapes(images=(images, "batch channels height width"))
    if not bool(((images >= 0) & (images <= 1)).all()):
        raise InputError(
            f"`images` must be sRGB-encoded in [0, 1], got values from {float(images.min()):g} to "
            f"{float(images.max()):g}; divide 8-bit values by 255"
        )


def _taps(
    positions: Float64[Tensor, " size"], kernel: ResamplingKernel, stretch: float
) -> Iterator[tuple[Int64[Tensor, " size"], Float64[Tensor, " size"]]]:
    """List the index and the weight of each neighbour of all positions, from left to right."""
    exact = positions.round(decimals=_DECIMALS)
    first = exact.floor()
    reach = math.ceil(_REACH[kernel] * stretch)
    for offset in range(1 - reach, reach + 1):
        yield (first + offset).long(), _weights((exact - first - offset) / stretch, kernel)


def _weights(distance: Float64[Tensor, " size"], kernel: ResamplingKernel) -> Float64[Tensor, " size"]:
    x = distance.abs()
    if kernel == "linear":
        return (1 - x).clamp_min(0)
    near = (1.5 * x - 2.5) * x**2 + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))


def translate_images(
    images: Float[Tensor, "batch channels height width"],
    right: float = 0.0,
    down: float = 0.0,
    kernel: ResamplingKernel = "cubic",
) -> Float[Tensor, "batch channels height width"]:
    """Move images; a shift by whole pixels is exact, and none changes nothing.

    Other shifts interpolate the encoded values, as the paper's programs do in their other transforms, by
    Keys' cubic convolution (`resample_axis`), and cut the result to [0, 1]. A shift does not reduce the
    image, so nothing aliases.

    Args:
        images: sRGB-encoded in [0, 1].
        right: pixels; negative moves to the left. The paper takes whole pixels from -10 to 10.
        down: pixels; negative moves up.
        kernel: "cubic", or "linear", which blurs more.

    Returns:
        The images, of the same shape, dtype and device. The border that comes in shows the mirror image, not
        the scene that a moved camera would show.

    Raises:
        InputError: the images have other axes or values, a shift is not finite, or the kernel is unknown.

    Example:
        >>> row = torch.tensor([0.1, 0.2, 0.3]).reshape(1, 1, 1, 3)
        >>> translate_images(row, right=1).flatten()
        tensor([0.1000, 0.1000, 0.2000])
    """
    _check(images, kernel, right=right, down=down)
    height, width = images.shape[2:]
    rows = _places(height, images) - down
    columns = _places(width, images) - right
    return _resample(images, rows, columns, kernel, 1.0)


def rotate_images(
    images: Float[Tensor, "batch channels height width"], degrees: float, kernel: ResamplingKernel = "cubic"
) -> Float[Tensor, "batch channels height width"]:
    """Turn images about their middle; a quarter turn of a square image is exact, and none changes nothing.

    Encoded values are interpolated by the product of Keys' cubic convolution along rows and columns
    (`resample_points`) and cut to [0, 1]. A rotation does not reduce the image, so nothing aliases.

    Args:
        images: sRGB-encoded in [0, 1].
        degrees: clockwise. The paper's programs turn the other way, from 0 to 10.9 degrees.
        kernel: "cubic"; or "linear", the paper's.

    Returns:
        The images, of the same shape, dtype and device; the corners show the mirror image.

    Raises:
        InputError: the images have other axes or values, the angle is not finite, or the kernel is unknown.

    Example:
        >>> rotate_images(torch.tensor([[0.1, 0.2], [0.3, 0.4]])[None, None], 90)
        tensor([[[[0.3000, 0.1000],
                  [0.4000, 0.2000]]]])
    """
    _check(images, kernel, degrees=degrees)
    height, width = images.shape[2:]
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    middle = (height - 1) / 2, (width - 1) / 2
    y = _places(height, images)[:, None] - middle[0]
    x = _places(width, images)[None, :] - middle[1]
    rows, columns = middle[0] + cosine * y - sine * x, middle[1] + cosine * x + sine * y
    return resample_points(images, rows, columns, kernel).clamp(0, 1)


def scale_images(
    images: Float[Tensor, "batch channels height width"], factor: float, kernel: ResamplingKernel = "cubic"
) -> Float[Tensor, "batch channels height width"]:
    """Enlarge or reduce images about their middle; a factor of 1 changes nothing.

    Encoded values are interpolated by Keys' cubic convolution (`resample_axis`) and cut to [0, 1]. Below 1
    the kernel is wider by 1 / factor, which keeps finer detail than the new pixels from aliasing.

    Args:
        images: sRGB-encoded in [0, 1].
        factor: above 0; 2 shows the middle half of the image twice as large. The paper's factors run from
            0.11 to 1.98, and its curves use those from 1. Its programs round the new size to whole pixels.
        kernel: "cubic"; or "linear", the paper's.

    Returns:
        The images, of the same shape, dtype and device; below 1, mirror images surround the image.

    Raises:
        InputError: the images have other axes or values, the factor is not above 0, or the kernel is unknown.

    Example:
        >>> row = torch.tensor([0.0, 0.2, 0.4, 0.6]).reshape(1, 1, 1, 4)
        >>> scale_images(row, 2, "linear").flatten()
        tensor([0.1500, 0.2500, 0.3500, 0.4500])
    """
    _check(images, kernel, factor=factor)
    if factor <= 0:
        raise InputError(f"`factor` must be above 0, got {factor:g}; 1 keeps the size")
    rows, columns = (
        (_places(size, images) - (size - 1) / 2) / factor + (size - 1) / 2 for size in images.shape[2:]
    )
    return _resample(images, rows, columns, kernel, max(1.0, 1 / factor))


def place_on_canvas(
    images: Float[Tensor, "batch channels height width"], side: int
) -> Float[Tensor, "batch channels side side"]:
    """Put images into the middle of a black square, as the paper does with the digits of MNIST.

    Args:
        images: sRGB-encoded in [0, 1].
        side: pixels; the paper takes 56 for translations and 128 for scales of 28 x 28 pixels.

    Raises:
        InputError: the images have other axes or values, or are larger than the square.

    Example:
        >>> place_on_canvas(torch.ones(1, 1, 1, 1), 3).squeeze().tolist()
        [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    check_srgb_batch(images)
    height, width = images.shape[2:]
    if max(height, width) > side:
        raise InputError(
            f"a canvas of {side}x{side} pixels needs images of at most that size, got {height}x{width}; "
            "leave the canvas out"
        )
    top, left = (side - height) // 2, (side - width) // 2
    return pad(images, (left, side - width - left, top, side - height - top))


def _places(size: int, images: Tensor) -> Float64[Tensor, " size"]:
    """Number the pixels of an axis, on the device of the images."""
    return torch.arange(size, dtype=torch.float64, device=images.device)


def _resample(
    images: Tensor, rows: Tensor, columns: Tensor, kernel: ResamplingKernel, stretch: float
) -> Tensor:
    moved = resample_axis(images, columns, kernel, stretch).transpose(2, 3)
    return resample_axis(moved, rows, kernel, stretch).transpose(2, 3).clamp(0, 1).contiguous()


def _check(images: Tensor, kernel: str, **numbers: float) -> None:
    check_srgb_batch(images)
    check_choice("kernel", kernel, get_args(ResamplingKernel))
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise InputError(f"`{name}` must be finite, got {number:g}; 0 keeps the images as they are")


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


PAPER_PIXELS_PER_DEGREE = 29.2
"""Of the paper's crops of ImageNet with 256 x 256 pixels, and of the recipe `invariance`."""
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


ImageBase = Literal["photographs", "mnist"]
GEOMETRIC_TRANSFORMS = ("translation", "parallax x", "rotation", "scale")  # with a threshold of people
TRANSLATION_AXES = ("translation x", "translation y")
ILLUMINANT = "illuminant "
_FARTHEST = 10  # pixels of the paper
# Factors of scale, those of the recipe `invariance`: dense about the human threshold, 1.026.
_SCALES = (
    *(1.0, 1.002, 1.004, 1.006, 1.008, 1.01, 1.012, 1.015, 1.018, 1.02, 1.022, 1.024, 1.026, 1.028, 1.03),
    *(1.032, 1.035, 1.04, 1.05, 1.06, 1.08, 1.11, 1.15, 1.19, 1.25, 1.3, 1.37, 1.44, 1.51, 1.58, 1.66),
    *(1.75, 1.86, 1.98),
)
_DENSEST = 3000  # pixels per degree: 1027 shifts


def transform_unit(name: str) -> str:
    """Return the unit of the magnitudes of a transform: "degrees", "factor" or "steps".

    Example:
        >>> transform_unit("scale"), transform_unit("illuminant 611"), transform_unit("parallax x")
        ('factor', 'steps', 'degrees')
    """
    if name.startswith(ILLUMINANT):
        return "steps"
    return "factor" if name == "scale" else "degrees"


def unchanged_magnitude(name: str) -> float:
    """Return the magnitude of a transform that changes nothing: 1 for scale, else 0."""
    return 1.0 if name == "scale" else 0.0


@dataclass(frozen=True)
class TransformFamily:
    """One kind of image-plane transform at several magnitudes.

    The names, units and signs are those of `open_data("moved", ...)`, so that curves
    of moved images can be laid over curves of moved cameras.

    Args:
        name: "translation x" (to the right) or "translation y" (down), in degrees of visual angle;
            "rotation", in degrees, clockwise; "scale", a factor; or "illuminant HUE" with HUE the dominant
            wavelength in nm, negative for its complement, in steps of 0.005 in CIE xy.
        magnitudes: in that unit; 0, for scale 1, is the reference itself.
        pixels_per_degree: pixels per degree of visual angle, for translations.
        kernel: see `rotate_images`.
        canvas: side of the black square in whose middle the images are put first; None leaves them as they
            are.
        white: chromaticity of gray in the images, for illuminants; see `shift_illuminant`.

    Raises:
        InputError: the name is unknown, there is no magnitude, or a number is out of range.

    Example:
        >>> family = TransformFamily("translation x", (0, 0.1), pixels_per_degree=10)
        >>> row = torch.tensor([0.1, 0.2, 0.3]).reshape(1, 1, 1, 3).expand(1, 3, 1, 3)
        >>> family.transform(row, 0.1).images[0, 0], family.unit
        (tensor([[0.1000, 0.1000, 0.2000]]), 'degrees')
    """

    name: str
    magnitudes: tuple[float, ...]
    pixels_per_degree: float = PAPER_PIXELS_PER_DEGREE
    kernel: ResamplingKernel = "cubic"
    canvas: int | None = None
    white: tuple[float, float] = D65

    def __post_init__(self) -> None:
        """Check all arguments, the ends of the range with the smallest of images."""
        if not self.magnitudes or not all(map(math.isfinite, self.magnitudes)):
            got = ", ".join(f"{magnitude:g}" for magnitude in self.magnitudes) or "none"
            raise InputError(f"family `{self.name}`: expected at least one magnitude, all finite, got {got}")
        if not self.pixels_per_degree > 0:
            raise InputError(f"`pixels_per_degree` must be above 0, got {self.pixels_per_degree:g}")
        for magnitude in {min(self.magnitudes), max(self.magnitudes)}:
            self.transform(torch.zeros(1, 3, 1, 1), magnitude)

    @property
    def unit(self) -> str:
        """Unit of the magnitudes: "degrees", "factor" or "steps"."""
        return transform_unit(self.name)

    def prepare(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch 3 new_height new_width"]:
        """Make the reference images: the images themselves, or on their canvas."""
        return images if self.canvas is None else place_on_canvas(images, self.canvas)

    def transform(
        self, references: Float[Tensor, "batch 3 height width"], magnitude: float
    ) -> TransformedImages:
        """Transform reference images by one magnitude.

        Args:
            references: from `prepare`: sRGB-encoded in [0, 1].
            magnitude: in the unit of the family.

        Raises:
            InputError: the images have other axes or values, or the magnitude is out of range.
        """
        if self.name.startswith(ILLUMINANT):
            return shift_illuminant(references, self._hue(), magnitude, self.white)
        check_choice("name", self.name, (*TRANSLATION_AXES, "rotation", "scale", f"{ILLUMINANT}HUE"))
        pixels = magnitude * self.pixels_per_degree
        if self.name == "translation x":
            images = translate_images(references, right=pixels, kernel=self.kernel)
        elif self.name == "translation y":
            images = translate_images(references, down=pixels, kernel=self.kernel)
        elif self.name == "rotation":
            images = rotate_images(references, magnitude, self.kernel)
        else:
            images = scale_images(references, magnitude, self.kernel)
        return TransformedImages(images, images.new_zeros(len(images)))

    def _hue(self) -> float:
        text = self.name.removeprefix(ILLUMINANT)
        try:
            return float(text)
        except ValueError:
            raise InputError(f"`name`: expected illuminant HUE with HUE in nm, got {self.name}") from None


def paper_families(
    base: ImageBase = "photographs",
    *,
    pixels_per_degree: float = PAPER_PIXELS_PER_DEGREE,
    hues: int = len(PAPER_HUES),
    kernel: ResamplingKernel = "linear",
) -> tuple[TransformFamily, ...]:
    """List the transforms of the paper, at its magnitudes where they are known.

    N. Alabau-Bosque et al., arXiv 2407.17927, 2024: shifts of 0 to 10 pixels along x and y at 29.2 pixels per
    degree; angles of 0 to 10.9 degrees in steps of 0.1; 20 hues at saturations 0 (the reference) and 1 to 8.
    The paper's human thresholds are 0.23 degrees, 3.6 degrees and 1.026. Its programs divide 0, 1.1, ... 11
    by 29.2 for shifts of 0 to 10 pixels, which makes thresholds 10 % too large; the magnitudes here are 0, 1,
    ... 10 pixels over 29.2.

    Of its 99 factors of scale only the ends are known, 0.11 and 1.98, and that they are not evenly spaced:
    its thresholds of one picture put the first factor above 1 between 1.0094 and 1.0105. The 34 factors here
    are those of the recipe `invariance`, from 1 to 1.98.

    Args:
        base: "photographs" for ImageNet (cut to 256 x 256 pixels), TID2013 and CIFAR, mirrored at their own
            size; "mnist" for digits of 28 x 28 pixels in the middle of a black canvas, of 56 x 56 for
            translations and 128 x 128 for scales. The canvas dilutes distances that are means over pixels:
            RMSE of the same move is half as large on 56 x 56 as on 28 x 28, and its threshold larger;
            `TransformDistances.areas` takes this out of energies. How many pixels of TID2013, CIFAR and MNIST
            are a degree is not known; 29.2 is ImageNet's.
        pixels_per_degree: of visual angle. Shifts are whole pixels up to 0.34 degrees, the paper's 10 pixels.
        hues: number of hues, see `spread_hues`; the paper's is 20.
        kernel: see `rotate_images`; the paper's is "linear".

    Returns:
        Four families, and one for each hue. The paper's curve of translation is the mean over x and y.

    Raises:
        InputError: the base or the kernel is unknown, the pixels per degree are not in (0, 3000], or 20 is no
            multiple of the number of hues.

    Example:
        >>> families = paper_families()
        >>> [family.name for family in families[:5]], sum(len(family.magnitudes) for family in families)
        (['translation x', 'translation y', 'rotation', 'scale', 'illuminant 611'], 346)
    """
    check_choice("base", base, get_args(ImageBase))
    shift, large = (56, 128) if base == "mnist" else (None, None)
    scale = pixels_per_degree
    if not 0 < scale <= _DENSEST:
        raise InputError(
            f"`pixels_per_degree` must be above 0 and at most {_DENSEST}, got {scale:g}; shifts are whole "
            "pixels, and the paper's 0.34 degrees would have too many"
        )
    farthest = max(1, round(scale * (_FARTHEST / PAPER_PIXELS_PER_DEGREE)))
    shifts = tuple(pixels / scale for pixels in range(farthest + 1))
    return (
        TransformFamily("translation x", shifts, scale, kernel, shift),
        TransformFamily("translation y", shifts, scale, kernel, shift),
        TransformFamily("rotation", tuple(np.linspace(0, 10.9, 110).round(9).tolist()), scale, kernel),
        TransformFamily("scale", _SCALES, scale, kernel, large),
        *(TransformFamily(f"{ILLUMINANT}{hue}", (0, *PAPER_SATURATIONS), scale) for hue in spread_hues(hues)),
    )


def image_plane_family(frames: MovedImages, kernel: ResamplingKernel = "cubic") -> TransformFamily:
    """Give the transform of the reference image that repeats the moves of frames, at their magnitudes.

    As the families of `measure_distances`, it gives the curves of image-plane transforms beside those of the
    frames, for the same references. Where they differ, the frames show what no transform of an image can: the
    scene beyond the border, parallax, detail that was not resolved, and noise that does not move. The
    counterpart of "parallax x" is "translation x" by the same angle, as an image has no depth.

    Args:
        frames: from `open_data("moved", ...)`.
        kernel: see `rotate_images`.

    Raises:
        InputError: the frames have no camera, and so no pixels per degree.

    Example:
        >>> import torch
        >>> image, magnitudes = torch.rand(3, 4, 6), torch.tensor([0.0, 0.5]).double()
        >>> moved = torch.zeros(2, 3, 4, 6)
        >>> frames = MovedImages(image, moved, "parallax x", "degrees", magnitudes, magnitudes, 29.2)
        >>> family = image_plane_family(frames)
        >>> family.name, family.magnitudes
        ('translation x', (0.0, 0.5))
    """
    magnitudes = tuple(frames.magnitudes.tolist())
    name = "translation x" if frames.transform == "parallax x" else frames.transform
    return TransformFamily(name, magnitudes, frames.pixels_per_degree, kernel, white=EQUAL_ENERGY)
