"""Read scenes under several lights: Multi-Illumination and photometric stereo."""

import math

import numpy as np
import pytest

from candlelight.loaders.public import MultiIllumination, PhotometricStereo
from candlelight.loaders.public.multi_illumination import FRONTAL
from tests.loaders.public.copies import HEIGHT, STEREO, WIDTH, save, stereo_image, stereo_lights, write_exr
from tests.refusals import refused

torch = pytest.importorskip("torch")

SCENES = ("everett_kitchen5", "main_d424-11")


@pytest.fixture
def flashes(public_folder):
    return public_folder("multi-illumination")


def test_a_row_is_a_photograph(flashes):
    data = MultiIllumination(flashes, mip=5)
    assert data.scenes == SCENES
    for row, item in enumerate(data):
        scene, direction = SCENES[row // 25], row % 25
        assert (item["scene"], item["direction"], item["frontal"]) == (scene, direction, direction in FRONTAL)
        assert not {"chrome", "gray", "materials"} & item.keys()
    assert FRONTAL == (2, 3, 19, 20, 21, 22, 24)


def test_splits_follow_the_names_of_the_scenes(flashes):
    assert MultiIllumination(str(flashes), "test", mip=5).scenes == SCENES[:1]
    assert MultiIllumination(flashes, "train", mip=5).scenes == SCENES[1:]


def test_scenes_and_their_rows(flashes):
    data = MultiIllumination(flashes, mip=5, directions=(24, 3))
    assert data.ids == tuple(f"{scene}/dir_{number}" for scene in SCENES for number in (24, 3))
    assert data.rows("main_d424-11") == range(2, 4)
    assert torch.equal(data.stack("main_d424-11"), torch.stack([data[2]["image"], data[3]["image"]]))


def test_probes_and_materials_on_request(flashes):
    item = MultiIllumination(flashes, mip=5, probes=256, materials=True)[30]
    assert item["chrome"].shape == item["gray"].shape == (3, 8, 8)
    assert item["gray"].mean() == pytest.approx(5 / 255 / 12.92, abs=1e-3)
    # Indices of the palette, not its colours.
    assert torch.equal(item["materials"], torch.full((HEIGHT, WIDTH), 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [math.nan] * 4),
        ("[]", [math.nan] * 4),
        ('{"chrome": null}', [math.nan] * 4),
        ('{"chrome": {"bounding_box": {"x": 1, "y": "2", "h": 4}}}', [1, math.nan, math.nan, 4]),
        # Not a number of pixels: infinite, or too large for a float.
        (f'{{"chrome": {{"bounding_box": {{"x": 1{"0" * 400}, "y": 1e999}}}}}}', [math.nan] * 4),
    ],
)
def test_an_incomplete_meta_file_gives_nan(replaced, text, expected):
    root = replaced("multi-illumination", f"{SCENES[0]}/meta.json", text and text.encode())
    found = MultiIllumination(root, mip=5)[0]["chrome_box"]
    assert found.dtype == torch.float64
    np.testing.assert_array_equal(found, expected)


def test_boxes_of_the_probes(flashes):
    item = MultiIllumination(flashes, mip=5)[0]
    assert item["chrome_box"].tolist() == item["gray_box"].tolist() == [940.0, 2810.5, 970.0, 950.25]


def test_exr_is_linear_as_stored(tmp_path):
    half = np.linspace(0, 40, 4 * 6 * 3, dtype=np.float16).reshape(4, 6, 3)
    for direction in range(25):
        write_exr(tmp_path / "everett_lobby1" / f"dir_{direction}_mip2.exr", half, "DWAB")
    image = MultiIllumination(tmp_path, "test", "exr")[24]["image"]
    np.testing.assert_allclose(image, np.moveaxis(half.astype(np.float32), 2, 0), rtol=0.02, atol=0.05)


def test_a_missing_photograph_is_refused_at_opening_if_its_direction_is_read(tmp_path):
    (tmp_path / "everett_lobby1").mkdir()
    for direction in set(range(25)) - {7}:
        (tmp_path / "everett_lobby1" / f"dir_{direction}_mip2.jpg").touch()
    with refused(r"everett_lobby1/dir_7_mip2.jpg is missing; get it from https://proj"):
        MultiIllumination(tmp_path)
    assert len(MultiIllumination(tmp_path, directions=[8])) == 1


def test_materials_of_another_size_are_refused(own_copy):
    root = own_copy("multi-illumination")
    save(root / SCENES[0] / "materials_mip5.png", np.zeros((HEIGHT - 1, WIDTH), np.uint8))
    with refused("materials_mip5.png: expected images of one size, got `image` 4 x 6"):
        MultiIllumination(root, mip=5, materials=True)[0]


# --------------------------------------------------------------------------------------- photometric stereo


@pytest.mark.parametrize("which", ["refined", "unrefined"])
def test_every_photograph_has_its_light(public_folder, which):
    data = PhotometricStereo(str(public_folder("photometric-stereo")), lights=which)
    assert data.objects == tuple(STEREO)
    for row, item in enumerate(data):
        name, place = data.objects[row // 3], row % 3
        lights = stereo_lights(name, which == "refined")
        assert item["object"] == name
        np.testing.assert_array_equal(
            item["image"], np.moveaxis(stereo_image(name, STEREO[name][place]), 2, 0)
        )
        np.testing.assert_array_equal(item["mask"], np.arange(HEIGHT)[:, None].repeat(WIDTH, axis=1) > 0)
        for kind, table in lights.items():
            entry = {"directions": "light_direction", "intensities": "light_intensity"}[kind]
            np.testing.assert_array_equal(item[entry], table[place].astype(np.float32))


def test_a_stack_has_all_photographs_of_an_object(public_folder):
    data = PhotometricStereo(public_folder("photometric-stereo"), objects=["gourd1"])
    assert data.rows("gourd1") == range(3)
    stack, items = data.stack("gourd1"), list(data)
    for many, one in {
        **{"images": "image", "light_directions": "light_direction"},
        "light_intensities": "light_intensity",
    }.items():
        assert torch.equal(stack[many], torch.stack([item[one] for item in items]))
    assert torch.equal(stack["mask"], items[0]["mask"])


def test_normals_of_a_lambertian_object_are_recovered(tmp_path):
    """Least squares finds the normals of the images only if axes and pairing are right."""
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(HEIGHT, WIDTH, 3)) * 0.2 + (0, 0, 1)
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    directions = rng.normal(size=(6, 3)) * 0.2 + (0, 0, 1)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for number, direction in enumerate(directions):
        shade = np.repeat((normals @ direction * (number + 1))[..., None], 3, axis=2).astype(np.float32)
        write_exr(tmp_path / "apple" / f"I_{number:04d}.exr", shade)
    np.savetxt(tmp_path / "apple" / "light_directions_refined.txt", directions)
    intensities = np.repeat(np.arange(1.0, 7.0)[:, None], 3, axis=1)
    np.savetxt(tmp_path / "apple" / "light_intensities_refined.txt", intensities)
    save(tmp_path / "apple" / "mask.png", np.ones((HEIGHT, WIDTH), np.uint8))
    stack = PhotometricStereo(tmp_path).stack("apple")
    values = (stack["images"] / stack["light_intensities"][:, :, None, None])[:, 0]
    found = torch.linalg.lstsq(stack["light_directions"], values.flatten(1)).solution
    np.testing.assert_allclose(found.T.reshape(HEIGHT, WIDTH, 3), normals, atol=1e-4)


def test_a_mask_of_another_size_is_refused(own_copy):
    root = own_copy("photometric-stereo")
    save(root / "apple" / "mask.png", np.zeros((HEIGHT - 1, WIDTH), np.uint8))
    with refused("I_0000.exr: expected images of one size, got `image` 4 x 6 and `mask`"):
        PhotometricStereo(root)[0]
    with refused("apple: expected images of one size, got `mask` 3 x 6 and `I_0000.exr` 4 x 6"):
        PhotometricStereo(root).stack("apple")
