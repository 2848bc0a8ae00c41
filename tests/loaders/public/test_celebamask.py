import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.celebamask import CELEBAMASK_PARTS, PAPER_GROUPS, CelebAMaskHQ

torch = pytest.importorskip("torch")

ORIGINS = {0: 119613, 1: 162771, 1999: 182637, 2000: 182638, 2001: 202598}
NAMES = ("5_o_Clock_Shadow", "Smiling", "Young")


def _mask(root, number, part, mask):
    path = root / "CelebAMask-HQ-mask-anno" / str(number // 2000) / f"{number:05d}_{part}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.repeat(255 * mask.astype(np.uint8)[..., None], 3, axis=2)).save(path)


def _rows(first, last):
    mask = np.zeros((16, 16), bool)
    mask[first:last] = True
    return mask


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "CelebAMask-HQ"
    (folder / "CelebA-HQ-img").mkdir(parents=True)
    for number in ORIGINS:
        Image.fromarray(np.full((32, 32, 3), number % 200, np.uint8)).save(
            folder / "CelebA-HQ-img" / f"{number}.jpg"
        )
        _mask(folder, number, "skin", _rows(4, 8))
        _mask(folder, number, "neck", _rows(12, 16))
        _mask(folder, number, "l_ear", _rows(4, 5))
        _mask(folder, number, "hair", _rows(0, 3))
    _mask(folder, 0, "hat", _rows(0, 1))
    _mask(folder, 0, "l_eye", _rows(5, 6))
    lines = [f"{n:<8d}{origin:<12d}{origin:06d}.jpg" for n, origin in ORIGINS.items()]
    (folder / "CelebA-HQ-to-CelebA-mapping.txt").write_text("\n".join(["idx orig_idx orig_file", *lines]))
    marks = [f"{n}.jpg  -1  1 {'1' if n else '-1'}" for n in ORIGINS]
    text = "\n".join([str(len(ORIGINS)), " ".join(NAMES), *marks]) + "\n"
    (folder / "CelebAMask-HQ-attribute-anno.txt").write_text(text)
    (folder / "CelebA-HQ-img" / "Thumbs.db").write_bytes(b"\0")
    (folder / "README.txt").write_text("")
    return folder


def test_items_have_images_and_visible_parts(root):
    data = CelebAMaskHQ(root)
    assert data.indices.tolist() == list(ORIGINS)  # by number, not by name
    item = data[0]
    assert (item["id"], item["index"]) == ("0", 0)
    assert item["image"].shape == (3, 32, 32)
    # In the official order; the glasses are not visible and have no mask.
    assert list(item["parts"]) == [
        p for p in CELEBAMASK_PARTS if p in ("skin", "neck", "l_ear", "hair", "hat", "l_eye")
    ]
    skin = item["parts"]["skin"]
    assert skin.dtype == torch.bool
    assert skin.shape == (32, 32)
    assert skin.any(1).nonzero().flatten().tolist() == list(range(8, 16))
    assert "hat" not in data[3]["parts"]
    assert data[3]["parts"]["skin"].sum() == 8 * 32  # folder 1, number padded to five digits


def test_parts_are_grouped_like_in_the_paper(root):
    data = CelebAMaskHQ(root, groups="paper")
    assert data.parts == tuple(PAPER_GROUPS)
    assert sorted({part for group in PAPER_GROUPS.values() for part in group} ^ set(CELEBAMASK_PARTS)) == [
        "hat"
    ]
    parts = data[0]["parts"]
    assert set(parts) == {"skin", "hair", "eyes"}
    assert parts["skin"].sum() == (8 + 8) * 32  # the ear lies within the skin
    assert CelebAMaskHQ(root, groups={"head": ["hat", "hair"]})[0]["parts"]["head"].sum() == 6 * 32
    with pytest.raises(InputError, match="`eyes` has a part `eye`"):
        CelebAMaskHQ(root, groups={"eyes": ["eye"]})


def test_splits_follow_the_numbers_of_celeba(root):
    assert CelebAMaskHQ(root, "train").indices.tolist() == [0]
    assert CelebAMaskHQ(root, "val").indices.tolist() == [1, 1999]
    assert CelebAMaskHQ(root, "test").indices.tolist() == [2000, 2001]


def test_attributes_follow_the_rows_of_a_split(root):
    names, present = CelebAMaskHQ(root, "val").attributes
    assert names == NAMES
    assert present.tolist() == [[False, True, True]] * 2
    assert CelebAMaskHQ(root).attributes[1][0].tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("CelebAMask-HQ-attribute-anno.txt", "5\na b\n0.jpg 1 0\n", "line 3: expected an image and 2 of"),
        ("CelebAMask-HQ-attribute-anno.txt", "5\na b\n0.jpg 1 1\n", r"1\.jpg is not in it"),
        ("CelebAMask-HQ-attribute-anno.txt", "", r"0\.jpg is not in it"),
        ("CelebA-HQ-to-CelebA-mapping.txt", "idx\n0 x 0.jpg\n", "line 2: expected a number, CelebA's"),
        ("CelebA-HQ-to-CelebA-mapping.txt", "idx\n0 5 5.jpg\n", r"mapping\.txt: 1\.jpg is not in it; get it"),
    ],
)
def test_damaged_lists_are_refused(root, name, text, message):
    (root / name).write_text(text)

    def read():
        _ = CelebAMaskHQ(root).attributes
        CelebAMaskHQ(root, "train")

    with pytest.raises(InputError, match=message):
        read()


def test_missing_and_damaged_files_are_named(root):
    path = root / "CelebAMask-HQ-mask-anno" / "0" / "00000_skin.png"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match=r"00000_skin\.png.* cannot be read"):
        CelebAMaskHQ(root)[0]
    (root / "CelebA-HQ-to-CelebA-mapping.txt").unlink()
    with pytest.raises(InputError, match=r"mapping\.txt is missing; get it from https"):
        CelebAMaskHQ(root, "test")
    assert len(CelebAMaskHQ(root)) == 5


def test_a_missing_folder_of_masks_is_refused(root):
    (root / "CelebAMask-HQ-mask-anno" / "1").rename(root / "elsewhere")
    assert set(CelebAMaskHQ(root)[2]["parts"]) == {"skin", "neck", "l_ear", "hair"}
    with pytest.raises(InputError, match=r"CelebAMask-HQ-mask-anno/1 is missing; get it from https"):
        CelebAMaskHQ(root)[3]


def test_a_split_without_images_is_refused(root):
    for number in (2000, 2001):
        (root / "CelebA-HQ-img" / f"{number}.jpg").unlink()
    with pytest.raises(InputError, match=r"expected images <number>\.jpg of split test, found none"):
        CelebAMaskHQ(root, "test")
