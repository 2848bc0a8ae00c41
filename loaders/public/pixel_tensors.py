"""Turn sRGB pixels into tensors, scale masks to their image, and unite part masks into groups."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, UInt8
from numpy import ndarray
from PIL import Image

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import read_rgb8, to_tensor

PartGroups = Mapping[str, Sequence[str]]  # the parts of each group

SRGB8_TO_LINEAR = srgb_to_linear(np.arange(256) / 255).astype(np.float32)


def image_tensor(pixels: UInt8[ndarray, "height width channels"], linear: bool) -> Any:
    """Turn sRGB pixels into a tensor, channels first.

    Args:
        pixels: sRGB, 0..255.
        linear: decode the pixels.

    Returns:
        the uint8 pixels unchanged, or float32 scene-linear Rec.709 in [0, 1].

    Example:
        >>> image_tensor(np.full((1, 1, 3), 188, np.uint8), linear=True)[:, 0, 0]
        tensor([0.5029, 0.5029, 0.5029])
    """
    return to_tensor(SRGB8_TO_LINEAR[pixels] if linear else pixels)


def read_part_masks(
    files: Mapping[str, Path], source: str, size: tuple[int, int], groups: PartGroups | None
) -> dict[str, Any]:
    """Read the masks of an image's parts, or of groups of parts.

    Args:
        files: mask file of each visible part.
        source: where to get the data set, for messages.
        size: height and width of the image in pixels.
        groups: parts to unite under one name; parts outside all groups are left out. None keeps each part.

    Returns:
        bool tensors (height, width) by name, only for visible parts or groups.

    Raises:
        InputError: a mask cannot be read.
    """
    merged: dict[str, Sequence[str]] = {part: (part,) for part in files} if groups is None else dict(groups)
    shown = {name: [files[part] for part in parts if part in files] for name, parts in merged.items()}
    return {
        name: to_tensor(np.logical_or.reduce([read_mask(path, source, size) for path in paths]))
        for name, paths in shown.items()
        if paths
    }


def read_mask(path: Path, source: str, size: tuple[int, int]) -> Bool[ndarray, "height width"]:
    """Read a mask and scale it to the size of its image by the nearest pixel.

    Args:
        path: the mask, gray or RGB; only the first channel is read.
        source: where to get the data set, for messages.
        size: height and width in pixels.

    Returns:
        true for values above 127, half of the range.

    Raises:
        InputError: the file is missing or damaged.
    """
    mask = read_rgb8(path, source)[..., 0]
    if mask.shape != size:
        mask = np.asarray(Image.fromarray(mask).resize(size[::-1], Image.Resampling.NEAREST))
    return mask > 127


def check_groups(groups: PartGroups | None, parts: Sequence[str]) -> None:
    """Refuse groups that name unknown parts.

    Raises:
        InputError: a group names an unknown part.

    Example:
        >>> check_groups({"eyes": ["l_eye", "eye"]}, ["l_eye", "r_eye"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: groups: `eyes` has a part `eye`; expected parts among l_eye, \
r_eye
    """
    for name, members in (groups or {}).items():
        for part in members:
            if part not in parts:
                raise InputError(
                    f"groups: `{name}` has a part `{part}`; expected parts among {', '.join(parts)}"
                )
