"""The shipped assets: their manifest, the content of the files, and the script that builds them."""

import hashlib
import json
import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from candlelight.blender_assets import ASSET_SUFFIXES, AssetLibrary, manifest, shipped

CANDLE = {
    "objects": {"cube", "sphere", "cylinder", "cone", "torus"},
    "materials": {"red", "blue", "yellow", "purple", "orange"},
    "lights": {"left", "middle", "right"},
}
FROM_NPM = {"bunny", "teapot"}  # meshes that the package does not carry as data
ENTRIES = list(manifest().values())
ROOT = Path(__file__).parents[2]
# All assets that are modelled in numpy, and one asset of every other kind.
REBUILT = ("objects", "materials/red", "textures/checker", "lights/left", "scenes/garden", "scenes/tunnel")


def test_the_manifest_lists_exactly_the_shipped_files():
    files = {
        path.relative_to(shipped()).as_posix() for k in ASSET_SUFFIXES for path in (shipped() / k).iterdir()
    }
    assert sorted(files) == sorted(entry["file"] for entry in ENTRIES)
    for entry in ENTRIES:
        path = shipped() / entry["file"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"], path
        assert entry["file"] == f"{entry['kind']}/{entry['name']}{path.suffix}"
        assert path.suffix in ASSET_SUFFIXES[entry["kind"]]
        assert entry["licence"] == ("public domain" if entry["name"] in FROM_NPM else "CC0-1.0"), path
        assert ("Poly Haven" if path.suffix == ".exr" else "scripts/assets/build.py") in entry["source"], path
    library = AssetLibrary()
    for kind in ASSET_SUFFIXES:
        assert library.labels(kind) == sorted(name for k, name in manifest() if k == kind)
        assert CANDLE.get(kind, set()) <= set(library.labels(kind))


LOOK = """
import json, sys
from pathlib import Path
import bpy, bmesh
from candlelight.blender_assets.asset_manifest import read_asset_manifest

def look_at_object(thing):
    facts = {"pose": [list(thing.location), list(thing.rotation_euler), list(thing.scale)]}
    if thing.type == "MESH":
        axes = list(zip(*(vertex.co for vertex in thing.data.vertices)))
        facts |= {"low": [min(axis) for axis in axes], "high": [max(axis) for axis in axes]}
        facts |= {"farthest": max(vertex.co.xy.length for vertex in thing.data.vertices)}
        facts |= {"modifiers": len(thing.modifiers), "slots": len(thing.data.materials)}
        mesh = bmesh.new()
        mesh.from_mesh(thing.data)
        facts["body"] = [len(mesh.verts), len(mesh.faces), mesh.calc_volume(signed=True)]
        mesh.free()
        return facts
    light, facts["location"] = thing.data, list(thing.location)
    facts |= {"type": light.type, "power": light.energy, "radius": light.shadow_soft_size}
    return facts | {"color": list(light.color)}

def look_at_material(material):
    nodes = material.node_tree.nodes
    inputs = next(node for node in nodes if node.type == "BSDF_PRINCIPLED").inputs
    color = inputs["Base Color"]
    facts = {"linked": color.is_linked, "base_color": list(color.default_value)[:3], "nodes": nodes.keys()}
    return facts | {name: inputs[name].default_value for name in ("Metallic", "Transmission Weight")}

root, found = Path(sys.argv[1]), {}
bpy.ops.wm.read_factory_settings(use_empty=True)
for entry in read_asset_manifest(root / "manifest.json").values():
    path = root / entry["file"]
    if path.suffix == ".exr":
        image = bpy.data.images.load(str(path))
        found[entry["file"]] = {"size": list(image.size), "float": image.is_float}
        continue
    with bpy.data.libraries.load(str(path), link=False) as (source, target):
        kinds = ("objects", "materials", "texts", "images", "collections", "worlds")
        facts = {kind: list(getattr(source, kind)) for kind in kinds}
        if entry["kind"] != "scenes":  # which have many large meshes
            target.objects, target.materials = source.objects, source.materials
    for thing in target.objects:
        facts |= look_at_object(thing)
    for material in target.materials:
        facts |= look_at_material(material)
    found[entry["file"]] = facts
Path(sys.argv[2]).write_text(json.dumps(found))
"""


def python(*words):
    if find_spec("bpy") is None:
        pytest.skip("Blender's module bpy is not installed here")
    done = subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, capture_output=True, timeout=200)
    assert done.returncode == 0, done.stderr.decode()


def found_in(root, scratch):
    """Open every file of a manifest in one Blender; return their content by file."""
    python("-c", LOOK, root, scratch / "found.json")
    return json.loads((scratch / "found.json").read_text())


@pytest.fixture(scope="module")
def look(tmp_path_factory):
    """Return a function that lists the entries of a kind with the content of their files."""
    found = found_in(shipped(), tmp_path_factory.mktemp("shipped"))
    return lambda kind: [(entry, found[entry["file"]]) for entry in ENTRIES if entry["kind"] == kind]


@pytest.mark.blender
def test_objects_stand_on_their_origin_and_have_the_listed_size(look):
    for entry, facts in look("objects"):
        assert facts["objects"] == [entry["name"]]
        # Only the parts of an object have materials, which name their slots.
        parts = [part["name"] for part in entry["facts"].get("parts", [])]
        assert sorted(facts["materials"]) == sorted(parts)
        assert (facts["modifiers"], facts["slots"]) == (0, len(parts))
        assert facts["pose"] == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
        # The origin is the middle of the base.
        middle = [(low + high) / 2 for low, high in zip(facts["low"], facts["high"], strict=True)]
        assert (*middle[:2], facts["low"][2]) == pytest.approx((0, 0, 0), abs=1e-6)
        lengths = [high - low for low, high in zip(facts["low"], facts["high"], strict=True)]
        assert lengths == pytest.approx(entry["facts"]["dimensions"], abs=2e-6)
        assert facts["farthest"] == pytest.approx(entry["facts"]["footprint"], abs=2e-6)
        assert max(lengths) == pytest.approx(1.25 if entry["name"] == "torus" else 1, abs=1e-5)
        assert facts["body"][2] > 0  # faces look outwards


@pytest.mark.blender
def test_materials_have_the_colour_of_their_name(look):
    for entry, facts in look("materials"):
        assert (facts["materials"], facts["linked"]) == ([entry["name"]], False)
        assert (facts["Metallic"], facts["Transmission Weight"]) == (0, 0)
        assert facts["base_color"] == pytest.approx(entry["facts"]["base_color"], abs=1e-6)
        red, green, blue = facts["base_color"]
        named = {
            "red": red > 3 * max(green, blue),
            "green": green > 3 * max(red, blue),
            "blue": blue > 3 * max(red, green),
            "yellow": min(red, green) > 3 * blue,
            "purple": min(red, blue) > 3 * green,
            "orange": red > 2 * green > 4 * blue,
        }
        assert named[entry["name"]]


@pytest.mark.blender
def test_textures_have_their_handles(look):
    for entry, facts in look("textures"):
        assert (facts["materials"], facts["linked"]) == ([entry["name"]], True)
        assert {"color a", "color b", "mapping"} == set(entry["facts"]["handles"]) <= set(facts["nodes"])


@pytest.mark.blender
def test_lights_have_the_listed_values(look):
    for entry, facts in look("lights"):
        assert (facts["objects"], facts["type"]) == ([entry["name"]], "POINT")
        assert {name: facts[name] for name in entry["facts"]} == entry["facts"]
    # CANDLE's camera looks along -y: the left has the larger x.
    across = {entry["name"]: entry["facts"]["location"][0] for entry, _ in look("lights")}
    assert across["left"] > across["middle"] > across["right"]


@pytest.mark.blender
def test_scenes_are_panoramas_of_radiance_or_one_collection_and_a_sky(look):
    for entry, facts in look("scenes"):
        if entry["file"].endswith(".exr"):
            width, height = facts["size"]
            assert width == 2 * height >= 1024
            assert facts["float"]
            assert entry["facts"]["strength"] > 0
            assert math.isfinite(entry["facts"]["rotation"])
        else:
            assert entry["facts"] == {"modelled": True}
            assert facts["collections"] == facts["worlds"] == [entry["name"]]


@pytest.mark.blender
def test_files_contain_no_scripts_or_images(look):
    for kind in ASSET_SUFFIXES:
        for _, facts in look(kind):
            assert (facts.get("texts", []), facts.get("images", [])) == ([], [])


@pytest.mark.blender
@pytest.mark.slow
def test_the_script_builds_the_shipped_assets(look, tmp_path):
    # Blender writes addresses into its files: two builds of one .blend differ in their hash. The shipped
    # files are those of the older supported version.
    def told(entry):
        left_out = {"blender"} if entry["file"].endswith(".exr") else {"blender", "sha256"}
        return {name: value for name, value in entry.items() if name not in left_out}

    python("scripts/assets/build.py", tmp_path, *(word for name in REBUILT for word in ("--only", name)))
    again = json.loads((tmp_path / "manifest.json").read_text())["assets"]
    ours = [entry for entry in ENTRIES if entry["name"] not in FROM_NPM]
    ours = [entry for entry in ours if {entry["kind"], f"{entry['kind']}/{entry['name']}"} & {*REBUILT}]
    assert [told(entry) for entry in again] == [told(entry) for entry in ours]
    found = found_in(tmp_path, tmp_path)
    for entry, facts in look("objects"):
        if entry["name"] not in FROM_NPM:
            assert found[entry["file"]]["body"] == pytest.approx(facts["body"], rel=1e-5)
