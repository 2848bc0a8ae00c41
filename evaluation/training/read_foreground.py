"""Read the foreground of images: masks of their objects, or the boxes of these."""

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.coverage.masks import resize_images
from candlelight.evaluation.training.foreground import box_masks, mask_boxes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bar import progress_bar
from candlelight.loaders.views import PartImage, open_factors, open_parts, parse_data

ForegroundKind = Literal["mask", "box"]


def read_foreground(
    data: Any, kind: ForegroundKind, size: int | None = None, **choice: Any
) -> Float[Tensor, "rows height width"]:
    """Read the foreground of each row, for `train_causal`.

    Args:
        data: frames or a pack with the layer `object`, or candle:PATH, which has boxes alone.
        kind: "mask" for the visible pixels of all objects; "box" for their bounding box, which is the box of
            the metadata if there is one object.
        size: side of the squares to which masks are resized, as images are; None keeps them.
        choice: set, split, rows and limit as for `candlelight.loaders.views.open_factors`.

    Returns:
        Share of each pixel that is foreground, in [0, 1].

    Raises:
        InputError: the data cannot be read or have no such foreground, or the images have several sizes.
    """
    check_choice("kind", kind, ForegroundKind)
    read = _candle_boxes if parse_data(data).layout == "candle" else _object_masks
    masks = []
    for mask in read(data, kind, choice):
        one = mask.float()
        if size is not None:
            one = resize_images(one[None, None], (size, size))[0, 0]
        masks.append(one)
    if len(sizes := sorted({tuple(mask.shape) for mask in masks})) > 1:
        raise InputError(f"expected images of one size, got {sizes[0]} and {sizes[1]}; resize them (--size)")
    return torch.stack(masks)


def _candle_boxes(data: Any, kind: ForegroundKind, choice: dict[str, Any]) -> Any:
    if kind == "mask":
        raise InputError(f"{data}: `candle` has no masks; take its boxes (--foreground box)")
    view = open_factors(data, **choice)
    for number in progress_bar(view.named.numbers, desc="boxes", unit="row"):
        sample = view.named.reader[number]
        yield box_masks(sample["bbox"][None], *sample["image"].shape[1:])[0]


def _object_masks(data: Any, kind: ForegroundKind, choice: dict[str, Any]) -> Any:
    view = open_parts(data, **choice)
    for row in progress_bar(range(len(view)), desc="masks", unit="row"):
        mask = _union(view[row])
        yield mask if kind == "mask" else box_masks(mask_boxes(mask[None]), *mask.shape)[0]


def _union(item: PartImage) -> Bool[Tensor, "height width"]:
    empty = torch.zeros(item.image.shape[1:], dtype=torch.bool)
    return torch.stack([empty, *item.masks.values()]).any(0)
