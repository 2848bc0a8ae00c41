"""Read photographs with parts or classes: CUB-200-2011, CUB-70, CelebAMask-HQ and DTD."""

import shutil

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.public import CUB70, CUB200, DTD, CelebAMaskHQ
from candlelight.loaders.public.celebamask import CELEBAMASK_PARTS, PAPER_GROUPS
from candlelight.loaders.public.cub import CUB70_PARTS
from tests.loaders.public.copies import HEIGHT, POINTS, SPECIES, WIDTH, save
from tests.refusals import refused

torch = pytest.importorskip("torch")


@pytest.fixture
def birds(own_copy):
    return own_copy("cub70")


def test_birds_have_a_species_a_box_and_points(public_folder):
    data = CUB200(public_folder("cub200"))
    item = data[4]
    assert (item["number"], item["label"], item["label"].dtype) == (5, 1, torch.int64)
    assert data.classes[item["label"]] == SPECIES[1]
    assert item["bbox"].tolist() == [2, 3, 27, 22.5]
    assert data.points == tuple(name.replace("_", " ") for name in POINTS)
    assert item["visible"].tolist() == [p % 2 == 1 for p in range(1, 16)]
    assert item["points"][2].tolist() == [3.5, 6.0]
    assert item["points"][1].tolist() == [0, 0]


def test_splits_and_roots_of_birds(birds):
    assert CUB200(birds, "train").numbers == (3, 5, 6)
    assert CUB200(birds / "CUB_200_2011", "test").numbers == (1, 2, 4, 7)
    (birds / "CUB_200_2011").rename(birds / "nested")
    (birds / "CUB_200_2011").mkdir()
    (birds / "nested").rename(birds / "CUB_200_2011" / "CUB_200_2011")
    assert len(CUB200(birds)) == 7


def test_attributes_with_a_ragged_row(birds):
    names, present, certainty = CUB200(birds, "train").attributes
    assert names == ("has_bill_shape::curved_(up_or_down)", "has_wing_color::blue")
    np.testing.assert_array_equal(present, [[True, False]] * 3)
    np.testing.assert_array_equal(certainty, [[3, 2]] * 3)
    (birds / "attributes.txt").rename(birds / "CUB_200_2011" / "attributes" / "attributes.txt")
    assert CUB200(birds).attributes.names == names


def test_segmentations_are_read_on_request(birds):
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[2, 3], mask[2, 4] = 204, 51
    save(birds / "segmentations" / SPECIES[0] / "Albatross_0001_796.png", mask)
    mask = CUB200(birds, segmentations=True)[0]["mask"]
    assert mask.dtype == torch.bool
    assert mask.nonzero().tolist() == [[2, 3]]


def test_masks_are_those_of_the_image_in_its_size(birds):
    half = np.zeros((HEIGHT // 2, WIDTH // 2, 3), np.uint8)
    half[1, 2] = 255
    save(birds / "AnnotationMasksPerclass" / "2" / "Laysan_0004_8_tail.png", half)
    data = CUB70(birds / "AnnotationMasksPerclass", birds)
    assert (data.parts, len(data)) == (CUB70_PARTS, 3)  # an image without a mask is left out
    one, two, three = (item["parts"] for item in data)
    # The name of the first image is the beginning of the second's.
    assert one["right_wing"].nonzero()[:, 0].unique().tolist() == [0]
    assert two["right_wing"].nonzero()[:, 0].unique().tolist() == [0, 1]
    assert three["tail"].nonzero().tolist() == [[2, 4], [2, 5], [3, 4], [3, 5]]
    save(birds / "AnnotationMasksPerclass" / "1" / "Albatross_0001_796_left_wing.png", half)
    data = CUB70(birds, birds, groups={"wings": ["right_wing", "left_wing"], "tail": ["tail"]})
    assert data.parts == ("wings", "tail")
    assert [{name: int(mask.sum()) for name, mask in item["parts"].items()} for item in data] == [
        {"wings": WIDTH + 4},
        {"wings": 2 * WIDTH},
        {"tail": 4},
    ]
    save(birds / "AnnotationMasksPerclass" / "1" / "Albatross_0009_1_tail.png", half)
    with refused("there is no image Albatross_0009_1 in"):
        CUB70(birds, birds)


def test_birds_without_masks_are_refused(birds):
    shutil.rmtree(birds / "AnnotationMasksPerclass" / "1")
    with refused(r"expected <class>/<image>_<part>\.png, found none"):
        CUB70(birds, birds)


# --------------------------------------------------------------------------------------------------- faces


def test_faces_have_their_visible_parts(own_copy):
    root = own_copy("celebamask")
    skin = np.zeros((HEIGHT // 2, WIDTH // 2, 3), np.uint8)
    skin[1] = 255
    save(root / "CelebAMask-HQ-mask-anno" / "0" / "00007_skin.png", skin)
    data = CelebAMaskHQ(root)
    assert data.indices.tolist() == [0, 7, 9, 2001]  # by number, not by name
    item = data[1]
    assert item["index"] == 7
    assert list(item["parts"]) == ["skin", "l_eye", "r_eye", "hat"]  # in the official order
    assert item["parts"]["skin"].dtype == torch.bool
    assert item["parts"]["skin"].any(1).tolist() == [False, False, True, True]
    assert CelebAMaskHQ(root, groups="paper").parts == tuple(PAPER_GROUPS)
    parts = CelebAMaskHQ(root, groups="paper")[1]["parts"]
    assert {name: mask.any(1).tolist() for name, mask in parts.items()} == {
        "skin": [False, False, True, True],
        "eyes": [True, True, False, False],
    }
    assert CelebAMaskHQ(root, groups={"head": ["hat", "hair"]})[0]["parts"]["head"].sum() == WIDTH


def test_parts_are_those_of_the_coverage_paper():
    # Behzadi-Khormouji and Oramas, section 5.1, with the names of the mask files.
    assert {name: {*parts} for name, parts in PAPER_GROUPS.items()} == {
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
    assert {part for group in PAPER_GROUPS.values() for part in group} == {*CELEBAMASK_PARTS} - {"hat"}
    pairs = {f"{side}_{part}" for side in ("left", "right") for part in ("eye", "wing", "leg")}
    assert {*CUB70_PARTS} == {"head", "beak", "neck", "body", "tail"} | pairs


def test_splits_follow_the_numbers_of_celeba(own_copy):
    root = own_copy("celebamask")
    path = root / "CelebA-HQ-to-CelebA-mapping.txt"
    origins = {0: 162770, 7: 162771, 9: 182637, 2001: 182638}
    path.write_text("idx\n" + "".join(f"{number} {origin} a.jpg\n" for number, origin in origins.items()))
    found = {split: CelebAMaskHQ(root, split).indices.tolist() for split in ("train", "val", "test")}
    assert found == {"train": [0], "val": [7, 9], "test": [2001]}
    path.write_text("idx\n" + "".join(f"{number} 1 a.jpg\n" for number in origins))
    with refused(r"expected images <number>\.jpg of split test, found none"):
        CelebAMaskHQ(root, "test")
    path.unlink()
    assert len(CelebAMaskHQ(root)) == 4
    with refused(r"mapping\.txt is missing; get it from https"):
        CelebAMaskHQ(root, "test")


def test_attributes_follow_the_rows_of_a_split(public_folder):
    names, present = CelebAMaskHQ(public_folder("celebamask"), "test").attributes
    assert names == ("Smiling", "Male")
    assert present.tolist() == [[True, True], [False, True]]


# ------------------------------------------------------------------------------------------------- textures


def test_splits_and_words_of_textures(own_copy):
    root = own_copy("dtd")
    data = DTD(root, "train", 3)
    assert data.classes == ("banded", "lined", "polka-dotted")
    assert data.ids == ("banded/banded_0002", "polka-dotted/polka-dotted_0004")
    assert (data[1]["label"], data[1]["label"].dtype) == (2, torch.int64)
    assert data.words == {"banded/banded_0002": ("banded", "lined")}
    Image.new("L", (9, 7)).save(root / "dtd" / "images" / "banded" / "banded_0002.jpg")
    assert data[0]["image"].shape == (3, 7, 9)


def test_textures_are_read_as_unpacked_by_torchvision(own_copy):
    root = own_copy("dtd")
    (root / "torchvision" / "dtd").mkdir(parents=True)
    inner = (root / "dtd").rename(root / "torchvision" / "dtd" / "dtd")
    found = {DTD(folder).names for folder in (inner, inner.parent, inner.parent.parent)}
    assert [len(names) for names in found] == [9]
