import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path, write_dataset_info
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.look import describe, look
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.split_plan import read_split_plan


@pytest.fixture(scope="module")
def stored(tmp_path_factory, frames_root):
    """Store the small data set in each format."""
    folder = tmp_path_factory.mktemp("stored")
    pack_hdf5(frames_root, folder / "h5")
    pack_hub(frames_root, folder / "hub")
    return folder


LAYER_LINES = """
  layers:
    image: uint8 24 x 32 x 3, 0..255, sRGB
    radiance: float16 24 x 32 x 3, scene radiance, linear Rec.709
"""
FACTOR_LINES = """
    light/right: float16 24 x 32 x 3, scene radiance, linear Rec.709
  factor shape: cube (1), cone (2), torus (2)
  factor angle: 0.0 to 90.0 degree; there 0 to 62.5"""


def test_describe_lists_the_content(frames_root):
    text = describe(frames_root)
    lines = text.splitlines()
    size = sum(path.stat().st_size for path in frames_root.rglob("*") if path.is_file())
    assert lines[0] == f"tiny (folder of frames, {size / 1000:.0f} kB)"
    assert lines[1] == "Two small sets of noise."
    assert lines[2] == "licence CC-BY-4.0; made by candlelight 0.1.0, schema 3"
    assert lines[3] == f"recipe tiny (SHA-256 {'a' * 64}), seed 3"
    assert "set grid: 6 of 6 samples" in text
    assert "  factor size: 1.5 (2), 2 (2), 2.5 (2) m\n  changes within a concept set: size\n" in text
    assert "compression: image as PNG, other layers deflated" in text
    assert "  Blender 5.0.1 on CPU, 16 samples a pixel, not denoised\n" in text
    assert LAYER_LINES in text
    assert text.endswith(FACTOR_LINES)


@pytest.mark.parametrize(
    ("name", "kind", "compression"),
    [
        ("h5", "HDF5", "gzip 4, shuffle for floats"),
        ("h5/free.h5", "HDF5", "gzip 4, shuffle for floats"),
        ("hub", "Hugging Face folder", "PNG for 8-bit layers, zstd"),
    ],
    ids=str,
)
def test_describe_lists_the_same_content_for_packs(stored, name, kind, compression):
    text = describe(stored / name)
    assert text.startswith(f"tiny ({kind}, ")
    assert "set free: 5 of 6 samples, 32 x 24 pixels, exposure 1\n" in text
    assert f" a sample; compression: {compression}\n" in text
    assert LAYER_LINES in text
    assert FACTOR_LINES in text
    assert ("set grid" in text) == (name != "h5/free.h5")


@pytest.mark.parametrize("name", ["h5", "hub"])
def test_json_is_the_same_for_all_formats(stored, frames_root, name):
    here, there = (json.loads(look(path).to_json()) for path in (frames_root, stored / name))
    for of_set in ("grid", "free"):
        for key in ("bytes", "bytes_per_sample", "compression"):
            assert here["sets"][of_set].pop(key)
            assert there["sets"][of_set].pop(key)
    for key in ("form", "bytes"):
        assert here.pop(key) != there.pop(key)
    assert here == there
    assert here["sets"]["free"]["splits"] == {"train": 5}


def test_factor_values_are_counted_from_the_plan(frames_copy, monkeypatch):
    """The metadata of the samples are not read."""
    names = ("color", "size")
    by_index = [metadata.factors for metadata in map(FrameFolder(frames_copy, "grid").metadata, range(6))]
    order = [4, 2, 0, 1, 3, 5]
    table = {"set": ["grid"] * 6 + ["other"], "index": [*order, 0]}
    table |= {f"factor.{name}": [*(by_index[place][name] for place in order), None] for name in names}
    table["factor.size"] = [None if value is None else float(value) for value in table["factor.size"]]
    pq.write_table(pa.table(table), frames_copy / "plan.parquet")
    shutil.rmtree(frame_path(frames_copy, "grid", 4))
    shutil.rmtree(frames_copy / "samples" / "free")
    monkeypatch.setattr(
        "candlelight.loaders.frame_folder.FrameFolder.factor_table",
        property(lambda self: pytest.fail("read")),
    )
    color, size = look(frames_copy).sets["grid"].factors
    assert (color.counts, size.counts) == ((3, 2), (2, 1, 2))


@pytest.mark.parametrize("damage", ["no parquet", "too few", "no such value"])
def test_an_incomplete_or_damaged_plan_is_not_used(frames_copy, damage):
    table = {"set": ["grid"] * 6, "index": list(range(6)), "factor.color": ["red"] * 6}
    table["factor.size"] = [1.5] * 5 + [9.0 if damage == "no such value" else 2.0]
    rows = pa.table(table).slice(0, 5 if damage == "too few" else 6)
    pq.write_table(rows, frames_copy / "plan.parquet")
    if damage == "no parquet":
        (frames_copy / "plan.parquet").write_bytes(b"PAR1")
    color, size = look(frames_copy).sets["grid"].factors
    assert (color.counts, size.counts) == ((3, 3), (2, 2, 2))


def test_splits_are_listed_and_opened(frames_root, tmp_path, datasets):
    plan = read_split_plan(("train=0.5,test=0.5",), 0, None, ())
    pack_hdf5(frames_root, tmp_path / "h5", sets=["free"], plan=plan)
    pack_hub(frames_root, tmp_path / "hub", sets=["free"], plan=plan)
    counts = look(tmp_path / "h5").sets["free"].splits
    assert counts.keys() == {"train", "test"}
    assert sum(counts.values()) == 5
    assert look(tmp_path / "hub").sets["free"].splits == counts
    assert f"  splits: train {counts['train']}, test {counts['test']}\n" in describe(tmp_path / "hub")
    for name in ("h5", "hub"):
        for split in counts:
            assert len(open_frames(tmp_path / name, "free", split)) == counts[split]
        with pytest.raises(InputError, match="split `val` is not there; expected one of: t"):
            open_frames(tmp_path / name, "free", "val")
    one = open_frames(tmp_path / "h5" / "free-test.h5")
    assert (len(one), one.split) == (counts["test"], "test")
    with pytest.raises(InputError, match="split `train` is not there; expected one of: test"):
        open_frames(tmp_path / "h5" / "free-test.h5", split="train")
    for name in ("h5", "hub"):
        assert open_frames(tmp_path / name, "free").split == "train"
    with pytest.raises(InputError, match="a folder of frames has no split `test`; make one with"):
        open_frames(frames_root, "free", "test")


def test_layers_are_chosen_on_opening(stored, frames_root, datasets):
    for path in (frames_root, stored / "h5", stored / "hub"):
        opened = open_frames(path, "free", layers=["depth", "image"])
        assert opened.layers == ("image", "depth")
        assert set(opened.frame(0).layers) == {"image", "depth"}


def test_open_frames_picks_the_reader(datasets, stored, frames_root):
    assert isinstance(open_frames(frames_root, "grid"), FrameFolder)
    assert isinstance(open_frames(stored / "h5", "grid"), HDF5Frames)
    assert isinstance(open_frames(stored / "hub", "grid"), HubFrames)
    assert len(open_frames(stored / "h5" / "free.h5")) == 5
    assert len(open_frames(stored / "h5" / "free.h5", "free")) == 5


def test_the_only_set_opens_without_its_name(frames_copy, info):
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {"free": info.sets["free"]}}))
    for open_set in (open_frames, FrameFolder):
        assert open_set(frames_copy).set_name == "free"


def test_open_frames_refuses_unknown_sets_and_paths(stored, frames_root, tmp_path):
    with pytest.raises(InputError, match=r"choose a set \(`set_name`\); expected one of: grid, free"):
        open_frames(frames_root)
    with pytest.raises(InputError, match="set `candle` is not there; expected one of: free, grid"):
        open_frames(stored / "h5", "candle")
    with pytest.raises(InputError, match="set `grid` is not there; expected one of: free"):
        open_frames(stored / "h5" / "free.h5", "grid")
    with pytest.raises(InputError, match=r"choose a set \(`set_name`\); expected one of: grid, free"):
        open_frames(stored / "hub")
    for path in (tmp_path, tmp_path / "none", frames_root / "dataset.json"):
        for function in (open_frames, describe):
            with pytest.raises(InputError, match=r"expected a folder of frames, .* or a Hugging Face folder"):
                function(path)
    with pytest.raises(InputError, match=r"none.h5 is missing"):
        describe(tmp_path / "none.h5")


def test_files_of_several_data_sets_are_not_mixed(stored, frames_copy, tmp_path, info):
    write_dataset_info(frames_copy, info.model_copy(update={"seed": 4}))
    pack_hdf5(frames_copy, tmp_path / "h5", sets=["free"])
    shutil.copy(stored / "h5" / "grid.h5", tmp_path / "h5")
    with pytest.raises(InputError, match="holds HDF5 files of several data sets; name one file"):
        describe(tmp_path / "h5")
    (tmp_path / "h5" / "free.h5").unlink()
    shutil.copy(stored / "h5" / "grid.h5", tmp_path / "h5" / "copy.h5")
    with pytest.raises(
        InputError, match=r"copy.h5 and grid.h5 both hold sample 0 of set `grid`.* keep the files of one pack"
    ):
        open_frames(tmp_path / "h5", "grid")
