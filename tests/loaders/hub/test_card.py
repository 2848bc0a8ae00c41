import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from candlelight.loaders.frame_folder import FrameFolder
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
from candlelight.loaders.hub.set_facts import decode_frame, read_facts, read_rows
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.sheet import contact_sheet
from candlelight.loaders.looking.sheet_rows import choose_sheet_rows
from candlelight.loaders.packs.pack_manifest import SplitRecord, read_pack_manifest
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.schema import AssetRecord, FactorInfo, SetInfo, Statements, array_sha256
from tests.loaders.edits import changed, write_set


@pytest.fixture(scope="module")
def sharded(tmp_path_factory, frames_root):
    """Pack one set into several row groups and shards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("candlelight.loaders.hub.shards.SHARD_BYTES", 200_000)
        patch.setattr("candlelight.loaders.hub.shards.ROW_GROUP_BYTES", 100_000)
        return pack_hub(frames_root, tmp_path_factory.mktemp("packed") / "tiny", sets=["grid"])


@pytest.fixture(scope="module")
def text_of(stored, info):
    """Return a function that writes the card of set `grid`, with changes."""
    packed = read_pack_manifest(stored / "hub")
    known = read_facts(stored / "hub", info.sets["grid"], packed.of_set("grid"))

    def write(manifest=packed, facts=None, set_info=None, **changes):
        sets = {"grid": info.sets["grid"].model_copy(update=set_info or {})}
        text = card(
            info.model_copy(update={"sets": sets, **changes}),
            manifest,
            {"grid": dataclasses.replace(known, **(facts or {}))},
        )
        return text, front_of(text)

    return write


def front_of(text):
    return yaml.safe_load(text.split("---\n")[1])


# ---------------------------------------------------------------------------------------------- its facts


def test_rows_and_facts_are_read_from_any_row_group_and_file(sharded, frames_root, info):
    manifest, frames = read_pack_manifest(sharded).of_set("grid"), FrameFolder(frames_root, "grid")
    assert len(manifest) > 1
    columns = ["id", "metadata", *map(layer_column, frames.layers)]
    tables = list(read_rows(sharded, manifest, [0, 3, 5], columns))
    for row, table in zip([0, 3, 5], tables, strict=True):
        found = decode_frame(table, frames.layers, info.sets["grid"])
        assert table["id"].to_pylist() == [found.metadata.id]
        assert found.metadata == frames.metadata(row)
        assert {name: array_sha256(array) for name, array in found.layers.items()} == found.metadata.layers
    facts = read_facts(sharded, info.sets["grid"], manifest, "a.jpg")
    np.testing.assert_array_equal(facts.table, frames.factor_table)
    assert (facts.first, facts.picture) == (frames.metadata(0), "a.jpg")


# ----------------------------------------------------------------------------------------------- the text


def test_the_card_states_configs_splits_licence_and_content(stored):
    text, manifest = (stored / "hub" / "README.md").read_text(), read_pack_manifest(stored / "hub")
    front = front_of(text)
    assert (front["license"], front["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    assert front["configs"][1] == {
        "config_name": "free",
        "data_files": [{"split": "train", "path": "free/train-*.parquet"}],
    }
    grid, free = front["dataset_info"]
    assert grid["description"] == f"content-sha256:{manifest.content_sha256('grid')}"
    assert grid["description"] != free["description"]
    assert (grid["splits"][0]["num_examples"], free["splits"][0]["num_examples"]) == (6, 5)
    assert grid["download_size"] == manifest.files[0].bytes
    for line in (
        "| `size` | categorical | 1.5, 2, 2.5 | m | 2, 2, 2 |",
        "| `angle` | continuous | 0.0 to 90.0 | degree | 0 to 62.5 |",
        "![samples of grid](assets/grid.jpg)",
        "| `grid` | 5.0.1 | 16 | none | - | CPU |",
        "| `value_size` | float64 | m | - | factor `size`, its value |",
        "| `light_left` | float16 [3, 24, 32] | scene radiance | linear Rec.709 |",
        "turns float16 into float32",
        "show no assets from files",
    ):
        assert line in text


def test_the_usage_in_the_card_runs(datasets, stored, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    code = (stored / "hub" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code.replace("path/to/this/folder", str(stored / "hub")), {})
    assert capsys.readouterr().out == "(24, 32, 3) grid-000000\n"


def test_splits_load_by_name_and_are_listed_with_their_rules(datasets, frames_root, tmp_path):
    plan = SplitPlan(factor="color", values={"train": ("red",), "ood.1": ("blue",)})
    out = pack_hub(frames_root, tmp_path / "out", ["grid"], layers=["depth", "part"], plan=plan)
    text, manifest = (out / "README.md").read_text(), read_pack_manifest(out)
    front = front_of(text)
    assert front["configs"][0]["data_files"] == [
        {"split": "train", "path": "grid/train-*.parquet"},
        {"split": "ood.1", "path": "grid/ood.1-*.parquet"},
    ]
    (grid,) = front["dataset_info"]
    assert [(one["name"], one["num_examples"]) for one in grid["splits"]] == [("train", 3), ("ood.1", 3)]
    assert grid["dataset_size"] == sum(one["num_bytes"] for one in grid["splits"])
    for split, colour in (("train", "red"), ("ood.1", "blue")):
        made = f"rows with color={colour}; 1 family has rows in other splits too"
        assert f"| `{split}` | 3 | {made} |" in text
        (shard,) = manifest.of_split("grid", split)
        assert (shard.path, shard.rows) == (f"grid/{split}-00000-of-00001.parquet", 3)
    loaded = datasets.load_dataset(str(out), "grid", cache_dir=str(tmp_path / "cache"))
    assert {name: rows["color"][:] for name, rows in loaded.items()} == {"train": [0] * 3, "ood.1": [1] * 3}
    # Of a pack without images, the usage shows the id.
    assert 'print(frames[0]["id"])' in text
    assert (out / "assets" / "grid.jpg").stat().st_size > 0
    fields = json.loads((out / "croissant.json").read_text())["recordSet"][0]["field"]
    names = {field["name"] for field in fields}
    assert ({"depth", "part"} <= names, "image" in names) == (True, False)


def test_a_split_without_a_rule_has_no_explanation(stored, text_of):
    bare = read_pack_manifest(stored / "hub").model_copy(update={"splits": {}})
    assert "how chosen" not in text_of(bare)[0]
    made = bare.model_copy(update={"splits": {"grid": {"train": SplitRecord(rows=6, made="by | hand")}}})
    assert "| `train` | 6 | by \\| hand |" in text_of(made)[0]


@pytest.mark.parametrize(
    ("rows", "name"),
    [(999, "n<1K"), (1000, "1K<n<10K"), (99_999, "10K<n<100K"), (10**6, "1M<n<10M"), (10**7, "10M<n<100M")],
)
def test_the_front_matter_is_valid_and_names_the_size(stored, text_of, rows, name):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    manifest = read_pack_manifest(stored / "hub")
    files = (manifest.files[0].model_copy(update={"rows": rows}),)
    data = huggingface_hub.DatasetCard(text_of(manifest.model_copy(update={"files": files}))[0]).data
    assert (data.size_categories, data.license) == ([name], "cc-by-4.0")
    assert [one["config_name"] for one in data.configs] == ["grid"]


def test_other_licences_and_long_lists(text_of):
    scene = FactorInfo(name="scene", kind="categorical", values=tuple(f"s{i}" for i in range(30)))
    changes = {
        "facts": {"table": np.array([[3.0], [3.0], [0.0]])},
        "set_info": {"factors": (scene,), "layers": ("image",)},
    }
    text, front = text_of(**changes, licence="My Terms")
    assert (front["license"], front["license_name"]) == ("other", "my-terms")
    assert front["task_categories"] == ["image-feature-extraction"]
    assert "| `scene` | categorical | 30 values, see `dataset.json` | - | 0 to 2 of each |" in text
    text, front = text_of(**changes, licence="")
    assert "license" not in front
    assert "The data set: not stated; ask its author before using it." in text


def test_assets_are_listed_and_unknown_licences_flagged(text_of):
    known = AssetRecord(kind="objects", label="cube", licence="CC0-1.0", source="built here", sha256="a" * 64)
    mine = AssetRecord(kind="textures", label="mine", sha256="b" * 64)
    text, _ = text_of(assets=(known, mine))
    assert "| objects | CC0-1.0 | built here | cube |" in text
    assert "| textures | **unknown** (not stated) | - | mine |" in text
    assert "**The licences of 1 of these are not known: ask before passing them on.**" in text
    assert "not known" not in text_of(assets=(known,))[0]
    text, _ = text_of(assets=tuple(mine.model_copy(update={"label": f"t{number}"}) for number in range(30)))
    assert "| t0, t1, t2," in text
    assert ", t23 and 6 more, see `dataset.json` |" in text


def test_statements_of_the_author_are_shown(text_of):
    assert "Statements" not in text_of()[0]
    text, _ = text_of(statements=Statements(use_cases="Research, [mostly](x)."))
    assert text.endswith("## Statements of the author\n\n- **Use cases.** Research, \\[mostly\\](x).\n")


def test_the_causal_graph_is_shown_as_text_and_cut_if_long(text_of):
    nodes = [
        CausalNode(name=f"x{i}", kind="hidden", type="continuous", mechanism="uniform(0, 1)")
        for i in range(42)
    ]
    last = CausalNode(
        name="y", kind="factor", type="continuous", parents=("x0", "x1"), mechanism="1 + " * 99 + "x0"
    )
    text, _ = text_of(set_info={"graph": CausalGraph(nodes=(*nodes[:2], last))})
    shown = "    x0, x1 -> y ~ " + "1 + " * 99
    assert f"    x0 ~ uniform(0, 1) (hidden)\n    x1 ~ uniform(0, 1) (hidden)\n{shown[:304]}...\n\n" in text
    text, _ = text_of(set_info={"graph": CausalGraph(nodes=tuple(nodes))})
    assert "    x39 ~ uniform(0, 1) (hidden)\n    ... and 2 more lines\n\n" in text


def test_frames_without_a_renderer_have_dashes_in_the_table(text_of, frames_root):
    first = FrameFolder(frames_root, "grid").metadata(0).model_copy(update={"renderer": None})
    assert "| `grid` | - | - | - | - | - |" in text_of(facts={"first": first})[0]


def test_markup_is_shown_as_text(text_of, info):
    markdown_it = pytest.importorskip("markdown_it")
    hostile = "<script>alert(1)</script> ![x](https://evil/x.png) <img src=//evil/y>\n# [a](b) `c`"
    factors = (
        FactorInfo(name="shape", kind="categorical", values=(hostile, "cone"), unit="m"),
        FactorInfo(name="angle", kind="continuous", low=0, high=1, unit=hostile),
    )
    asset = AssetRecord(label=hostile, kind="objects", sha256="a" * 64, licence=hostile, source=hostile)
    node = CausalNode(name="n", kind="factor", type="categorical", mechanism=f"uniform({hostile})")
    changes = {"name": hostile, "description": hostile, "licence": hostile, "assets": (asset,)}
    text, front = text_of(
        set_info={"factors": factors, "varies": (hostile,), "graph": CausalGraph(nodes=(node,))}, **changes
    )
    assert front["pretty_name"] == hostile
    body = text.split("---\n", 2)[2]
    page = markdown_it.MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(body)
    assert not any(tag in page for tag in ("<script", "<img", "<a "))
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; ![x](https://evil/x.png)") >= 7


# ------------------------------------------------------------------------------------------- the pictures

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


@pytest.mark.parametrize(
    ("table", "changes", "expected"),
    [
        ([[0, 0, 5, 0], [1, 1, 6, 0]], {}, "b"),
        ([[0, 0, 5, 0], [1, 1, 6, 0]], {"varies": ()}, "a"),
        ([[0, 0, 5, 0], [0, 0, 6, 0]], {}, "c"),
        ([[0, 0, 5, 0]] * 2, {}, None),
        (np.zeros((1, 0)), {"factors": ()}, None),
    ],
)
def test_the_shown_factor_has_several_values_and_preferably_varies_within_concept_sets(
    table, changes, expected
):
    rows = PackedRows(Path(), GRID.model_copy(update=changes), (), np.array(table, float))
    assert shown_factor(rows) == expected


def test_the_picture_is_a_sheet_of_one_factor(sharded, info, frames_root, monkeypatch):
    manifest, frames = read_pack_manifest(sharded).of_set("grid"), FrameFolder(frames_root, "grid")
    seen = []
    monkeypatch.setattr(card_pictures, "_encode", lambda pixels: seen.append(pixels) or b"")
    rows = PackedRows(sharded, info.sets["grid"], manifest, frames.factor_table)
    draw_picture(rows)
    chosen, headings = choose_sheet_rows(frames, "size", 1)  # `size` varies within a concept set
    assert list(headings.values()) == ["size 1.5 m", "size 2 m", "size 2.5 m"]
    sheet = contact_sheet(frames, chosen, ["image", "albedo", "shading", "depth"], headings, TILE)
    np.testing.assert_array_equal(seen[0], sheet)
    monkeypatch.setattr(card_pictures, "ROWS", 2)
    draw_picture(rows)
    np.testing.assert_array_equal(seen[1], contact_sheet(frames, chosen[:2], rows.layers, headings, TILE))


def test_pictures_are_small_and_can_be_read(stored):
    picture = stored / "hub" / "assets" / "grid.jpg"
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
    root = write_set(tmp_path / "frames", info, [changed(frame, layers)])
    out = pack_hub(root, tmp_path / "out", sets=["grid"])
    assert (out / "assets" / "grid.jpg").stat().st_size > 0
