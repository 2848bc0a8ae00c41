import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public import SAW

torch = pytest.importorskip("torch")

# Three numbers of IIW and two in the range of NYU; the last has no labels.
IDS = (54, 116, 118517, 9656327, 9657775)
FOLDER = "saw_data-filter_size_0-ignore_border_0.05-normal_gradmag_thres_1.5-depth_gradmag_thres_2.0"


def pixels(number):
    return np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)


def labels(number):
    made = np.random.default_rng(number).choice([0, 1, 2, 100], (6, 8))
    made[0, :4] = 0, 1, 2, 100
    return made


@pytest.fixture
def copy(tmp_path):
    root = tmp_path / "saw"
    for folder in ("saw_images_512", "saw_splits", f"saw_pixel_labels/{FOLDER}"):
        (root / folder).mkdir(parents=True)
    for number in IDS:
        Image.fromarray(pixels(number)).save(root / "saw_images_512" / f"{number}.png")
        if number != IDS[-1]:
            np.save(root / "saw_pixel_labels" / FOLDER / f"{number}.npy", labels(number))
    splits = {"train": IDS[:1], "val": IDS[1:2], "test": (118517, 9657775, 9656327)}
    for split, ids in splits.items():
        np.save(root / "saw_splits" / f"{split}_ids.npy", np.array(ids, np.int64))
    (root / "saw_images_512" / "._54.png").write_bytes(b"")
    return root


def label_file(root, number=54):
    return root / "saw_pixel_labels" / FOLDER / f"{number}.npy"


def test_splits_follow_the_lists(copy):
    assert SAW(copy, "train").ids == ("54",)
    assert SAW(str(copy), "val").ids == ("116",)
    assert SAW(copy, "test").ids == ("118517", "9657775", "9656327")


def test_labels_are_read_unchanged(copy):
    item = SAW(copy, "train")[0]
    assert item["id"] == "54"
    assert item["labels"].dtype == torch.int64
    np.testing.assert_array_equal(item["labels"], labels(54))
    np.testing.assert_array_equal(item["mask"], labels(54) != 100)
    expected = np.moveaxis(srgb_to_linear(pixels(54) / 255), 2, 0).astype(np.float32)
    np.testing.assert_array_equal(item["image"], expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_labels_may_have_any_integer_type(copy, dtype):
    np.save(label_file(copy), labels(54).astype(dtype))
    np.testing.assert_array_equal(SAW(copy, "train")[0]["labels"], labels(54))


def test_a_photograph_without_labels_is_refused_or_listed(copy):
    data = SAW(copy, "test")
    assert data.missing == ()
    with pytest.raises(InputError, match=rf"{FOLDER}/9657775.npy is missing; get it from https://github.com"):
        data[1]
    data = SAW(copy, "test", skip_missing=True)
    assert (data.ids, data.missing) == (("118517", "9656327"), ("9657775",))
    assert len(list(data)) == len(data) == 2


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((6, 8), 3), "expected the labels 0, 1, 2 and 100, got 3"),
        (np.full((6, 8), -1), "expected the labels 0, 1, 2 and 100, got -1"),
        (np.zeros((6, 8)), r"expected integers of 2 axes, got float64 \[6, 8\]"),
        (np.zeros(48, int), r"expected integers of 2 axes, got int64 \[48\]"),
        (np.zeros((5, 8), int), "expected images of one size, got `image` 6 x 8 and `labels` 5 x 8"),
        (np.array([[{}]], object), "cannot be read: "),
    ],
)
def test_arrays_that_are_not_labels_are_refused(copy, array, message):
    np.save(label_file(copy), array, allow_pickle=True)
    with pytest.raises(InputError, match=rf"54.npy: {message}") as caught:
        SAW(copy, "train")[0]
    assert "\n" not in str(caught.value)


def test_damaged_labels_are_refused(copy):
    data = label_file(copy).read_bytes()
    claims = data.replace(b"(6, 8), }", b"(6666666666, 8), }")
    assert claims != data
    for damaged in (b"", b"PK\x03\x04", data[:60], data[:-8], claims):
        label_file(copy).write_bytes(damaged)
        with pytest.raises(InputError, match=r"54.npy: cannot be read: .*; get it again from") as caught:
            SAW(copy, "train")[0]
        assert "\n" not in str(caught.value)


def test_an_archive_instead_of_a_list_is_refused(copy):
    with (copy / "saw_splits" / "val_ids.npy").open("wb") as file:
        np.savez(file, ids=np.arange(3))
    with pytest.raises(InputError, match=r"val_ids.npy: cannot be read: "):
        SAW(copy, "val")


@pytest.mark.parametrize(
    ("ids", "message"),
    [([1, 1], "a photograph is listed twice"), ([-4], "expected numbers of photographs, got -4")],
)
def test_wrong_lists_are_refused(copy, ids, message):
    np.save(copy / "saw_splits" / "val_ids.npy", np.array(ids))
    with pytest.raises(InputError, match=rf"val_ids.npy: {message}"):
        SAW(copy, "val")
