"""Frames of both packs: which are packed, with which layers, sizes and splits, and in which order."""

import shutil
import threading

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders import frame_folder
from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from candlelight.loaders.downscale import downscale
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path, read_dataset_info, write_dataset_info, write_frame
from candlelight.loaders.hdf5 import write_hdf5
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.pack_source import open_sources, prepare_rows
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.verification.verify_pack import verify_pack
from tests.loaders.edits import changed, contents, write_set
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("datasets")
BLUE = SplitPlan(factor="color", values={"test": ("blue",)})
both = pytest.mark.parametrize("pack", [pack_hdf5, pack_hub])


# --------------------------------------------------------------------------------------------------- rows


def test_the_survey_lists_every_row(frames_root):
    grid, free = open_sources(frames_root)
    assert grid.causal.ids == [f"grid-{index:06d}" for index in range(6)]
    np.testing.assert_array_equal(free.rows.table, FrameFolder(frames_root, "free").factor_table)
    assert free.rows.links[4] == ("unit unit-5", "group group-2", "sample free-000005")


def test_a_frame_of_another_blender_is_refused(frames_copy, make_frame):
    frame = make_frame("free", 2)
    shutil.rmtree(frame_path(frames_copy, "free", 2))
    renderer = frame.metadata.renderer.model_copy(update={"blender": "9.9.9"})
    write_frame(frames_copy, changed(frame, renderer=renderer))
    with refused(r"was traced by Blender 9\.9\.9; the data set has Blender 5\.0\.1"):
        open_sources(frames_copy)
    assert len(open_sources(frames_copy, ["grid"])) == 1


def test_a_frame_without_a_propensity_of_its_graph_is_refused(frames_copy):
    info = read_dataset_info(frames_copy)
    graph = CausalGraph(nodes=(CausalNode(name="color", kind="factor", type="categorical", mechanism="red"),))
    free = info.sets["free"].model_copy(update={"graph": graph})
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {**info.sets, "free": free}}))
    with refused(r"free/0000/000000: has no propensity of `color`"):
        open_sources(frames_copy)


@both
def test_frames_rendered_during_packing_are_left_out(frames_copy, make_frame, tmp_path, monkeypatch, pack):
    listed, complete_indices = [], frame_folder.complete_indices

    def listing(root, set_name):
        found = complete_indices(root, set_name)
        listed.append(set_name)
        write_frame(frames_copy, make_frame("free", 3))  # between existing rows
        return found

    monkeypatch.setattr(frame_folder, "complete_indices", listing)
    pack(frames_copy, tmp_path / "out", ["free"], layers=["image"])
    assert listed == ["free"]
    assert open_frames(tmp_path / "out").indices.tolist() == [0, 1, 2, 4, 5]


def test_chains_of_counterfactuals_are_one_family(make_frame, info, tmp_path):
    chain = enumerate([None, "free-000000", "free-000001", None])
    frames = [changed(make_frame("free", i), counterfactual_of=of, group=f"group {i}") for i, of in chain]
    root = write_set(tmp_path, info, frames)
    (source,) = open_sources(root, plan=SplitPlan(shares={"train": 0.5, "test": 0.5}))
    assert sorted(split.rows.tolist() for split in source.splits) == [[0, 1, 2], [3]]


def test_rows_are_prepared_in_order_and_few_are_held():
    lock, begun, taken, most = threading.Lock(), [0], 0, 0

    def work(row):
        with lock:
            begun[0] += 1
        return row

    rows = np.arange(200) % 6
    found = []
    for row in prepare_rows(rows, work, "test", threads=2):
        most = max(most, begun[0] - taken)
        taken += 1
        found.append(row)
    assert found == rows.tolist()
    assert most <= 6


def test_an_error_in_a_thread_ends_packing():
    with pytest.raises(ZeroDivisionError):
        list(prepare_rows(np.arange(6), lambda row: 1 // (row - 3), "test", threads=2))


@both
def test_packing_again_with_another_number_of_threads_changes_no_bytes(frames_root, tmp_path, stored, pack):
    expected = contents(stored / ("hub" if pack is pack_hub else "hdf5"))
    for threads in (1, 5):
        pack(frames_root, tmp_path / "other-name", threads=threads)
        assert contents(tmp_path / "other-name") == expected


@both
@pytest.mark.parametrize("homes", [("one", "one"), ("one", "two")], ids=["packed anew", "two folders"])
def test_datasets_reads_no_stale_rows(datasets, frames_root, frames_copy, tmp_path, pack, homes):
    """`datasets` caches by folder name and card: without a hash of the content, it would read old data."""
    if pack is pack_hdf5:
        pytest.importorskip("datasets", minversion="4.0")
    shutil.rmtree(frame_path(frames_copy, "grid", 0))
    for home, root in zip(homes, (frames_root, frames_copy), strict=True):
        out = tmp_path / home / "out"
        pack(root, out, ["grid"], layers=["image"])
        words = [str(out), "grid"] if pack is pack_hub else ["hdf5"]
        files = None if pack is pack_hub else str(out / "grid.h5")
        rows = datasets.load_dataset(
            *words, data_files=files, split="train", cache_dir=str(tmp_path / "cache")
        )
    expected = FrameFolder(frames_copy, "grid").frame(0).layers["image"]
    np.testing.assert_array_equal(rows.with_format("numpy")[0]["image"], expected)


# ------------------------------------------------------------------------------------- layers and sizes


@both
@pytest.mark.parametrize("layers", [["depth", "image"], ["object", "light/left"]])
def test_packs_contain_only_the_chosen_layers(frames_root, tmp_path, pack, layers):
    pack(frames_root, tmp_path / "out", ["grid"], layers=layers)
    packed, expected = open_frames(tmp_path / "out"), FrameFolder(frames_root, "grid", layers)
    assert packed.layers == packed.set_info.layers == expected.layers
    for row in range(6):
        frame = packed.frame(row)
        assert frame.metadata.layers.keys() == set(layers)
        for name, array in expected.frame(row).layers.items():
            assert frame.layers[name].tobytes() == array.tobytes()
    assert verify_pack(tmp_path / "out").whole


@both
def test_frames_are_averaged_down_before_layers_are_chosen(frames_root, tmp_path, pack):
    whole, layers = FrameFolder(frames_root, "grid"), ("image", "shading", "depth")
    pack(frames_root, tmp_path / "out", ["grid"], layers=layers, size=(16, 12))
    packed = open_frames(tmp_path / "out")
    assert (packed.set_info.width, packed.set_info.height) == (16, 12)
    for row in range(6):
        expected, found = downscale(whole.frame(row), whole.set_info, 2), packed.frame(row)
        assert found.metadata.objects == expected.metadata.objects
        for name in layers:
            assert found.layers[name].tobytes() == expected.layers[name].tobytes()
            assert found.metadata.layers[name] == expected.metadata.layers[name]
    assert verify_pack(tmp_path / "out").whole


# ------------------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize("kind", ["gzip", "none", "zstd", "blosc"])
def test_each_split_has_its_own_file(frames_root, tmp_path, kind):
    if kind in ("zstd", "blosc"):
        pytest.importorskip("hdf5plugin")
    train, test = pack_hdf5(frames_root, tmp_path, ["grid"], kind, layers=["image", "depth"], plan=BLUE)
    assert (train.name, test.name) == ("grid-train.h5", "grid-test.h5")
    assert (HDF5Frames(train).indices.tolist(), HDF5Frames(test).indices.tolist()) == ([0, 1, 2], [3, 4, 5])
    with h5py.File(test) as file:
        assert (file.attrs["split"], file.attrs["split_made"]) == (
            b"test",
            b"rows with color=blue; 1 family has rows in other splits too",
        )
    assert verify_pack(tmp_path).whole


def test_a_single_split_named_train_is_not_in_the_file_name(frames_root, tmp_path, stored):
    plan = SplitPlan(shares={"all_of_it": 1.0})
    (path,) = pack_hdf5(frames_root, tmp_path, ["free"], layers=["image"], plan=plan)
    assert path.name == "free-all_of_it.h5"
    with h5py.File(stored / "hdf5" / "free.h5") as file:
        assert (file.attrs["split"], file.attrs["split_made"]) == (b"train", b"every row")


def test_splits_with_one_file_name_are_refused(make_frame, info, tmp_path, monkeypatch):
    """`grid` with a split `test`, and `grid-test` with its only split, both need grid-test.h5."""
    frame = make_frame("grid")
    write_dataset_info(
        tmp_path, info.model_copy(update={"sets": dict.fromkeys(("grid", "grid-test"), info.sets["grid"])})
    )
    write_frame(tmp_path, frame)
    write_frame(tmp_path, changed(frame, set="grid-test"))

    def sources(*args):
        found = open_sources(*args)
        object.__setattr__(found[0].splits[0], "name", "test")
        return found

    monkeypatch.setattr(write_hdf5, "open_sources", sources)
    with refused("two splits would get the same file"):
        pack_hdf5(tmp_path, tmp_path / "out")


# ----------------------------------------------------------------------------------------------- refusals


@both
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (31, 24)}, "size 31x24: expected the 32x24 of set `grid` divided by a whole number"),
        ({"size": (16, 24)}, "size 16x24"),
        ({"size": (64, 48)}, "size 64x48"),
        ({"size": (0, 0)}, "size 0x0"),
        ({"layers": ["colour"]}, "layer `colour` is not in this set"),
        ({"layers": []}, "layers: expected at least one to pack"),
        ({"sets": []}, "at least one set to pack"),
        ({"sets": ["none"]}, "set `none` is not in `tiny`"),
        ({"sets": ["free"], "plan": BLUE}, "factor `color` is not in this set"),
    ],
)
def test_bad_options_are_refused_before_any_file_is_written(frames_root, tmp_path, pack, options, message):
    with refused(message):
        pack(frames_root, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


@both
def test_packs_and_sets_without_frames_are_refused(frames_copy, stored, info, tmp_path, pack):
    with refused("hub is a pack already; name the folder of frames"):
        pack(stored / "hub", tmp_path / "out")
    later = info.model_copy(update={"sets": info.sets | {"later": info.sets["grid"]}})
    write_dataset_info(frames_copy, later)
    with refused("no sample of set `later` is complete"):
        pack(frames_copy, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_line_packs(frames_root, tmp_path):
    def run(*words):
        words = ["pack", str(frames_root), "--out", str(tmp_path / "out"), *words]
        return CliRunner().invoke(main, words)

    options = ["--sets", "grid", "--layers", "image, depth", "--size", "16x12", "--hold-out", "size=2"]
    done = run("--to", "hdf5", *options)
    assert done.exit_code == 0, done.output
    files = [tmp_path / "out" / f"grid-{name}.h5" for name in ("train", "test_ood")]
    assert done.output.split() == [str(file) for file in files]
    packed = HDF5Frames(files[1])
    assert (packed.indices.tolist(), packed.layers, packed.set_info.width) == ([1, 4], ("image", "depth"), 16)
    halves = ["--split", "train=0.5", "--split", "val=0.5", "--split-seed", "7"]
    for words, message in (
        (["--to", "hub", "--sets", "free", *halves], "which `candlelight pack` did not write"),
        (["--to", "hdf5", "--size", "16"], "expected width x height in pixels as in 64x48, got 16"),
        (["--to", "hdf5", "--split", "train=1,te-st=0"], "split `te-st`"),
    ):
        done = run(*words)
        assert isinstance(done.exception, SystemExit)
        assert (done.exit_code, message in " ".join(done.output.split())) == (2, True)
