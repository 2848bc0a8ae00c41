"""Images with masks of what they show, brought to one size: frames, and public data sets with parts."""

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from evaluation.models.ground_truth import decode_image
from loaders.errors import InputError
from loaders.samples import Sample

By = Literal["type", "part"]
Annotation = dict[str, Bool[Tensor, "height width"]]  # masks by name
Batch = tuple[Float[Tensor, "batch 3 height width"], list[Annotation]]


@runtime_checkable
class AnnotatedImages(Protocol):
    """Images with masks: any frames, `loaders.public.CUB70`, `loaders.public.CelebAMaskHQ`.

    A sample has ``id``, ``image`` (uint8 sRGB, or float scene-linear) and either the layers and objects of
    frames (read with ``objects=True``) or ``parts``, masks by name.
    """

    def __len__(self) -> int:
        """Count the images."""

    def __getitem__(self, row: int, /) -> Sample:
        """Read one image and its masks."""


def read_annotated(
    images: AnnotatedImages, rows: Sequence[int], by: By, size: tuple[int, int] | None, batch_size: int
) -> Iterator[Batch]:
    """Read images and their masks in batches.

    Args:
        images: what to read.
        rows: rows to read, in this order.
        by: what is a part, the type of an object or a part of one.
        size: height and width that images (in linear light, antialiased) and masks (nearest pixel) are
            brought to; None leaves them.
        batch_size: images per batch.

    Returns:
        Scene-linear images in [0, 1], and for each its masks by name.

    Raises:
        InputError: images of several sizes, or without the masks asked for.

    Example:
        >>> parts = {"head": torch.ones(4, 6, dtype=torch.bool)}
        >>> bird = {"id": "finch", "image": torch.zeros(3, 4, 6), "parts": parts}
        >>> [(images, masks)] = read_annotated([bird], [0], by="part", size=(2, 3), batch_size=16)
        >>> images.shape, masks[0]["head"].shape
        (torch.Size([1, 3, 2, 3]), torch.Size([2, 3]))
    """
    first: Sequence[int] = ()
    for start in tqdm(range(0, len(rows), batch_size), desc="heatmaps", unit="batch", disable=None):
        pixels, annotated = [], []
        for row in rows[start : start + batch_size]:
            sample = images[row]
            pixels.append(_resize_image(_linear(sample["image"]), size))
            masks = _annotation(sample, by)
            annotated.append({name: _resize_mask(mask, size) for name, mask in masks.items()})
            first = first or pixels[0].shape[1:]
            if pixels[-1].shape[1:] != first:
                sizes = [tuple(first), tuple(pixels[-1].shape[1:])]
                raise InputError(f"images have several sizes, {sizes}; give one `size` to resize them to")
        yield torch.stack(pixels), annotated


def _annotation(sample: Sample, by: By) -> Annotation:
    """Masks of an image by the type of its objects, or by the name of their parts."""
    if "parts" in sample:
        if by != "part":
            raise InputError(f"sample `{sample['id']}` has masks of parts alone; compare by part (--by part)")
        return dict(sample["parts"])
    for layer in ("object", "part") if by == "part" else ("object",):
        if layer not in sample:
            raise InputError(f"sample `{sample['id']}` has no `{layer}` layer; render the set with it")
    if "objects" not in sample:
        raise InputError(f"sample `{sample['id']}` has no objects; open the frames with `objects=True`")
    masks: Annotation = {}
    for instance, record in enumerate(sample["objects"], start=1):
        shown = sample["object"] == instance
        named = {record["type"]: shown}
        if by == "part":
            named = {part["name"]: shown & (sample["part"] == part["index"]) for part in record["parts"]}
        for name, mask in named.items():
            masks[name] = masks[name] | mask if name in masks else mask
    return masks


def _linear(image: UInt8[Tensor, "3 h w"] | Float[Tensor, "3 h w"]) -> Float[Tensor, "3 h w"]:
    return image if image.is_floating_point() else decode_image(image)


def _resize_image(image: Float[Tensor, "3 h w"], size: tuple[int, int] | None) -> Float[Tensor, "3 h2 w2"]:
    if size is None or tuple(image.shape[1:]) == size:
        return image
    return functional.interpolate(image[None], size, mode="bilinear", align_corners=False, antialias=True)[0]


def _resize_mask(mask: Bool[Tensor, "h w"], size: tuple[int, int] | None) -> Bool[Tensor, "h2 w2"]:
    if size is None or tuple(mask.shape) == size:
        return mask
    return functional.interpolate(mask[None, None].to(torch.uint8), size, mode="nearest-exact")[0, 0].bool()
