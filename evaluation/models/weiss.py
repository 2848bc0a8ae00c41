"""Weiss's method: the gradients that most lights agree on belong to the reflectance.

W and W+RET of R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset and baseline
evaluations for intrinsic image algorithms, ICCV 2009, section 4.3.3, after Y. Weiss: Deriving intrinsic
images from image sequences, ICCV 2001.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.models.integrate_gradients import check_thresholds, decompose_by_gradients
from candlelight.evaluation.models.log_gradients import (
    Gradients,
    keep_strong,
    median_over_lights,
    plain_gray,
)


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
