"""16-bit PNG, which Pillow writes in gray alone: the bytes are a function of the array."""

import struct
import zlib

import numpy as np
from jaxtyping import UInt16
from numpy import ndarray

_GRAY, _RGB = 0, 2  # PNG colour types
_ABOVE = 2  # filter type: each byte is stored as its difference from the one above


def encode_png16(array: UInt16[ndarray, "height width ..."]) -> bytes:
    r"""Encode 16-bit pixels as PNG (W3C, Portable Network Graphics, third edition).

    Args:
        array: uint16 pixels, (H W 3) for RGB or (H W) for gray.

    Returns:
        The file's bytes. No colour space is written, as in the MIT files: their values are linear.

    Example:
        >>> encode_png16(np.zeros((2, 3), np.uint16))[12:26]  # 3 x 2 pixels of 16 bits, colour type 0
        b'IHDR\x00\x00\x00\x03\x00\x00\x00\x02\x10\x00'
    """
    height, width = array.shape[:2]
    rows = np.ascontiguousarray(array, ">u2").view(np.uint8).reshape(height, -1)
    differences = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))  # modulo 256
    filtered = np.insert(differences, 0, _ABOVE, axis=1)
    head = struct.pack(">IIBBBBB", width, height, 16, _RGB if array.ndim == 3 else _GRAY, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(filtered.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
