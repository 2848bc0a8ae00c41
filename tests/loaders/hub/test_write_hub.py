import ast
import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path
from candlelight.loaders.hub import shards
from candlelight.loaders.hub.arrow_tables import arrow_columns
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.packs.pack_manifest import read_pack_manifest
from candlelight.loaders.schema import FactorInfo, PartRecord
from tests.loaders.edits import changed, contents, write_set
from tests.refusals import refused

# Types that `datasets` before version 4 knows: no List, LargeList, Json.
OLD_TYPES = {"Image", "Value", "ClassLabel", "Sequence", "Array2D", "Array3D"}


@pytest.fixture
def packed(stored):
    return stored / "hub"


def load(datasets, folder, name, cache, **options):
    return datasets.load_dataset(str(folder), name, cache_dir=str(cache), **options)


def file_of(folder, name="grid"):
    (path,) = (folder / name).iterdir()
    return path


# ------------------------------------------------------------------------------------------------ columns


def types(feature):
    """Name the types in a feature, a list of records among them."""
    if isinstance(feature, list):
        return set().union(*map(types, feature))
    if not isinstance(feature, dict):
        return set()
    found = {feature["_type"]} if isinstance(feature.get("_type"), str) else set()
    return found.union(*(types(part) for part in feature.values() if isinstance(part, dict | list)))


def test_features_have_the_expected_names_and_types_of_every_version_of_datasets(datasets, packed, tmp_path):
    assert datasets.get_dataset_config_names(str(packed)) == ["grid", "free"]
    grid = load(datasets, packed, "grid", tmp_path, split="train")
    first = ["image", "id", "index", "caption", "color", "size", "value_size", "radiance", "albedo"]
    assert list(grid.features)[:9] == first
    assert list(grid.features)[-6:-2] == ["unit", "counterfactual_of", "intervened", "intervention_kind"]
    assert list(grid.features)[-2:] == ["objects", "metadata"]
    assert grid.features["size"].names == ["1.5", "2", "2.5"]
    assert grid.features["albedo"] == datasets.Array3D((3, 24, 32), "float16")
    assert grid.features["depth"] == datasets.Array2D((24, 32), "float32")
    stored = json.loads(pq.read_schema(file_of(packed)).metadata[b"huggingface"])["info"]["features"]
    assert types(stored) == OLD_TYPES
    assert isinstance(stored["objects"], list)
    pictures = [name for name, feature in stored.items() if feature == {"_type": "Image"}]
    assert pictures == ["image", "object", "part"]
    for name, size in (("albedo", 6 * 24 * 32 * 3 * 2), ("depth", 6 * 24 * 32 * 4)):
        # Channels last would cost an offset of 4 bytes for every pixel: 1.7 times the size of half floats.
        assert size <= grid.data.column(name).nbytes < 1.15 * size


def test_factors_and_objects_are_read_back(datasets, packed, frames_root, tmp_path):
    grid, free = (load(datasets, packed, name, tmp_path, split="train") for name in ("grid", "free"))
    assert (grid[4]["color"], grid[4]["size"], grid[4]["value_size"]) == (1, 1, 2.0)
    assert (free[3]["shape"], free[3]["angle"]) == (1, 50.0)
    assert "value_shape" not in free.features
    assert free["index"][:] == [0, 1, 2, 4, 5]
    plain = [
        json.loads(one.model_dump_json()) for one in FrameFolder(frames_root, "free").metadata(3).objects
    ]
    assert grid[4]["objects"] == plain
    assert plain[1]["bbox"] is plain[1]["base_color"] is None
    assert [len(row) for row in grid["objects"]] == [1, 2, 3, 1, 2, 3]
    table = pq.read_table(packed / "grid", partitioning=None)  # without `datasets`, classes are integers
    assert table.schema.field("color").type == pa.int64()
    assert table["value_size"].to_pylist() == [1.5, 2.0, 2.5] * 2


def test_parts_of_objects_are_read_back(datasets, make_frame, info, tmp_path):
    door = PartRecord(name="door", index=1, material="paint", base_color=(1, 0, 0), bbox=(1, 2, 3, 4), area=4)
    frame = make_frame("grid", 2)
    objects = [one.model_copy(update={"parts": (door,) * i}) for i, one in enumerate(frame.metadata.objects)]
    root = write_set(tmp_path / "frames", info, [changed(frame, objects=tuple(objects))])
    rows = load(datasets, pack_hub(root, tmp_path / "out"), "grid", tmp_path / "cache", split="train")
    assert rows[0]["objects"] == [json.loads(one.model_dump_json()) for one in objects]


def test_array_columns_name_their_extension_type(packed):
    """Without the extension type, `datasets` reads nested lists at a tenth of the speed."""
    # In a separate process: after an import of `datasets`, pyarrow converts the names to types.
    code = "import sys, pyarrow.parquet as pq; s = pq.read_schema(sys.argv[1]); "
    code += "print([s.field(name).metadata for name in ('albedo', 'depth')])"
    done = subprocess.run([sys.executable, "-c", code, file_of(packed)], capture_output=True, check=True)
    assert ast.literal_eval(done.stdout.decode()) == [
        {
            b"ARROW:extension:name": f"datasets.features.features.Array{len(shape)}DExtensionType".encode(),
            b"ARROW:extension:metadata": json.dumps([shape, dtype]).encode(),
        }
        for shape, dtype in (([3, 24, 32], "float16"), ([24, 32], "float32"))
    ]


def test_pictures_are_png_files_that_the_viewer_of_the_hub_can_show(packed, frames_root):
    """The viewer writes each cell of an Image column as JPEG or PNG, which do not store modes F and I."""
    table = pq.read_table(file_of(packed), columns=["image", "object", "part"])
    for name, mode in (("image", "RGB"), ("object", "L"), ("part", "L")):
        for cell in table[name].to_pylist():
            with Image.open(io.BytesIO(cell["bytes"])) as picture:
                assert (picture.format, picture.mode, cell["path"]) == ("PNG", mode, None)
    stored = (frame_path(frames_root, "grid", 2) / "image.png").read_bytes()
    assert table["image"][2].as_py()["bytes"] == stored


def test_columns_are_compressed_according_to_their_content(packed):
    group = pq.read_metadata(file_of(packed)).row_group(0)
    leaves = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert leaves["image.bytes"].compression == leaves["object.bytes"].compression == "UNCOMPRESSED"
    for leaf in ("depth.list.element.list.element", "albedo.list.element.list.element.list.element"):
        assert leaves[leaf].compression == "ZSTD"
        assert "BYTE_STREAM_SPLIT" in leaves[leaf].encodings
    assert leaves["metadata"].compression == "ZSTD"


def test_colliding_column_names_are_prefixed_or_refused(info):
    def names(*factors, layers=("image", "object", "light/left")):
        changed = info.sets["grid"].model_copy(update={"factors": factors, "layers": layers})
        return [column.name for column in arrow_columns(changed)]

    word = FactorInfo(name="object", kind="categorical", values=("cube", "cone"))
    number = FactorInfo(name="size", kind="categorical", values=(1, 2))
    light = FactorInfo(name="light_left", kind="continuous", low=0, high=1)
    assert names(word, light)[4:6] == ["factor_object", "factor_light_left"]
    assert names(word.model_copy(update={"name": "caption"}))[3:5] == ["caption", "factor_caption"]
    with refused("rename the factors or lights: value_size"):
        names(number, FactorInfo(name="value_size", kind="continuous", low=0, high=1))
    with refused("rename the factors or lights: light_a_b"):
        names(layers=("image", "light/a/b", "light/a_b"))
    with refused("factor `code`: its values must differ as text, got 1, 1"):
        names(FactorInfo(name="code", kind="categorical", values=(1, "1")))


# -------------------------------------------------------------------------------------------------- files


def test_the_folder_lists_its_files_with_their_hashes(packed, info):
    files = contents(packed)
    parquet = {f"{name}/train-00000-of-00001.parquet" for name in ("grid", "free")}
    texts = {"README.md", "croissant.json", "dataset.json", "manifest.json", "SHA256SUMS"}
    assert files.keys() == parquet | texts | {"assets/grid.jpg", "assets/free.jpg"}
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    subprocess.run(check, cwd=packed, check=True, capture_output=True)
    assert files["SHA256SUMS"].count(b"\n") == len(files) - 1
    manifest = read_pack_manifest(packed)
    assert [(shard.set, shard.rows) for shard in manifest.files] == [("grid", 6), ("free", 5)]
    assert all(shard.bytes == len(files[shard.path]) for shard in manifest.files)
    assert files["dataset.json"].decode() == info.to_json()


def test_rows_are_spread_over_groups_and_shards(frames_root, packed, tmp_path, monkeypatch, datasets):
    row_bytes = read_pack_manifest(packed).files[0].arrow_bytes // 6
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", int(2.5 * row_bytes))
    monkeypatch.setattr(shards, "SHARD_BYTES", int(4.5 * row_bytes))
    out = pack_hub(frames_root, tmp_path / "out", sets=["grid"])
    paths = sorted((out / "grid").iterdir())
    assert [path.name for path in paths] == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    files = [pq.ParquetFile(path) for path in paths]
    groups = [[file.read_row_group(number) for number in range(file.num_row_groups)] for file in files]
    assert [[group.num_rows for group in one] for one in groups] == [[2, 2], [2]]
    assert max(group.nbytes for one in groups for group in one) <= 1.05 * shards.ROW_GROUP_BYTES
    found, expected = HubFrames(out, "grid"), FrameFolder(frames_root, "grid")
    assert [found.metadata(row) for row in range(6)] == [expected.metadata(row) for row in range(6)]


def test_a_row_larger_than_the_limits_gets_its_own_shard(frames_root, tmp_path, monkeypatch):
    assert shards.ROW_GROUP_BYTES <= 100 * 2**20  # of the viewer of the Hub
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(shards, "SHARD_BYTES", 1)
    out = pack_hub(frames_root, tmp_path / "out", sets=["free"], layers=["image"])
    assert [shard.rows for shard in read_pack_manifest(out).files] == [1] * 5


def test_foreign_files_are_never_replaced(frames_copy, stored_copy, tmp_path):
    out = stored_copy / "hub"
    (out / "grid" / "notes.txt").write_text("mine")
    with refused(r"holds `grid/notes.txt`, which `candlelight pack` did not write"):
        pack_hub(frames_copy, out)
    with refused(r"holds `dataset.json`"):
        pack_hub(frames_copy, frames_copy)
    with refused(r"dataset.json is a file; name a folder that is new or empty"):
        pack_hub(frames_copy, frames_copy / "dataset.json")
    text = json.loads((out / "manifest.json").read_text())
    (out / "thesis.tex").touch()
    text["files"].append({**text["files"][0], "path": "thesis.tex"})
    (out / "manifest.json").write_text(json.dumps(text))
    with refused(r"manifest.json is damaged at files\.2\.path"):
        pack_hub(frames_copy, out)
    assert (out / "thesis.tex").exists()


def test_a_damaged_frame_leaves_the_earlier_pack_unchanged(frames_copy, stored_copy, tmp_path):
    before, there = contents(stored_copy / "hub"), sorted(stored_copy.iterdir())
    (frame_path(frames_copy, "grid", 5) / "layers.npz").write_bytes(b"PK")
    with refused(r"000005/layers.npz cannot be read"):
        pack_hub(frames_copy, stored_copy / "hub", sets=["grid"])
    assert contents(stored_copy / "hub") == before
    assert sorted(stored_copy.iterdir()) == there


def test_the_earlier_pack_is_restored_if_the_new_pack_cannot_replace_it(frames_root, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    out = pack_hub(frames_root, tmp_path / "out", sets=["grid"], layers=["image"])
    rename = Path.rename

    def refuse(self, target):
        if target == out and (self / "free").exists():
            raise OSError(5, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with refused("out: cannot be written: Input/output error"):
            pack_hub(frames_root, out, sets=["free"], layers=["image"])
    assert (out / "grid").exists()
    pack_hub(frames_root, out, sets=["free"], layers=["image"])
    assert {path.name for path in out.iterdir()} >= {"free"}
    assert list(json.loads((out / "dataset.json").read_text())["sets"]) == ["free"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
