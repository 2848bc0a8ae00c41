import warnings

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.public.image_formats import (
    read_indices,
    read_linear,
    read_png16,
    read_rgb8,
    to_tensor,
)
from candlelight.loaders.public.public_files import PublicSource
from tests.refusals import refused

THERE = PublicSource("there")
RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


@pytest.mark.parametrize("suffix", ["png", "bmp"])
def test_rgb_is_read_unchanged(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(RGB).save(path)
    np.testing.assert_array_equal(read_rgb8(path, THERE), RGB)
    np.testing.assert_array_equal(read_linear(path, THERE), RGB.astype(np.float32) / np.float32(255))


def test_gray_fills_three_channels_and_alpha_is_left_out(tmp_path):
    gray, alpha = RGB[..., 0], np.concatenate([RGB, RGB[..., :1] // 2], axis=-1)
    for name, array in {"L": gray, "RGBA": alpha, "1": gray > 99}.items():
        Image.fromarray(array).save(tmp_path / f"{name}.png")
    three = np.repeat(gray[..., None], 3, axis=2)
    np.testing.assert_array_equal(read_rgb8(tmp_path / "L.png", THERE), three)
    np.testing.assert_array_equal(read_rgb8(tmp_path / "RGBA.png", THERE), RGB)
    np.testing.assert_array_equal(read_rgb8(tmp_path / "1.png", THERE), 255 * (three > 99))


def test_a_palette_is_read_as_colours_or_indices(tmp_path):
    numbers = np.arange(6, dtype=np.uint8).reshape(2, 3)
    palette = Image.new("P", (3, 2))
    palette.putdata(numbers.ravel().tolist())
    palette.putpalette([value for entry in range(6) for value in (entry, 10 * entry, 255 - entry)])
    palette.save(tmp_path / "a.png", transparency=bytes([0, 128]))
    np.testing.assert_array_equal(read_indices(tmp_path / "a.png", THERE), numbers)
    expected = np.stack([numbers, 10 * numbers, 255 - numbers], axis=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(read_rgb8(tmp_path / "a.png", THERE), expected)


def test_sixteen_bits_are_kept_or_refused_but_never_truncated(tmp_path):
    wide = np.random.default_rng(1).integers(0, 65536, (4, 3, 3), np.uint16)
    (tmp_path / "a.png").write_bytes(encode_png(wide))
    (tmp_path / "gray.png").write_bytes(encode_png(wide[..., 0]))
    expected = wide.astype(np.float32) / np.float32(65535)
    np.testing.assert_array_equal(read_png16(tmp_path / "a.png", THERE), expected)
    np.testing.assert_array_equal(read_linear(tmp_path / "a.png", THERE), expected)
    gray = np.repeat(expected[..., :1], 3, axis=2)
    np.testing.assert_array_equal(read_linear(tmp_path / "gray.png", THERE), gray)
    for name in ("a", "gray"):
        with refused("expected 8 bits a channel, got 16"):
            read_rgb8(tmp_path / f"{name}.png", THERE)
    with refused("expected 8 bits a pixel as 1, L, P, got"):
        read_indices(tmp_path / "gray.png", THERE)


def test_a_float_of_sixteen_bits_recovers_its_integer():
    values = np.arange(65536, dtype=np.uint16)
    assert (np.rint(values.astype(np.float32) / np.float32(65535) * 65535) == values).all()


@pytest.mark.parametrize("read", [read_rgb8, read_linear, read_indices])
def test_a_damaged_file_is_refused(tmp_path, read):
    path = tmp_path / "a.png"
    Image.fromarray(RGB[..., 0]).save(path)
    data = path.read_bytes()
    middle = data.index(b"IDAT") + 10
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    for damaged in (data[:-20], flipped, b"", b"GIF89a"):
        path.write_bytes(damaged)
        with refused(r"\A.*a.png: cannot be read as an image: .*; get it again.*\Z"):
            read(path, THERE)


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    Image.fromarray(RGB).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = (30000).to_bytes(4, "big") * 2
    path.write_bytes(data)
    with refused("cannot be read as an image"):
        read_rgb8(path, THERE)
    Image.fromarray(RGB).save(path)
    monkeypatch.setattr("candlelight.loaders.files.safe_decoding.MAX_PIXELS", 34)
    with refused("7 x 5 pixels are more than 34"):
        read_rgb8(path, THERE)


def test_several_channels_are_not_indices(tmp_path):
    Image.fromarray(RGB).save(tmp_path / "a.png")
    with refused("expected 8 bits a pixel as 1, L, P, got RGB"):
        read_indices(tmp_path / "a.png", THERE)


def test_other_formats_are_not_opened(tmp_path):
    Image.fromarray(RGB).save(tmp_path / "a.gif")
    (tmp_path / "a.gif").rename(tmp_path / "a.png")
    with refused(r"a.png: .* as an image: it is none of PNG, JPEG, BMP; get"):
        read_rgb8(tmp_path / "a.png", THERE)
    Image.new("CMYK", (4, 4)).save(tmp_path / "a.jpg")
    with refused("got CMYK"):
        read_rgb8(tmp_path / "a.jpg", THERE)


def test_a_tensor_has_its_own_memory():
    pytest.importorskip("torch")
    array = np.zeros((2, 3), np.float32)
    tensor = to_tensor(array)
    array[:] = 1
    assert not tensor.any()
    assert to_tensor(RGB)[:, 1, 2].tolist() == RGB[1, 2].tolist()


@pytest.mark.parametrize("name", ["a.png", "a.hdr", "a.exr"])
def test_a_folder_named_like_an_image_is_refused(tmp_path, name):
    if name == "a.exr":
        pytest.importorskip("OpenEXR")
    (tmp_path / name).mkdir()
    with refused(rf"{name}.* cannot be read as .*; get it again from there"):
        read_linear(tmp_path / name, THERE)
