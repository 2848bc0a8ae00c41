"""TAP-06: gradients of the shading predicted from patches of the log image by local linear experts.

M. F. Tappen, E. H. Adelson, W. T. Freeman: Estimating intrinsic component images using non-linear regression,
CVPR 2006 (ExpertBoost), without confidences, as R. Grosse et al., ICCV 2009, section 4.3.2, compare it with
other methods. This is a restatement of these descriptions: no code of either paper's TAP-06 is public.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from candlelight.evaluation.models.integrate_gradients import GradientModel
from candlelight.evaluation.models.local_experts import LocalExperts, grow_experts
from candlelight.evaluation.models.log_gradients import Gradients, gray_of_raised
from candlelight.evaluation.models.named_streams import named_stream
from candlelight.evaluation.models.training_gradients import (
    TrueGradients,
    differences,
    draw_places,
    extend,
    inside_pairs,
    true_gradients,
)
from candlelight.loaders.views import DecomposedImage

# A patch of 6 x 5 pixels: three on either side of the difference, and two on either side across it.
_ALONG, _ACROSS = 3, 2
_EXPERTS = 20
# Patches drawn from all training images together.
_SAMPLES = 60_000


@dataclass(frozen=True, eq=False)
class TAP06(GradientModel):
    """Trained regression of shading gradients as an `IntrinsicModel`; `train_tap06` makes one.

    The rest of each difference of log gray values belongs to the reflectance, whose log image has the least
    squared distance to these differences, all with the same weight (Grosse et al. 2009, eq. 10, p = 2). The
    input is gray, as in their comparison of gray methods: the colour of the image changes no gradient, and
    the reflectance takes it over.

    Blind spots: colour, and all beyond the patch. Least squares answers ambiguous patches with their mean, so
    that each edge is left at part of its height in both parts. LMSE rewards this on the MIT images: the
    square root of the image as both parts has the same mean error.

    Attributes:
        experts: predict the shading gradient at the centre of a patch of the log image, whose mean is 0. One
            regression serves both directions; patches for gradients to the right are transposed.
    """

    experts: LocalExperts

    def _gradients(
        self, _: int, pixels: Float[ndarray, "3 height width"], mask: Bool[ndarray, "height width"]
    ) -> Gradients:
        log_image = extend(np.log(gray_of_raised(pixels)), mask)
        down, right = inside_pairs(mask)
        shading = np.zeros((2, *mask.shape))
        shading[0][down] = self.experts.predict(_patches(log_image, np.flatnonzero(down)))
        shading[1].T[right.T] = self.experts.predict(_patches(log_image.T, np.flatnonzero(right.T)))
        return Gradients(*(differences(log_image) - shading))


def train_tap06(images: Sequence[DecomposedImage], *, seed: int = 0) -> TAP06:
    """Train on images with their true decomposition.

    Args:
        images: training images of any sizes; values below `candlelight.evaluation.models.log_gradients.FLOOR`
            are raised to it.
        seed: seed of the drawn patches and prototypes. Equal seeds give equal models on one processor.

    Raises:
        InputError: no image has two neighbours in its mask whose true reflectance and shading differ by
            unequal factors, or a value inside a mask is not finite.

    Example:
        >>> import torch
        >>> row = torch.tensor([0.2, 0.2, 0.2, 0.8, 0.8, 0.8]).expand(3, 6, 6)
        >>> light = torch.linspace(0.6, 0.8, 6).expand(1, 6, 6).transpose(1, 2)
        >>> model = train_tap06([DecomposedImage(row * light, row, light, torch.ones(6, 6).bool())])
        >>> _, shading = model((row * light)[None])
        >>> bool((shading / light).std() / shading.mean() < 0.1)
        True
    """
    examples = true_gradients(images)
    share = -(-_SAMPLES // len(examples))
    rng = named_stream(seed, "patches")
    drawn = [part for example in examples for part in _draw_patches(example, share // 2, rng)]
    patches, targets = (np.concatenate(part) for part in zip(*drawn, strict=True))
    patches, targets = _mirror(patches, targets, named_stream(seed, "mirrors"))
    return TAP06(grow_experts(patches, targets, _EXPERTS, named_stream(seed, "prototypes")))


def _patches(log_image: Float[ndarray, "height width"], places: ndarray) -> Float[ndarray, "places pixels"]:
    """Cut patches out around differences down, at flat places; the mean of each is subtracted."""
    padded = np.pad(log_image, ((_ALONG, _ALONG - 1), (_ACROSS, _ACROSS)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * _ALONG, 2 * _ACROSS + 1))
    patches = windows[np.unravel_index(places, log_image.shape)].reshape(
        len(places), 2 * _ALONG * (2 * _ACROSS + 1)
    )
    return patches - patches.mean(1, keepdims=True)


def _draw_patches(
    example: TrueGradients, count: int, rng: np.random.Generator
) -> list[tuple[ndarray, ndarray]]:
    """Draw patches for gradients down and to the right, each with its true shading gradient."""
    drawn = []
    for axis in (0, 1):
        # Gradients to the right are gradients down in the transposed image.
        log_image, inside, shading = (
            np.swapaxes(layer, 0, axis)
            for layer in (example.log_image, example.inside[axis], example.shading[axis])
        )
        places = draw_places(inside, count, rng)
        drawn.append((_patches(log_image, places), shading.ravel()[places]))
    return drawn


def _mirror(
    patches: Float[ndarray, "drawn pixels"], targets: Float[ndarray, " drawn"], rng: np.random.Generator
) -> tuple[Float[ndarray, "drawn pixels"], Float[ndarray, " drawn"]]:
    """Turn half of the patches upside down, with the opposite gradient, and half of them left to right.

    Light from above in all training images would be learnt otherwise.
    """
    upside_down, left_right = rng.random((2, len(patches), 1, 1)) < 0.5
    images = patches.reshape(-1, 2 * _ALONG, 2 * _ACROSS + 1)
    images = np.where(upside_down, images[:, ::-1], images)
    images = np.where(left_right, images[:, :, ::-1], images)
    return images.reshape(patches.shape), np.where(upside_down.ravel(), -targets, targets)
