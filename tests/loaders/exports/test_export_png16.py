import io

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.files.layer_codecs import encode_png

EXTREMES = [0, 1, 255, 256, 32768, 65025, 65534, 65535]


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (7, 5, 3), (1, 9, 3)], ids=str)
def test_written_pixels_are_read_back_exactly(shape, read_png16):
    array = np.random.default_rng(0).integers(0, 65536, shape, np.uint16)
    array.flat[: len(EXTREMES)] = EXTREMES[: array.size]
    read = read_png16(encode_png(array))
    assert read.dtype == np.uint16
    np.testing.assert_array_equal(read, array)


def test_pillow_reads_gray_exactly():
    array = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    with Image.open(io.BytesIO(encode_png(array))) as image:
        assert image.mode.startswith("I")
        np.testing.assert_array_equal(np.asarray(image), array)


def test_pillow_reads_the_upper_eight_bits_of_colour():
    array = np.random.default_rng(1).integers(0, 65536, (6, 4, 3), np.uint16)
    with Image.open(io.BytesIO(encode_png(array))) as image:
        assert (image.mode, image.size) == ("RGB", (4, 6))
        np.testing.assert_array_equal(np.asarray(image), array >> 8)


def test_array_strides_do_not_matter(read_png16):
    array = np.random.default_rng(2).integers(0, 65536, (8, 6, 3), np.uint16)[::2, ::-1]
    np.testing.assert_array_equal(read_png16(encode_png(array)), array)


def test_the_bytes_depend_on_the_array_only():
    array = np.full((4, 4, 3), 65025, np.uint16)
    assert encode_png(array) == encode_png(array.copy(order="F"))
