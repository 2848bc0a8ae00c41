"""Retinex: strong or coloured edges belong to the reflectance, all other changes to the shading.

GR-RET and COL-RET of R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset and
baseline evaluations for intrinsic image algorithms, ICCV 2009, section 4.3.1.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from candlelight.evaluation.models.integrate_gradients import GradientModel, check_thresholds
from candlelight.evaluation.models.log_gradients import (
    Gradients,
    backward_differences,
    keep_strong,
    keep_strong_or_coloured,
    raised_gray,
    split_colour,
)


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
