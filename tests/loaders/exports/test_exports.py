"""All exports: the command, a second call, damaged frames, and folders of something else."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.exports import (
    export_candle,
    export_coco,
    export_colmap,
    export_concepts,
    export_exr,
    export_mit,
    export_nerfstudio,
    export_png,
    export_webdataset,
)
from candlelight.loaders.exports.export_loop import ExportUnit, fitting_sets, write_export
from candlelight.loaders.frames import frame_path
from tests.refusals import refused

EXPORTS = {
    "candle": export_candle,
    "coco": lambda root, out: export_coco(root, out, "free"),
    "colmap": lambda root, out, **options: export_colmap(root, out, "ring", **options),
    "concepts": export_concepts,
    "exr": lambda root, out, **options: export_exr(root, out, "free", **options),
    "mit": export_mit,
    "nerfstudio": export_nerfstudio,
    "png": lambda root, out, **options: export_png(root, out, "free", **options),
    "webdataset": lambda root, out, **options: export_webdataset(
        root, out, "free", **{"shard_size": 2, **options}
    ),
}


def exr(*values):
    """Make a case of the export to EXR, which needs an extra."""
    missing = find_spec("OpenEXR") is None
    return pytest.param("exr", *values, marks=pytest.mark.skipif(missing, reason="OpenEXR is not installed"))


@pytest.fixture
def roots(candle_frames, concept_frames, capture_frames, scene_frames, frames_root):
    return {
        **{"candle": candle_frames, "concepts": concept_frames},
        **dict.fromkeys(("colmap", "nerfstudio"), scene_frames),
        **{"mit": capture_frames, **dict.fromkeys(("coco", "exr", "png", "webdataset"), frames_root)},
    }


def tree(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "options", "printed"),
    [
        ("candle", ["--layout", "nested"], "3 samples written, 0 were there"),
        ("coco", ["--set", "free"], "5 samples written, 0 were there"),
        ("colmap", ["--points", "40"], "20 samples written, 0 were there"),
        ("nerfstudio", ["--set", "ring"], "11 samples written, 0 were there"),
        ("concepts", ["--set", "illumination"], "2 samples written, 0 were there"),
        exr(["--layers", "depth,part"], "11 samples written, 0 were there"),
        ("png", ["--layers", "image"], "11 samples written, 0 were there"),
        ("mit", ["--by", "passes"], "2 objects written, 0 were there"),
        ("webdataset", ["--shard-size", "4"], "11 samples written, 0 were there"),
    ],
)
def test_the_command_exports_or_refuses_in_one_line(roots, tmp_path, name, options, printed):
    def run(out):
        return CliRunner().invoke(
            main, ["export", str(roots[name]), "--to", name, *options, "--out", str(out)]
        )

    done = run(tmp_path / "out")
    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'out'}: {printed}\n")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").touch()
    done = run(tmp_path / "theirs")
    assert done.exit_code == 2
    assert "theirs: expected an empty folder or the folder of an export; name another" in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "options", "owner"),
    [
        ("candle", ["--layers", "depth"], "exr, png or webdataset"),
        ("mit", ["--bounds", "exact"], "candle"),
    ],
)
def test_options_of_another_layout_are_refused(roots, tmp_path, name, options, owner):
    arguments = ["export", str(roots[name]), "--to", name, *options, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert f"{options[0]} is for --to {owner}, not {name}; leave it out" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("candle", "0.json"),
        ("coco", "images/free/000001.png"),
        ("coco", "annotations/instances_free.json"),
        ("colmap", "ring-000000/sparse/0/points3D.txt"),
        ("nerfstudio", "ring-000009/images/ring-000010.png"),
        ("concepts", "IID_data/concepts/cube_sphere_tex_mat0temp2500/000.png"),
        exr("free/000004.exr"),
        ("mit", "data/cup/mask.png"),
        ("png", "free/metadata/000004.json"),
        ("webdataset", "free-000001.tar"),
    ],
)
def test_an_export_continues_after_a_stop(roots, tmp_path, name, lost):
    EXPORTS[name](roots[name], tmp_path)
    whole = tree(tmp_path)
    numbers = {path: path.stat().st_ino for path in whole}
    (tmp_path / lost).unlink()
    (tmp_path / f".9.png.{'0' * 32}.partial").touch()
    done = EXPORTS[name](roots[name], tmp_path)
    assert tree(tmp_path) == whole
    again = {path for path, number in numbers.items() if path.stat().st_ino != number}
    together = (lost, "0.png", "annotations/parts_free.json")  # are written with the lost file
    beside = {path for path in whole if path.stem in ("cameras", "images", "ring-000010")}
    assert again <= beside | {tmp_path / one for one in together} or name in ("mit", "png")
    counts = {"candle": (1, 2), "concepts": (1, 2), "mit": (1, 1), "webdataset": (2, 3)}
    counts |= {"colmap": (0, 11), "nerfstudio": (1, 19), **dict.fromkeys(("coco", "exr", "png"), (1, 4))}
    assert (done.written, done.found) == ((0, 5) if lost.endswith("instances_free.json") else counts[name])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("candle", {"layout": "nested"}), ("candle", {"bounds": "faithful"}), ("mit", {"by": "passes"})),
        *(("colmap", {"points": 7}), ("nerfstudio", {"points": 7})),
        *(exr({"layers": ["depth"]}), ("png", {"layers": ["depth"]})),
        *(("webdataset", {"shard_size": 7}), ("webdataset", {"layers": ["depth"]})),
    ],
)
def test_other_options_need_another_folder(roots, tmp_path, name, options):
    EXPORTS[name](roots[name], tmp_path / "out")
    with refused(rf"out: holds another export \({next(iter(options))} is .* here\); name another folder"):
        EXPORTS[name](roots[name], tmp_path / "out", **options)


@pytest.mark.parametrize(
    ("name", "frame", "layer", "kept"),
    [
        ("candle", ("candle", 3541), "image", {"0.json", "0.png"}),
        ("coco", ("free", 1), "part", {"000000.png"}),
        ("colmap", ("ring", 0), "depth", set()),
        ("nerfstudio", ("ring", 0), "depth", set()),
        ("concepts", ("illumination", 1), "image", {"002.png"}),
        exr(("free", 1), "depth", {"000000.exr"}),
        ("mit", ("captures", 0), "albedo", set()),
        ("png", ("free", 0), "depth", {"scales.json"}),
        ("webdataset", ("free", 4), "image", {"free-000000.tar"}),
    ],
)
def test_a_damaged_frame_is_not_exported(roots, tmp_path, name, frame, layer, kept):
    root = shutil.copytree(roots[name], tmp_path / "frames")
    path = frame_path(root, *frame) / "metadata.json"
    edited = json.loads(path.read_text())
    edited["layers"][layer] = "0" * 64
    path.write_text(json.dumps(edited))
    with refused(rf"layer `{layer}` (has hash|differs from its hash)"):
        EXPORTS[name](root, tmp_path / "out")
    assert {path.name for path in tree(tmp_path / "out")} == {".candlelight-export", *kept}


def test_sets_without_the_chosen_layers_are_left_out(scene_frames):
    assert [*fitting_sets(scene_frames, None)] == ["ring", "flat"]
    assert [*fitting_sets(scene_frames, None, layers=["depth", "position"])] == ["ring"]
    assert [*fitting_sets(scene_frames, None, layers=["albedo"])] == ["ring", "flat"]  # and are then refused


def test_a_pack_is_refused(frames_root, tmp_path):
    shutil.copy(frames_root / "dataset.json", tmp_path)
    (tmp_path / "manifest.json").touch()
    with refused("expected frames, got a pack"):
        export_coco(tmp_path, tmp_path / "out")


def test_exports_that_start_at_once_share_a_new_folder(tmp_path):
    units = [ExportUnit(name, lambda name=name: {name: b""}) for name in "abc"]
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / ".candlelight-export").touch()  # left by an export that was killed in its first moment
    with ThreadPoolExecutor(8) as pool:
        for number in range(15):
            write = partial(write_export, tmp_path / str(number), units, to="letters")
            counts = list(pool.map(lambda _, write=write: write(), range(8)))
            assert {one.written + one.found for one in counts} == {3}
    left = {path.name for path in tmp_path.glob("*/*")}
    assert left == {".candlelight-export", "a", "b", "c"}


def test_a_folder_that_cannot_be_made_is_refused(candle_frames, tmp_path):
    (tmp_path / "file").touch()
    with refused(r"cannot be written: .*; name another folder"):
        export_candle(candle_frames, tmp_path / "file" / "out")
