import json
import math
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.exports import export_candle
from candlelight.loaders.exports.export_candle import candle_metadata, projected_bounds
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import read_frame, write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import CameraRecord, FactorInfo, ObjectRecord, SetInfo

WIDTH, HEIGHT = 32, 24
LABELS = {
    "scene": "city square",
    "lights": "left",
    "object_type": "torus",
    "color": "red",
    "size": 2,
    "rotation": 30,
}
FACTORS = tuple(
    FactorInfo(name=name, kind="categorical", values=(value, value + value)) for name, value in LABELS.items()
)
POSE = np.eye(4)
# A box of 2 x 1 x 4 m whose near face is 5 m in front of a camera of 10 pixels focal length.
BOX = [[x, y, z] for x in (-1, 1) for y in (0, 1) for z in (5, 9)]


def camera(aimed=None, pose=POSE):
    intrinsics = [[10, 0, 16], [0, 10, 12], [0, 0, 1]]
    return CameraRecord(
        intrinsics=intrinsics,
        world_to_camera=pose.tolist(),
        aimed=None if aimed is None else aimed.tolist(),
    )


def box_object(corners=BOX):
    flat = None if corners is None else np.ravel(corners).tolist()
    return ObjectRecord(
        type="torus",
        material="red",
        base_color=None,
        size=2,
        rotation=278.87,
        location=(0, 0, 0),
        corners=flat,
    )


def shifted(x):
    pose = np.eye(4)
    pose[0, 3] = x
    return pose


@pytest.fixture
def root(tmp_path, make_frame, info):
    """Write three frames that have CANDLE's factors, with gaps between their numbers."""
    folder = tmp_path / "frames"
    candle = SetInfo(count=3, width=WIDTH, height=HEIGHT, layers=("image", "depth"), factors=FACTORS)
    write_dataset_info(folder, info.model_copy(update={"sets": {"candle": candle, **info.sets}}))
    for index in (0, 3541, 21599):
        made = make_frame("grid", index % 6)
        changes = {"set": "candle", "index": index, "id": f"candle-{index:06d}", "factors": LABELS}
        changes |= {"objects": (box_object(),), "camera": camera()}
        layers = {name: made.layers[name] for name in ("image", "depth")}
        changes["layers"] = {name: made.metadata.layers[name] for name in layers}
        write_frame(folder, Frame(made.metadata.model_copy(update=changes), layers))
    return folder


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
    with pytest.raises(InputError, match=message):
        projected_bounds(box_object(corners), camera(), WIDTH, HEIGHT)


# --------------------------------------------------------------------------------------------- metadata


def test_metadata_has_the_published_keys(root):
    metadata = FrameFolder(root, "candle").metadata(1)
    torus = {"object_type": "torus", "color": "red", "size": 2, "rotation": 30}
    torus["bounds"] = [[14, 10], [18, 12]]
    assert candle_metadata(metadata, WIDTH, HEIGHT) == {
        "scene": "city square",
        "lights": "left",
        "objects": {"Torus_0": torus},
    }


@pytest.mark.parametrize("count", [0, 2])
def test_no_or_two_objects_are_refused(root, count):
    metadata = FrameFolder(root, "candle").metadata(0).model_copy(update={"objects": (box_object(),) * count})
    with pytest.raises(InputError, match=f"`candle-000000`: expected one object, as CANDLE has, got {count}"):
        candle_metadata(metadata, WIDTH, HEIGHT)


def test_a_sample_without_a_camera_is_refused(root):
    metadata = FrameFolder(root, "candle").metadata(0).model_copy(update={"camera": None})
    with pytest.raises(InputError, match="`candle-000000`: its metadata has no camera"):
        candle_metadata(metadata, WIDTH, HEIGHT)


# ------------------------------------------------------------------------------------------------ files


def test_files_are_named_by_the_id_in_one_folder(root, tmp_path):
    out = tmp_path / "candle"
    done = export_candle(root, out)
    assert (done.written, done.found) == (3, 0)
    ids = ("0", "3541", "21599")
    visible = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    assert visible == {f"{name}.{suffix}" for name in ids for suffix in ("png", "json")}
    frames = FrameFolder(root, "candle")
    for row, name in enumerate(ids):
        with Image.open(out / f"{name}.png") as image:
            assert image.mode == "RGBA"
            pixels = np.asarray(image)
        np.testing.assert_array_equal(pixels[..., :3], read_frame(frames.path(row)).layers["image"])
        assert (pixels[..., 3] == 255).all()
        assert json.loads((out / f"{name}.json").read_text())["scene"] == "city square"
    assert '\n    "scene"' in (out / "0.json").read_text()


def test_nested_metadata_are_under_the_id(root, tmp_path):
    export_candle(root, tmp_path / "flat")
    export_candle(root, tmp_path / "nested", layout="nested")
    flat, nested = (json.loads((tmp_path / name / "3541.json").read_text()) for name in ("flat", "nested"))
    assert nested == {"3541": flat}


def test_an_export_continues_after_a_stop(root, tmp_path):
    out = tmp_path / "candle"
    export_candle(root, out)
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "0.json").unlink()
    (out / "0.png").write_bytes(b"half a picture")
    (out / f".3541.json.{'0' * 32}.partial").touch()
    done = export_candle(root, out)
    assert (done.written, done.found) == (1, 2)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole


def test_a_damaged_image_is_not_exported(root, tmp_path):
    path = FrameFolder(root, "candle").path(1) / "image.png"
    pixels = np.asarray(Image.open(path)).copy()
    pixels[3, 4, 1] ^= 1
    Image.fromarray(pixels).save(path)
    with pytest.raises(InputError, match="003541: layer `image` has hash"):
        export_candle(root, tmp_path / "candle")
    assert not (tmp_path / "candle" / "3541.json").exists()


@pytest.mark.parametrize(
    "options", [{"layout": "nested"}, {"bounds": "faithful"}], ids=lambda options: next(iter(options))
)
def test_a_folder_of_another_export_is_refused(root, tmp_path, options):
    export_candle(root, tmp_path / "candle")
    with pytest.raises(InputError, match=r"candle: holds another export .*; name another folder"):
        export_candle(root, tmp_path / "candle", **options)


def test_a_folder_with_other_files_is_refused(root, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").touch()
    with pytest.raises(
        InputError, match="theirs: expected an empty folder or the folder of an export; name another"
    ):
        export_candle(root, tmp_path / "theirs")


def test_a_folder_that_cannot_be_made_is_refused(root, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be written: .*; name another folder"):
        export_candle(root, tmp_path / "file" / "out")


def test_sets_without_candles_factors_are_refused(frames_root, root, tmp_path):
    with pytest.raises(InputError, match=r"expected a set with the factors scene, .*, got grid, free"):
        export_candle(frames_root, tmp_path / "out")
    with pytest.raises(InputError, match=r"expected a set with the factors scene, lights, .*, got grid"):
        export_candle(root, tmp_path / "out", set_name="grid")
    assert not (tmp_path / "out").exists()


def test_several_matching_sets_need_a_name(root, tmp_path):
    folder = shutil.copytree(root, tmp_path / "two")
    info = FrameFolder(root, "candle").info
    sets = {**info.sets, "second": info.sets["candle"]}
    write_dataset_info(folder, info.model_copy(update={"sets": sets}))
    with pytest.raises(InputError, match="several sets have CANDLE's factors; name one of candle, second"):
        export_candle(folder, tmp_path / "out")
    assert export_candle(folder, tmp_path / "out", set_name="candle").written == 3


def test_the_command_exports(root, tmp_path):
    words = ["export", str(root), "--to", "candle", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, words)
    assert result.output == f"{tmp_path / 'out'}: 3 samples written, 0 were there\n"
    result = CliRunner().invoke(main, [*words, "--layout", "nested"])
    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
