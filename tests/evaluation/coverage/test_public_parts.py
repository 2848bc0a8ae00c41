"""The coverage protocol on public data sets, in the layout of their archives."""

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation import evaluate
from candlelight.evaluation.views import open_data
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.public import CelebAMaskHQ
from tests.refusals import refused

SIDE = 24
FACES = {0: 119613, 7: 182638, 9: 190000}  # the first is of the training split
# Rows of the 12 x 12 masks, half the size of the photographs; the hat is in no group of the paper.
FACE = {
    **{"skin": (2, 8), "neck": (10, 12), "l_brow": (3, 4), "hair": (0, 2), "hat": (0, 1)},
    **{"l_eye": (4, 5), "r_eye": (5, 6)},
}
GROUPS = {"eyes": ("l_eye", "r_eye"), "hair": ("hair", "l_brow"), "skin": ("skin", "neck")}


def ramp(low, high, height, width):
    """Draw gray rows, each of its own value: JPEG keeps the order of bright rows."""
    rows = np.linspace(low, high, height, dtype=np.uint8)
    return np.broadcast_to(rows[:, None, None], (height, width, 3)).copy()


@pytest.fixture
def faces(write_faces):
    pixels = ramp(20, 240, SIDE, SIDE)
    return write_faces({number: (origin, pixels) for number, origin in FACES.items()}, FACE, {9: ["r_eye"]})


# File, size (height, width), rows of each part in the mask, and the height of the mask.
BIRDS = {
    "Black_Footed_Albatross_0001_7961": ((20, 24), {"head": (0, 10), "tail": (15, 20)}, 20),
    "Black_Footed_Albatross_0001_796111": ((40, 24), {"head": (0, 10), "right_wing": (10, 20)}, 20),
    "Laysan_Albatross_0002_1027": ((24, 20), {}, 24),
}


@pytest.fixture
def birds(write_birds, band):
    shown = {}
    for stem, ((rows, width), parts, height) in BIRDS.items():
        masks = {part: band(height, width * height // rows, some) for part, some in parts.items()}
        shown[stem] = (0, False, ramp(240, 20, rows, width), masks)
    return write_birds(["001.Black_footed_Albatross"], shown)


def brightness(images):
    return images[:, 1:2]


def score(data, size=None, batch_size=16, **options):
    how = {"size": size, "batch_size": batch_size, "choose": "same", "quick": True}
    return evaluate("coverage", data, {"bright": brightness}, device="cpu", **how, **options)["bright"]


@pytest.mark.parametrize("size", [None, (9, 15)])
def test_faces_equal_counts_of_pixels_by_numpy(faces, size):
    rng = np.random.default_rng(0)
    for number in FACES:  # noise, of which no ordering survives a resize that is done otherwise
        path = faces / "CelebA-HQ-img" / f"{number}.jpg"
        Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8)).save(path, quality=100)
    height, width = size or (SIDE, SIDE)
    data = open_data("parts", f"celebamask:{faces}", split="all", by="part")
    result = score(data, proportions=(0.3,), pooling="image", size=size)
    found = {name: [] for name in GROUPS}
    for number in FACES:
        pixels = np.asarray(Image.open(faces / "CelebA-HQ-img" / f"{number}.jpg"))
        linear = torch.from_numpy(np.moveaxis(srgb_to_linear(pixels / 255), 2, 0).astype(np.float32))
        if size is not None:
            linear = torch.nn.functional.interpolate(
                linear[None], size, mode="bilinear", antialias=True, align_corners=False
            )[0]
        masks = {}
        for name, members in GROUPS.items():
            whole = np.zeros((SIDE, SIDE), bool)
            for part in members:
                path = faces / "CelebAMask-HQ-mask-anno" / "0" / f"{number:05d}_{part}.png"
                if path.is_file():
                    whole |= np.asarray(Image.open(path))[..., 0].repeat(2, 0).repeat(2, 1) > 0
            # The nearest pixel is the one that the middle of the new pixel lies in.
            rows = [int((y + 0.5) * SIDE / height) for y in range(height)]
            columns = [int((x + 0.5) * SIDE / width) for x in range(width)]
            masks[name] = whole[np.ix_(rows, columns)]
        marked = linear[1].numpy() >= np.quantile(linear[1].double(), 0.7)
        for name, mask in masks.items():
            found[name] += [(marked & mask).sum() / (marked | mask).sum()] if mask.any() else []
    expected = np.mean([iou for some in found.values() for iou in some])
    assert result.details["average_iou"][0] == pytest.approx(expected, abs=1e-7)
    for name, mean in zip(result.about.settings["parts"], result.details["mean_iou"], strict=True):
        touched = [iou for iou in found[name] if iou > 0]
        assert mean == (pytest.approx(np.mean(touched), abs=1e-7) if touched else None)


def test_birds_of_several_sizes(birds):
    data = open_data("parts", f"cub70:{birds}", split="annotated", by="part")
    assert len(data) == 2  # the third has no mask
    result = score(data, size=(20, 24), proportions=(0.5,))
    assert result.about.settings["parts"] == ["head", "right_wing", "tail"]
    # The brightest half is the upper one; in either photograph that is the head.
    assert result.details["mean_iou"][0] == 1
    assert result.details["counts"] == [2, 0, 0]
    for batch_size in (1, 16):
        with refused(r"several sizes, \[\(20, 24\), \(40, 24\)\]; give one `size` to resize them to"):
            score(data, batch_size=batch_size)


def test_birds_without_a_mask_are_rows_of_the_test_split(birds):
    data = open_data("parts", f"cub70:{birds}", split="test", by="part")
    assert len(data) == 3
    result = score(data, size=(20, 24), proportions=(0.5,), pooling="image")
    assert result.about.data["rows"] == 3
    assert result.details["mean_iou"][0] == 1
    assert result.details["counts"] == [2, 0, 0]


def test_linear_and_encoded_images_are_the_same(faces):
    readers = (CelebAMaskHQ(faces, "all", groups="paper", linear=linear) for linear in (False, True))
    one, two = (score(open_data("parts", reader, by="part"), proportions=(0.1, 0.4)) for reader in readers)
    assert one.details == two.details
