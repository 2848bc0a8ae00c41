import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path, write_dataset_info
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.look import describe, look
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.split_plan import SplitPlan
from tests.refusals import refused

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
    assert "  first caption: a matte cube, color red, size 1.5 m\n" in text
    assert LAYER_LINES in text
    assert text.endswith(FACTOR_LINES)


@pytest.mark.parametrize(
    ("name", "kind", "compression"),
    [
        ("hdf5", "HDF5", "gzip 4, shuffle for floats"),
        ("hdf5/free.h5", "HDF5", "gzip 4, shuffle for floats"),
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
    assert ("set grid" in text) == (name != "hdf5/free.h5")


@pytest.mark.parametrize("name", ["hdf5", "hub"])
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


def test_splits_are_listed_and_opened(frames_root, tmp_path):
    plan = SplitPlan(shares={"train": 0.5, "test": 0.5})
    pack_hdf5(frames_root, tmp_path / "hdf5", ["free"], layers=["image"], plan=plan)
    pack_hub(frames_root, tmp_path / "hub", ["free"], layers=["image"], plan=plan)
    counts = look(tmp_path / "hub").sets["free"].splits
    assert (counts.keys(), sum(counts.values())) == ({"train", "test"}, 5)
    assert look(tmp_path / "hdf5").sets["free"].splits == counts
    assert f"  splits: train {counts['train']}, test {counts['test']}\n" in describe(tmp_path / "hub")
    one = open_frames(tmp_path / "hdf5" / "free-test.h5")
    assert (len(one), one.split) == (counts["test"], "test")
    with refused("split `train` is not there; expected one of: test"):
        open_frames(tmp_path / "hdf5" / "free-test.h5", split="train")


def test_one_file_and_the_only_set_are_opened(stored, frames_copy, info):
    assert len(open_frames(stored / "hdf5" / "free.h5")) == 5
    with refused("set `grid` is not there; expected one of: free"):
        open_frames(stored / "hdf5" / "free.h5", "grid")
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {"free": info.sets["free"]}}))
    for open_set in (open_frames, FrameFolder):
        assert open_set(frames_copy).set_name == "free"


def test_other_paths_are_refused(frames_root, tmp_path):
    for path in (tmp_path, tmp_path / "none", frames_root / "dataset.json"):
        for function in (open_frames, describe):
            with refused(r"expected a folder of frames, .* or a Hugging Face folder"):
                function(path)
    with refused(r"none.h5 is missing"):
        describe(tmp_path / "none.h5")
