import json
import re

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.exports import export_png
from candlelight.loaders.exports.export_png import (
    HEADROOM_OVER_WHITE,
    PngScalesRecord,
    decode_pixels,
    encode_pixels,
)
from candlelight.loaders.files.json_records import read_record
from candlelight.loaders.files.png16 import decode_png16
from candlelight.loaders.frame_folder import FrameFolder
from tests.refusals import refused

EXACT = ("image", "object", "part")


@pytest.fixture(scope="module")
def exported(frames_root, tmp_path_factory):
    out = tmp_path_factory.mktemp("png")
    assert export_png(frames_root, out).written == 11
    return out


@pytest.fixture(scope="module")
def scales(exported):
    return read_record(PngScalesRecord, exported / "scales.json", "export again").sets


@pytest.mark.parametrize("name", ["grid", "free"])
def test_values_are_read_back_within_half_a_step(exported, scales, frames_root, read_png16, name):
    frames = FrameFolder(frames_root, name)
    assert list(scales[name]) == list(frames.layers)
    for row, index in enumerate(frames.indices):
        for layer, array in frames.frame(row).layers.items():
            scale = scales[name][layer]
            path = exported / (scale.files % index)
            if layer in EXACT:
                with Image.open(path) as image:
                    np.testing.assert_array_equal(np.asarray(image), array, strict=True)
                continue
            values = decode_pixels(read_png16(path), scale)
            assert values.shape == array.shape
            finite = np.isfinite(array)
            error = np.abs(values[finite] - array[finite].astype(float))
            assert error.max() <= scale.scale / 2 * (1 + 1e-9)
            np.testing.assert_array_equal(values[~finite], array[~finite])
    assert re.fullmatch(r"free/light_left/%06d\.png", scales["free"]["light/left"].files)


def test_zero_and_the_ends_of_a_range_are_exact(scales):
    normal, depth, albedo = (scales["grid"][name] for name in ("normal", "depth", "albedo"))
    np.testing.assert_array_equal(encode_pixels(np.array([-1.0, 0, 1]), normal), [0, 32767, 65534])
    np.testing.assert_array_equal(decode_pixels(encode_pixels(np.zeros(1), normal), normal), [0.0])
    assert decode_pixels(np.array([65535], np.uint16), albedo) == pytest.approx(1.0, abs=1e-15)
    # Nothing but infinity is pixel 0, which cameras of depth write where they measure nothing.
    np.testing.assert_array_equal(encode_pixels(np.array([0.0, 1e-4, 1e3, np.inf]), depth), [1, 1, 65535, 0])
    (zero,) = decode_pixels(
        encode_pixels(np.zeros(1), scales["grid"]["position"]), scales["grid"]["position"]
    )
    assert zero == pytest.approx(0, abs=1e-12)


def test_radiance_is_clipped_far_above_white(scales):
    radiance = scales["grid"]["radiance"]
    assert radiance.scale * 65535 == pytest.approx(HEADROOM_OVER_WHITE)  # the exposure of the set is 1
    assert radiance.scale < 1 / (255 * 12.92)
    np.testing.assert_array_equal(encode_pixels(np.array([-0.5, 17.0, 60000]), radiance), [0, 65535, 65535])


def test_metadata_are_copied_and_scales_told(exported, frames_root):
    frames = FrameFolder(frames_root, "free")
    for row, index in enumerate(frames.indices):
        copied = (exported / "free" / "metadata" / f"{index:06d}.json").read_text()
        assert copied == frames.metadata(row).to_json()
    told = json.loads((exported / "scales.json").read_text())
    assert (told["licence"], told["sets"]["grid"]["depth"]["infinite"]) == ("CC-BY-4.0", 0)
    assert told["sets"]["grid"]["albedo"]["colour_space"] == "linear Rec.709"


def test_layers_can_be_chosen(frames_root, tmp_path):
    export_png(frames_root, tmp_path, "grid", ["depth", "image"])
    assert {path.name for path in (tmp_path / "grid").iterdir()} == {"image", "depth", "metadata"}
    with refused("layer `shape` is not in this set; it has image"):
        export_png(frames_root, tmp_path / "b", "grid", ["shape"])


def test_the_recipe_of_the_docs_reads_a_layer(exported, frames_root):
    scale = json.loads((exported / "scales.json").read_text())["sets"]["free"]["albedo"]
    pixels = decode_png16((exported / (scale["files"] % 2)).read_bytes())
    albedo = scale["offset"] + scale["scale"] * pixels
    np.testing.assert_allclose(albedo, FrameFolder(frames_root, "free").frame(2).layers["albedo"], atol=1e-5)
