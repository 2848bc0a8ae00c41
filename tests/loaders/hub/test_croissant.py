import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import date

import pytest

from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from candlelight.loaders.hub.arrow_tables import arrow_columns
from candlelight.loaders.hub.croissant import croissant
from candlelight.loaders.hub.set_facts import read_facts
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.packs.pack_manifest import read_pack_manifest
from candlelight.loaders.schema import AssetRecord, RendererRecord, Statements
from candlelight.loaders.verification.checksums import file_sha256
from tests.loaders.edits import changed, write_set

RAI = {
    *("rai:dataLimitations", "rai:dataBiases", "rai:personalSensitiveInformation", "rai:dataUseCases"),
    *("rai:dataSocialImpact", "rai:dataReleaseMaintenancePlan"),
}
ASSETS = (
    AssetRecord(kind="objects", label="cube", licence="CC0-1.0", source="built here", sha256="a" * 64),
    AssetRecord(kind="textures", label="mine", licence="the user's own; not stated", sha256="b" * 64),
)
GRAPH = CausalGraph(
    nodes=(
        CausalNode(name="color", kind="factor", type="categorical", mechanism="uniform(red, blue)"),
        CausalNode(
            name="size",
            kind="factor",
            type="categorical",
            parents=("color",),
            previous=("size",),
            mechanism="table(color)",
            rules=({"color": ("red",), "size": (1.5, 2)},),
            intervened="some",
        ),
    ),
    selections=({"color": ("blue",), "size": (2.5,)},),
)
NODE = ("name", "kind", "intervened", "mechanism", "parents", "previous", "rules")
GRAPH_ROWS = [
    ["color", "factor", "none", "uniform(red, blue)", [], [], []],
    ["size", "factor", "some", "table(color)", ["color"], ["size"], ["color in [red] and size in [1.5, 2]"]],
    [
        "selection 1",
        "selection",
        "none",
        "never color in [blue] and size in [2.5]",
        ["color", "size"],
        [],
        [],
    ],
]


@pytest.fixture(scope="module")
def packed(stored):
    return stored / "hub"


@pytest.fixture(scope="module")
def packed_in_shards(tmp_path_factory, make_frame, info):
    """Pack one set, which has a causal graph, into two files."""
    propensity = dict.fromkeys(GRAPH.names, 0.5)
    frames = [changed(make_frame("grid", index), propensity=propensity) for index in range(6)]
    root = write_set(tmp_path_factory.mktemp("frames") / "graph", info, frames, graph=GRAPH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("candlelight.loaders.hub.shards.SHARD_BYTES", 150_000)
        patch.setattr("candlelight.loaders.hub.shards.ROW_GROUP_BYTES", 100_000)
        return pack_hub(root, tmp_path_factory.mktemp("sharded") / "tiny", sets=["grid"])


def document(folder):
    return json.loads((folder / "croissant.json").read_text())


@pytest.fixture(scope="module")
def described(packed, info):
    """Return a function that describes the pack, with changes of its data set and its sets' metadata."""
    manifest = read_pack_manifest(packed)
    facts = {name: read_facts(packed, one, manifest.of_set(name)) for name, one in info.sets.items()}

    def described(first=(), **changes):
        known = {
            name: replace(one, first=one.first.model_copy(update=dict(first))) for name, one in facts.items()
        }
        return json.loads(croissant(info.model_copy(update=changes), manifest, known, date(2026, 1, 2)))

    return described


def test_every_file_is_listed_with_its_hash_and_size(packed):
    *shards, dataset = [
        (file["@type"], file["encodingFormat"], file["contentUrl"], file["sha256"], file["contentSize"])
        for file in document(packed)["distribution"]
    ]
    assert shards == [
        ("cr:FileObject", "application/x-parquet", shard.path, shard.sha256, f"{shard.bytes} B")
        for shard in read_pack_manifest(packed).files
    ]
    path = packed / "dataset.json"
    size = f"{path.stat().st_size} B"
    assert dataset == ("cr:FileObject", "application/json", path.name, file_sha256(path), size)


def test_every_column_is_a_field_of_its_record_set(packed, info):
    sets = {one["@id"]: one for one in document(packed)["recordSet"]}
    assert list(sets) == ["grid", "free"]
    for name, one in sets.items():
        fields = {field["name"]: field for field in one["field"]}
        assert list(fields) == ["split", *(column.name for column in arrow_columns(info.sets[name]))]
        assert all(field["@id"] == f"{name}/{key}" for key, field in fields.items())
        assert fields["image"]["dataType"] == "sc:ImageObject"
        assert fields["image"]["source"]["transform"] == {"jsonPath": "bytes"}
        assert (fields["albedo"]["dataType"], fields["albedo"]["arrayShape"]) == ("cr:Float16", "3,24,32")
        assert (fields["depth"]["dataType"], fields["depth"]["arrayShape"]) == ("cr:Float32", "24,32")
        assert fields["id"]["source"]["extract"] == {"column": "id"}
    size = next(field for field in sets["grid"]["field"] if field["name"] == "size")
    assert size["description"] == "factor `size`, number of its value: 0 1.5; 1 2; 2 2.5"


def test_a_causal_graph_is_a_record_set_that_holds_its_nodes(packed_in_shards):
    *_, graph = document(packed_in_shards)["recordSet"]
    assert graph["@id"] == "grid-graph"
    assert [[*row.values()] for row in graph["data"]] == GRAPH_ROWS
    assert [*graph["data"][0]] == [field["@id"] for field in graph["field"]]


def test_responsible_use_and_origin_are_stated(described):
    found = described()
    assert found["rai:hasSyntheticData"] is True
    assert found["conformsTo"][0] == "http://mlcommons.org/croissant/1.1"
    assert found["license"] == "https://spdx.org/licenses/CC-BY-4.0.html"
    assert "Blender 5.0.1" in found["prov:wasGeneratedBy"]["name"]
    for renderer in ({"renderer": None}, {"renderer": RendererRecord.model_construct(blender=None)}):
        assert "Blender" not in described(renderer)["prov:wasGeneratedBy"]["name"]
    assert f"SHA-256 {'a' * 64}, seed 3" in found["prov:wasGeneratedBy"]["description"]
    assert "Set grid, factor color: red 3, blue 3." in found["rai:dataBiases"]
    assert "Set free, factor angle: 0 to 62.5 degree." in found["rai:dataBiases"]
    assert found["datePublished"] == "2026-01-02"
    assert "license" not in described(licence="")


def test_judgements_are_stated_by_the_author_only(described):
    assert not described().keys() & (RAI - {"rai:dataLimitations", "rai:dataBiases"})
    stated = {name: f"on {name}" for name in Statements.model_fields}
    found = described(statements=Statements(**stated))
    assert found.keys() >= RAI
    assert found["rai:dataLimitations"][0] == "on limitations"
    assert found["rai:dataSocialImpact"] == "on social_impact"


def test_assets_are_listed_and_unknown_licences_are_flagged(described):
    cube, mine = described(assets=ASSETS)["prov:wasDerivedFrom"]
    assert (cube["name"], cube["license"]) == ("objects/cube", "https://spdx.org/licenses/CC0-1.0.html")
    assert (mine["name"], mine["license"], mine["sha256"]) == ("textures/mine", "unknown", "b" * 64)
    assert mine["description"] == "Source not stated; licence unknown: stated as `the user's own; not stated`"
    assert described()["prov:wasDerivedFrom"] == []


def test_several_files_are_read_as_one_set_of_files(packed, packed_in_shards):
    *files, together, _ = document(packed_in_shards)["distribution"]
    assert len(files) > 1
    assert (together["@type"], together["includes"]) == ("cr:FileSet", "grid/*.parquet")
    records = document(packed_in_shards)["recordSet"][0]
    sources = {json.dumps(field["source"]["fileSet"]) for field in records["field"] if "source" in field}
    assert sources == {'{"@id": "grid-files"}'}
    # The version depends on the content.
    assert document(packed)["version"].startswith("1.0.0+")
    assert document(packed)["version"] != document(packed_in_shards)["version"]


# In a separate process: if `datasets` is imported too, pandas uses its array types, and mlcroissant 1.1
# cannot iterate over rows (`PandasArrayExtensionDtype` has no hash).
CLIENT = """
import json
import sys
import mlcroissant

def read(path):
    loaded = mlcroissant.Dataset(path)
    issues = loaded.metadata.ctx.issues
    try:
        rows = list(loaded.records("grid"))
    except mlcroissant.GenerationError as error:
        return {"GenerationError": str(error)}
    return {
        "issues": [str(issue) for issue in (*issues.errors, *issues.warnings)],
        "ids": [row["grid/id"].decode() for row in rows],
        "splits": sorted({row["grid/split"].decode() for row in rows}),
        "image": [rows[0]["grid/image"].format, *rows[0]["grid/image"].size],
        "channels": len(rows[0]["grid/albedo"]),
        "objects": [[one["grid/objects/type"].decode() for one in row["grid/objects"]] for row in rows],
        "graphs": [[*loaded.records(one.uuid)] for one in loaded.metadata.record_sets if one.data],
    }

print(json.dumps([read(path) for path in sys.argv[1:]]))
"""


@pytest.fixture(scope="module")
def read_by_mlcroissant(packed, packed_in_shards, tmp_path_factory):
    """Read both packs, and a copy in which one file is changed."""
    pytest.importorskip("mlcroissant")
    copy = shutil.copytree(packed, tmp_path_factory.mktemp("changed") / "copy")
    path = copy / "grid" / "train-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    files = [str(folder / "croissant.json") for folder in (packed, packed_in_shards, copy)]
    done = subprocess.run([sys.executable, "-c", CLIENT, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.oracle
@pytest.mark.parametrize("place", [0, 1], ids=["one file", "shards"])
def test_mlcroissant_reads_the_records(read_by_mlcroissant, place):
    found = read_by_mlcroissant[place]
    assert found["issues"] == []
    assert found["ids"] == [f"grid-{index:06d}" for index in range(6)]
    assert found["splits"] == ["train"]
    assert found["image"] == ["PNG", 32, 24]
    assert found["channels"] == 3
    assert found["objects"][2][0] == "cube"
    assert [len(objects) for objects in found["objects"]] == [1, 2, 3, 1, 2, 3]
    rows = [
        {f"grid-graph/{name}": value for name, value in zip(NODE, row, strict=True)} for row in GRAPH_ROWS
    ]
    assert found["graphs"] == [rows] * place


@pytest.mark.oracle
def test_mlcroissant_detects_a_changed_file(read_by_mlcroissant):
    assert read_by_mlcroissant[2].keys() == {"GenerationError"}
