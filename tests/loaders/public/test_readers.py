"""Each reader is a sequence of samples that a DataLoader sends and batches."""

import pickle  # noqa: TID251 - a DataLoader pickles a reader when it spawns workers

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.samples import collate
from tests.loaders.public.copies import (
    HEIGHT,
    HYPERSIM,
    INTERIORVERSE,
    MID_SCENES,
    ORB,
    READERS,
    SINTEL,
    WIDTH,
)

torch = pytest.importorskip("torch")

IDS = {
    "mit": "box cup2",
    "arap": "Katie cream_light0 cream_light1",
    "hypersim": " ".join(HYPERSIM),
    "sintel": " ".join(f"{scene}/frame_000{n}" for scene in sorted(SINTEL) for n in (1, 2)),
    "interiorverse": " ".join(INTERIORVERSE),
    "stanford-orb": " ".join(ORB),
    "midintrinsics": " ".join(f"{scene}/dir_{n}" for scene in MID_SCENES for n in range(25)),
    "iiw": "116 54",  # in their order as text
    "saw": "116 54",
    "maw": "scene_2/IMG_1 scene_2/IMG_2 scene_10/IMG_1",
    "multi-illumination": " ".join(
        f"{scene}/dir_{n}" for scene in ("everett_kitchen5", "main_d424-11") for n in range(25)
    ),
    "photometric-stereo": "apple/I_0000 apple/I_0001 apple/I_0002 gourd1/I_0000 gourd1/I_0002 gourd1/I_0010",
    "celebamask": "0 7 9 2001",
    "cub70": " ".join(f"001.Black_footed_Albatross/Albatross_0001_{n}" for n in (796, 79611)),
    "dtd": " ".join(f"{w}/{w}_{n:04d}" for w in ("banded", "lined", "polka-dotted") for n in (2, 4, 14)),
    "dsprites": " ".join(map(str, range(24))),
    "candle": "7 3541",
    "tid2013": "i01_01_1 i01_01_5 i01_13_1 i01_13_5 i02_01_1 i02_01_5 i02_13_1 i02_13_5",
}


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    return np.array_equal(one, other, equal_nan=True) if torch.is_tensor(one) else one == other


@pytest.fixture(params=READERS)
def data(request, public_folder):
    return READERS[request.param](public_folder(request.param))


@pytest.mark.parametrize("name", IDS)
def test_rows_are_in_the_order_of_the_data_set(public_folder, name):
    data = READERS[name](public_folder(name))
    assert [sample["id"] for sample in data] == IDS[name].split()


def test_rows_are_numbered_like_a_sequence(data):
    first, last = data[0], data[len(data) - 1]
    assert first["id"] != last["id"]
    assert equal(data[-1], last)
    assert equal(data[np.int64(0)], first)
    for beyond in (len(data), -len(data) - 1):
        with pytest.raises(IndexError):
            data[beyond]


def test_samples_are_sent_and_batched(data):
    first = data[0]  # a file that is open now is not sent
    sent = pickle.dumps(data)
    assert len(sent) < 20_000  # without images
    assert equal(pickle.loads(sent)[0], first)
    batch = collate([data[1], first])
    assert batch["id"] == [data[1]["id"], first["id"]]
    assert torch.equal(batch["image"][1], first["image"])
    for name, number in first.get("factors", {}).items():
        assert batch["factors"][name].dtype == torch.int64
        assert batch["factors"][name][1] == number == data.factor_table[0][list(first["factors"]).index(name)]


def test_images_are_srgb_bytes_or_linear_floats(data):
    image = data[1]["image"]
    assert image.dtype in (torch.uint8, torch.float32)
    assert image.shape in ((3, HEIGHT, WIDTH), (1, HEIGHT, WIDTH))
    assert image.isfinite().all()
    assert image.min() >= 0


@pytest.mark.parametrize(
    ("name", "row", "file"),
    [
        ("hypersim", 0, "test/ai_001_010/rgb_cam_00_fr0000.png"),
        ("sintel", 3, "clean_noshadingtextures/bamboo_2/frame_0002.png"),
        ("stanford-orb", 1, "blender_LDR/baking_scene001/test/0007.png"),
        ("iiw", 1, "data/54.png"),
        ("saw", 0, "saw_images_512/116.png"),
        ("maw", 2, "images_png/scene_10/IMG_1.png"),
        ("multi-illumination", 27, "main_d424-11/dir_2_mip5.jpg"),
        ("cub70", 1, "CUB_200_2011/images/001.Black_footed_Albatross/Albatross_0001_79611.jpg"),
        ("cub200", 4, "CUB_200_2011/images/002.Laysan_Albatross/Laysan_0005_9.jpg"),
        ("celebamask", 3, "CelebA-HQ-img/2001.jpg"),
        ("dtd", 5, "dtd/images/lined/lined_0014.jpg"),
        ("candle", 1, "3541.png"),
        ("tid2013", 2, "distorted_images/I01_13_1.bmp"),
    ],
)
def test_8_bit_files_stay_bytes_or_are_decoded_by_the_srgb_curve(public_folder, name, row, file):
    with Image.open(public_folder(name) / file) as stored:
        pixels = np.moveaxis(np.asarray(stored)[..., :3], 2, 0)
    image = READERS[name](public_folder(name))[row]["image"]
    expected = srgb_to_linear(pixels / 255).astype(np.float32) if image.is_floating_point() else pixels
    np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize(
    "name", ["cub70", "cub200", "celebamask", "dtd", "mpi3d", "shapes3d", "candle", "tid2013"]
)
def test_bytes_are_decoded_on_request(public_folder, name):
    stored, linear = (READERS[name](public_folder(name), linear=linear)[1] for linear in (False, True))
    for layer in {"image", "reference"} & linear.keys():
        assert linear[layer].dtype == torch.float32
        expected = srgb_to_linear(stored[layer].numpy() / 255)
        np.testing.assert_allclose(linear[layer], expected, atol=1e-6)
