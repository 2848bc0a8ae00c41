"""Colour Retinex: strong or coloured edges belong to the reflectance, all other changes to the shading.

COL-RET of R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset and baseline
evaluations for intrinsic image algorithms, ICCV 2009, section 4.3.1.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from evaluation.models.poisson import solve_poisson
from loaders.errors import InputError

# The benchmark raises its images, whose white is 257, to at least 3 before the logarithm.
FLOOR = 3 / 257


@dataclass(frozen=True)
class ColourRetinex:
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
        >>> image = torch.full((1, 3, 4, 4), 0.2)
        >>> image[:, 0, :, 2:] = 0.8
        >>> reflectance, shading = ColourRetinex()(image)
        >>> (reflectance * shading - image).abs().max() < 1e-6, shading.std() < 1e-6
        (tensor(True), tensor(True))
    """

    brightness: float = 1.0
    chroma: float = 0.075

    def __post_init__(self) -> None:
        if not (self.brightness >= 0 and self.chroma >= 0):
            raise InputError(
                "`brightness` and `chroma` must be thresholds of at least 0, "
                f"got {self.brightness} and {self.chroma}"
            )

    def __call__(
        self,
        image: Float[Tensor, "batch 3 height width"],
        mask: Bool[Tensor, "batch height width"] | None = None,
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose each image on the CPU; the results are on the device of the input.

        Args:
            image: scene-linear Rec.709 in [0, 1]; darker values are raised to `FLOOR`.
            mask: pixels of the object; edges to other pixels are ignored. All pixels by default.

        Returns:
            Reflectance in the colours of the image, scaled so that its largest value is 1, and gray shading
            repeated over the channels; their product is the image raised to `FLOOR`. Both are 0 outside the
            mask.
        """
        pixels = np.maximum(image.detach().cpu().double().numpy(), FLOOR)
        masks = [None] * len(pixels) if mask is None else list(mask.cpu().numpy())
        reflectance = np.stack([self._reflectance(*pair) for pair in zip(pixels, masks, strict=True)])
        inside = reflectance > 0
        shading = np.divide(pixels, reflectance, out=np.zeros_like(pixels), where=inside)
        return torch.from_numpy(reflectance).to(image), torch.from_numpy(shading).to(image)

    def _reflectance(
        self, pixels: Float[ndarray, "3 height width"], mask: Bool[ndarray, "height width"] | None
    ) -> Float[ndarray, "3 height width"]:
        gray = pixels.mean(0)
        down, right = (self._kept(np.log(pixels), np.log(gray), axis) for axis in (0, 1))
        reflectance = np.exp(solve_poisson(down, right, mask)) * pixels / gray
        if mask is not None:
            reflectance = reflectance * mask
        return reflectance / max(reflectance.max(), np.finfo(float).tiny)

    def _kept(
        self,
        log_pixels: Float[ndarray, "3 height width"],
        log_gray: Float[ndarray, "height width"],
        axis: int,
    ) -> Float[ndarray, "height width"]:
        """Return backward differences of the log gray image along an axis, 0 where they are shading."""
        step = np.diff(log_pixels, axis=axis + 1, prepend=log_pixels.take([0], axis + 1))
        brightness = step.mean(0)
        chroma = np.sqrt(((step - brightness) ** 2).sum(0))
        is_reflectance = (chroma > self.chroma) | (np.abs(brightness) > self.brightness)
        gray_step = np.diff(log_gray, axis=axis, prepend=log_gray.take([0], axis))
        return np.where(is_reflectance, gray_step, 0.0)
