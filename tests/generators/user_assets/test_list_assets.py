"""Lists of assets: the shipped library, folders of the user's own, and one kind alone."""

import shutil

import pytest
from click.testing import CliRunner

from candlelight.blender_assets import ASSET_SUFFIXES, shipped
from candlelight.blender_assets.asset_manifest import manifest_entry, write_asset_manifest
from candlelight.cli import main
from candlelight.generators.user_assets.asset_folders import list_assets
from tests.refusals import refused


def test_every_kind_of_the_shipped_library_is_listed_with_its_facts():
    lines = list(list_assets())
    assert [line.partition(":")[0] for line in lines if not line.startswith(" ")] == list(ASSET_SUFFIXES)
    facts = {line.split()[0]: line for line in lines if line.startswith(" ")}
    assert "public domain" in facts["bunny"]
    assert "parts walls roof door" in facts["barn"]
    assert "at (5, -5, 7) m, power 5000 W, radius 0.25 m" in facts["left"]
    assert "rotation 90 degrees, strength 1.2  CC0-1.0  Poly Haven" in facts["outdoor"]
    assert "modelled  CC0-1.0" in facts["skywalk"]
    assert "base_color (0.8, 0.0866, 0.0804)" in facts["red"]
    assert "checker" in facts


def test_a_folder_holds_kinds_or_is_one(tmp_path):
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "spot.blend").touch()
    (tmp_path / "textures").mkdir()
    shutil.copy(shipped() / "textures" / "checker.blend", tmp_path / "textures")
    objects = [f"objects: 1 in {tmp_path / 'objects'}", "  spot  not in a manifest"]
    textures = [f"textures: 1 in {tmp_path / 'textures'}", "  checker  not in a manifest"]
    assert list(list_assets(tmp_path)) == [*objects, *textures]
    assert list(list_assets(tmp_path, "textures")) == textures
    assert list(list_assets(tmp_path / "objects")) == objects
    shutil.move(tmp_path / "objects", tmp_path / "own")
    assert list(list_assets(tmp_path / "own", "objects"))[1:] == objects[1:]
    known = {"licence": "CC0-1.0", "source": "me", "blender": "5.0.1", "facts": {}}
    entry = manifest_entry("objects", tmp_path / "own" / "spot.blend", tmp_path / "own", **known)
    write_asset_manifest(tmp_path / "own" / "manifest.json", [entry])
    assert next(iter(list_assets(tmp_path / "own"))) == f"objects: 1 in {tmp_path / 'own'}"


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("nowhere", "nowhere: there is no such folder"),
        (".", "if it holds assets itself, name their kind with --kind"),
    ],
)
def test_a_folder_without_assets_is_refused(tmp_path, folder, message):
    with refused(message):
        list(list_assets(tmp_path / folder))


def test_the_command_narrows_the_list_to_a_kind():
    done = CliRunner().invoke(main, ["assets", "list", "--kind", "scenes"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("scenes: 17 in ")
    assert done.output.count("\n") == 18
