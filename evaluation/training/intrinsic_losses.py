"""Losses of intrinsic image networks: with the truth, with several lights, and with examples of the parts."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.intrinsic.ground_truth import GroundTruth

# Added before the logarithm, because darker values of an 8-bit image are quantised too coarsely.
EPSILON = 0.01


def log_image(image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Compute ``log(image + EPSILON)`` of a scene-linear image.

    Example:
        >>> log_image(torch.tensor([0.99]))
        tensor([0.])
    """
    return (image + EPSILON).log()


def pixel_steps(
    image: Float[Tensor, "batch channels height width"],
) -> tuple[Float[Tensor, "batch channels height columns"], Float[Tensor, "batch channels rows width"]]:
    """Subtract each pixel from its right and from its lower neighbour."""
    return image.diff(dim=3), image.diff(dim=2)


def masked_pairs(
    mask: Bool[Tensor, "batch height width"],
) -> tuple[Bool[Tensor, "batch height columns"], Bool[Tensor, "batch rows width"]]:
    """Find the neighbours of `pixel_steps` that are both inside the mask."""
    return mask[..., 1:] & mask[..., :-1], mask[:, 1:] & mask[:, :-1]


def masked_means(
    values: Float[Tensor, "batch channels height width"], mask: Bool[Tensor, "batch height width"]
) -> Float[Tensor, " batch"]:
    """Compute the mean of each image over the pixels of its mask and its channels; 0 for an empty mask.

    Example:
        >>> masked_means(torch.tensor([[[[1.0, 3.0, 9.0]]]]), torch.tensor([[[True, True, False]]]))
        tensor([2.])
    """
    inside = torch.where(mask.unsqueeze(1), values, 0.0).flatten(1).sum(1)
    return inside / (values.shape[1] * mask.flatten(1).sum(1).clamp(min=1))


def mean_difference(
    image: Float[Tensor, "batch channels height width"], mask: Bool[Tensor, "batch height width"]
) -> Float[Tensor, " batch"]:
    """Add the mean absolute differences to the right and to the lower neighbour inside the mask.

    Example:
        >>> mean_difference(torch.tensor([[[[1.0, 3.0, 9.0]]]]), torch.tensor([[[True, True, False]]]))
        tensor([2.])
    """
    right, down = (
        masked_means(step.abs(), pairs)
        for step, pairs in zip(pixel_steps(image), masked_pairs(mask), strict=True)
    )
    return right + down


def reconstruction_error(
    reflectance: Float[Tensor, "batch 3 height width"],
    shading: Float[Tensor, "batch 3 height width"],
    image: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Compute the mean absolute log error of reflectance times shading against the image inside the mask.

    Example:
        >>> half, whole = torch.full((1, 3, 2, 2), 0.5), torch.ones(1, 3, 2, 2)
        >>> reconstruction_error(half, whole, half, torch.ones(1, 2, 2).bool())
        tensor([0.])
    """
    return masked_means((log_image(reflectance * shading) - log_image(image)).abs(), mask)


def intrinsic_loss(
    prediction: Float[Tensor, "batch 3 height width"],
    target: Float[Tensor, "batch 3 height width"],
    mask: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Compute the training loss of one output: a half scale-invariant log error and a gradient error.

    ``mean(d^2) - mean(d)^2 / 2 + mean(|d_x|) + mean(|d_y|)`` with ``d = log(p + 0.01) - log(t + 0.01)`` and
    its differences d_x, d_y between neighbours. The first two terms are the scale-invariant loss of Eigen et
    al. 2014, eq. 4; the absolute gradient term keeps edges sharp.

    Args:
        prediction: predicted reflectance or shading, scene-linear, >= 0.
        target: ground truth, scene-linear, >= 0.
        mask: pixels that are scored.

    Returns:
        One loss per sample, >= 0, lower is better, differentiable; 0 for an empty mask.

    Example:
        >>> import torch
        >>> image = torch.rand(1, 3, 4, 4)
        >>> intrinsic_loss(image, image, torch.ones(1, 4, 4, dtype=torch.bool))
        tensor([0.])
    """
    error = log_image(prediction) - log_image(target)
    square, mean = masked_means(error.square(), mask), masked_means(error, mask)
    return square - mean.square() / 2 + mean_difference(error, mask)


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


# Weights of the terms of `style_content_loss`, beside that of the reconstruction.
_STYLE, _CONTENT = 1.0, 1.0
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
