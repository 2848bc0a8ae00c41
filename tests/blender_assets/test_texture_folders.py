import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.texture_folders import find_images
from candlelight.loaders.errors import InputError


@pytest.fixture
def dtd(tmp_path):
    """Write a folder in the layout of the Describable Textures Dataset, with other files in it."""
    for name in ("banded/banded_0002.jpg", "banded/banded_0004.JPG", "polka-dotted/polka-dotted_0001.png"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).touch()
    (tmp_path / "images" / "banded" / "._banded_0002.jpg").touch()
    (tmp_path / "images" / "banded" / "notes.txt").touch()
    (tmp_path / "images" / "banded" / "folder.jpg").mkdir()
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "sheet.png").touch()
    return tmp_path


def test_labels_are_class_and_file(dtd):
    labels = ["banded/banded_0002", "banded/banded_0004", "polka-dotted/polka-dotted_0001"]
    assert list(find_images(dtd)) == list(find_images(dtd / "images")) == labels
    assert list(find_images(dtd / "images" / "banded")) == ["banded_0002", "banded_0004"]
    library = AssetLibrary({"textures": dtd})
    assert library.labels("textures") == labels
    assert library.find("textures", labels[1]) == dtd / "images" / "banded" / "banded_0004.JPG"
    assert library.find("textures", "wood").suffix == ".blend"
    assert library.facts("textures", labels[0]) == {}


def test_blend_files_and_images_may_be_mixed(dtd):
    (dtd / "images" / "fur.blend").touch()
    assert AssetLibrary({"textures": dtd / "images"}).labels("textures")[1:] == [
        "banded/banded_0004",
        "fur",
        "polka-dotted/polka-dotted_0001",
    ]


def test_links_out_of_the_folder_are_left_out(dtd, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.png").touch()
    (dtd / "images" / "banded" / "link.png").symlink_to(outside / "secret.png")
    (dtd / "images" / "away").symlink_to(outside)
    (dtd / "images" / "banded" / "inside.jpg").symlink_to(dtd / "images" / "banded" / "banded_0002.jpg")
    assert {label.split("/")[1] for label in find_images(dtd)} == {
        "banded_0002", "banded_0004", "inside", "polka-dotted_0001",
    }  # fmt: skip


def test_two_files_of_one_label_are_refused(dtd):
    (dtd / "images" / "banded" / "banded_0002.png").touch()
    with pytest.raises(
        InputError, match=r"assets\.textures: `banded_0002\.jpg` and `banded_0002\.png` in .* one label"
    ):
        AssetLibrary({"textures": dtd}).labels("textures")


@pytest.mark.parametrize(
    "label", ["banded/../../labels/sheet", "../labels/sheet", "banded/", "/banded/banded_0002"]
)
def test_labels_cannot_leave_the_folder(dtd, label):
    with pytest.raises(InputError, match="is not among the textures"):
        AssetLibrary({"textures": dtd}).find("textures", label)


def test_images_are_used_only_as_textures(dtd):
    assert AssetLibrary({"materials": dtd / "images" / "banded"}).labels("materials") == []
