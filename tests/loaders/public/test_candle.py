"""Read CANDLE and TID2013, whose factors are in their files."""

import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from candlelight.loaders.exports.export_candle import CANDLE_FACTORS
from candlelight.loaders.public.candle import VALUES, Candle
from candlelight.loaders.public.tid2013 import DISTORTIONS, SUBSETS, TID2013
from tests.loaders.public.copies import TID2013_IMAGES, candle_entry, pixels, write_candle
from tests.refusals import refused

torch = pytest.importorskip("torch")

IDS = (0, 3, 3541, 5400, 21599)


@pytest.fixture
def root(tmp_path):
    write_candle(tmp_path / "candle" / "dataset", IDS)
    return tmp_path / "candle"


def shown(data, row):
    """Name the factors of a row."""
    return {factor.name: factor.values[data[row]["factors"][factor.name]] for factor in data.factors}


def test_the_published_layout_is_read(root):
    data = Candle(root)
    assert data.indices.tolist() == [item["index"] for item in data] == list(IDS)
    assert [factor.name for factor in data.factors] == list(CANDLE_FACTORS)
    # The published example of the data set's readme.
    assert shown(data, 2) == {
        **{"scene": "playground", "lights": "middle", "object_type": "torus"},
        **{"color": "blue", "size": 2.5, "rotation": 15},
    }
    assert isinstance(VALUES["size"][1], int)
    assert data[2]["bbox"].tolist() == [150, 4 - 66, 245, 4 + 4]
    assert shown(data, 3)["scene"] == "city square"


def test_notes_in_images_are_ignored(root):
    """Blender writes its own notes into images."""
    notes = PngImagePlugin.PngInfo()
    notes.add_text("RenderTime", "00:01.00")
    path = root / "dataset" / "0.png"
    Image.fromarray(pixels(1)).save(path, pnginfo=notes, dpi=(72.009, 72.009))
    np.testing.assert_array_equal(Candle(root)[0]["image"], np.moveaxis(pixels(1), 2, 0))


def test_ids_are_the_points_of_the_space(root):
    data = Candle(root)
    assert data.space.rows.tolist() == list(IDS)
    np.testing.assert_array_equal(data.space.positions(data.indices), data.factor_table)


def test_loader_codes_swap_two_scenes_and_reorder_rows(root):
    data, plain = Candle(root, codes="disentanglement_lib"), Candle(root)
    names = [factor.name for factor in data.factors]
    assert names == ["object_type", "color", "size", "rotation", "scene", "lights"]
    assert [len(factor.values) for factor in data.factors] == [5, 5, 3, 6, 16, 3]
    assert data[data.indices.tolist().index(3541)]["factors"]["scene"] == 1
    points = data.space.indices(data.factor_table.astype(np.int64))
    np.testing.assert_array_equal(points, data.space.rows)
    assert np.all(np.diff(points) > 0)
    for row, number in enumerate(data.indices):
        same = plain.indices.tolist().index(number)
        assert torch.equal(data[row]["image"], plain[same]["image"])
        assert shown(data, row) == shown(plain, same)


def test_the_first_release_has_no_lights(tmp_path):
    write_candle(tmp_path, (1, 2))
    for number in (1, 2):
        content = candle_entry(number)
        del content["lights"]
        (tmp_path / f"{number}.json").write_text(json.dumps({str(number): content}))
    data = Candle(tmp_path)
    assert [factor.name for factor in data.factors] == ["scene", "object_type", "color", "size", "rotation"]


def test_values_outside_the_lists_come_last(root):
    entry = candle_entry(0)
    entry["objects"]["Cube_0"]["color"] = "green"
    (root / "dataset" / "0.json").write_text(json.dumps(entry))
    color = Candle(root).factors[3]
    assert color.values == (*VALUES["color"], "green")


def test_repeated_factors_are_not_a_grid(root):
    write_candle(root / "dataset", (4,))
    (root / "dataset" / "4.json").write_text(json.dumps(candle_entry(3)))
    data = Candle(root)
    assert len(data) == 6
    with refused("1 images share all factors with another"):
        _ = data.space


def test_a_number_in_two_folders_is_refused(root):
    write_candle(root / "more", (3,))
    with refused("number 3 is also in"):
        Candle(root)


def test_a_png_bomb_is_refused_by_its_header(root):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 6, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    (root / "dataset" / "0.png").write_bytes(data)
    with refused(r"0\.png.* cannot be read"):
        Candle(root)[0]


# ------------------------------------------------------------------------------------------------- TID2013


def test_distorted_images_have_references_scores_and_factors(public_folder):
    data = TID2013(public_folder("tid2013"))
    assert len(data) == len(TID2013_IMAGES)
    for row, (reference, distortion, level) in enumerate(TID2013_IMAGES):
        item = data[row]
        assert item["index"] == row
        np.testing.assert_array_equal(item["image"], np.moveaxis(pixels(row, 5), 2, 0))
        np.testing.assert_array_equal(item["reference"], np.moveaxis(pixels(reference), 2, 0))
        assert item["mos"] == row + 0.5
        assert item["mos_std"] == pytest.approx(0.1 + row / 100)
        expected = {"reference": reference - 1, "distortion": distortion - 1, "level": level - 1}
        assert item["factors"] == expected
    assert data.factors[1].values[10] == "JPEG2000"
    assert len(DISTORTIONS) == 24


def test_subsets_and_metrics(public_folder):
    data = TID2013(public_folder("tid2013"))
    assert data.rows("exotic").tolist() == [2, 3, 6, 7]
    assert data.rows("noise").tolist() == [0, 1, 4, 5]
    assert data.metrics["PSNRHVS"].tolist() == list(range(8))
    # The readme's own counts: 125 images of each type.
    assert {name: len(types) for name, types in SUBSETS.items()} == {
        **{"noise": 11, "actual": 11, "simple": 3},
        **{"exotic": 9, "new": 7, "color": 6},
    }
