"""The loss without supervision: parts in the style of reflectances and of shadings, content of the image."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.inputs.ground_truth import GroundTruth
from candlelight.evaluation.training.log_images import (
    log_image,
    masked_means,
    masked_pairs,
    pixel_steps,
    reconstruction_error,
)

_RECONSTRUCTION, _STYLE, _CONTENT = 2.0, 1.0, 1.0
_PATCH, _LEVELS, _DIRECTIONS, _SAMPLES = 5, 3, 8, 2048


def style_content_loss(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
    others: GroundTruth,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Compute a loss that needs reflectances and shadings of other scenes, but no truth of these images.

    The sum of the log error of reflectance x shading against the image; `style_distance` of each part from
    the reflectances or shadings of other scenes; and `content_error` of each part against the image. Like
    Liu et al., Unsupervised Learning for Intrinsic Image Decomposition from a Single Image, CVPR 2020
    (USI3D), it learns from unpaired collections of the parts; a distance of patches takes the place of their
    adversarial networks, so that training is stable and short.

    Args:
        reflectance: predicted, scene-linear, >= 0.
        shading: predicted, scene-linear, >= 0.
        image: scene-linear.
        mask: pixels that count.
        others: other scenes; their images are not used.
        generator: source of the random directions and patches of `style_distance`, on the CPU.

    Returns:
        The loss, >= 0, lower is better, differentiable.

    Example:
        >>> half, whole = torch.full((1, 3, 8, 8), 0.5), torch.ones(1, 3, 8, 8)
        >>> mask = torch.ones(1, 8, 8, dtype=torch.bool)
        >>> others, draws = GroundTruth(half, half, whole, mask), torch.Generator().manual_seed(0)
        >>> style_content_loss(half, whole, half, mask, others, draws)
        tensor(0.)
    """
    errors = _RECONSTRUCTION * reconstruction_error(reflectance, shading, image, mask)
    style = reflectance.new_zeros(())
    for part, other in ((reflectance, others.reflectance), (shading, others.shading.expand_as(shading))):
        style = style + style_distance(part, mask, other, others.mask, generator)
        errors = errors + _CONTENT * content_error(part, image, mask)
    return errors.mean() + _STYLE * style


def style_distance(
    images: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
    others: Float[Tensor, "others 3 rows columns"],
    others_mask: Bool[Tensor, "others rows columns"],
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Estimate the sliced Wasserstein distance between the patches of two collections of images.

    Patches of 5 x 5 pixels of log images at three scales are projected on random directions; the distance is
    the mean absolute difference of the sorted projections (Heitz et al., A Sliced Wasserstein Loss for Neural
    Texture Synthesis, CVPR 2021, eq. 5, with patches in place of features). It does not depend on the order
    of the images or on the places of patches.

    Args:
        images: scene-linear, >= 0.
        mask: pixels that count; a patch counts if all of its pixels do.
        others: scene-linear, >= 0.
        others_mask: pixels of ``others`` that count.
        generator: source of the directions and patches, on the CPU.

    Returns:
        The distance in units of the logarithm, >= 0, differentiable; scales at which one of the collections
        has no patch are left out.

    Example:
        >>> image, mask = torch.rand(2, 3, 16, 16), torch.ones(2, 16, 16, dtype=torch.bool)
        >>> draws = torch.Generator().manual_seed(0)
        >>> bool(style_distance(image, mask, image.flip(0), mask, draws) < 0.2)
        True
    """
    sides = [(log_image(images), mask), (log_image(others), others_mask)]
    total = images.new_zeros(())
    for _ in range(_LEVELS):
        if min(side for _, inside in sides for side in inside.shape[1:]) < _PATCH:
            break
        directions = torch.randn(_DIRECTIONS, 3, _PATCH, _PATCH, generator=generator).to(images)
        directions = directions / directions.flatten(1).norm(dim=1)[:, None, None, None]
        given, wanted = (_projections(*side, directions, generator) for side in sides)
        if given is not None and wanted is not None:
            total = total + (given - wanted).abs().mean()
        sides = [_half(*side) for side in sides]
    return total / _LEVELS


def content_error(
    part: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Measure edges of a part that the image does not have: each log difference beyond that of the image.

    Args:
        part: predicted reflectance or shading, scene-linear, >= 0.
        image: scene-linear.
        mask: pixels that count.

    Returns:
        Mean excess over both directions; 0 if every edge of the part is one of the image, at least as strong.

    Example:
        >>> image = torch.rand(1, 3, 4, 4)
        >>> content_error(image.sqrt() - 0.01, image - 0.01, torch.ones(1, 4, 4, dtype=torch.bool))
        tensor([0.])
    """
    total = image.new_zeros(len(image))
    for step, allowed, pairs in zip(
        pixel_steps(log_image(part)), pixel_steps(log_image(image)), masked_pairs(mask), strict=True
    ):
        total = total + masked_means(functional.relu(step.abs() - allowed.abs()), pairs)
    return total


def _projections(
    image: Tensor, mask: Tensor, directions: Tensor, generator: torch.Generator
) -> Tensor | None:
    """Draw patches, project them on the directions and sort each projection; None without patches."""
    whole = functional.max_pool2d((~mask).float()[:, None], _PATCH, stride=1) == 0
    places = whole.flatten().nonzero()[:, 0]
    if not len(places):
        return None
    drawn = torch.randint(len(places), (_SAMPLES,), generator=generator).to(places.device)
    projected = functional.conv2d(image, directions).transpose(0, 1).flatten(1)
    return projected[:, places[drawn]].sort(1).values


def _half(image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Average blocks of 2 x 2 pixels; a block counts if all of its pixels do."""
    return functional.avg_pool2d(image, 2), functional.max_pool2d((~mask).float()[:, None], 2)[:, 0] == 0
