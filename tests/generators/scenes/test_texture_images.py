import zlib

import numpy as np
import pytest
from PIL import Image

from candlelight.generators.scenes.object_materials import (
    LONGEST_TEXTURE_SIDE,
    check_texture_image,
    read_texture,
)
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.files.layer_codecs import png_file
from tests.refusals import refused

RNG = np.random.default_rng(0)


def decoded(value):
    return float(srgb_to_linear(np.array([value / 255]))[0])


def save(path, array, **options):
    Image.fromarray(np.asarray(array, np.uint8)).save(path, **options)
    return path


def bomb(path, width, height):
    """Write a PNG file that claims a size and has no pixels."""
    path.write_bytes(png_file(width, height, 8, 2, zlib.compress(b"")))
    return path


def test_the_central_square_is_read_as_linear_colour(tmp_path):
    pixels = RNG.integers(0, 256, (6, 11, 3))
    texture = read_texture(save(tmp_path / "a.png", pixels))
    expected = srgb_to_linear(pixels[:, 2:8].astype(np.float32) / np.float32(255))
    assert texture.dtype == np.float32
    np.testing.assert_array_equal(texture, expected)


def test_gray_palette_and_transparency_become_colour(tmp_path):
    gray = read_texture(save(tmp_path / "gray.png", np.full((4, 4), 128)))
    assert gray.shape == (4, 4, 3)
    assert np.unique(gray).tolist() == pytest.approx([decoded(128)])
    clear = np.dstack([np.full((4, 4, 3), 200), np.zeros((4, 4, 1))])
    np.testing.assert_array_equal(read_texture(save(tmp_path / "clear.png", clear)), read_texture(
        save(tmp_path / "solid.png", clear[..., :3])
    ))  # fmt: skip


def test_large_images_are_shrunk(tmp_path):
    rows = np.arange(LONGEST_TEXTURE_SIDE + 2) % 2 * 200
    texture = read_texture(
        save(tmp_path / "large.png", np.tile(rows[:, None, None], (1, LONGEST_TEXTURE_SIDE + 2, 3)))
    )
    assert texture.shape == (LONGEST_TEXTURE_SIDE // 2 + 1, LONGEST_TEXTURE_SIDE // 2 + 1, 3)
    np.testing.assert_allclose(texture, decoded(100), atol=1e-6)


@pytest.mark.parametrize("read", [check_texture_image, read_texture])
def test_broken_images_are_refused_in_one_line(tmp_path, read):
    whole = save(tmp_path / "whole.jpg", RNG.integers(0, 256, (64, 64, 3)), quality=95)
    read(whole)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole.read_bytes()[:1500])
    torn = tmp_path / "torn.png"
    torn.write_bytes(save(tmp_path / "whole.png", RNG.integers(0, 256, (64, 64, 3))).read_bytes()[:2000])
    other = save(tmp_path / "other.gif", np.zeros((4, 4)))
    text = tmp_path / "text.png"
    text.write_text("no picture")
    broken = [cut, torn, other, text, tmp_path / "none.png", bomb(tmp_path / "a.png", 60_000, 60_000)]
    for path in broken:
        with refused(rf"texture .*{path.name}: cannot be read: .*; replace or remove it"):
            read(path)
    with refused(r"texture .*b\.png: .*: 8193 x 8193 pixels are more than"):
        read(bomb(tmp_path / "b.png", 8193, 8193))
