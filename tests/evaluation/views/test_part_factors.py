"""Labels of CUB-70 and CelebAMask-HQ: rows, ids and values of factors agree with those of parts."""

import pytest

from candlelight.evaluation.views import open_data
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
