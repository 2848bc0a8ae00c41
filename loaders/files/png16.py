"""16-bit PNG read to the last bit: opened as usual, Pillow keeps the upper 8 bits of colour.

imagecodecs would read them as they are: 80 MB for 40 lines (see `loaders.public.radiance`).
"""

import zlib
from typing import Any

import numpy as np
from jaxtyping import UInt16
from numpy import ndarray

from loaders.files.image_files import open_image

_GRAY, _RGB = 0, 2  # PNG colour types
# First row and column, and steps between them, of the passes of an interlaced image (Adam7).
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def decode_png16(data: bytes) -> UInt16[ndarray, "height width *channels"]:
    """Decode the bytes of a PNG of 16 bits, gray or RGB; checksums are compared.

    Args:
        data: the bytes of the file.

    Returns:
        Values as they are stored, 0 to 65535: (H W 3) of RGB, (H W) of gray.

    Raises:
        ValueError: this is no such PNG, or it ends early. What `loaders.files.image_files.open_image` raises
            is passed on.

    Example:
        >>> from loaders.files.layer_codecs import encode_png
        >>> decode_png16(encode_png(np.array([[[1, 256, 65025]]], np.uint16)))
        array([[[    1,   256, 65025]]], dtype=uint16)
    """
    if not is_png16(data):
        raise ValueError("expected a PNG of 16 bits, got something else")
    colour = data[25]
    if colour not in (_GRAY, _RGB):
        raise ValueError(f"expected a PNG of gray or RGB, got PNG colour type {colour}")
    with open_image(data, ("PNG",)) as image:
        _check_length(data, *image.size, 6 if colour == _RGB else 2)
        if colour == _GRAY:
            return np.asarray(image).astype(np.uint16)
    upper, lower = (_plane(data, mode) for mode in ("RGB;16B", "RGB;16L"))
    return upper << 8 | lower


def is_png16(data: bytes) -> bool:
    """Whether bytes start as a PNG of 16 bits does.

    Example:
        >>> is_png16(b"no PNG at all")
        False
    """
    return data[:8] == b"\x89PNG\r\n\x1a\n" and data[24:25] == b"\x10"


def _check_length(data: bytes, width: int, height: int, pixel: int) -> None:
    """Check that there are pixels for all rows: Pillow leaves those black that the file lacks."""
    passes = _PASSES if data[28] else ((0, 0, 1, 1),)
    sizes = [(len(range(y, height, dy)), len(range(x, width, dx))) for y, x, dy, dx in passes]
    expected = sum(rows * (1 + columns * pixel) for rows, columns in sizes if columns)
    at, parts = 8, []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            parts.append(data[at + 8 : at + 8 + length])
        at += 12 + length
    found = len(zlib.decompressobj().decompress(b"".join(parts), expected + 1))
    if found != expected:
        raise ValueError(f"expected {expected} bytes of pixels, got {found if found < expected else 'more'}")


def _plane(data: bytes, raw_mode: str) -> UInt16[ndarray, "height width 3"]:
    # A raw mode tells Pillow's decoder which bytes to keep. The PNG's own, RGB;16B, takes the first of each
    # two; RGB;16L, meant for numbers that begin with their lower byte, takes the second.
    with open_image(data, ("PNG",)) as image:
        opened: Any = image
        (codec, box, offset, _) = opened.tile[0]
        opened.tile = [(codec, box, offset, raw_mode)]
        return np.asarray(image).astype(np.uint16)
