"""Labels of CUB-70 and CelebAMask-HQ: rows, ids and values of factors agree with those of parts."""

from shutil import rmtree

import numpy as np
import pytest
from PIL import Image

from candlelight.evaluation.views import open_data
from candlelight.loaders.public.celebamask import CELEBAMASK_PARTS
from tests.loaders.public.copies import READERS
from tests.refusals import refused

torch = pytest.importorskip("torch")


def labels(view, name):
    """Name the value of a factor in each row."""
    column = [info.name for info in view.factors].index(name)
    return [view.factors[column].values[int(number)] for number in view.table[:, column]]


@pytest.mark.parametrize(
    ("layout", "split", "count"),
    [
        *(("cub70", split, count) for split, count in {"annotated": 2, "train": 2, "test": 3}.items()),
        *(("celebamask", split, n) for split, n in {"all": 4, "train": 1, "val": 1, "test": 2}.items()),
    ],
)
def test_rows_are_those_of_the_parts(open_copy, layout, split, count):
    factors = open_copy("factors", layout, split=split)
    parts = open_copy("parts", layout, split=split, by="part")
    assert len(factors) == len(parts) == count
    assert factors.ids == parts.ids
    assert factors.groups == parts.groups
    assert factors.identity == parts.identity
    assert factors.table.shape == (count, len(factors.factors))
    for row in range(count):
        assert torch.equal(factors[row], parts[row].image)
    if layout == "cub70":
        assert labels(factors, "species") == [parts[row].label for row in range(count)]


def test_splits_of_the_birds_are_of_the_first_70_species(open_copy):
    train, test = (open_copy("factors", "cub70", split=split) for split in ("train", "test"))
    assert train.ids == ("001.Black_footed_Albatross/Albatross_0003_7", "002.Laysan_Albatross/Laysan_0005_9")
    assert labels(train, "species") == ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
    assert labels(test, "species") == ["001.Black_footed_Albatross"] * 2 + ["002.Laysan_Albatross"]
    assert len(train.factors[0].values) == 71  # of all species of the list
    parts = open_copy("parts", "cub70", split="test", by="part")
    assert [sorted(parts[row].masks) for row in range(3)] == [["right_wing"], ["right_wing"], []]
    assert open_copy("parts", "cub70", split="train", by="part")[0].masks == {}
    chosen = open_copy("factors", "cub70", split="test", rows=[2, 0])
    assert labels(chosen, "species") == ["002.Laysan_Albatross", "001.Black_footed_Albatross"]


def test_attributes_of_faces_are_factors(open_copy):
    view = open_copy("factors", "celebamask")
    assert [(info.name, info.kind, info.values) for info in view.factors] == [
        ("Smiling", "categorical", ("no", "yes")),
        ("Male", "categorical", ("no", "yes")),
    ]
    assert view.ids == ("0", "7", "9", "2001")
    assert labels(view, "Smiling") == ["no", "yes", "no", "yes"]
    assert labels(view, "Male") == ["no", "yes", "yes", "no"]
    test = open_copy("factors", "celebamask", split="test", rows=[1, 0])
    assert (test.ids, labels(test, "Smiling")) == (("9", "7"), ["no", "yes"])


def test_parts_of_faces_need_no_list_of_attributes(own_copy):
    root = own_copy("celebamask")
    (root / "CelebAMask-HQ-attribute-anno.txt").unlink()
    with refused(r"CelebAMask-HQ-attribute-anno\.txt is missing; get it from"):
        open_data("factors", f"celebamask:{root}", split="all")
    assert len(open_data("parts", f"celebamask:{root}", split="all", by="part")) == 4


@pytest.mark.parametrize("kind", ["factors", "images"])
@pytest.mark.parametrize("layout", ["cub70", "celebamask"])
def test_images_are_read_without_masks(open_copy, layout, kind, monkeypatch):
    def refuse(*_):
        raise AssertionError("a mask was read")

    for module in ("cub", "celebamask"):
        monkeypatch.setattr(f"candlelight.loaders.public.{module}.read_part_masks", refuse)
    assert open_copy(kind, layout)[0].shape == (3, 4, 6)
    with pytest.raises(AssertionError, match="a mask was read"):
        open_copy("parts", layout, by="part")[0]


@pytest.mark.parametrize("layout", ["cub70", "celebamask"])
def test_readers_leave_out_masks_on_request(public_folder, layout):
    assert "parts" not in READERS[layout](public_folder(layout), masks=False)[0]


# ------------------------------------------------------------------------------ parts of the coverage paper

# Behzadi-Khormouji and Oramas, section 5.1, with the names of the mask files.
GROUPS = {
    "skin": {"skin", "neck", "l_ear", "r_ear"},
    "hair": {"hair", "l_brow", "r_brow"},
    "nose": {"nose"},
    "eyes": {"l_eye", "r_eye"},
    "mouth": {"mouth"},
    "lips": {"u_lip", "l_lip"},
    "eyeglass": {"eye_g"},
    "earring": {"ear_r"},
    "necklace": {"neck_l"},
    "cloth": {"cloth"},
}
BIRD = {
    *("head", "right_eye", "left_eye", "beak", "neck", "body"),
    *("right_wing", "left_wing", "right_leg", "left_leg", "tail"),
}


def write_bars(folder, names, form):
    """Write a mask for each part; part number n is the column n of the image."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        mask = np.zeros((4, 20), np.uint8)
        mask[:, number] = 255
        Image.fromarray(mask).save(folder / form.format(name))


def columns(mask):
    assert mask.all(0).equal(mask.any(0))
    return set(mask.any(0).nonzero().flatten().tolist())


def test_masks_of_a_face_are_united_as_in_the_paper(tmp_path):
    (tmp_path / "CelebA-HQ-img").mkdir()
    Image.fromarray(np.zeros((4, 20, 3), np.uint8)).save(tmp_path / "CelebA-HQ-img" / "5.jpg")
    write_bars(tmp_path / "CelebAMask-HQ-mask-anno" / "0", CELEBAMASK_PARTS, "00005_{}.png")
    masks = open_data("parts", f"celebamask:{tmp_path}", split="all", by="part")[0].masks
    place = {name: number for number, name in enumerate(CELEBAMASK_PARTS)}
    assert {name: columns(mask) for name, mask in masks.items()} == {
        group: {place[name] for name in names} for group, names in GROUPS.items()
    }
    shown = set().union(*(columns(mask) for mask in masks.values()))
    assert shown == set(range(18)) - {place["hat"]}


def test_masks_of_a_bird_are_the_11_parts(own_copy):
    root = own_copy("cub70")
    rmtree(root / "AnnotationMasksPerclass")
    write_bars(root / "AnnotationMasksPerclass" / "2", sorted(BIRD), "Laysan_0004_8_{}.png")
    path = root / "CUB_200_2011" / "images" / "002.Laysan_Albatross" / "Laysan_0004_8.jpg"
    Image.fromarray(np.zeros((4, 20, 3), np.uint8)).save(path)
    view = open_data("parts", f"cub70:{root}", split="annotated", by="part")
    assert view.ids == ("002.Laysan_Albatross/Laysan_0004_8",)
    assert {name: columns(mask) for name, mask in view[0].masks.items()} == {
        name: {number} for number, name in enumerate(sorted(BIRD))
    }
