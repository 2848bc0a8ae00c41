import gc
import io
import json
import re
import tarfile
import warnings

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.exports import export_webdataset
from candlelight.loaders.exports.export_loop import plain_name
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import array_sha256
from tests.refusals import refused


def members(path):
    with tarfile.open(path) as archive:
        return [(entry, archive.extractfile(entry).read()) for entry in archive]


def grouped(path):
    """Group files like WebDataset: successive files with one key, which ends at the first dot of the name."""
    samples = []
    for entry, data in members(path):
        base, extension = re.fullmatch(r"((?:.*/|)[^.]+)[.]([^/]*)", entry.name).groups()
        if not samples or samples[-1]["__key__"] != base:
            samples.append({"__key__": base})
        assert extension.lower() not in samples[-1]
        samples[-1][extension.lower()] = data
    return samples


def tree(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_samples_are_read_back_exactly(frames_root, tmp_path):
    done = export_webdataset(frames_root, tmp_path / "tar", "free", shard_size=2)
    assert (done.written, done.found) == (5, 0)
    paths = sorted((tmp_path / "tar").glob("*.tar"))
    assert [path.name for path in paths] == ["free-000000.tar", "free-000001.tar", "free-000002.tar"]
    samples = [sample for path in paths for sample in grouped(path)]
    frames = FrameFolder(frames_root, "free")
    assert [len(grouped(path)) for path in paths] == [2, 2, 1]
    for row, sample in enumerate(samples):
        frame = frames.frame(row)
        assert sample.pop("__key__") == frame.metadata.id
        assert json.loads(sample.pop("metadata.txt")) == json.loads(frame.metadata.to_json())
        image = np.asarray(Image.open(io.BytesIO(sample.pop("image.png"))))
        np.testing.assert_array_equal(image, frame.layers.pop("image"), strict=True)
        for name, array in frame.layers.items():
            data = sample.pop(f"{name.replace('/', '_')}.npy")
            np.testing.assert_array_equal(np.load(io.BytesIO(data)), array, strict=True)
        assert not sample


def test_bytes_depend_neither_on_time_nor_on_owner(frames_root, tmp_path):
    for name in ("one", "two"):
        export_webdataset(frames_root, tmp_path / name)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert {"grid-000000.tar", "free-000000.tar"} < tree(tmp_path / "one").keys()
    for entry, _ in members(tmp_path / "one" / "grid-000000.tar"):
        assert (entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname) == (0, 0, 0, "", "")
        assert (entry.type, entry.mode) == (tarfile.REGTYPE, 0o644)


def test_other_samples_need_another_folder(frames_copy, tmp_path, make_frame):
    out = tmp_path / "tar"
    export_webdataset(frames_copy, out, "free")
    write_frame(frames_copy, make_frame("free", 3))
    with refused(r"holds another export \(other samples\)"):
        export_webdataset(frames_copy, out, "free")
    for text, told in {
        "[3]": "its settings are damaged",
        '{"to": "png", "x": "1"}': "to is png there .* here",
    }.items():
        (out / ".candlelight-export").write_text(text)
        with refused(rf"holds another export \({told}\)"):
            export_webdataset(frames_copy, out, "free")


def test_layers_can_be_chosen(frames_root, tmp_path):
    export_webdataset(frames_root, tmp_path / "tar", "grid", layers=["depth"])
    (first, *_) = grouped(tmp_path / "tar" / "grid-000000.tar")
    assert first.keys() == {"__key__", "metadata.txt", "depth.npy"}


@pytest.mark.parametrize(
    ("sample_id", "key"), [("candle-000012", "candle-000012"), ("a.b/c d", "a_b_c_d"), ("ä\n", "__")]
)
def test_keys_have_no_dot_and_no_slash(sample_id, key):
    assert plain_name(sample_id) == key


def test_samples_and_layers_of_one_name_are_refused(frames_copy, tmp_path, make_frame):
    frame = make_frame("free", 3)
    second = frame.metadata.model_copy(update={"id": "free-000002"})
    write_frame(frames_copy, Frame(second, frame.layers))
    with refused("samples `free-000002` and `free-000002` would have one key"):
        export_webdataset(frames_copy, tmp_path / "tar", "free")
    with refused("shard size: expected at least 1 sample, got 0"):
        export_webdataset(frames_copy, tmp_path / "tar", "free", shard_size=0)
    with refused("set `none` is not there"):
        export_webdataset(frames_copy, tmp_path / "other", "none")


def test_lights_that_differ_only_in_capitals_are_refused(tmp_path, make_frame, info):
    root = tmp_path / "frames"
    frame = make_frame("grid", 0, drop=("light/right",))
    layers = {**frame.layers, "light/LEFT": frame.layers["light/left"]}
    hashes = {name: array_sha256(array) for name, array in layers.items()}
    grid = info.sets["grid"].model_copy(update={"layers": tuple(layers)})
    write_dataset_info(root, info.model_copy(update={"sets": {"grid": grid}}))
    write_frame(root, Frame(frame.metadata.model_copy(update={"layers": hashes}), layers))
    with refused("layers `light/LEFT` and `light/left` would both be light_left; rename a light"):
        export_webdataset(root, tmp_path / "tar")


def test_datasets_reads_an_export(datasets, frames_root, tmp_path):
    out = tmp_path / "tar"
    export_webdataset(frames_root, out, "free", layers=["image", "depth"])
    files = [str(path) for path in out.glob("*.tar")]
    rows = list(datasets.load_dataset("webdataset", data_files=files, split="train", streaming=True))
    frames = FrameFolder(frames_root, "free")
    assert [row["__key__"] for row in rows] == [frames.metadata(row).id for row in range(5)]
    np.testing.assert_array_equal(np.array(rows[4]["depth.npy"], np.float32), frames.frame(4).layers["depth"])
    np.testing.assert_array_equal(np.asarray(rows[4]["image.png"]), frames.frame(4).layers["image"])


@pytest.mark.oracle
def test_webdataset_reads_an_export(frames_root, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    export_webdataset(frames_root, tmp_path / "tar", "free", shard_size=2)
    files = sorted(str(path) for path in (tmp_path / "tar").glob("*.tar"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # webdataset leaves a file open
        samples = list(webdataset.WebDataset(files, shardshuffle=False).decode("rgb8"))
        gc.collect()
    frames = FrameFolder(frames_root, "free")
    assert [sample["__key__"] for sample in samples] == [frames.metadata(row).id for row in range(5)]
    np.testing.assert_array_equal(samples[3]["image.png"], frames.frame(3).layers["image"])
    np.testing.assert_array_equal(samples[3]["albedo.npy"], frames.frame(3).layers["albedo"], strict=True)
