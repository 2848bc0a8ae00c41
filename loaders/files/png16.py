"""Decode 16-bit PNG with all bits: Pillow alone keeps the upper 8 bits of colour.

The package imagecodecs decodes them too, but takes 80 MB (see `candlelight.loaders.public.radiance`).
"""

import zlib
from typing import Any

import numpy as np
from jaxtyping import UInt16
from numpy import ndarray

from candlelight.loaders.files.safe_decoding import open_image

_GRAY, _RGB = 0, 2  # PNG colour types
# First row and column, and steps between them, of the passes of an interlaced image (Adam7).
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def decode_png16(data: bytes) -> UInt16[ndarray, "height width *channels"]:
    """Decode the bytes of a 16-bit PNG, gray or RGB; checksums are verified.

    Args:
        data: the bytes of the file.

    Returns:
        The stored values, 0 to 65535: (H W 3) for RGB, (H W) for gray.

    Raises:
        ValueError: the data are not a 16-bit PNG, gray or RGB, or end early. Errors of
            `candlelight.loaders.files.safe_decoding.open_image` are passed on.

    Example:
        >>> from candlelight.loaders.files.layer_codecs import encode_png
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
    """Tell whether bytes start like a 16-bit PNG.

    Example:
        >>> is_png16(b"no PNG at all")
        False
    """
    return data[:8] == b"\x89PNG\r\n\x1a\n" and data[24:25] == b"\x10"


def _check_length(data: bytes, width: int, height: int, pixel: int) -> None:
    """Refuse a file with too few or too many pixels: Pillow would fill missing pixels with black."""
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
    # A raw mode tells Pillow's decoder which byte of each two to keep: RGB;16B (big-endian) the first,
    # RGB;16L (little-endian) the second.
    with open_image(data, ("PNG",)) as image:
        opened: Any = image
        (codec, box, offset, _) = opened.tile[0]
        opened.tile = [(codec, box, offset, raw_mode)]
        return np.asarray(image).astype(np.uint16)
