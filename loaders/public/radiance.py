"""Decode Radiance images (``.hdr``, RGBE): three bytes of colour with one common exponent per pixel.

Neither Pillow nor OpenEXR reads this format. The package imagecodecs reads it, but it takes 80 MB, and its
releases need a newer Python and numpy than Blender.
"""

import math
import re

import numpy as np
from jaxtyping import Float32, UInt8
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_decoding import MAX_PIXELS

_SIZE = re.compile(rb"-Y (\d{1,6}) \+X (\d{1,6})")


def decode_radiance(data: bytes) -> Float32[ndarray, "height width 3"]:
    r"""Decode a Radiance image, flat or run-length encoded by scanline (Ward, Real Pixels, 1991).

    A channel is ``m 2^(e - 136)`` for its byte m and the exponent e, and 0 if e is 0; no half step is added.
    The result is divided by the header's ``EXPOSURE`` values.

    Args:
        data: the bytes of the file, rows from top to bottom.

    Returns:
        Scene-linear RGB.

    Raises:
        InputError: the data are not an RGBE image, end early, or claim more than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.

    Example:
        >>> head = b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 1 +X 2\n"
        >>> decode_radiance(head + bytes([128, 64, 0, 129, 9, 9, 9, 0])).tolist()
        [[[1.0, 0.5, 0.0], [0.0, 0.0, 0.0]]]
    """
    height, width, exposure, start = _head(data)
    if width < 8 or width > 32767 or data[start : start + 2] != b"\x02\x02":
        flat = data[start : start + 4 * height * width]
        if len(flat) < 4 * height * width:
            raise InputError("Radiance image: it ends early")
        pixels = np.frombuffer(flat, np.uint8).reshape(height, width, 4)
    else:
        pixels = _runs(data, start, height, width)
    scale = np.ldexp(1.0, pixels[..., 3:].astype(np.int32) - 136) * (pixels[..., 3:] > 0) / exposure
    return (pixels[..., :3] * scale).astype(np.float32)


def _head(data: bytes) -> tuple[int, int, float, int]:
    """Read height, width, the product of all exposures, and the start of the pixels."""
    blank = data.find(b"\n\n")
    end = data.find(b"\n", blank + 2)
    if not data.startswith(b"#?") or min(blank, end) < 0:
        raise InputError("Radiance image: expected a header that begins with #?, got something else")
    if b"FORMAT=32-bit_rle_rgbe" not in data[:blank]:
        raise InputError("Radiance image: expected FORMAT=32-bit_rle_rgbe, got another format")
    size = _SIZE.fullmatch(data[blank + 2 : end].strip())
    if size is None:
        raise InputError("Radiance image: expected its size as -Y HEIGHT +X WIDTH, got another order")
    height, width = int(size[1]), int(size[2])
    if not 0 < height * width <= MAX_PIXELS:
        raise InputError(f"Radiance image: expected at most {MAX_PIXELS} pixels, got {height} x {width}")
    return height, width, _exposure(data[:blank].split(b"\n")), end + 1


def _exposure(lines: list[bytes]) -> float:
    """Multiply all exposures of a header."""
    try:
        values = [float(line[9:]) for line in lines if line.startswith(b"EXPOSURE=")]
    except ValueError:
        values = [0.0]
    if not 0 < math.prod(values) < math.inf:
        raise InputError("Radiance image: expected positive numbers as exposures, got another")
    return math.prod(values)


def _runs(data: bytes, at: int, height: int, width: int) -> UInt8[ndarray, "height width 4"]:
    """Expand scanlines: each begins with 2, 2 and its width; its four channels follow one by one."""
    pixels = np.empty((height, width, 4), np.uint8)
    line = bytearray()
    for row in pixels:
        if data[at : at + 4] != bytes([2, 2, width >> 8, width & 255]):
            raise InputError("Radiance image: a scanline is damaged")
        at += 4
        line.clear()
        while len(line) < 4 * width:
            count = data[at] if at < len(data) else 0
            length = count - 128 if count > 128 else count
            used = 1 if count > 128 else count
            run = data[at + 1 : at + 1 + used]
            # A run must end within its channel.
            if len(run) < used or length == 0 or len(line) % width + length > width:
                raise InputError("Radiance image: a scanline is damaged")
            line += run * length if count > 128 else run
            at += 1 + used
        row[:] = np.frombuffer(bytes(line), np.uint8).reshape(4, width).T
    return pixels
