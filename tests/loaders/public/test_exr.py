import sys

import numpy as np
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.public import exr
from candlelight.loaders.public.exr import read_exr
from candlelight.loaders.public.public_files import PublicSource

THERE = PublicSource("there")
IMAGE = np.linspace(0, 8, 6 * 5 * 3, dtype=np.float32).reshape(6, 5, 3)


@pytest.fixture
def write(tmp_path):
    """Return a function that writes channels by name, with any type and compression."""
    openexr = pytest.importorskip("OpenEXR")

    def build(channels, compression="ZIP", name="a.exr"):
        head = {
            "compression": getattr(openexr, f"{compression}_COMPRESSION"),
            "type": openexr.scanlineimage,
        }
        made = {key: np.ascontiguousarray(value) for key, value in channels.items()}
        openexr.File(head, made).write(str(tmp_path / name))
        return tmp_path / name

    return build


def layer(name="", image=IMAGE):
    return {f"{name}{channel}": image[..., place] for place, channel in enumerate("RGB")}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("compression", ["NO", "ZIP", "PIZ"])
def test_colours_are_read_unchanged(write, dtype, compression):
    read = read_exr(write(layer(image=IMAGE.astype(dtype)), compression), THERE)
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, IMAGE.astype(dtype))


def test_lossy_compression_is_read(write):
    read = read_exr(write(layer(image=IMAGE.astype(np.float16)), "DWAB"), THERE)
    np.testing.assert_allclose(read, IMAGE, atol=0.05)


def test_channels_are_found_by_name(write):
    other = {"depth.R": IMAGE[..., 0], "A": IMAGE[..., 0]}
    for names in (layer("color."), layer("beauty."), {**layer(), **layer("color.", 1 - IMAGE), **other}):
        np.testing.assert_array_equal(read_exr(write(names), THERE), IMAGE)
    np.testing.assert_array_equal(
        read_exr(write({**layer("color."), **layer("z.", 1 - IMAGE)}), THERE), IMAGE
    )
    gray = np.repeat(IMAGE[..., :1], 3, axis=2)
    np.testing.assert_array_equal(read_exr(write({"Y": IMAGE[..., 0]}), THERE), gray)
    np.testing.assert_array_equal(read_exr(write({"Y": IMAGE[..., 0], "A": IMAGE[..., 1]}), THERE), gray)
    np.testing.assert_array_equal(read_exr(write({**layer(), "Y": IMAGE[..., 0]}), THERE), IMAGE)


@pytest.mark.parametrize(
    "names",
    [
        *[dict.fromkeys(names, IMAGE[..., 0]) for names in (["Z"], ["R"], ["Y", "RY", "BY"], ["Y", "RY"])],
        *[dict.fromkeys(names, IMAGE[..., 0]) for names in (["X", "Y", "Z"], ["Y", "R"], ["Y", "Z"], "rgb")],
        {**layer("a."), **layer("b.")},
        {**layer("a."), **layer("b."), "Y": IMAGE[..., 0]},
    ],
    ids=lambda names: "+".join(names),
)
def test_unclear_channels_are_refused(write, names):
    with pytest.raises(InputError, match="expected the channels R, G and B, or Y alone, got "):
        read_exr(write(names), THERE)


def test_whole_numbers_are_refused(write):
    with pytest.raises(InputError, match=r"expected channels of floating-point numbers .* `R` of uint32"):
        read_exr(write(layer(image=IMAGE.astype(np.uint32))), THERE)


def test_several_parts_are_refused(tmp_path):
    openexr = pytest.importorskip("OpenEXR")
    parts = [openexr.Part({"name": name}, {"R": np.ascontiguousarray(IMAGE[..., 0])}) for name in "ab"]
    openexr.File(parts).write(str(tmp_path / "a.exr"))
    with pytest.raises(InputError, match="expected one part, got 2"):
        read_exr(tmp_path / "a.exr", THERE)


def test_bombs_are_refused_by_their_header(write, monkeypatch):
    path = write(layer())
    monkeypatch.setattr(exr, "MAX_PIXELS", 29)
    with pytest.raises(InputError, match="expected at most 29 pixels, got 6 x 5"):
        read_exr(path, THERE)
    monkeypatch.undo()
    # OpenEXR also decodes channels that are not requested.
    monkeypatch.setattr(exr, "_MAX_VALUES", 89)
    with pytest.raises(InputError, match="expected at most 89 values, got 6 x 5 x 3"):
        read_exr(path, THERE)


def test_damaged_files_are_refused(write):
    path = write(layer(), "NO")
    data = path.read_bytes()
    for damaged in (b"", b"not EXR", data[:100], data[: len(data) - 90]):
        path.write_bytes(damaged)
        with pytest.raises(
            InputError, match=r"a.exr cannot be read as EXR: .*; get it again from there"
        ) as caught:
            read_exr(path, THERE)
        assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"a.exr is missing; get it from there"):
        read_exr(tmp_path / "a.exr", THERE)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.exr").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "OpenEXR", None)
    with pytest.raises(InputError, match=r"reading EXR needs OpenEXR; `pip install OpenEXR`"):
        read_exr(tmp_path / "a.exr", THERE)
