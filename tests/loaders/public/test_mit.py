"""Read a small copy of MIT Intrinsic Images and, if available, the real data set."""

import os
from pathlib import Path

import numpy as np
import pytest

from candlelight.loaders.public import MITIntrinsic
from candlelight.loaders.public.mit import MIT_SETS, MIT_SPLITS
from tests.loaders.public.copies import mit_images, write_mit

torch = pytest.importorskip("torch")

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


def test_every_value_is_read(public_folder):
    for number, item in enumerate(MITIntrinsic(public_folder("mit"), lights=True)):
        files = mit_images(number)
        stored = {name: files[name] for name in ("diffuse", "reflectance", "specular")}
        stored |= {"image": files["original"], "shading": files["shading"][..., None]}
        for key, array in stored.items():
            assert item[key].dtype == torch.float32
            back = np.rint(item[key].double().numpy() * 65535)
            np.testing.assert_array_equal(back, np.moveaxis(array, 2, 0))
        lights = [np.moveaxis(files[f"light{n:02d}"], 2, 0) for n in range(1, 11)]
        np.testing.assert_array_equal(np.rint(item["lights"].double().numpy() * 65535), lights)
        np.testing.assert_array_equal(item["mask"], files["mask"] == 65025)
    assert "lights" not in MITIntrinsic(public_folder("mit"))[0]


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
    write_mit(tmp_path, below, ("box",))
    assert MITIntrinsic(str(tmp_path)).ids == ("box",)


@pytest.mark.oracle
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
