"""Read images and masks of public data sets in all their formats, without trusting them, and make tensors."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, UInt8
from numpy import ndarray
from PIL import Image

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError, blaming
from candlelight.loaders.files.png16 import decode_png16, is_png16
from candlelight.loaders.files.safe_decoding import open_image
from candlelight.loaders.public.exr import read_exr
from candlelight.loaders.public.public_files import PublicSource
from candlelight.loaders.public.radiance import decode_radiance

PartGroups = Mapping[str, Sequence[str]]  # the parts of each group

SRGB8_TO_LINEAR = srgb_to_linear(np.arange(256) / 255).astype(np.float32)
_FORMATS = ("PNG", "JPEG", "BMP")  # not TIFF: of 16 bits Pillow would keep the upper 8 without a warning


def read_rgb8(path: Path, source: PublicSource) -> UInt8[ndarray, "height width 3"]:
    """Read the stored pixels of an 8-bit PNG, JPEG or BMP; gray fills all channels, alpha is left out.

    Neither an EXIF rotation nor a colour profile is applied.

    Args:
        path: the file.
        source: where to get the data set, for messages.

    Raises:
        InputError: the file is missing, damaged, of another kind or of more bits, or claims more than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    return _decoded(path, source, _rgb)


def read_linear(path: Path, source: PublicSource) -> Float32[ndarray, "height width 3"]:
    """Read an image whose values are proportional to light: EXR, Radiance, or PNG and JPEG without a curve.

    Args:
        path: the file; its suffix tells its format.
        source: where to get the data set, for messages.

    Returns:
        EXR and Radiance values unchanged; PNG and JPEG values over 255 or, with 16 bits, over 65535. Gray
        fills all three channels.

    Raises:
        InputError: the file is missing, damaged, of another kind, or claims more than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    kind = path.suffix.lower()
    if kind == ".exr":
        return read_exr(path, source)
    return _decoded(path, source, decode_radiance if kind == ".hdr" else _without_curve)


def read_png16(path: Path, source: PublicSource) -> Float32[ndarray, "height width *channels"]:
    """Read a 16-bit PNG as values over 65535, in [0, 1]: (H W 3) for RGB, (H W) for gray.

    Args:
        path: the file.
        source: where to get the data set, for messages.

    Raises:
        InputError: the file is missing, damaged, of another kind, or claims more than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    return _decoded(path, source, decode_png16).astype(np.float32) / np.float32(65535)


def read_indices(path: Path, source: PublicSource) -> UInt8[ndarray, "height width"]:
    """Read an 8-bit PNG with one channel: gray values, or the indices of a palette.

    Args:
        path: the file.
        source: where to get the data set, for messages.

    Raises:
        InputError: the file is missing, damaged, has several channels or more bits, or claims more than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    return _decoded(path, source, _one_channel)


def to_tensor(image: ndarray) -> Any:
    """Copy an array to a tensor; with three axes, the channels move from the last axis to the first.

    Example:
        >>> to_tensor(np.zeros((2, 4, 3), np.float32)).shape
        torch.Size([3, 2, 4])
    """
    import torch  # not at the top, because importing the readers must not import torch

    return torch.from_numpy(np.array(np.moveaxis(image, 2, 0) if image.ndim == 3 else image, order="C"))


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


def same_size(images: dict[str, ndarray], where: str) -> None:
    """Check that all images of a sample have the same height and width.

    Args:
        images: arrays by name, height and width first.
        where: the sample, for the message.

    Raises:
        InputError: an image differs in size from the first; the message names both.

    Example:
        >>> same_size({"image": np.zeros((2, 4, 3)), "mask": np.zeros((2, 5))}, "cup")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: cup: expected images of one size, got `image` 2 x 4 and \
`mask` 2 x 5
    """
    first, *others = images
    for name in others:
        one, other = images[first].shape, images[name].shape
        if one[:2] != other[:2]:
            raise InputError(
                f"{where}: expected images of one size, got `{first}` {one[0]} x {one[1]} and `{name}` "
                f"{other[0]} x {other[1]}"
            )


def read_part_masks(
    files: Mapping[str, Path], source: PublicSource, size: tuple[int, int], groups: PartGroups | None
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


def read_mask(path: Path, source: PublicSource, size: tuple[int, int]) -> Bool[ndarray, "height width"]:
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


def _decoded(path: Path, source: PublicSource, decode: Callable[[bytes], ndarray]) -> ndarray:
    source.require(path)
    with blaming(f"{path}: cannot be read as an image", f"get it again from {source}"):
        return decode(path.read_bytes())


def _without_curve(data: bytes) -> Float32[ndarray, "height width 3"]:
    if not is_png16(data):
        return _rgb(data).astype(np.float32) / np.float32(255)
    image = decode_png16(data).astype(np.float32) / np.float32(65535)
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)


def _rgb(data: bytes) -> UInt8[ndarray, "height width 3"]:
    if is_png16(data):
        raise ValueError("expected 8 bits a channel, got 16")  # Pillow would keep the upper 8
    with open_image(data, _FORMATS) as image:
        _check_mode(image, ("1", "L", "LA", "P", "PA", "RGB", "RGBA"))
        # Pillow warns if a transparent palette is converted to RGB directly.
        return np.array((image.convert("RGBA") if image.mode in ("P", "PA") else image).convert("RGB"))


def _one_channel(data: bytes) -> UInt8[ndarray, "height width"]:
    with open_image(data, _FORMATS) as image:
        _check_mode(image, ("1", "L", "P"))
        return np.array(image, np.uint8)


def _check_mode(image: Image.Image, modes: tuple[str, ...]) -> None:
    if image.mode not in modes:
        raise ValueError(f"expected 8 bits a pixel as {', '.join(modes)}, got {image.mode}")
