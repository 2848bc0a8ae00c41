import math

import numpy as np
import pytest

from candlelight.loaders.files.safe_decoding import MAX_PIXELS
from candlelight.loaders.public.radiance import decode_radiance
from tests.refusals import refused


def head(height, width, lines=b"FORMAT=32-bit_rle_rgbe\n"):
    return b"#?RADIANCE\n# made for a test\n" + lines + b"\n-Y %d +X %d\n" % (height, width)


def runs(pixels):
    """Encode scanlines: runs for more than two equal bytes, literals for other bytes."""
    out = b""
    for row in pixels:
        out += bytes([2, 2, len(row) >> 8, len(row) & 255])
        for channel in row.T.tolist():
            at = 0
            while at < len(channel):
                end = at + 1
                while end < len(channel) and channel[end] == channel[at] and end - at < 127:
                    end += 1
                if end - at > 2:
                    out += bytes([128 + end - at, channel[at]])
                else:
                    out += bytes([end - at, *channel[at:end]])
                at = end
    return out


def slow(pixels):
    """Decode one pixel after the other."""
    image = np.zeros((*pixels.shape[:2], 3), np.float32)
    for y, x in np.ndindex(pixels.shape[:2]):
        *colour, exponent = pixels[y, x].tolist()
        image[y, x] = [math.ldexp(value, exponent - 136) if exponent else 0 for value in colour]
    return image


@pytest.fixture
def pixels():
    made = np.random.default_rng(0).integers(0, 256, (5, 300, 4), np.uint8)
    made[..., 3] = made[..., 3] // 8 + 112
    made[1, 10:290] = made[1, 10]  # runs longer than the largest count
    made[2, :, 3] = 0
    return made


def test_scanlines_of_runs(pixels):
    np.testing.assert_array_equal(decode_radiance(head(5, 300) + runs(pixels)), slow(pixels))


@pytest.mark.parametrize("width", [1, 7, 300])
def test_flat_pixels(pixels, width):
    flat = pixels[:, :width].copy()
    flat[0, 0, 0] = 77
    np.testing.assert_array_equal(decode_radiance(head(5, width) + flat.tobytes()), slow(flat))


def test_exposures_are_divided_out(pixels):
    lines = b"EXPOSURE=4\nFORMAT=32-bit_rle_rgbe\nEXPOSURE= 0.5 \n"
    read = decode_radiance(head(5, 300, lines) + runs(pixels))
    np.testing.assert_array_equal(read, slow(pixels) / 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a header that begins with #[?], got something else"),
        (b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n", "expected a header"),
        (head(2, 2, b"FORMAT=32-bit_rle_xyze\n"), "expected FORMAT=32-bit_rle_rgbe, got another"),
        (head(2, 2).replace(b"-Y", b"+Y"), "expected its size as -Y HEIGHT [+]X WIDTH"),
        (head(99999, 99999), f"expected at most {MAX_PIXELS} pixels, got 99999 x 99999"),
        (head(0, 2), "expected at most"),
        (head(2, 2) + bytes(15), "it ends early"),
        (head(2, 8) + b"\x02\x02\x00\x08", "a scanline is damaged"),
        (head(1, 8) + b"\x02\x02\x00\x09" + bytes(40), "a scanline is damaged"),
        (head(1, 8) + b"\x02\x02\x00\x08" + b"\x89\x01" * 8, "a scanline is damaged"),
        (head(1, 8) + b"\x02\x02\x00\x08" + b"\x00" * 40, "a scanline is damaged"),
        (head(2, 2, b"FORMAT=32-bit_rle_rgbe\nEXPOSURE=0\n") + bytes(16), "expected positive numbers"),
        (head(2, 2, b"FORMAT=32-bit_rle_rgbe\nEXPOSURE=e.e\n") + bytes(16), "expected positive numbers"),
    ],
)
def test_damaged_data_are_refused(data, message):
    with refused(f"Radiance image: {message}"):
        decode_radiance(data)


def test_a_file_truncated_anywhere_is_refused(pixels):
    data = head(5, 300) + runs(pixels)
    for end in range(0, len(data), 101):
        with refused("Radiance image: "):
            decode_radiance(data[:end])
