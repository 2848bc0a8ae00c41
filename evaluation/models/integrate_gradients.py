"""Reflectance and shading from the gradients of the log reflectance."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.models.log_gradients import FLOOR, Gradients, gray_of_raised
from candlelight.evaluation.models.poisson import solve_poisson
from candlelight.loaders.errors import InputError

GradientEstimate = Callable[[int, ndarray, ndarray], Gradients]
GrayRule = Callable[[Float[ndarray, "3 height width"]], Float[ndarray, "height width"]]


def decompose_by_gradients(
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"] | None,
    estimate: GradientEstimate,
    gray: GrayRule = gray_of_raised,
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Decompose each image on the CPU; the results are on the device of the input.

    Args:
        image: scene-linear Rec.709 in [0, 1].
        mask: pixels of the object; other pixels, and edges to them, are ignored. All pixels by default.
        estimate: maps the number of a row, its image in float64 and its mask to the gradients of the log
            reflectance, which is their least-squares image: Grosse et al. 2009, eq. 10, p = 2. It is not
            called for an empty mask.
        gray: maps an image [3, height, width] to the gray image that is decomposed: a function of
            `candlelight.evaluation.models.log_gradients`.

    Returns:
        Reflectance in the colours of the image, scaled so that its largest value is 1, and gray shading
        repeated over the channels. The channel mean of their product is the gray image, and their product is
        the image where no value is below `candlelight.evaluation.models.log_gradients.FLOOR`; colours are
        those of the image with darker values raised to it. Both are 0 outside the mask, and nan inside it if
        a pixel there is not finite.

    Example:
        >>> from candlelight.evaluation.models.log_gradients import backward_differences
        >>> image = torch.tensor([0.2, 0.4]).expand(1, 3, 1, 2)
        >>> def all_of_them(row, pixels, mask):
        ...     return backward_differences(np.log(gray_of_raised(pixels)))
        >>> decompose_by_gradients(image, None, all_of_them)[0][0, 0]
        tensor([[0.5000, 1.0000]])
    """
    pixels = image.detach().cpu().double().numpy()
    everything = torch.ones(len(image), *image.shape[2:], dtype=torch.bool)
    masks = (everything if mask is None else mask).cpu().numpy()
    reflectance, shading = np.zeros_like(pixels), np.zeros_like(pixels)
    for row, inside in enumerate(masks):
        if not inside.any():
            continue
        if not np.isfinite(pixels[row][:, inside]).all():
            reflectance[row][:, inside] = shading[row][:, inside] = np.nan
            continue
        known = np.where(inside, pixels[row], FLOOR)
        factor = np.exp(solve_poisson(*estimate(row, known, inside), inside)[inside])
        raised = np.maximum(known[:, inside], FLOOR)
        coloured = raised * factor / raised.mean(0)
        reflectance[row][:, inside] = coloured / coloured.max()
        shading[row][:, inside] = gray(known)[inside] / factor * coloured.max()
    return torch.from_numpy(reflectance).to(image), torch.from_numpy(shading).to(image)


class GradientModel(ABC):
    """An `IntrinsicModel` that estimates the gradients of the log reflectance of each image."""

    def __call__(
        self,
        image: Float[Tensor, "batch 3 height width"],
        mask: Bool[Tensor, "batch height width"] | None = None,
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose each image; see `decompose_by_gradients`."""
        return decompose_by_gradients(image, mask, self._gradients, self._gray)

    def _gray(self, pixels: Float[ndarray, "3 height width"]) -> Float[ndarray, "height width"]:
        return gray_of_raised(pixels)

    @abstractmethod
    def _gradients(
        self, row: int, pixels: Float[ndarray, "3 height width"], mask: Bool[ndarray, "height width"]
    ) -> Gradients: ...


def check_thresholds(**thresholds: float) -> None:
    """Refuse thresholds below 0.

    Raises:
        InputError: a threshold is negative or nan.

    Example:
        >>> check_thresholds(chroma=-1.0)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `chroma` must be a threshold of at least 0, got -1.0
    """
    for name, value in thresholds.items():
        if not value >= 0:
            raise InputError(f"`{name}` must be a threshold of at least 0, got {value}")
