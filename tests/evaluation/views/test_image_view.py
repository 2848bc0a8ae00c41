"""Open images in folders of pictures and in Hugging Face data sets."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.views import DataIdentity, open_data, read_picture_groups
from candlelight.loaders.image_frames import ImageFolder, ImageFrames
from tests.refusals import refused


@pytest.fixture
def folder(tmp_path):
    """Write three pictures of different sizes; EXIF rotates one of them."""
    root = tmp_path / "photographs"
    (root / "deep").mkdir(parents=True)
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (5, 8, 3), np.uint8)).save(root / "b.png")
    Image.fromarray(rng.integers(0, 256, (7, 4), np.uint8)).save(root / "deep" / "a.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(rng.integers(0, 256, (3, 9, 3), np.uint8)).save(root / "turned.png", exif=exif)
    return root


def test_pictures_keep_their_size(folder):
    view = open_data("images", folder)
    assert view.ids == view.groups == ("b.png", "deep/a.png", "turned.png")
    assert view.identity == DataIdentity("photographs", "pictures")
    with Image.open(folder / "b.png") as image:
        expected = torch.from_numpy(np.moveaxis(np.asarray(image), 2, 0) / np.float32(255))
    assert torch.equal(view[0], expected)
    assert [tuple(image.shape) for image in view] == [(3, 5, 8), (3, 7, 4), (3, 9, 3)]


def test_pictures_are_scaled_to_one_size(folder):
    view = open_data("images", str(folder), size=(4, 6), limit=2)
    assert [tuple(image.shape) for image in view] == [(3, 4, 6)] * 2
    same = ImageFrames(ImageFolder(folder), (4, 6))
    assert torch.equal(view[1], same[1]["image"].float() / 255)
    assert view.known_ids == {"b.png", "deep/a.png", "turned.png"}
    assert open_data("images", same).ids == ("b.png", "deep/a.png", "turned.png")


def test_a_table_groups_pictures_of_the_same_name_by_their_folder(folder, tmp_path):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "b.png").write_bytes((folder / "b.png").read_bytes())
    table = folder / "groups.csv"
    table.write_text(
        "\ufeffnote,group,picture\r\n,vase,b.png\r\n\r\n,jug,deep/a.png\r\n"
        ',"vase, new",turned.png\r\n,jug,../others/b.png\r\n',
        encoding="utf-8",
    )
    groups = read_picture_groups(table)
    assert open_data("images", folder, groups=groups).groups == ("vase", "jug", "vase, new")
    assert open_data("images", folder, groups=groups, rows=[2, 0]).groups == ("vase, new", "vase")
    (tmp_path / "link").symlink_to("others")
    assert open_data("images", tmp_path / "link", groups=groups).groups == ("jug",)


UNREADABLE = "cannot be read as a table of groups: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, UNREADABLE + "No such file .*; expected a CSV file with"),
        (b"picture,group\nb.png,\xff", UNREADABLE + "'utf-8' codec"),
        (b'picture,group\n"b.png', UNREADABLE + "unexpected end of data"),
        (b"", "expected a CSV file with the columns picture,group, got ''"),
        (b"picture;group\nb.png;a", "the columns picture,group, got 'picture;group'"),
        (b"picture,group\nc.png,a", "line 2: expected the path of a picture, relative .*, got 'c.png,a'"),
        (b"picture,group\nb.png,a\ngroups.csv,a", "line 3: expected the path of a picture"),
        (b"picture,group\nb.png,", "line 2: expected a group, got 'b.png,'"),
        (b"picture,group\nb.png", "line 2: expected a group, got 'b.png'"),
        (b"picture,group\nb.png,a\ndeep/../b.png,a", "line 3: expected one row for each picture, got 'deep"),
        (b"picture,group\nb.png,a", r"of \S+photographs, got none for 2 of 3, such as deep/a.png; add rows"),
    ],
)
def test_tables_of_groups_that_do_not_fit(folder, text, message):
    if text is not None:
        (folder / "groups.csv").write_bytes(text)
    with refused(f"groups.csv.*{message}"):
        open_data("images", folder, groups=read_picture_groups(folder / "groups.csv"))


def test_pictures_have_no_sets(folder, tmp_path):
    for requested in ({"set_name": "one"}, {"split": "train"}):
        with refused("a folder of pictures has no sets or splits; leave them out"):
            open_data("images", folder, **requested)
    with refused(r"nowhere: does not exist; .*; or a folder of pic"):
        open_data("images", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with refused("expected images"):
        open_data("images", tmp_path / "empty")


def test_a_damaged_picture_is_named(folder):
    (folder / "b.png").write_bytes(b"none")
    for size in (None, (4, 6)):
        with refused(r"photographs: b.png: cannot be read as an image: "):
            open_data("images", folder, size=size)[0]


# ---------------------------------------------------------------------------------------------- Hugging Face


@pytest.fixture
def table(datasets):
    def picture(red):
        buffer = io.BytesIO()
        Image.new("RGB", (6, 4), (red, 10, 0)).save(buffer, "PNG")
        return {"bytes": buffer.getvalue(), "path": None}

    features = datasets.Features({"photo": datasets.Image(), "label": datasets.Value("string")})
    rows = {"photo": [picture(50 * i) for i in range(4)], "label": list("abcd")}
    return datasets.Dataset.from_dict(rows, features=features)


def reds(view):
    return [round(255 * float(image[0, 0, 0])) for image in view]


def test_a_table_of_pictures_is_read(table, tmp_path):
    table.save_to_disk(tmp_path / "one")
    view = open_data("images", f"hf:{tmp_path / 'one'}")
    assert reds(view) == [0, 50, 100, 150]
    assert view.ids == ("row 0", "row 1", "row 2", "row 3")
    assert (view.identity.name, view.identity.layout) == ("one", "pictures")
    assert reds(open_data("images", f"hf:{tmp_path / 'one'}", rows=[3, 1])) == [150, 50]


def test_several_splits_need_a_name(datasets, table, tmp_path):
    both = datasets.DatasetDict({"train": table, "test": table.select([2])})
    both.save_to_disk(tmp_path / "two")
    name = f"hf:{tmp_path / 'two'}"
    with refused(r"hf:.*two: choose a split \(`split`\); expected one of: train, test$"):
        open_data("images", name)
    for view in (open_data("images", name, split="test"), open_data("images", f"{name}:test")):
        assert reds(view) == [100]
        assert view.identity.split == "test"
    datasets.DatasetDict({"val": table}).save_to_disk(tmp_path / "single")
    assert open_data("images", f"hf:{tmp_path / 'single'}").identity.split == "val"
    alone = datasets.Dataset.from_dict(table[:], features=table.features, split="train")
    alone.save_to_disk(tmp_path / "alone")
    assert open_data("images", f"hf:{tmp_path / 'alone'}", split="train").identity.split == "train"
    with refused(r"alone: split `test` is not there; expected one of: train$"):
        open_data("images", f"hf:{tmp_path / 'alone'}", split="test")


def test_a_folder_in_the_layout_of_the_hub_is_read(table, tmp_path):
    shard = tmp_path / "hub" / "train-00000-of-00001.parquet"
    shard.parent.mkdir()
    table.to_parquet(shard)
    view = open_data("images", f"hf:{shard.parent}")
    assert reds(view) == [0, 50, 100, 150]
    assert view.identity.split == "train"


@pytest.mark.usefixtures("datasets")
def test_a_missing_data_set_is_refused(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")

    def refuse(*_, **__):
        raise OSError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    monkeypatch.setattr(
        "huggingface_hub.constants.HF_HUB_OFFLINE", True
    )  # otherwise it retries for 20 seconds
    with refused(r"^hf:nobody/nothing: cannot be loaded: "):
        open_data("images", "hf:nobody/nothing")
