"""Decoding of 16-bit PNG files written from the standard, with every filter, plain and interlaced."""

import struct
import zlib

import numpy as np
import pytest

from candlelight.loaders.errors import blaming
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.files.png16 import decode_png16, is_png16
from tests.refusals import refused

COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def paeth(a, b, c):
    distances = [abs(b - c), abs(a - c), abs(a + b - 2 * c)]
    return (a, b, c)[distances.index(min(distances))]


def filtered(array, kinds):
    """Filter the rows of (height, width, channels), one byte after the other."""
    rows = array.astype(">u2").view(np.uint8).reshape(len(array), -1).tolist()
    pixel, above, out = 2 * array.shape[2], [0] * len(rows[0]), b""
    for row, kind in zip(rows, kinds, strict=True):
        line = []
        for x, value in enumerate(row):
            a, c = (row[x - pixel], above[x - pixel]) if x >= pixel else (0, 0)
            b = above[x]
            line.append((value - (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) % 256)
        out, above = out + bytes([kind, *line]), row
    return out


def png(array, kinds=None, interlaced=False, size=None, depth=16, colour=None):
    planes = array if array.ndim == 3 else array[..., None]
    kinds = kinds or [0] * len(planes)
    parts = [planes[y::dy, x::dx] for y, x, dy, dx in ADAM7] if interlaced else [planes]
    data = zlib.compress(b"".join(filtered(part, kinds[: len(part)]) for part in parts if part.size))
    height, width = size or planes.shape[:2]
    colour = COLOUR_TYPES[planes.shape[2]] if colour is None else colour
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    half = len(data) // 2  # the standard allows any number of IDAT chunks
    body = chunk(b"IDAT", data[:half]) + chunk(b"IDAT", data[half:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body + chunk(b"IEND", b"")


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 65536, shape, np.uint16)


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (1, 1, 3), (7, 5, 3), (10, 9, 3)], ids=str)
@pytest.mark.parametrize("interlaced", [False, True], ids=["plain", "interlaced"])
def test_every_filter_is_undone(shape, interlaced):
    array = noise(*shape)
    for kinds in ([kind] * shape[0] for kind in range(5)):
        read = decode_png16(png(array, kinds, interlaced))
        assert read.dtype == np.uint16
        np.testing.assert_array_equal(read, array)
    mixed = [row % 5 for row in range(shape[0])]
    np.testing.assert_array_equal(decode_png16(png(array, mixed, interlaced)), array)


def test_every_value_survives():
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    for array in (values, np.stack([values, values[::-1], values.T], axis=-1)):
        decoded = decode_png16(encode_png(array))
        np.testing.assert_array_equal(decoded, array)
        assert decoded.flags.writeable


def test_is_png16_accepts_only_16_bit_png():
    assert is_png16(png(noise(2, 2)))
    assert not is_png16(png(noise(2, 2), depth=8))
    assert not is_png16(b"\x89PNG")


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a PNG of 16 bits, got something else"),
        (png(noise(2, 2, 3), depth=8), "expected a PNG of 16 bits, got something else"),
        (png(noise(2, 2, 4)), "expected a PNG of gray or RGB, got PNG colour type 6"),
        (png(noise(2, 2, 3), size=(65535, 65535)), "it claims more than"),
        *(
            (data, "damaged PNG")
            for data in (
                *(png(noise(2, 2)).replace(b"IHDR", b"HEAD"), png(noise(2, 2, 3), size=(0, 2))),
                *(png(noise(9, 9, 3))[:-40], png(noise(9, 9))[:-40], png(noise(9, 9, 3), size=(10, 9))),
            )
        ),
    ],
)
def test_invalid_files_are_refused(data, message):
    with refused(message), blaming("damaged PNG", "get it again"):
        decode_png16(data)


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3)])
def test_every_changed_byte_is_found(shape):
    data = encode_png(noise(*shape))
    for at in range(len(data) - 12):  # without the last chunk, which only marks the end
        with refused("a.png|PNG"), blaming("a.png", "get it again"):
            decode_png16(flip(data, at))
