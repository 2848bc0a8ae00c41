import io
import json
import shutil

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders import frame_folder
from candlelight.loaders.downscale import downscale, downscaled_set
from candlelight.loaders.errors import InputError
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.pack_manifest import read_pack_manifest
from candlelight.loaders.packs.pack_source import open_sources, prepare_rows
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import array_sha256
from candlelight.loaders.verification.verify_pack import verify_pack

pytest.importorskip("torch", exc_type=ImportError)

BLUE = SplitPlan(factor="color", values={"test": ("blue",)})


def test_the_survey_lists_every_row(frames_root):
    grid, free = open_sources(frames_root)
    assert grid.ids == [f"grid-{index:06d}" for index in range(6)]
    np.testing.assert_array_equal(free.rows.table, FrameFolder(frames_root, "free").factor_table)
    assert free.rows.links[4] == ("unit unit-5", "group group-2", "sample free-000005")


def test_a_frame_of_another_blender_is_refused(frames_copy, make_frame):
    frame = make_frame("free", 2)
    renderer = frame.metadata.renderer.model_copy(update={"blender": "9.9.9"})
    metadata = frame.metadata.model_copy(update={"renderer": renderer})
    shutil.rmtree(FrameFolder(frames_copy, "free").path(2))
    write_frame(frames_copy, Frame(metadata, frame.layers))
    with pytest.raises(InputError, match=r"was traced by Blender 9\.9\.9; the data set has Blender 5\.0\.1"):
        open_sources(frames_copy)
    assert len(open_sources(frames_copy, ["grid"])) == 1


@pytest.mark.parametrize("pack", [pack_hub, pack_hdf5])
def test_frames_rendered_during_packing_are_left_out(frames_copy, make_frame, tmp_path, monkeypatch, pack):
    listed = []

    def listing(root, set_name):
        found = complete_indices(root, set_name)
        listed.append(set_name)
        write_frame(frames_copy, make_frame("free", 3))  # between existing rows
        return found

    complete_indices = frame_folder.complete_indices
    monkeypatch.setattr(frame_folder, "complete_indices", listing)
    pack(frames_copy, tmp_path / "out", ["free"])
    assert listed == ["free"]
    assert open_frames(tmp_path / "out").indices.tolist() == [0, 1, 2, 4, 5]


def test_chains_of_counterfactuals_are_one_family(make_frame, info, tmp_path):
    write_dataset_info(tmp_path, info)
    for index, of in enumerate([None, "free-000000", "free-000001", None]):
        made = make_frame("free", index)
        changes = {"counterfactual_of": of, "group": f"group {index}"}
        write_frame(tmp_path, Frame(made.metadata.model_copy(update=changes), made.layers))
    plan = SplitPlan(shares={"train": 0.5, "test": 0.5})
    (source,) = open_sources(tmp_path, ["free"], plan=plan)
    assert sorted(split.rows.tolist() for split in source.splits) == [[0, 1, 2], [3]]


def test_rows_are_prepared_in_order_and_few_are_held():
    import threading

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


@pytest.mark.parametrize("layers", [["depth", "image"], ["albedo"], ["object", "light/left"]])
def test_packs_contain_only_the_chosen_layers(frames_root, tmp_path, layers):
    (file,) = pack_hdf5(frames_root, tmp_path / "h5", ["grid"], layers=layers)
    folder = pack_hub(frames_root, tmp_path / "hub", ["grid"], layers=layers)
    expected = FrameFolder(frames_root, "grid", layers)
    for pack in (HDF5Frames(file), HubFrames(folder, "grid")):
        assert pack.layers == expected.layers
        assert set(pack.set_info.layers) == set(layers)
        for row in range(6):
            frame = pack.frame(row)
            assert frame.metadata.layers.keys() == set(layers)
            assert {
                name: array_sha256(array) for name, array in frame.layers.items()
            } == frame.metadata.layers
            assert repr(pack[row]) == repr(expected[row])
    assert verify_pack(file).whole
    assert verify_pack(folder).whole


def test_frames_are_averaged_down_before_layers_are_chosen(frames_root, tmp_path):
    whole = FrameFolder(frames_root, "grid")
    options = {"sets": ["grid"], "layers": ["image", "shading", "depth"], "size": (16, 12)}
    (file,) = pack_hdf5(frames_root, tmp_path / "h5", **options)
    folder = pack_hub(frames_root, tmp_path / "hub", **options)
    small = downscaled_set(whole.set_info, 2)
    for pack in (HDF5Frames(file), HubFrames(folder, "grid")):
        assert (pack.set_info.width, pack.set_info.height) == (small.width, small.height) == (16, 12)
        for row in range(6):
            expected = downscale(whole.frame(row), whole.set_info, 2)
            found = pack.frame(row)
            assert found.metadata.objects == expected.metadata.objects
            for name in options["layers"]:
                assert found.layers[name].tobytes() == expected.layers[name].tobytes()
                assert found.metadata.layers[name] == expected.metadata.layers[name]
    assert verify_pack(file).whole


@pytest.mark.parametrize("kind", ["gzip", "none", "zstd", "blosc"])
def test_each_split_has_its_own_file(frames_root, tmp_path, kind):
    if kind in ("zstd", "blosc"):
        pytest.importorskip("hdf5plugin")
    train, test = pack_hdf5(frames_root, tmp_path, ["grid"], kind, plan=BLUE)
    assert (train.name, test.name) == ("grid-train.h5", "grid-test.h5")
    assert (HDF5Frames(train).indices.tolist(), HDF5Frames(test).indices.tolist()) == ([0, 1, 2], [3, 4, 5])
    with h5py.File(test) as file:
        assert (file.attrs["split"], file.attrs["split_made"]) == (
            b"test",
            b"rows with color=blue; 1 family has rows in other splits too",
        )
    whole = FrameFolder(frames_root, "grid")
    for row in range(3):
        assert repr(HDF5Frames(test)[row]) == repr(whole[row + 3])
    assert verify_pack(tmp_path).whole


def test_a_single_split_named_train_is_not_in_the_file_name(frames_root, tmp_path):
    plan = SplitPlan(shares={"all_of_it": 1.0})
    (path,) = pack_hdf5(frames_root, tmp_path / "named", ["free"], plan=plan)
    assert path.name == "free-all_of_it.h5"
    (path,) = pack_hdf5(frames_root, tmp_path / "plain", ["free"])
    assert path.name == "free.h5"
    with h5py.File(path) as file:
        assert (file.attrs["split"], file.attrs["split_made"]) == (b"train", b"every row")


def test_splits_with_one_file_name_are_refused(frames_copy, tmp_path, info):
    from candlelight.loaders.frames import frame_path, write_dataset_info, write_frame

    sets = {"grid": info.sets["grid"], "grid-test": info.sets["grid"]}
    write_dataset_info(frames_copy, info.model_copy(update={"sets": sets}))
    frame = FrameFolder(frames_copy, "grid").frame(0)
    moved = frame.metadata.model_copy(update={"set": "grid-test"})
    write_frame(frames_copy, type(frame)(moved, frame.layers))
    assert frame_path(frames_copy, "grid-test", 0).exists()
    plan = SplitPlan(shares={"test": 1.0})
    assert [path.name for path in pack_hdf5(frames_copy, tmp_path / "a", plan=plan)] == [
        "grid-test.h5",
        "grid-test-test.h5",
    ]
    with pytest.raises(InputError, match="two splits would get the same file"):
        _two_of_one_name(frames_copy, tmp_path / "b")


def _two_of_one_name(root, out):
    """Pack `grid` with a split `test`, and `grid-test` with its only split: both need grid-test.h5."""
    from candlelight.loaders.hdf5 import write_hdf5 as writer

    original = writer.open_sources

    def patched(*args):
        sources = original(*args)
        object.__setattr__(sources[0].splits[0], "name", "test")
        return sources

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "open_sources", patched)
        pack_hdf5(root, out)


def test_splits_of_a_hugging_face_folder_are_loaded_by_name(datasets, frames_root, tmp_path):
    out = pack_hub(frames_root, tmp_path / "out", ["grid"], plan=BLUE)
    manifest = read_pack_manifest(out)
    assert [(shard.split, shard.rows) for shard in manifest.files] == [("train", 3), ("test", 3)]
    assert manifest.splits_of("grid") == ["train", "test"]
    assert [shard.path for shard in manifest.of_split("grid", "test")] == ["grid/test-00000-of-00001.parquet"]
    assert manifest.splits["grid"]["train"].made.startswith("the other rows")
    loaded = datasets.load_dataset(str(out), "grid", cache_dir=str(tmp_path / "cache"))
    assert {name: rows["index"][:] for name, rows in loaded.items()} == {
        "train": [0, 1, 2],
        "test": [3, 4, 5],
    }
    assert verify_pack(out).whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (31, 24)}, "size 31x24: expected the 32x24 of set `grid` divided by a whole number"),
        ({"size": (16, 24)}, "size 16x24"),
        ({"size": (64, 48)}, "size 64x48"),
        ({"size": (0, 0)}, "size 0x0"),
        ({"layers": ["colour"]}, "layer `colour` is not in this set"),
        ({"layers": []}, "layers: expected at least one to pack"),
        ({"sets": ["free"], "plan": BLUE}, "factor `color` is not in this set"),
    ],
)
@pytest.mark.parametrize("pack", [pack_hub, pack_hdf5])
def test_bad_options_are_refused_before_any_file_is_written(frames_root, tmp_path, pack, options, message):
    with pytest.raises(InputError, match=message):
        pack(frames_root, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_the_number_of_threads_changes_no_bytes(frames_root, tmp_path):
    for threads in (1, 5):
        pack_hdf5(frames_root, tmp_path / f"h5-{threads}", threads=threads)
        pack_hub(frames_root, tmp_path / f"hub-{threads}", threads=threads)
    for kind in ("h5", "hub"):
        one, many = (
            {p.name: p.read_bytes() for p in (tmp_path / f"{kind}-{n}").rglob("*") if p.is_file()}
            for n in (1, 5)
        )
        assert one == many


def test_images_are_packed_as_stored_on_disk(frames_root, tmp_path):
    out = pack_hub(frames_root, tmp_path / "out", ["grid"])
    (path,) = (out / "grid").iterdir()
    found = pq.read_table(path, columns=["image"])["image"][3].as_py()["bytes"]
    assert found == (FrameFolder(frames_root, "grid").path(3) / "image.png").read_bytes()
    assert io.BytesIO(found).read(4) == b"\x89PNG"


def test_the_command_line_packs(frames_root, tmp_path):
    def run(*options):
        return CliRunner().invoke(main, ["pack", str(frames_root), "--out", str(tmp_path / "out"), *options])

    done = run(
        "--to",
        "hdf5",
        "--sets",
        "grid",
        "--layers",
        "image, depth",
        "--size",
        "16x12",
        "--hold-out",
        "size=2",
    )
    assert done.exit_code == 0, done.output
    assert done.output.split() == [
        str(tmp_path / "out" / f"grid-{name}.h5") for name in ("train", "test_ood")
    ]
    assert HDF5Frames(tmp_path / "out" / "grid-test_ood.h5").indices.tolist() == [1, 4]
    done = run(
        "--to", "hub", "--sets", "free", "--split", "train=0.5", "--split", "val=0.5", "--split-seed", "7"
    )
    assert done.exit_code == 2
    assert "out` holds" in done.output or "which `candlelight pack` did not write" in done.output
    for options, message in (
        (["--size", "16"], "expected width x height in pixels as in 64x48, got 16"),
        (["--split", "train=1,te-st=0"], "split `te-st`"),
        (["--sets", "nothing"], "set `nothing` is not in `tiny`"),
    ):
        done = run("--to", "hdf5", *options)
        assert (done.exit_code, "Traceback" in done.output) == (2, False)
        assert message in " ".join(done.output.split())


def test_parts_are_read_from_every_pack(make_frame, info, tmp_path, datasets):
    from candlelight.loaders.frames import write_dataset_info, write_frame
    from candlelight.loaders.samples import Frame
    from candlelight.loaders.schema import PartRecord

    door = PartRecord(name="door", index=1, material="paint", base_color=(1, 0, 0), bbox=(1, 2, 3, 4), area=4)
    write_dataset_info(tmp_path / "frames", info)
    for index in (0, 1):
        frame = make_frame("grid", index)
        objects = [record.model_copy(update={"parts": (door,) * index}) for record in frame.metadata.objects]
        metadata = frame.metadata.model_copy(update={"objects": tuple(objects)})
        write_frame(tmp_path / "frames", Frame(metadata, frame.layers))
    (path,) = pack_hdf5(tmp_path / "frames", tmp_path / "h5", ["grid"])
    out = pack_hub(tmp_path / "frames", tmp_path / "out", ["grid"])
    rows = datasets.load_dataset(str(out), "grid", split="train", cache_dir=str(tmp_path / "cache"))
    assert rows[0]["objects"][0]["parts"] == []
    assert rows[1]["objects"][1]["parts"] == [json.loads(door.model_dump_json())]
    expected = FrameFolder(tmp_path / "frames", "grid", objects=True)
    for pack in (HDF5Frames(path, objects=True), HubFrames(out, "grid", objects=True)):
        assert [pack[row]["objects"] for row in (0, 1)] == [expected[row]["objects"] for row in (0, 1)]


@pytest.mark.parametrize("pack", [pack_hub, pack_hdf5])
def test_a_pack_is_not_packed_again(frames_root, tmp_path, pack):
    packed = pack_hub(frames_root, tmp_path / "pack", ["grid"])
    with pytest.raises(InputError, match="pack is a pack already; name the folder of frames"):
        pack(packed, tmp_path / "out")
