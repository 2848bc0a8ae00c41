"""Hostile recipes, plans, assets and meshes, with paths elsewhere or of huge size, are refused."""

import json
import os
import struct
import tempfile
from pathlib import Path

import pytest

from candlelight.blender_assets import AssetLibrary, shipped
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.reports.plan_report import write_plan_report
from candlelight.generators.user_assets.asset_folders import scan_assets
from candlelight.generators.user_assets.import_meshes import add_mesh
from tests.refusals import refused

SCRIPT = "<script>alert(1)</script>"
LAUGHS = "a0: &a0 lol\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
# A tetrahedron, because the importer refuses meshes without a volume.
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"


def test_nested_aliases_do_not_fill_memory(write_recipe, tiny):
    with refused(r"recipe own.yaml: expected at most \d+ values, got more once all"):
        load_recipe(write_recipe(LAUGHS))
    with refused("`overrides` description: expected a YAML value"):
        load_recipe(tiny, [f"description={{{LAUGHS[:-1].replace(chr(10), ', ')}}}"])
    with refused(r"recipe own\.yaml: expected YAML, got something else: Exceeds"):
        load_recipe(write_recipe(f"seed: {'9' * 5000}"))


def test_pages_escape_names(tiny, tmp_path):
    recipe = load_recipe(tiny, [f"description='{SCRIPT}'", f"sets.cubes.factors.size.unit='{SCRIPT}'"])
    write_plan_report(make_plan(recipe), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "&lt;script&gt;" in text
    assert SCRIPT not in text


# ------------------------------------------------------------------------------------------------ assets


@pytest.fixture
def linked(tmp_path):
    """Make a folder of materials with a link to a file elsewhere, and a link to a file in the folder."""
    elsewhere = tmp_path / "elsewhere.blend"
    elsewhere.write_bytes((shipped() / "materials" / "red.blend").read_bytes())
    folder = tmp_path / "materials"
    folder.mkdir()
    (folder / "own.blend").write_bytes(elsewhere.read_bytes())
    (folder / "pink.blend").symlink_to("own.blend")
    (folder / "out.blend").symlink_to(elsewhere)
    return folder


def test_links_out_of_a_folder_of_assets_are_refused(linked, tmp_path):
    library = AssetLibrary({"materials": linked})
    assert library.find("materials", "pink") == linked / "pink.blend"
    with refused("assets.materials: `out.blend` is a link out of its folder; put the file itself there"):
        library.find("materials", "out")
    with refused(r"`out\.blend` is a link out of its folder"):
        scan_assets(linked)
    assert not (linked / "manifest.json").exists()
    # The folder may itself be a link.
    (tmp_path / "link").symlink_to(linked)
    assert AssetLibrary({"materials": tmp_path / "link"}).has("materials", "own")


def test_file_names_in_a_manifest_are_not_opened(tmp_path):
    (tmp_path / "own.blend").write_bytes(b"own")
    secret = tmp_path.parent / "secret"
    entry = {"kind": "materials", "name": "own", "file": f"../{secret.name}", "licence": "", "source": ""}
    entry |= {"sha256": "0" * 64, "facts": {}}
    (tmp_path / "manifest.json").write_text(json.dumps({"schema": 1, "assets": [entry]}))
    library = AssetLibrary({"materials": tmp_path})
    assert library.find("materials", "own") == tmp_path / "own.blend"
    with refused(r"`own\.blend` is not the file that manifest\.json describes"):
        library.facts("materials", "own")


# ------------------------------------------------------------------------------------------------ meshes


def glb(**fields):
    text = json.dumps({"asset": {"version": "2.0"}, **fields}).encode()
    text += b" " * (-len(text) % 4)
    return b"glTF" + struct.pack("<III4s", 2, 20 + len(text), len(text), b"JSON") + text


@pytest.mark.blender
@pytest.mark.usefixtures("one_blender")
@pytest.mark.parametrize(("uri", "plain"), [("../../secret.bin", False), ("/etc/passwd", True)])
def test_a_glb_that_names_other_files_is_refused(tmp_path, uri, plain):
    data = glb(buffers=[{"byteLength": 8, "uri": uri}])
    (tmp_path / "a.glb").write_bytes(data[20:] if plain else data)
    with refused(f"expected all data in one file, got the name of another, `{uri}`"):
        add_mesh(tmp_path / "a.glb", tmp_path / "objects")


@pytest.mark.blender
@pytest.mark.usefixtures("one_blender")
@pytest.mark.parametrize(
    "line", ["mtllib {}", "mtllib \\\n{}", "\x01mtllib {}"], ids=["plain", "parted", "odd"]
)
def test_material_files_of_an_obj_are_not_opened(tmp_path, line):
    """The material file is a pipe without a writer, so that opening it would never return."""
    os.mkfifo(tmp_path / "pipe.mtl")
    # Meshes are imported in a temporary folder of their own.
    climb = os.path.relpath(tmp_path / "pipe.mtl", Path(tempfile.gettempdir()) / "any")
    (tmp_path / "a.obj").write_text(f"{line.format(climb)}\nusemtl x\n{OBJ}")
    assert add_mesh(tmp_path / "a.obj", tmp_path / "objects", time_limit=60).name == "a.blend"
