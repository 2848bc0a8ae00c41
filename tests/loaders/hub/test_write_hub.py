import dataclasses
import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from PIL import Image
from torch.utils.data import DataLoader

from candlelight.loaders.errors import InputError
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path, write_dataset_info, write_frame
from candlelight.loaders.hub import shards
from candlelight.loaders.hub.arrow_tables import arrow_columns
from candlelight.loaders.hub.card import card
from candlelight.loaders.hub.set_facts import read_facts
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.packs.pack_manifest import read_pack_manifest
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import FactorInfo, Metadata


@pytest.fixture(scope="module")
def packed(tmp_path_factory, frames_root):
    """Pack the small data set once."""
    return pack_hub(frames_root, tmp_path_factory.mktemp("packed") / "tiny")


def load(datasets, folder, name, cache, **options):
    return datasets.load_dataset(str(folder), name, split="train", cache_dir=str(cache), **options)


def card_facts(folder: Path) -> dict:
    return yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])


def assert_rows_are_frames(rows, frames: FrameFolder):
    assert len(rows) == len(frames)
    for number, row in enumerate(rows):
        frame = frames.frame(number)
        assert row["id"] == frame.metadata.id
        assert Metadata.model_validate_json(str(row["metadata"])) == frame.metadata
        for name, array in frame.layers.items():
            found = np.asarray(row[name.replace("/", "_")])
            stored = np.moveaxis(array, 2, 0) if array.ndim == 3 and name != "image" else array
            assert found.shape == stored.shape
            # `datasets` reads float16 as float32; the conversion back to float16 is exact.
            assert found.astype(array.dtype).tobytes() == stored.tobytes()


@pytest.mark.parametrize("name", ["grid", "free"])
def test_load_dataset_returns_the_exact_values(datasets, packed, frames_root, tmp_path, name):
    loaded = load(datasets, packed, name, tmp_path)
    assert datasets.get_dataset_config_names(str(packed)) == ["grid", "free"]
    frames = FrameFolder(frames_root, name)
    assert_rows_are_frames(list(loaded.with_format("numpy")), frames)
    assert np.isinf(loaded.with_format("numpy")[0]["depth"]).any()
    streamed = load(datasets, packed, name, tmp_path, streaming=True)
    assert_rows_are_frames(list(streamed.with_format("numpy")), frames)


def test_features_have_the_expected_names_and_types(datasets, packed, tmp_path):
    features = load(datasets, packed, "grid", tmp_path).features
    first = ["image", "id", "index", "color", "size", "value_size", "radiance", "albedo"]
    assert list(features)[:8] == first
    assert list(features)[-4:] == ["light_left", "light_right", "objects", "metadata"]
    assert features["size"].names == ["1.5", "2", "2.5"]
    assert features["albedo"] == datasets.Array3D((3, 24, 32), "float16")
    assert features["depth"] == datasets.Array2D((24, 32), "float32")
    assert all(isinstance(features[name], datasets.Image) for name in ("image", "object", "part"))


def test_factors_and_objects_are_read_back(datasets, packed, frames_root, tmp_path):
    grid, free = (load(datasets, packed, name, tmp_path) for name in ("grid", "free"))
    assert grid[4]["color"] == 1
    assert (grid[4]["size"], grid[4]["value_size"]) == (1, 2.0)
    assert (free[3]["shape"], free[3]["angle"]) == (1, 50.0)
    assert "value_shape" not in free.features
    assert free["index"][:] == [0, 1, 2, 4, 5]
    objects = FrameFolder(frames_root, "free").metadata(3).objects
    plain = [json.loads(record.model_dump_json()) for record in objects]
    assert grid[4]["objects"] == plain
    assert plain[1]["bbox"] is plain[1]["base_color"] is None
    assert [len(row) for row in grid["objects"]] == [1, 2, 3, 1, 2, 3]


def test_torch_format_feeds_a_data_loader(datasets, packed, tmp_path):
    loaded = load(datasets, packed, "grid", tmp_path).select_columns(["image", "depth", "albedo", "color"])
    batch = next(iter(DataLoader(loaded.with_format("torch"), batch_size=4)))
    assert batch["image"].dtype == torch.uint8
    assert {name: tuple(value.shape) for name, value in batch.items()} == {
        "image": (4, 3, 24, 32),
        "depth": (4, 24, 32),
        "albedo": (4, 3, 24, 32),
        "color": (4,),
    }


def test_a_folder_packed_again_is_read_anew(datasets, frames_root, make_frame, info, tmp_path):
    """`datasets` caches a local folder by its card: without the content hash, old data would be read."""
    out, cache = tmp_path / "out", tmp_path / "cache"
    for seed in (1, 2):
        root = tmp_path / f"frames-{seed}"
        write_dataset_info(root, info)
        write_frame(root, make_frame("grid", 0, seed))
        pack_hub(root, out, sets=["grid"])
        (row,) = load(datasets, out, "grid", cache).with_format("numpy")
        np.testing.assert_array_equal(row["image"], make_frame("grid", 0, seed).layers["image"])


def test_folders_with_one_name_are_cached_separately(datasets, make_frame, info, tmp_path):
    """`datasets` caches by folder name and card: without the content hash, folder 2 would give data of 1."""
    for seed in (1, 2):
        root = tmp_path / f"frames-{seed}"
        write_dataset_info(root, info)
        write_frame(root, make_frame("grid", 0, seed))
        pack_hub(root, tmp_path / str(seed) / "out", sets=["grid"])
    for seed in (1, 2):
        (row,) = load(datasets, tmp_path / str(seed) / "out", "grid", tmp_path / "cache").with_format("numpy")
        np.testing.assert_array_equal(row["image"], make_frame("grid", 0, seed).layers["image"])


def test_a_missing_row_is_found_on_loading(datasets, packed, tmp_path):
    copy = tmp_path / "tiny"
    subprocess.run(["cp", "-r", packed, copy], check=True)
    (path,) = (copy / "grid").iterdir()
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(Exception, match="num_examples"):
        load(datasets, copy, "grid", tmp_path / "cache")


def test_the_folder_lists_its_files_with_their_hashes(packed, info):
    files = {path.relative_to(packed).as_posix() for path in packed.rglob("*") if path.is_file()}
    parquet = {f"{name}/train-00000-of-00001.parquet" for name in ("grid", "free")}
    texts = {"README.md", "croissant.json", "dataset.json", "manifest.json", "SHA256SUMS"}
    assert files == parquet | texts | {"assets/grid.jpg", "assets/free.jpg"}
    subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=packed, check=True, capture_output=True
    )
    assert len((packed / "SHA256SUMS").read_text().splitlines()) == len(files) - 1
    manifest = read_pack_manifest(packed)
    assert [(shard.set, shard.rows) for shard in manifest.files] == [("grid", 6), ("free", 5)]
    assert all(shard.bytes == (packed / shard.path).stat().st_size for shard in manifest.files)
    assert (packed / "dataset.json").read_text() == info.to_json()


def test_card_states_configs_splits_licence_and_content(packed):
    facts, manifest = card_facts(packed), read_pack_manifest(packed)
    assert (facts["license"], facts["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    assert facts["configs"][1] == {
        "config_name": "free",
        "data_files": [{"split": "train", "path": "free/train-*.parquet"}],
    }
    grid, free = facts["dataset_info"]
    assert grid["description"] == f"content-sha256:{manifest.content_sha256('grid')}"
    assert grid["description"] != free["description"]
    assert (grid["splits"][0]["num_examples"], free["splits"][0]["num_examples"]) == (6, 5)
    assert grid["download_size"] == manifest.files[0].bytes
    text = (packed / "README.md").read_text()
    assert "| `size` | categorical | 1.5, 2, 2.5 | m | 2, 2, 2 |" in text
    assert "| `angle` | continuous | 0.0 to 90.0 | degree | 0 to 62.5 |" in text
    assert "![samples of grid](assets/grid.jpg)" in text
    assert "| `grid` | 5.0.1 | 16 | none | - | CPU |" in text
    assert "| `value_size` | float64 | m | - | factor `size`, its value |" in text
    assert "| `light_left` | float16 [3, 24, 32] | scene radiance | linear Rec.709 |" in text


def test_the_usage_in_the_card_runs(datasets, packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    code = (packed / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace("path/to/this/folder", str(packed)), {})
    assert capsys.readouterr().out == "(24, 32, 3) grid-000000\n"


def test_card_of_other_licences_and_long_lists(packed, info):
    scene = FactorInfo(name="scene", kind="categorical", values=tuple(f"s{i}" for i in range(30)))
    sets = {"grid": info.sets["grid"].model_copy(update={"factors": (scene,), "layers": ("image",)})}
    grid = read_facts(packed, info.sets["grid"], read_pack_manifest(packed).of_set("grid"))
    grid = dataclasses.replace(grid, table=np.array([[3.0], [3.0], [0.0]]))
    changed = info.model_copy(update={"licence": "My Terms", "sets": sets})
    text = card(changed, read_pack_manifest(packed), {"grid": grid})
    facts = yaml.safe_load(text.split("---\n")[1])
    assert (facts["license"], facts["license_name"]) == ("other", "my-terms")
    assert facts["task_categories"] == ["image-feature-extraction"]
    unlicensed = card(changed.model_copy(update={"licence": ""}), read_pack_manifest(packed), {"grid": grid})
    assert "license" not in yaml.safe_load(unlicensed.split("---\n")[1])
    assert "The data set: not stated; ask its author before using it." in unlicensed
    assert "| `scene` | categorical | 30 values, see `dataset.json` | - | 0 to 2 of each |" in text


def leaf_facts(path: Path) -> dict:
    group = pq.read_metadata(path).row_group(0)
    return {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}


def test_columns_are_compressed_according_to_their_content(packed, frames_root):
    (path,) = (packed / "grid").iterdir()
    leaves = leaf_facts(path)
    assert leaves["image.bytes"].compression == leaves["object.bytes"].compression == "UNCOMPRESSED"
    for leaf in ("depth.list.element.list.element", "albedo.list.element.list.element.list.element"):
        assert leaves[leaf].compression == "ZSTD"
        assert "BYTE_STREAM_SPLIT" in leaves[leaf].encodings
    assert leaves["metadata"].compression == "ZSTD"
    table = pq.read_table(path)
    image = (frame_path(frames_root, "grid", 2) / "image.png").read_bytes()
    assert table["image"][2].as_py() == {"bytes": image, "path": None}
    with Image.open(io.BytesIO(table["part"][2].as_py()["bytes"])) as mask:
        assert (mask.format, mask.mode) == ("PNG", "L")


def test_rows_are_spread_over_groups_and_shards(datasets, frames_root, packed, tmp_path, monkeypatch):
    row_bytes = read_pack_manifest(packed).files[0].arrow_bytes // 6
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", int(2.5 * row_bytes))
    monkeypatch.setattr(shards, "SHARD_BYTES", int(4.5 * row_bytes))
    out = pack_hub(frames_root, tmp_path / "out", sets=["grid"])
    paths = sorted((out / "grid").iterdir())
    assert [path.name for path in paths] == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    groups = [
        [facts.row_group(i).num_rows for i in range(facts.num_row_groups)]
        for facts in map(pq.read_metadata, paths)
    ]
    assert groups == [[2, 2], [2]]
    rows = list(load(datasets, out, "grid", tmp_path / "cache").with_format("numpy"))
    assert_rows_are_frames(rows, FrameFolder(frames_root, "grid"))


def test_a_row_larger_than_the_limits_gets_its_own_shard(frames_root, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(shards, "SHARD_BYTES", 1)
    out = pack_hub(frames_root, tmp_path / "out", sets=["free"])
    assert [shard.rows for shard in read_pack_manifest(out).files] == [1] * 5


def test_a_pack_of_some_sets_describes_only_these_sets(frames_root, tmp_path):
    (tmp_path / "out").mkdir()
    out = pack_hub(frames_root, tmp_path / "out", sets=["free"])
    assert list(json.loads((out / "dataset.json").read_text())["sets"]) == ["free"]
    assert [config["config_name"] for config in card_facts(out)["configs"]] == ["free"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_packing_twice_gives_the_same_bytes(frames_root, packed, tmp_path):
    out = pack_hub(frames_root, tmp_path / "other-name")
    assert (out / "SHA256SUMS").read_text() == (packed / "SHA256SUMS").read_text()


def test_folders_with_foreign_files_are_refused(frames_copy, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds `notes.txt`, which `candlelight pack` did not write"):
        pack_hub(frames_copy, out)
    (out / "notes.txt").unlink()
    pack_hub(frames_copy, out)
    (out / "grid" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds `grid/notes.txt`"):
        pack_hub(frames_copy, out)
    with pytest.raises(InputError, match=r"holds `dataset.json`"):
        pack_hub(frames_copy, frames_copy)
    with pytest.raises(InputError, match=r"dataset.json is a file; name a folder that is new or empty"):
        pack_hub(frames_copy, frames_copy / "dataset.json")
    (out / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match=r"manifest.json is damaged at files"):
        pack_hub(frames_copy, out)


def test_a_damaged_frame_leaves_the_earlier_pack_unchanged(frames_copy, tmp_path):
    out = pack_hub(frames_copy, tmp_path / "out", sets=["grid"])
    before = (out / "SHA256SUMS").read_text()
    (frame_path(frames_copy, "grid", 5) / "layers.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"000005/layers.npz cannot be read"):
        pack_hub(frames_copy, out, sets=["grid"])
    assert (out / "SHA256SUMS").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frames", "out"]


def test_the_earlier_pack_is_restored_if_the_new_pack_cannot_replace_it(frames_root, tmp_path, monkeypatch):
    out = pack_hub(frames_root, tmp_path / "out", sets=["grid"])
    rename = Path.rename

    def refuse(self, target):
        if target == out and (self / "free").exists():
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(InputError, match="out: cannot be written: Input/output error"):
        pack_hub(frames_root, out, sets=["free"])
    assert (out / "grid").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    monkeypatch.undo()
    pack_hub(frames_root, out, sets=["free"])
    assert (out / "free").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_list_of_sets_is_refused(frames_root, tmp_path):
    with pytest.raises(InputError, match="at least one set to pack"):
        pack_hub(frames_root, tmp_path / "out", sets=[])


def test_colliding_column_names_are_prefixed_or_refused(info, make_frame):
    def names(*factors, layers=("image", "object", "light/left")):
        changed = info.sets["grid"].model_copy(update={"factors": factors, "layers": layers})
        return [column.name for column in arrow_columns(changed)]

    word = FactorInfo(name="object", kind="categorical", values=("cube", "cone"))
    number = FactorInfo(name="size", kind="categorical", values=(1, 2))
    light = FactorInfo(name="light_left", kind="continuous", low=0, high=1)
    assert names(word, light)[1:5] == ["id", "index", "factor_object", "factor_light_left"]
    with pytest.raises(InputError, match="rename the factors or lights: value_size"):
        names(number, FactorInfo(name="value_size", kind="continuous", low=0, high=1))
    with pytest.raises(InputError, match="rename the factors or lights: light_a_b"):
        names(layers=("image", "light/a/b", "light/a_b"))
    with pytest.raises(InputError, match="factor `code`: its values must differ as text, got 1, 1"):
        names(FactorInfo(name="code", kind="categorical", values=(1, "1")))


def test_a_frame_without_objects_is_packed(datasets, make_frame, info, tmp_path):
    bare = make_frame()
    write_dataset_info(tmp_path / "frames", info)
    write_frame(tmp_path / "frames", Frame(bare.metadata.model_copy(update={"objects": ()}), bare.layers))
    out = pack_hub(tmp_path / "frames", tmp_path / "out", sets=["grid"])
    assert load(datasets, out, "grid", tmp_path / "cache")[0]["objects"] == []
