import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.hub import card_pictures
from candlelight.loaders.hub.arrow_tables import layer_column
from candlelight.loaders.hub.card import card
from candlelight.loaders.hub.card_pictures import (
    COLUMNS,
    LARGEST_PICTURE,
    ROWS,
    TILE,
    PackedRows,
    draw_picture,
    shown_factor,
)
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.set_facts import decode_frame, read_facts, read_rows
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.sheet import contact_sheet
from candlelight.loaders.looking.sheet_rows import choose_sheet_rows
from candlelight.loaders.packs.pack_manifest import SplitRecord, read_pack_manifest
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import AssetRecord, FactorInfo, SetInfo, array_sha256


@pytest.fixture(scope="module")
def packed(tmp_path_factory, frames_root):
    """Pack one set into several row groups and shards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("candlelight.loaders.hub.shards.SHARD_BYTES", 200_000)
        patch.setattr("candlelight.loaders.hub.shards.ROW_GROUP_BYTES", 100_000)
        return pack_hub(frames_root, tmp_path_factory.mktemp("packed") / "tiny", sets=["grid"])


def text_of(folder, info, manifest=None, **changes):
    manifest = manifest or read_pack_manifest(folder)
    info = info.model_copy(update={"sets": {"grid": info.sets["grid"]}, **changes})
    return card(info, manifest, {"grid": read_facts(folder, info.sets["grid"], manifest.of_set("grid"))})


def test_rows_are_read_from_any_row_group_and_file(packed, frames_root, info):
    shards, frames = read_pack_manifest(packed).of_set("grid"), FrameFolder(frames_root, "grid")
    assert len(shards) > 1
    columns = ["id", "metadata", *map(layer_column, frames.layers)]
    tables = list(read_rows(packed, shards, [0, 3, 5], columns))
    for row, table in zip([0, 3, 5], tables, strict=True):
        frame = frames.frame(row)
        assert table["id"].to_pylist() == [frame.metadata.id]
        found = decode_frame(table, frames.layers, info.sets["grid"])
        assert found.metadata == frame.metadata
        for name, array in frame.layers.items():
            assert array_sha256(found.layers[name]) == array_sha256(array), name


def test_the_card_explains_the_conversion_of_float16(packed, datasets):
    assert "turns float16 into float32" in (packed / "README.md").read_text()
    rows = datasets.load_dataset(str(packed), "grid", split="train").with_format("numpy")
    assert rows[0]["albedo"].dtype == np.float32
    assert HubFrames(packed, "grid", ["albedo"]).frame(0).layers["albedo"].dtype == np.float16


def test_facts_match_the_rows(packed, frames_root, info):
    facts = read_facts(packed, info.sets["grid"], read_pack_manifest(packed).of_set("grid"), "a.jpg")
    frames = FrameFolder(frames_root, "grid")
    np.testing.assert_array_equal(facts.table, frames.factor_table)
    assert (facts.first, facts.picture) == (frames.metadata(0), "a.jpg")


def test_splits_are_listed_with_their_rules(frames_root, info, tmp_path):
    plan = SplitPlan(factor="color", values={"train": ("red",), "ood.1": ("blue",)})
    out = pack_hub(frames_root, tmp_path / "out", sets=["grid"], plan=plan)
    text, manifest = (out / "README.md").read_text(), read_pack_manifest(out)
    facts = yaml.safe_load(text.split("---\n")[1])
    assert facts["configs"][0]["data_files"] == [
        {"split": "train", "path": "grid/train-*.parquet"},
        {"split": "ood.1", "path": "grid/ood.1-*.parquet"},
    ]
    (grid,) = facts["dataset_info"]
    assert [(one["name"], one["num_examples"]) for one in grid["splits"]] == [("train", 3), ("ood.1", 3)]
    assert grid["dataset_size"] == sum(one["num_bytes"] for one in grid["splits"])
    for split in ("train", "ood.1"):
        assert f"| `{split}` | 3 | {manifest.splits['grid'][split].made} |" in text


@pytest.mark.parametrize(
    ("rows", "name"),
    [(999, "n<1K"), (1000, "1K<n<10K"), (99_999, "10K<n<100K"), (10**6, "1M<n<10M"), (10**7, "10M<n<100M")],
)
def test_the_front_matter_is_valid_and_names_the_size(packed, info, rows, name):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    manifest = read_pack_manifest(packed)
    (first, *others) = manifest.files
    rest = rows - sum(shard.rows for shard in others)
    manifest = manifest.model_copy(update={"files": (first.model_copy(update={"rows": rest}), *others)})
    data = huggingface_hub.DatasetCard(text_of(packed, info, manifest)).data
    assert (data.size_categories, data.license) == ([name], "cc-by-4.0")
    assert [one["config_name"] for one in data.configs] == ["grid"]


def test_a_split_without_a_rule_has_no_explanation(packed, info):
    bare = read_pack_manifest(packed).model_copy(update={"splits": {}})
    assert "how chosen" not in text_of(packed, info, bare)
    made = bare.model_copy(update={"splits": {"grid": {"train": SplitRecord(rows=6, made="by | hand")}}})
    assert "| `train` | 6 | by \\| hand |" in text_of(packed, info, made)


def test_assets_are_listed_and_unknown_licences_flagged(packed, info):
    known = AssetRecord(kind="objects", label="cube", licence="CC0-1.0", source="built here", sha256="a" * 64)
    mine = AssetRecord(kind="textures", label="mine", sha256="b" * 64)
    text = text_of(packed, info, assets=(known, mine))
    assert "| objects | CC0-1.0 | built here | cube |" in text
    assert "| textures | **unknown** (not stated) | - | mine |" in text
    assert "**The licences of 1 of these are not known: ask before passing them on.**" in text
    assert "not known" not in text_of(packed, info, assets=(known,))
    many = tuple(mine.model_copy(update={"label": f"t{number}"}) for number in range(30))
    assert "| t0, t1, t2," in (text := text_of(packed, info, assets=many))
    assert ", t23 and 6 more, see `dataset.json` |" in text
    assert "show no assets from files" in text_of(packed, info)


def test_frames_without_a_renderer_have_dashes_in_the_table(packed, info):
    manifest = read_pack_manifest(packed)
    facts = read_facts(packed, info.sets["grid"], manifest.of_set("grid"))
    facts = dataclasses.replace(facts, first=facts.first.model_copy(update={"renderer": None}))
    one = info.model_copy(update={"sets": {"grid": info.sets["grid"]}})
    assert "| `grid` | - | - | - | - | - |" in card(one, manifest, {"grid": facts})


GRID = SetInfo(
    count=8,
    width=8,
    height=6,
    layers=("image",),
    factors=(
        FactorInfo(name="a", kind="categorical", values=("x", "y")),
        FactorInfo(name="b", kind="categorical", values=(0, 1)),
        FactorInfo(name="c", kind="continuous", low=0, high=9, unit="m"),
        FactorInfo(name="d", kind="categorical", values=("only",)),
    ),
    varies=("b",),
)


def test_the_shown_factor_has_several_values_and_preferably_varies_within_concept_sets():
    def shown(table, **changes):
        return shown_factor(PackedRows(Path(), GRID.model_copy(update=changes), (), np.array(table, float)))

    table = [[0, 0, 5, 0], [1, 1, 6, 0]]
    assert shown(table) == "b"
    assert shown(table, varies=()) == "a"
    assert shown([[0, 0, 5, 0], [0, 0, 6, 0]]) == "c"
    assert shown([[0, 0, 5, 0]] * 2) is None
    assert shown(np.zeros((1, 0)), factors=()) is None


def test_the_picture_is_a_sheet_of_one_factor(packed, info, frames_root, monkeypatch):
    shards, frames = read_pack_manifest(packed).of_set("grid"), FrameFolder(frames_root, "grid")
    seen = []
    monkeypatch.setattr(card_pictures, "_encode", lambda pixels: seen.append(pixels) or b"")
    rows = PackedRows(packed, info.sets["grid"], shards, frames.factor_table)
    draw_picture(rows)
    chosen, headings = choose_sheet_rows(frames, "size", 1)  # `size` varies within a concept set
    assert len(chosen) == 3
    assert list(headings.values()) == ["size 1.5 m", "size 2 m", "size 2.5 m"]
    sheet = contact_sheet(frames, chosen, ["image", "albedo", "shading", "depth"], headings, TILE)
    np.testing.assert_array_equal(seen[0], sheet)
    monkeypatch.setattr(card_pictures, "ROWS", 2)
    draw_picture(rows)
    np.testing.assert_array_equal(seen[1], contact_sheet(frames, chosen[:2], rows.layers, headings, TILE))


def test_pictures_are_small_and_can_be_read(packed, info, frames_root):
    (picture,) = (packed / "assets").iterdir()
    with Image.open(picture) as opened:
        assert opened.format == "JPEG"
    assert picture.stat().st_size <= LARGEST_PICTURE
    noise = np.random.default_rng(0).integers(0, 256, (ROWS * (TILE + 20), COLUMNS * TILE, 3), np.uint8)
    data = card_pictures._encode(noise)
    assert len(data) <= LARGEST_PICTURE
    assert Image.open(io.BytesIO(data)).size == noise.shape[1::-1]


def test_nan_and_infinite_pixels_do_not_stop_packing(make_frame, info, tmp_path):
    frame = make_frame()
    layers = {name: array.copy() for name, array in frame.layers.items()}
    for name, value in (("albedo", np.nan), ("shading", np.inf), ("depth", np.nan)):
        layers[name][:2] = value
    hashes = {name: array_sha256(array) for name, array in layers.items()}
    write_dataset_info(tmp_path / "frames", info)
    write_frame(tmp_path / "frames", Frame(frame.metadata.model_copy(update={"layers": hashes}), layers))
    out = pack_hub(tmp_path / "frames", tmp_path / "out", sets=["grid"])
    assert (out / "assets" / "grid.jpg").stat().st_size > 0


def test_a_pack_without_images_has_a_picture_and_a_matching_usage_example(frames_root, tmp_path):
    out = pack_hub(frames_root, tmp_path / "out", sets=["grid"], layers=["depth", "part"])
    assert (out / "assets" / "grid.jpg").stat().st_size > 0
    assert 'print(frames[0]["id"])' in (out / "README.md").read_text()
    fields = json.loads((out / "croissant.json").read_text())["recordSet"][0]["field"]
    assert {"depth", "part"} <= {field["name"] for field in fields}
    assert "image" not in {field["name"] for field in fields}
