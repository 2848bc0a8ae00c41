import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray


@pytest.fixture(scope="session")
def read_png16() -> Callable[[Path | bytes], ndarray]:
    """Return an independent reader of 16-bit PNG, written from the standard; it checks every checksum."""

    def chunks(data: bytes) -> dict[bytes, bytes]:
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        found, at = {}, 8
        while at < len(data):
            (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
            body, at = data[at + 8 : at + 8 + length], at + 12 + length
            assert struct.unpack(">I", data[at - 4 : at]) == (zlib.crc32(kind + body),)
            found[kind] = found.get(kind, b"") + body
        assert not found[b"IEND"]
        return found

    def paeth(a: int, b: int, c: int) -> int:
        distances = [abs(b - c), abs(a - c), abs(a + b - 2 * c)]
        return (a, b, c)[distances.index(min(distances))]

    def read(source: Path | bytes) -> ndarray:
        found = chunks(source if isinstance(source, bytes) else source.read_bytes())
        width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", found[b"IHDR"])
        assert (depth, rest) == (16, [0, 0, 0])
        pixel = 2 * {0: 1, 2: 3}[colour]
        data, stride = zlib.decompress(found[b"IDAT"]), 1 + width * pixel
        assert len(data) == height * stride
        above, rows = bytes(stride - 1), []
        for y in range(height):
            kind, row = data[y * stride], bytearray(data[y * stride + 1 : (y + 1) * stride])
            for x in range(len(row)):
                a, b = row[x - pixel] if x >= pixel else 0, above[x]
                c = above[x - pixel] if x >= pixel else 0
                row[x] = (row[x] + (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) % 256
            above = bytes(row)
            rows.append(np.frombuffer(above, ">u2").astype(np.uint16))
        image = np.stack(rows)
        return image.reshape(height, width, 3) if colour == 2 else image

    return read
