"""Read a small copy of MIT Intrinsic Images and, if available, the real data set."""

import os
from pathlib import Path

import numpy as np
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.public import MITIntrinsic
from candlelight.loaders.public.mit import MIT_SETS, MIT_SPLITS

torch = pytest.importorskip("torch")

HEIGHT, WIDTH = 24, 32
OBJECTS = ("box", "cup1", "cup2", "frog2")  # two of Barron's training and two of his test objects
COLOUR = ("original", "diffuse", "reflectance", "specular", *(f"light{n:02d}" for n in range(1, 11)))
# Height, width and k of the real objects; k is the least-squares scale of reflectance x shading to diffuse.
REAL = {
    "box": (400, 434, 59871),
    "cup1": (384, 317, 42748),
    "cup2": (400, 300, 61673),
    "deer": (334, 400, 32158),
    "dinosaur": (600, 534, 57303),
    "frog1": (300, 467, 46391),
    "frog2": (267, 367, 40188),
    "panther": (300, 534, 52998),
    "paper1": (467, 600, 58616),
    "paper2": (434, 500, 55649),
    "raccoon": (334, 467, 60962),
    "squirrel": (367, 467, 45258),
    "sun": (600, 534, 61229),
    "teabag1": (267, 267, 61767),
    "teabag2": (267, 267, 66847),
    "turtle": (300, 467, 49924),
}


def images_of(number):
    """Make the images of one object; the second object is saturated."""
    rng = np.random.default_rng(number)
    inside = np.zeros((HEIGHT, WIDTH), bool)
    inside[4:-4, 5:-5] = True
    made = {name: rng.integers(1, 65026, (HEIGHT, WIDTH, 3)) for name in COLOUR}
    made["shading"] = rng.integers(1, 60000, (HEIGHT, WIDTH))
    made["diffuse"] = made["reflectance"] * made["shading"][..., None] // 45000
    made["specular"] = rng.integers(0, 60000 if number == 1 else 200, (HEIGHT, WIDTH, 3))
    made["original"] = np.minimum(made["diffuse"] + made["specular"], 65535)
    made = {
        name: np.minimum(array, 65535) * (inside[..., None] if array.ndim == 3 else inside)
        for name, array in made.items()
    }
    made["mask"] = np.where(inside, 65025, 0)
    return {name: array.astype(np.uint16) for name, array in made.items()}


def write(folder, objects=OBJECTS):
    for number, name in enumerate(objects):
        (folder / name).mkdir(parents=True)
        for file, array in images_of(number).items():
            (folder / name / f"{file}.png").write_bytes(encode_png(array))
    (folder / ".DS_Store").write_bytes(b"")
    (folder / f"._{objects[0]}").mkdir()
    (folder / "readme.txt").write_text("not an object")
    return folder


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("MIT-intrinsic")
    write(root / "data")
    return root


def test_every_value_is_read(copy):
    data = MITIntrinsic(copy, lights=True)
    assert (len(data), data.ids) == (4, OBJECTS)
    for number, name in enumerate(OBJECTS):
        item, files = data[number], images_of(number)
        assert item["id"] == name
        back = {
            key: np.rint(tensor.double().numpy() * 65535)
            for key, tensor in item.items()
            if key not in ("id", "mask")
        }
        assert all(item[key].dtype == torch.float32 for key in back)
        np.testing.assert_array_equal(back["image"], np.moveaxis(files["original"], 2, 0))
        for key in ("diffuse", "reflectance", "specular"):
            np.testing.assert_array_equal(back[key], np.moveaxis(files[key], 2, 0))
        np.testing.assert_array_equal(back["shading"], files["shading"][None])
        lights = [np.moveaxis(files[f"light{n:02d}"], 2, 0) for n in range(1, 11)]
        np.testing.assert_array_equal(back["lights"], lights)
        np.testing.assert_array_equal(item["mask"].numpy(), files["mask"] == 65025)


def test_lights_are_read_on_request_only(copy):
    assert "lights" not in MITIntrinsic(copy)[0]


def test_splits_list_their_objects(tmp_path):
    objects = [name for names in MIT_SETS.values() for name in names]
    for name in objects:
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "data" / "box" / "original.png").write_bytes(b"")
    assert len(objects) == len(set(objects)) == 20
    assert MITIntrinsic(tmp_path).ids == tuple(sorted(objects))
    assert MITIntrinsic(tmp_path, "grosse").ids == MIT_SETS["set1"] + MIT_SETS["set2"]
    train, test = (MITIntrinsic(tmp_path, split).ids for split in ("barron-train", "barron-test"))
    assert len(train) == len(test) == 10
    assert {*train, *test} == {*objects}
    assert {"apple", "phone"} < {*train}
    assert {"pear", "potato"} < {*test}
    assert MITIntrinsic(tmp_path, objects=["turtle", "box"]).ids == ("turtle", "box")
    assert {*MIT_SPLITS["grosse"]} == {*REAL}


@pytest.mark.parametrize("below", [".", "data", "data/test"])
def test_data_are_found_in_each_layout_of_folders(tmp_path, below):
    write(tmp_path / below, ("box",))
    assert MITIntrinsic(str(tmp_path))[0]["id"] == "box"


def test_workers_read_objects(copy):
    data = MITIntrinsic(copy)
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="fork")
    batches = list(loader)
    assert [batch["id"] for batch in batches] == [list(OBJECTS[:2]), list(OBJECTS[2:])]
    assert torch.equal(batches[1]["image"][0], data[2]["image"])


def test_negative_rows_count_from_the_end(copy):
    data = MITIntrinsic(copy)
    assert data[-1]["id"] == OBJECTS[-1]
    with pytest.raises(IndexError):
        data[4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "barron-test"}, r"data/deer is missing; get it from https://people.csail.mit.edu/rgrosse"),
        ({"objects": ["teapot"]}, r"data/teapot is missing; get it from"),
        ({"objects": ["../cup1"]}, r"objects: expected names of objects, got '../cup1'"),
        ({"split": "grosse", "objects": ["box"]}, "objects without a split, got 'grosse'"),
    ],
)
def test_missing_files_are_named(copy, options, message):
    with pytest.raises(InputError, match=message):
        MITIntrinsic(copy, **options)


def test_a_folder_without_objects_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected data/<object>/original.png, found none; get them from"):
        MITIntrinsic(tmp_path)


def test_damaged_objects_are_refused(tmp_path):
    folder = write(tmp_path / "data", ("box",)) / "box"
    data = MITIntrinsic(tmp_path)
    files = images_of(0)
    (folder / "mask.png").write_bytes(encode_png(files["mask"][:-1]))
    with pytest.raises(
        InputError, match="box: expected images of one size, got `image` 24 x 32 and `mask` 23 x 32"
    ):
        data[0]
    (folder / "shading.png").write_bytes(encode_png(files["diffuse"]))
    with pytest.raises(InputError, match=r"shading.png: expected gray, got another PNG"):
        data[0]
    (folder / "diffuse.png").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"diffuse.png: cannot be read as an image: expected a PNG of 16 bits"
    ):
        data[0]
    (folder / "original.png").unlink()
    with pytest.raises(InputError, match=r"original.png is missing; get it from"):
        data[0]


@pytest.mark.skipif("MIT_INTRINSIC" not in os.environ, reason="MIT_INTRINSIC names no folder of the dataset")
def test_the_real_dataset_is_read():
    data = MITIntrinsic(Path(os.environ["MIT_INTRINSIC"]), "grosse")
    for item in data:
        name, mask = item["id"], item["mask"].numpy()
        names = ("image", "diffuse", "reflectance", "specular", "shading")
        raw = {key: np.rint(item[key].double().numpy() * 65535) for key in names}
        assert not any(array[:, ~mask].any() for array in raw.values()), name
        product = raw["reflectance"] * raw["shading"]
        k = (product**2).sum() / (product * raw["diffuse"]).sum()
        assert (*mask.shape, round(k)) == REAL[name], name
        error = np.linalg.norm(product / k - raw["diffuse"]) / np.linalg.norm(raw["diffuse"])
        assert 0.023 < error < 0.084, name
        assert raw["reflectance"].max() == (65024 if name in ("frog2", "potato", "raccoon") else 65025)
        cut = {"cup1": 5712, "panther": 2329}.get(name, 1)
        assert np.abs(raw["image"] - raw["diffuse"] - raw["specular"]).max() == cut, name
