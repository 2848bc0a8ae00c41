"""Classical methods on gradients of the log image: constant baselines, Retinex, and Weiss 2001."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.models.gradients import (
    GradientModel,
    Gradients,
    backward_differences,
    check_thresholds,
    decompose_by_gradients,
    keep_strong,
    keep_strong_or_coloured,
    median_over_lights,
    plain_gray,
    raised_gray,
    split_colour,
)
from candlelight.evaluation.views.check_shapes import check_shapes


def constant_reflectance(
    image: Float[Tensor, "batch 3 height width"],
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Explain the image by shading alone.

    Args:
        image: scene-linear Rec.709.

    Returns:
        Reflectance 1 everywhere, and the image as shading.

    Example:
        >>> reflectance, shading = constant_reflectance(torch.full((1, 3, 1, 1), 0.5))
        >>> reflectance.flatten().tolist(), shading.flatten().tolist()
        ([1.0, 1.0, 1.0], [0.5, 0.5, 0.5])
    """
    return torch.ones_like(image), image


def constant_shading(
    image: Float[Tensor, "batch 3 height width"],
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Explain the image by reflectance alone.

    Args:
        image: scene-linear Rec.709.

    Returns:
        The image as reflectance, and shading 1 everywhere.

    Example:
        >>> reflectance, shading = constant_shading(torch.full((1, 3, 1, 1), 0.5))
        >>> reflectance.flatten().tolist(), shading.flatten().tolist()
        ([0.5, 0.5, 0.5], [1.0, 1.0, 1.0])
    """
    return image, torch.ones_like(image)


BASELINES = {"constant-reflectance": constant_reflectance, "constant-shading": constant_shading}


@dataclass(frozen=True)
class GrayRetinex(GradientModel):
    """Gray Retinex as an `IntrinsicModel`, without training and randomness.

    A difference of the log gray image between neighbours is kept for the reflectance if it exceeds
    ``threshold`` (Grosse et al. 2009, eq. 11). The reflectance is the least-squares image of the kept
    differences (eq. 10, p = 2).

    Attributes:
        threshold: in natural log units. The default is the middle of the benchmark's range of 10^-3 to 10;
            the paper chooses the threshold by cross-validation.

    Example:
        >>> import torch
        >>> image = torch.full((1, 3, 4, 4), 0.2)
        >>> image[..., 2:] = 0.8
        >>> reflectance, shading = GrayRetinex()(image)
        >>> reflectance[0, 0, 0].round(decimals=3).tolist(), shading.std() < 1e-6
        ([0.25, 0.25, 1.0, 1.0], tensor(True))
    """

    threshold: float = 0.1

    def __post_init__(self) -> None:
        check_thresholds(threshold=self.threshold)

    def _gradients(self, _: int, pixels: Float[ndarray, "3 height width"], __: ndarray) -> Gradients:
        return keep_strong(backward_differences(np.log(raised_gray(pixels))), self.threshold)

    def _gray(self, pixels: Float[ndarray, "3 height width"]) -> Float[ndarray, "height width"]:
        return raised_gray(pixels)


@dataclass(frozen=True)
class ColourRetinex(GradientModel):
    """Colour Retinex as an `IntrinsicModel`, without training and randomness.

    A difference of log values between neighbours is kept for the reflectance if its brightness (mean of the
    channels) exceeds ``brightness`` or its chroma (norm of the difference minus its brightness) exceeds
    ``chroma``: Grosse et al. 2009, eq. 12. The reflectance is the least-squares image of the kept differences
    (eq. 10, p = 2).

    Attributes:
        brightness: threshold in natural log units; 1.0 keeps steps by a factor above 2.7.
        chroma: threshold in natural log units. Both defaults are common on the MIT images; the paper chooses
            both thresholds by cross-validation, from 10^-1.5 to 1.

    Example:
        >>> import torch
        >>> image = torch.full((1, 3, 4, 4), 0.2)
        >>> image[:, 0, :, 2:] = 0.8
        >>> reflectance, shading = ColourRetinex()(image)
        >>> (reflectance * shading - image).abs().max() < 1e-6, shading.std() < 1e-6
        (tensor(True), tensor(True))
    """

    brightness: float = 1.0
    chroma: float = 0.075

    def __post_init__(self) -> None:
        check_thresholds(brightness=self.brightness, chroma=self.chroma)

    def _gradients(self, _: int, pixels: Float[ndarray, "3 height width"], __: ndarray) -> Gradients:
        return keep_strong_or_coloured(split_colour(pixels), self.brightness, self.chroma)


@dataclass(frozen=True)
class Weiss:
    """Weiss's method as a `SequenceIntrinsicModel`, followed by gray Retinex if a threshold is given.

    The gradient of the log reflectance is the median over the lights of the gradients of the log gray images.
    A shadow that moves with the light is an edge under few lights, so the median leaves it out. Smooth
    shading is left in the reflectance where most lights come from one side; Retinex removes it. As in the
    benchmark, dark values of the lit images are raised, but the decomposed image is taken as it is.

    Attributes:
        threshold: of `GrayRetinex`, applied to the median, in natural log units; None for Weiss's method
            alone.

    Example:
        >>> import torch
        >>> image = torch.full((1, 3, 4, 4), 0.2)
        >>> image[..., 2:] = 0.8
        >>> shaded = image * torch.tensor([0.5, 1.0, 0.7, 0.9]).reshape(4, 1)
        >>> lights = torch.stack([image, image, shaded], 1)
        >>> Weiss()(shaded, lights)[0][0, 0, 0].round(decimals=3).tolist()
        [0.25, 0.25, 1.0, 1.0]
    """

    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_thresholds(threshold=self.threshold)

    def __call__(
        self,
        image: Float[Tensor, "batch 3 height width"],
        lights: Float[Tensor, "batch lights 3 height width"],
        mask: Bool[Tensor, "batch height width"] | None = None,
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose each image; see `integrate_gradients.decompose_by_gradients`.

        Args:
            image: scene-linear Rec.709, the image to decompose.
            lights: the same object under other lights.
            mask: pixels of the object. All pixels by default.

        Raises:
            InputError: the shapes do not agree.
        """
        check_shapes(image=(image, "batch 3 height width"), lights=(lights, "batch lights 3 height width"))
        stacks = lights.detach().cpu().double().numpy()
        return decompose_by_gradients(
            image, mask, lambda row, _, __: self._gradients(stacks[row]), plain_gray
        )

    def _gradients(self, lights: Float[ndarray, "lights 3 height width"]) -> Gradients:
        gradients = median_over_lights(lights)
        return gradients if self.threshold is None else keep_strong(gradients, self.threshold)
