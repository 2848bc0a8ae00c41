import hashlib
import json

import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_manifest import read_asset_manifest, write_asset_manifest
from candlelight.loaders.errors import InputError


def entry(**fields):
    given = {
        "kind": "objects",
        "name": "spot",
        "file": "spot.blend",
        "licence": "mine",
        "source": "a scan",
        "sha256": hashlib.sha256(b"spot").hexdigest(),
        "facts": {"dimensions": [0.5, 1.0, 0.9], "footprint": 0.55},
    }
    return given | fields


@pytest.fixture
def folder(tmp_path):
    """Write a folder of one object and its manifest."""
    (tmp_path / "spot.blend").write_bytes(b"spot")
    write_asset_manifest(tmp_path / "manifest.json", [entry()])
    return tmp_path


def test_a_written_manifest_is_read_back(folder):
    assert read_asset_manifest(folder / "manifest.json") == {("objects", "spot"): entry()}


def test_facts_of_user_assets_come_from_the_users_manifest(folder):
    library = AssetLibrary({"objects": folder})
    assert library.facts("objects", "spot") == entry()["facts"]
    assert library.entry("objects", "spot")["licence"] == "mine"
    library.facts("objects", "spot")["footprint"] = 3
    assert library.facts("objects", "spot")["footprint"] == 0.55
    # Objects that are not in the folder are the shipped objects, with the shipped facts.
    assert library.facts("objects", "cube") == AssetLibrary().facts("objects", "cube") != {}


def test_unlisted_files_have_no_facts(folder):
    (folder / "homer.blend").touch()
    assert AssetLibrary({"objects": folder}).facts("objects", "homer") == {}
    (folder / "manifest.json").unlink()
    assert AssetLibrary({"objects": folder}).facts("objects", "spot") == {}


def test_an_entry_of_another_kind_is_ignored(folder):
    write_asset_manifest(folder / "manifest.json", [entry(kind="lights")])
    assert AssetLibrary({"objects": folder}).facts("objects", "spot") == {}


def test_a_changed_file_is_refused(folder):
    (folder / "spot.blend").write_bytes(b"other")
    message = (
        r"assets\.objects: `spot\.blend` is not the file that manifest\.json describes; "
        r"update the manifest with `candlelight assets scan "
    )
    with pytest.raises(InputError, match=message):
        AssetLibrary({"objects": folder}).facts("objects", "spot")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "expected JSON, got something else"),
        ("[]", "manifest.json: manifest: .*got "),
        ('{"assets": []}', "schema: Field required"),
        ('{"schema": 2, "assets": []}', "schema: Input should be 1, got 2"),
        (json.dumps({"schema": 1, "assets": [{"kind": "objects"}]}), r"assets\.0\.name: Field required"),
        (
            json.dumps({"schema": 1, "assets": [entry(facts={"dimensions": [1, 2]})]}),
            r"assets\.0\.facts\.dimensions\.2: Field required",
        ),
        (
            json.dumps({"schema": 1, "assets": [entry(facts={"footprint": 0})]}),
            r"assets\.0\.facts\.footprint: Input should be greater than 0, got 0",
        ),
        (json.dumps({"schema": 1, "assets": [entry(facts={"footprint": float("nan")})]}), "footprint: .*nan"),
        (json.dumps({"schema": 1, "assets": [entry(sha256="12")]}), r"assets\.0\.sha256: "),
    ],
)
def test_a_malformed_manifest_is_refused_in_one_line(folder, text, message):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=rf"^assets\.objects: .*{message}.*") as caught:
        AssetLibrary({"objects": folder}).facts("objects", "spot")
    assert "\n" not in str(caught.value)
    assert "candlelight assets scan" in str(caught.value)
