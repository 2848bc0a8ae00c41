"""Logarithms of images, their differences between neighbours, and means inside a mask."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

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
