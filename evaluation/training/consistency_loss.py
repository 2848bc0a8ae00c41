"""The loss of multi-illumination consistency: one reflectance under all lights, and smooth shading."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from candlelight.evaluation.training.log_images import (
    log_image,
    masked_means,
    masked_pairs,
    mean_difference,
    pixel_steps,
    reconstruction_error,
)

# Weights of the terms. With these, the truth of rendered scenes has a lower loss than a constant reflectance,
# a constant shading, and the median image over the lights.
_RECONSTRUCTION, _CONSISTENCY, _SHADING, _SHADING_CHROMA, _REFLECTANCE = 2.0, 1.0, 1.0, 5.0, 1.0
# Difference of log chroma between neighbours above which their reflectances may differ.
_SAME_CHROMA = 0.03


def consistency_loss(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
    scenes: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """Compute a loss that needs images of scenes under several lights, but no ground truth.

    The sum of five mean absolute values: the log error of reflectance x shading against the image; the
    difference of log reflectance from its mean over the lights of the scene; the differences of gray
    log (image / reflectance) between neighbours; those of its chroma; and those of log reflectance between
    neighbours of equal chroma. For one reflectance of a scene the third term has its minimum where gradients
    of log reflectance are the medians of those of the log images over the lights, the estimator of Weiss
    2001. The terms are those of Li and Snavely, Learning Intrinsic Image Decomposition from Watching the
    World, CVPR 2018, in the simplest form.

    Args:
        reflectance: predicted, scene-linear, >= 0.
        shading: predicted, scene-linear, >= 0.
        image: scene-linear.
        mask: pixels that count.
        scenes: number of the scene of each image; images of one scene differ in the light alone.

    Returns:
        The loss, >= 0, lower is better, differentiable.

    Example:
        >>> gray = torch.full((2, 3, 4, 4), 0.5)
        >>> everywhere = torch.ones(2, 4, 4, dtype=torch.bool)
        >>> consistency_loss(gray, torch.ones_like(gray), gray, everywhere, torch.tensor([7, 7]))
        tensor(0.)
    """
    log_reflectance, log_pixels = log_image(reflectance), log_image(image)
    left = log_pixels - log_reflectance
    gray_left = left.mean(1, keepdim=True)
    together = scene_means(log_reflectance, scenes)
    errors = (
        _RECONSTRUCTION * reconstruction_error(reflectance, shading, image, mask)
        + _CONSISTENCY * masked_means((log_reflectance - together).abs(), mask)
        + _SHADING * mean_difference(gray_left, mask)
        + _SHADING_CHROMA * mean_difference(left - gray_left, mask)
        + _REFLECTANCE * _steps_in_equal_chroma(log_reflectance, log_pixels, mask, scenes)
    )
    return errors.mean()


def scene_means(
    values: Float[Tensor, "batch channels height width"], scenes: Int[Tensor, " batch"]
) -> Float[Tensor, "batch channels height width"]:
    """Replace the values of each image by their mean over the images of its scene.

    Example:
        >>> values = torch.tensor([1.0, 3.0, 8.0]).reshape(3, 1, 1, 1)
        >>> scene_means(values, torch.tensor([4, 4, 0])).flatten()
        tensor([2., 2., 8.])
    """
    same = (scenes[:, None] == scenes).to(values)
    return torch.einsum("ij,jchw->ichw", same / same.sum(1, keepdim=True), values)


def _steps_in_equal_chroma(
    log_reflectance: Tensor, log_pixels: Tensor, mask: Tensor, scenes: Tensor
) -> Tensor:
    """Measure differences of reflectance where the mean chroma over the lights has no edge."""
    chroma = scene_means(log_pixels - log_pixels.mean(1, keepdim=True), scenes)
    total = log_reflectance.new_zeros(len(mask))
    for step, edge, pairs in zip(
        pixel_steps(log_reflectance), pixel_steps(chroma), masked_pairs(mask), strict=True
    ):
        same = torch.exp(-edge.square().sum(1, keepdim=True) / (2 * _SAME_CHROMA**2))
        total = total + masked_means(same * step.abs(), pairs)
    return total
