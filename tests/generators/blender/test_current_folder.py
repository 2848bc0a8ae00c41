"""No process imports Python modules from the current folder."""

from pathlib import Path

import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.engine.devices import find_devices
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.user_assets.asset_folders import scan_assets
from candlelight.generators.user_assets.import_meshes import add_mesh

pytestmark = [pytest.mark.blender, pytest.mark.slow]

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
SMALL = ["image.width=16", "image.height=16"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to a folder of modules that end the process which imports them."""
    for name in ("bpy", "json", "numpy", "OpenEXR", "candlelight", "generators", "loaders", "mathutils"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the current folder')")
    monkeypatch.chdir(tmp_path)
    return Path()


def test_importing_and_scanning_assets(here):
    (here / "mesh.obj").write_text(TETRAHEDRON)
    added = add_mesh(here / "mesh.obj", here / "objects")
    assert added.is_file()
    (here / "objects" / "manifest.json").unlink()
    (scanned,) = scan_assets(here)
    assert [entry["name"] for entry in scanned.entries] == ["mesh"]
    assert AssetLibrary({"objects": here / "objects"}).labels("objects") == ["mesh"]


def test_listing_devices(here):
    assert find_devices()


@pytest.mark.parametrize("recipe", ["dead-leaves", "toy-confounded"])
def test_rendering(here, recipe, monkeypatch, tmp_path):
    """Render, and check that a render process leaves no temporary folder when it is killed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    plan = make_plan(load_recipe(recipe, SMALL)).limit(1)
    outcome = render(plan, here / "frames", workers=1, device="cpu")
    assert (outcome.written, outcome.failed) == (1, {})
    assert not list(tmp_path.glob("blender_*"))
