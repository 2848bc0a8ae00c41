"""Families of transforms that are compared."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.perception.people import PAPER_PIXELS_PER_DEGREE
from candlelight.evaluation.perception.transforms import (
    PAPER_HUES,
    PAPER_SATURATIONS,
    ResamplingKernel,
    TransformedImages,
    place_on_canvas,
    rotate_images,
    scale_images,
    shift_illuminant,
    spread_hues,
    translate_images,
)
from candlelight.evaluation.views import MovedImages
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.illuminants import EQUAL_ENERGY
from candlelight.loaders.primaries import D65

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
        if self.canvas is not None and self.canvas < 1:
            raise InputError(f"`canvas` must be at least 1 pixel, got {self.canvas}")
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
