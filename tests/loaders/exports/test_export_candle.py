import json
import math
import shutil

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.exports import export_candle
from candlelight.loaders.exports.export_candle import candle_metadata, projected_bounds
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import read_frame, write_dataset_info
from candlelight.loaders.public import Candle
from tests.loaders.exports.conftest import BOX, box_object, camera
from tests.refusals import refused

WIDTH, HEIGHT = 32, 24


def shifted(x):
    pose = np.eye(4)
    pose[0, 3] = x
    return pose


# ----------------------------------------------------------------------------------------------- bounds


def test_bounds_are_the_projected_box_with_y_from_the_bottom():
    # x: 16 +- 10 / 5 = 14 .. 18; y down: 12 + 0 .. 12 + 10 / 5, so 10 .. 12 from the bottom of 24 rows.
    assert projected_bounds(box_object(), camera(), WIDTH, HEIGHT) == [[14, 10], [18, 12]]


def test_bounds_are_rounded_outwards():
    corners = np.add(BOX, (0.01, 0.01, 0))
    assert projected_bounds(box_object(corners), camera(), WIDTH, HEIGHT) == [[14, 9], [19, 12]]


def test_faithful_bounds_ignore_camera_turns_and_the_border():
    turned = camera(aimed=shifted(9), pose=shifted(0.5))
    assert projected_bounds(box_object(), turned, WIDTH, HEIGHT) == [[15, 10], [19, 12]]
    assert projected_bounds(box_object(), turned, WIDTH, HEIGHT, "faithful") == [[24, 10], [36, 12]]


def test_exact_bounds_end_at_the_border():
    aside = camera(pose=shifted(9))
    assert projected_bounds(box_object(), aside, WIDTH, HEIGHT) == [[24, 10], [32, 12]]
    # Without a turn of the camera, faithful bounds differ only in that the border does not cut them.
    assert projected_bounds(box_object(), aside, WIDTH, HEIGHT, "faithful") == [[24, 10], [36, 12]]


def test_a_turned_box_is_bounded_by_all_eight_corners():
    angle = math.radians(45)
    turn = np.array(
        [[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]]
    )
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 0) for z in (-1, 1)]) @ turn.T + [0, 0, 6]
    half = math.sqrt(2)
    assert projected_bounds(box_object(corners), camera(), WIDTH, HEIGHT) == [
        [math.floor(16 - 10 * half / 6), 12],
        [math.ceil(16 + 10 * half / 6), math.ceil(12 + 10 / (6 - half))],
    ]


@pytest.mark.parametrize(
    ("corners", "message"),
    [
        (None, "its metadata has no corners of the object's bounding box; render it again"),
        (np.array(BOX) - [0, 0, 5], "reaches behind the camera, so it has no bounds"),
    ],
)
def test_bounds_that_cannot_be_computed_are_refused(corners, message):
    with refused(message):
        projected_bounds(box_object(corners), camera(), WIDTH, HEIGHT)


# ------------------------------------------------------------------------------------- metadata and files


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"objects": ()}, "`candle-000000`: expected one object, as CANDLE has, got 0"),
        ({"objects": (box_object(),) * 2}, "`candle-000000`: expected one object, as CANDLE has, got 2"),
        ({"camera": None}, "`candle-000000`: its metadata has no camera"),
    ],
)
def test_samples_without_one_object_and_a_camera_are_refused(candle_frames, update, message):
    metadata = FrameFolder(candle_frames, "candle").metadata(0).model_copy(update=update)
    with refused(message):
        candle_metadata(metadata, WIDTH, HEIGHT)


def test_files_are_named_by_the_id_in_one_folder(candle_frames, tmp_path):
    export_candle(candle_frames, tmp_path)
    ids = ("0", "3541", "21599")
    visible = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert visible == {f"{name}.{suffix}" for name in ids for suffix in ("png", "json")}
    frames = FrameFolder(candle_frames, "candle")
    torus = {"object_type": "torus", "color": "red", "size": 2, "rotation": 30}
    entry = {"Torus_0": {**torus, "bounds": [[14, 10], [18, 12]]}}
    for row, name in enumerate(ids):
        with Image.open(tmp_path / f"{name}.png") as image:
            pixels = np.asarray(image)
        assert (pixels.shape, (pixels[..., 3] == 255).all()) == ((HEIGHT, WIDTH, 4), True)
        np.testing.assert_array_equal(pixels[..., :3], read_frame(frames.path(row)).layers["image"])
        made = json.loads((tmp_path / f"{name}.json").read_text())
        assert made == {"scene": "city square", "lights": "left", "objects": entry}
    assert '\n    "scene"' in (tmp_path / "0.json").read_text()


@pytest.mark.parametrize("layout", ["flat", "nested"])
def test_the_reader_of_candle_reads_an_export(candle_frames, tmp_path, layout):
    pytest.importorskip("torch")
    export_candle(candle_frames, tmp_path, layout=layout)
    data, source = Candle(tmp_path), FrameFolder(candle_frames, "candle", layers=("image",))
    assert data.indices.tolist() == source.indices.tolist()
    for row, (mine, theirs) in enumerate(zip(data, source, strict=True)):
        assert mine["image"].equal(theirs["image"])
        labels = {factor.name: factor.values[mine["factors"][factor.name]] for factor in data.factors}
        assert labels == source.metadata(row).factors


def test_nested_metadata_are_under_the_id(candle_frames, tmp_path):
    export_candle(candle_frames, tmp_path / "flat")
    export_candle(candle_frames, tmp_path / "nested", layout="nested")
    flat, nested = (json.loads((tmp_path / name / "3541.json").read_text()) for name in ("flat", "nested"))
    assert nested == {"3541": flat}


def test_a_half_written_image_is_written_again(candle_frames, tmp_path):
    export_candle(candle_frames, tmp_path)
    whole = (tmp_path / "0.png").read_bytes()
    (tmp_path / "0.png").write_bytes(b"half a picture")
    (tmp_path / "0.json").unlink()
    export_candle(candle_frames, tmp_path)
    assert (tmp_path / "0.png").read_bytes() == whole


def test_the_set_is_the_one_with_candles_factors(frames_root, candle_frames, tmp_path):
    with refused(r"expected a set with the factors scene, .*, got grid, free"):
        export_candle(frames_root, tmp_path / "out")
    with refused(r"expected a set with the factors scene, lights, .*, got grid"):
        export_candle(candle_frames, tmp_path / "out", set_name="grid")
    folder = shutil.copytree(candle_frames, tmp_path / "two")
    info = FrameFolder(candle_frames, "candle").info
    sets = {**info.sets, "second": info.sets["candle"]}
    write_dataset_info(folder, info.model_copy(update={"sets": sets}))
    with refused("several sets have CANDLE's factors; name one of candle, second"):
        export_candle(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert export_candle(folder, tmp_path / "out", set_name="candle").written == 3
