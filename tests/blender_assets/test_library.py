"""The library of assets: folders of users with their manifests, then the shipped assets."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from candlelight.blender_assets import AssetLibrary, shipped
from candlelight.blender_assets.asset_manifest import read_asset_manifest, write_asset_manifest
from candlelight.blender_assets.texture_folders import find_images
from tests.refusals import refused


def test_a_users_folder_comes_first(tmp_path):
    for name in ("pink.blend", "red.blend", "notes.txt", "._red.blend"):  # some systems write the last
        (tmp_path / name).touch()
    (tmp_path / "folder.blend").mkdir()
    library = AssetLibrary({"materials": tmp_path})
    assert library.labels("materials") == ["pink", "red"]
    assert library.find("materials", "red") == tmp_path / "red.blend"
    assert library.find("materials", "blue") == shipped() / "materials" / "blue.blend"
    assert library.find("objects", "cube") == shipped() / "objects" / "cube.blend"
    assert not library.has("materials", "folder")
    # The facts of the shipped red do not apply to the user's red.
    assert library.facts("materials", "red") == {}
    assert library.facts("materials", "blue")["base_color"] == [0.0759, 0.0768, 0.8]


def test_errors_list_the_possible_choices(tmp_path):
    (tmp_path / "pink.blend").touch()
    with refused(
        "`grey` is not among the materials; expected one of: blue, green, orange, pink, purple, red"
    ):
        AssetLibrary({"materials": tmp_path}).find("materials", "grey")
    for folder in ("none", "pink.blend"):
        with refused(rf"assets\.materials: folder `.*{folder}` does not exist; name a"):
            AssetLibrary({"materials": tmp_path / folder})
    with refused("assets: kind `colours` is not known; expected one of objects, materials"):
        AssetLibrary({"colours": tmp_path})


@pytest.mark.parametrize("label", ["../a", "..", "", "/etc/passwd", "a/b", "./red", "red.blend", "*", "\0"])
def test_labels_cannot_be_paths(tmp_path, label):
    (tmp_path / "below").mkdir()
    (tmp_path / "a.blend").touch()
    library = AssetLibrary({"materials": tmp_path / "below"})
    assert not library.has("materials", label)
    assert library.facts("materials", label) == {}
    with refused("is not among the materials"):
        library.find("materials", label)


@pytest.mark.parametrize("name", [b"\xff", b"a\nb"])
def test_names_that_cannot_be_written_are_refused(tmp_path, name):
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name + b".blend")).touch()
    except OSError:
        pytest.skip("this file system has no such names")
    with refused("cannot be written as one line of UTF-8; rename it"):
        AssetLibrary({"materials": tmp_path}).labels("materials")


# -------------------------------------------------------------------------------------------- manifests

ENTRY = {
    "kind": "objects",
    "name": "spot",
    "file": "spot.blend",
    "licence": "mine",
    "source": "a scan",
    "sha256": hashlib.sha256(b"spot").hexdigest(),
    "facts": {"dimensions": [0.5, 1.0, 0.9], "footprint": 0.55},
}


@pytest.fixture
def folder(tmp_path):
    """Write a folder of one object and its manifest."""
    (tmp_path / "spot.blend").write_bytes(b"spot")
    write_asset_manifest(tmp_path / "manifest.json", [ENTRY])
    return tmp_path


def test_facts_of_user_assets_come_from_the_users_manifest(folder):
    assert read_asset_manifest(folder / "manifest.json") == {("objects", "spot"): ENTRY}
    (folder / "homer.blend").touch()
    library = AssetLibrary({"objects": folder})
    assert library.entry("objects", "spot") == ENTRY
    library.facts("objects", "spot")["footprint"] = 3  # of a copy
    assert library.facts("objects", "spot") == ENTRY["facts"]
    assert library.facts("objects", "cube") == AssetLibrary().facts("objects", "cube") != {}
    assert library.facts("objects", "homer") == {}


def test_a_part_may_be_attached_to_another(folder):
    parts = [{"name": "head", "color": [0, 0, 0]}, {"name": "hat", "color": [0, 0, 0], "attached_to": "head"}]
    write_asset_manifest(folder / "manifest.json", [{**ENTRY, "facts": {"parts": parts}}])
    assert AssetLibrary({"objects": folder}).facts("objects", "spot")["parts"] == parts


def test_without_an_entry_of_its_kind_an_asset_has_no_facts(folder):
    write_asset_manifest(folder / "manifest.json", [{**ENTRY, "kind": "lights"}])
    assert AssetLibrary({"objects": folder}).facts("objects", "spot") == {}
    (folder / "manifest.json").unlink()
    assert AssetLibrary({"objects": folder}).facts("objects", "spot") == {}


def test_a_changed_file_is_refused(folder):
    (folder / "spot.blend").write_bytes(b"other")
    with refused(
        r"assets\.objects: `spot\.blend` is not the file that manifest\.json describes; .*`candlelight "
    ):
        AssetLibrary({"objects": folder}).facts("objects", "spot")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "expected JSON, got something else"),
        ("[]", "manifest.json: manifest: .*got "),
        ('{"schema": 2, "assets": []}', "schema: Input should be 1, got 2"),
        ({"dimensions": [1, 2]}, r"assets\.0\.facts\.dimensions\.2: Field required"),
        ({"footprint": 0}, r"assets\.0\.facts\.footprint: Input should be greater than 0, got 0"),
        ({"footprint": float("nan")}, "footprint: .*nan"),
        ({"camera": {"location": [0, 1, 2], "look_at": [0, 0, 2]}}, "camera.field_of_view: Field required"),
        (
            {"parts": [{"name": "hat", "color": [1, 1, 1], "attached_to": "neck"}]},
            "part `hat` is attached to `neck`, which is no part",
        ),
    ],
)
def test_a_malformed_manifest_is_refused_in_one_line(folder, text, message):
    if isinstance(text, dict):
        text = json.dumps({"schema": 1, "assets": [{**ENTRY, "facts": text}]})
    (folder / "manifest.json").write_text(text)
    with refused(rf"^assets\.objects: .*{message}.*candlelight assets scan [^\n]*\Z"):
        AssetLibrary({"objects": folder}).facts("objects", "spot")


# --------------------------------------------------------------------------------------------- textures


@pytest.fixture
def dtd(tmp_path):
    """Write a folder in the layout of the Describable Textures Dataset, with other files in it."""
    names = ("banded/banded_0002.jpg", "banded/banded_0004.JPG", "polka-dotted/polka-dotted_0001.png")
    for name in (*names, "banded/._banded_0002.jpg", "banded/notes.txt", "../labels/sheet.png"):
        path = (tmp_path / "images" / name).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "images" / "banded" / "folder.jpg").mkdir()
    return tmp_path


def test_labels_of_textures_are_class_and_file(dtd):
    labels = ["banded/banded_0002", "banded/banded_0004", "polka-dotted/polka-dotted_0001"]
    assert list(find_images(dtd)) == labels
    assert list(find_images(dtd / "images" / "banded")) == ["banded_0002", "banded_0004"]
    (dtd / "images" / "fur.blend").touch()
    library = AssetLibrary({"textures": dtd / "images"})
    assert library.labels("textures") == [*labels[:2], "fur", labels[2]]
    assert library.find("textures", labels[1]) == dtd / "images" / "banded" / "banded_0004.JPG"
    assert library.find("textures", "wood").suffix == ".blend"
    assert library.facts("textures", labels[0]) == {}
    assert AssetLibrary({"materials": dtd / "images" / "banded"}).labels("materials") == []


def test_links_out_of_a_folder_of_textures_are_left_out(dtd, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.png").touch()
    (dtd / "images" / "banded" / "link.png").symlink_to(outside / "secret.png")
    (dtd / "images" / "away").symlink_to(outside)
    (dtd / "images" / "banded" / "inside.jpg").symlink_to(dtd / "images" / "banded" / "banded_0002.jpg")
    assert [label.split("/")[1] for label in find_images(dtd)] == [
        *("banded_0002", "banded_0004", "inside", "polka-dotted_0001")
    ]


def test_two_textures_of_one_label_are_refused(dtd):
    (dtd / "images" / "banded" / "banded_0002.png").touch()
    with refused(r"assets\.textures: `banded_0002\.jpg` and `banded_0002\.png` in .* one label"):
        AssetLibrary({"textures": dtd}).labels("textures")


@pytest.mark.parametrize("label", ["banded/../../labels/sheet", "../labels/sheet", "/banded/banded_0002"])
def test_labels_of_textures_cannot_leave_the_folder(dtd, label):
    with refused("is not among the textures"):
        AssetLibrary({"textures": dtd}).find("textures", label)


# ----------------------------------------------------------------------------------------------- hashes


def test_the_hash_covers_the_files_that_an_asset_may_use(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    for name in ("pink.blend", "pink.blend1", "green.blend", "._wood.png"):
        (folder / name).write_bytes(b"pink")
    (tmp_path / "out.png").touch()
    (folder / ".maps").mkdir()
    (folder / ".maps" / "wood.png").touch()
    (folder / "frames").mkdir()
    for name in ("dataset.json", "image.png"):
        (folder / "frames" / name).touch()
    (folder / "gone.png").symlink_to("nowhere")
    (folder / "out.png").symlink_to(tmp_path / "out.png")
    os.mkfifo(folder / "pipe.png")
    library = AssetLibrary({"materials": folder, "objects": folder})
    alone = library.sha256("materials", "pink")
    assert alone == hashlib.sha256(b"pink").hexdigest()  # none of the files above counts
    (folder / "wood.png").write_bytes(b"an image that it may use")
    library.look_again()
    first = library.sha256("materials", "pink")
    assert library.sha256("objects", "pink") == alone
    (folder / "wood.png").write_bytes(b"another image")
    assert library.sha256("materials", "pink") == first
    library.look_again()
    assert len({alone, first, library.sha256("materials", "pink")}) == 3
