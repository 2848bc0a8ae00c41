"""Read tiny copies of MPI-Sintel, InteriorVerse, Stanford-ORB and MIDIntrinsics."""

import shutil

import numpy as np
import pytest

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.public import InteriorVerse, MIDIntrinsics, Sintel, StanfordORB
from candlelight.loaders.public.sintel import SINTEL_SPLITS
from candlelight.loaders.public.stanford_orb import ORB_SPLITS
from tests.loaders.public.copies import (
    HEIGHT,
    INTERIORVERSE,
    MID_SCENES,
    ORB,
    SINTEL,
    WIDTH,
    interiorverse_layers,
    interiorverse_line,
    mid_layers,
    mid_truth,
    orb_mask,
    pixels,
    sintel_pixels,
    write_exr,
    write_interiorverse,
    write_sintel_repack,
    write_stanford_orb,
)
from tests.refusals import refused

torch = pytest.importorskip("torch")

LAYERS = {"image": "clean", "reflectance": "albedo", "shading": "shading"}


def first(array):
    """Move the channels first."""
    return np.moveaxis(array, 2, 0)


def decoded(array):
    return first(srgb_to_linear(array / 255)).astype(np.float32)


# --------------------------------------------------------------------------------------------------- Sintel


def test_frames_of_sintel_are_matched_in_their_order(public_folder):
    data = Sintel(public_folder("sintel"), "test")
    assert data.ids == tuple(f"{scene}/frame_000{n}" for scene in SINTEL[:9] for n in (1, 2))
    for item in data:
        scene, _, frame = item["id"].partition("/frame_")
        assert item["scene"] == scene
        for name, layer in LAYERS.items():
            np.testing.assert_array_equal(item[name], decoded(sintel_pixels(scene, int(frame), layer)))
        assert item["mask"].all()


def test_splits_of_sintel_are_the_two_folds(public_folder):
    assert [len(SINTEL_SPLITS[name]) for name in ("train", "test")] == [9, 9]
    assert not set(SINTEL_SPLITS["train"]) & set(SINTEL_SPLITS["test"])
    assert "bandage_1" not in SINTEL_SPLITS["train-nodefect"]
    scenes = {name.partition("/")[0] for name in Sintel(public_folder("sintel"), "test-nodefect").ids}
    assert scenes == set(SINTEL[:9]) - {"shaman_3"}
    assert len(SINTEL_SPLITS["folds"]) == 18
    assert set(SINTEL_SPLITS["folds"]) - set(SINTEL_SPLITS["folds-nodefect"]) == {"bandage_1", "shaman_3"}


def test_sintel_may_lie_in_a_folder_of_its_archive(public_folder, tmp_path):
    shutil.copytree(public_folder("sintel"), tmp_path / "training")
    assert Sintel(tmp_path).ids == Sintel(public_folder("sintel")).ids


@pytest.mark.parametrize("masked", [True, False])
def test_the_copy_of_papers_is_read_with_its_masks(tmp_path, masked):
    write_sintel_repack(tmp_path, masked=masked)
    data = Sintel(tmp_path)
    assert data.ids == tuple(f"{scene}/frame_000{n}" for scene in ("alley_2", "temple_3") for n in (1, 2))
    item = data[3]
    for name, layer in LAYERS.items():
        np.testing.assert_array_equal(item[name], decoded(sintel_pixels("temple_3", 2, layer)))
    assert (~item["mask"]).sum() == (WIDTH + 1 if masked else 0)
    (tmp_path / "MPI-main-shading" / "alley_2_frame_0001.png").unlink()
    with refused("MPI-main-shading/alley_2_frame_0001.png is missing; get it from https"):
        data[0]


# -------------------------------------------------------------------------------------------- InteriorVerse


def test_frames_of_interiorverse_have_albedo_and_material(public_folder):
    data = InteriorVerse(public_folder("interiorverse"), "test", material=True)
    for number, item in enumerate(data):
        layers = interiorverse_layers(number)
        np.testing.assert_array_equal(item["image"], first(layers["im"]))
        np.testing.assert_array_equal(item["reflectance"], first(layers["albedo"]))
        np.testing.assert_array_equal(item["roughness"], first(layers["material"])[:1])
        np.testing.assert_array_equal(item["metallic"], first(layers["material"])[1:2])
        assert item["mask"].all()
    assert "shading" not in item
    whole = public_folder("interiorverse") / "dataset_85"
    assert InteriorVerse(whole, "val").ids == INTERIORVERSE[2:]
    assert "roughness" not in InteriorVerse(whole, "val")[0]


def test_a_list_of_marigold_chooses_frames(tmp_path):
    write_interiorverse(tmp_path, below="scenes_85")
    lines = "\n".join(map(interiorverse_line, INTERIORVERSE[1:]))
    (tmp_path / "interiorverse_test_scenes_85.txt").write_text(lines)
    data = InteriorVerse(tmp_path, "test")
    assert data.ids == INTERIORVERSE[1:]
    np.testing.assert_array_equal(data[1]["reflectance"], first(interiorverse_layers(2)["albedo"]))


def test_values_of_interiorverse_that_are_not_finite_are_replaced_and_outside_the_mask(tmp_path):
    layers = interiorverse_layers(0)
    layers["albedo"][0, 0, 1], layers["albedo"][0, 1] = np.nan, np.inf
    layers["im"][2, 2, 0], layers["im"][2, 3] = np.inf, -np.inf
    layers["mask"][1, 1], layers["mask"][1, 2] = 0, np.nan
    write_interiorverse(tmp_path, **layers)
    item = InteriorVerse(tmp_path, "test")[0]
    assert (~item["mask"]).nonzero().tolist() == [[0, 0], [0, 1], [1, 1], [1, 2]]
    assert item["reflectance"][:, 0, :2].tolist() == [
        [layers["albedo"][0, 0, 0], 65504],
        [0, 65504],
        [layers["albedo"][0, 0, 2], 65504],
    ]
    assert (item["image"][0, 2, 2], item["image"][:, 2, 3].tolist()) == (65504, [0, 0, 0])


# --------------------------------------------------------------------------------------------- Stanford-ORB


@pytest.mark.parametrize("kind", ["LDR", "HDR"])
def test_photographs_of_stanford_orb_have_albedo_and_mask(tmp_path, kind):
    write_stanford_orb(tmp_path, kind)
    for number, item in enumerate(StanfordORB(tmp_path)):
        assert f"{item['capture']}/" in ORB[number]
        stored = pixels(number, 1)
        expected = decoded(stored) if kind == "LDR" else first(stored / 64)
        np.testing.assert_allclose(item["image"], expected, atol=1e-6)
        np.testing.assert_allclose(item["reflectance"], decoded(pixels(number, 2)), atol=1e-6)
        np.testing.assert_array_equal(item["mask"], orb_mask() > 127)
        assert "shading" not in item


def test_large_files_of_stanford_orb_are_reduced_by_means_of_stored_values(public_folder):
    item = StanfordORB(public_folder("stanford-orb"), side=2)[2]
    assert item["image"].shape == (3, 2, 3)
    for name, seed in {"image": 1, "reflectance": 2}.items():
        stored = pixels(2, seed) / 255
        for y, x, c in np.ndindex(2, 3, 3):
            block = [stored[2 * y + i, 2 * x + j, c] for i in (0, 1) for j in (0, 1)]
            assert item[name][c, y, x] == pytest.approx(srgb_to_linear(np.array(sum(block) / 4)), abs=1e-6)
    # Of the block above on the left, one pixel of 127 is all that is seen; one half is not above one half.
    assert item["mask"].tolist() == [[False, False, False], [False, True, True]]


def test_captures_of_stanford_orb_are_those_of_the_benchmark():
    assert (len(set(ORB_SPLITS["full"])), len(set(ORB_SPLITS["light"]))) == (42, 7)
    assert set(ORB_SPLITS["light"]) <= set(ORB_SPLITS["full"])
    scenes = [name[-3:] for name in ORB_SPLITS["full"]]
    assert [scenes.count(f"00{number}") for number in range(1, 8)] == [6, 8, 7, 5, 6, 4, 6]


# -------------------------------------------------------------------------------------------- MIDIntrinsics


def test_photographs_of_midintrinsics_are_balanced_and_tone_mapped(public_folder):
    data = MIDIntrinsics(public_folder("midintrinsics"))
    for row in (0, 7, 48):
        item, (scene, direction) = data[row], (MID_SCENES[row // 25], row % 25)
        assert (item["scene"], item["direction"], item["frontal"]) == (scene, direction, False)
        image, albedo, shading = mid_truth(scene, direction)
        known = np.ones((HEIGHT, WIDTH), bool)
        known[1, 2] = False
        np.testing.assert_array_equal(item["mask"], known)
        np.testing.assert_array_equal(item["reflectance"], first(albedo))
        np.testing.assert_allclose(item["image"], first(image), rtol=1e-5)
        np.testing.assert_allclose(item["shading"], first(shading), rtol=1e-5)
    assert len(MIDIntrinsics(public_folder("midintrinsics"), "test")) == 25
    assert MIDIntrinsics(public_folder("midintrinsics"), directions=(3,))[1]["frontal"]


def test_values_that_are_not_finite_are_outside_the_mask(own_copy):
    root = own_copy("midintrinsics")
    albedo = mid_layers(MID_SCENES[0], 0)[0]
    albedo[0, 0, 1], albedo[0, 1] = np.nan, np.inf
    write_exr(root / MID_SCENES[0] / "albedo.exr", albedo)
    photograph = np.full((HEIGHT, WIDTH, 3), 0.5, np.float32)
    photograph[2, 2, 0], photograph[2, 3] = np.nan, np.inf
    write_exr(root / MID_SCENES[0] / "dir_0_mip2.exr", photograph)
    item = MIDIntrinsics(root)[0]
    assert (~item["mask"]).nonzero().tolist() == [[0, 0], [0, 1], [1, 2], [2, 2]]
    assert (item["image"][0, 2, 2], item["image"][:, 2, 3].tolist()) == (0, [1, 1, 1])
    for layer in ("image", "reflectance", "shading"):
        assert item[layer].isfinite().all()


@pytest.mark.parametrize("change", ["dark", "small", "nan"])
def test_a_probe_without_colour_is_refused(own_copy, change):
    root = own_copy("midintrinsics")
    probe = np.full((24, 24, 3), {"dark": 0.0, "small": 0.5, "nan": np.nan}[change], np.float32)
    probe = probe[:10] if change == "small" else probe
    write_exr(root / MID_SCENES[0] / "probes" / "dir_0_gray256.exr", probe)
    with refused("dir_0_gray256.exr: expected a gray ball that is lit in all channels; get it from https"):
        MIDIntrinsics(root)[0]


def test_a_dark_photograph_is_black(own_copy):
    root = own_copy("midintrinsics")
    write_exr(root / MID_SCENES[0] / "dir_0_mip2.exr", np.full((HEIGHT, WIDTH, 3), 1e-5, np.float32))
    item = MIDIntrinsics(root)[0]
    assert not item["image"].any()
    assert not item["shading"].any()


def test_an_albedo_of_another_size_is_refused(own_copy):
    root = own_copy("midintrinsics")
    write_exr(root / MID_SCENES[0] / "albedo.exr", np.ones((HEIGHT, 3, 3), np.float32))
    with refused("albedo.exr: expected images of one size, got `image` 4 x 6 and `albedo` 4 x 3"):
        MIDIntrinsics(root)[0]
