"""Check and resize images and the masks of their parts."""

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from candlelight.loaders.errors import InputError
from candlelight.loaders.views import PartImage


def check_masks(ids: Sequence[str], items: Sequence[PartImage]) -> None:
    """Refuse masks that are not boolean or not as large as their image.

    Raises:
        InputError: a mask has another dtype or size; the message names the image and the part.
    """
    for name, item in zip(ids, items, strict=True):
        for part, mask in item.masks.items():
            if mask.dtype != torch.bool or mask.shape != item.image.shape[1:]:
                raise InputError(
                    f"`{name}`, part `{part}`: expected a mask bool {list(item.image.shape[1:])}, got "
                    f"{str(mask.dtype).removeprefix('torch.')} {list(mask.shape)}"
                )


def part_names(part_of: Sequence[str] | None, annotated: Sequence[Collection[str]]) -> tuple[str, ...]:
    """Check the names of the parts to score.

    Args:
        part_of: names of the parts; None for all parts in the images, sorted.
        annotated: for each image, the names of its masks.

    Raises:
        InputError: there is no part, or no image shows a named part.
    """
    shown = {name for masks in annotated for name in masks}
    parts = tuple(sorted(shown)) if part_of is None else tuple(part_of)
    if not parts or not shown.issuperset(parts):
        raise InputError(
            f"`part_of` must name parts that the images show, got {list(parts)}; "
            f"expected some of: {', '.join(sorted(shown)) or 'none, the images show no parts'}"
        )
    return parts


def resize_images(images: Tensor, size: tuple[int, int] | None) -> Float[Tensor, "batch channels h w"]:
    """Resize linear images with an antialiasing filter; None does not resize."""
    if size is None or tuple(images.shape[2:]) == size:
        return images
    return functional.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)


def resize_mask(mask: Bool[Tensor, "h w"], size: tuple[int, int] | None) -> Bool[Tensor, "h2 w2"]:
    """Resize a mask by the nearest pixel; None does not resize."""
    if size is None or tuple(mask.shape) == size:
        return mask
    return functional.interpolate(mask[None, None].to(torch.uint8), size, mode="nearest-exact")[0, 0].bool()
