import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.public import ARAP
from tests.loaders.public.copies import HEIGHT, WIDTH, pixels, save, write_exr
from tests.refusals import refused

torch = pytest.importorskip("torch")


def linear(array, white=255):
    return np.moveaxis(array.astype(np.float32) / np.float32(white), 2, 0)


def write_radiance(path, array):
    """Write values, bytes over 256, as a flat image."""
    flat = np.concatenate([array, np.full((HEIGHT, WIDTH, 1), 128, np.uint8)], axis=2)
    path.write_bytes(b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 4 +X 6\n" + flat.tobytes())


@pytest.fixture
def flat(own_copy):
    return own_copy("arap")


def test_the_flat_layout_is_read(public_folder):
    data = ARAP(str(public_folder("arap")))
    scenes = [("Katie", -1, (0, 1, 2)), ("cream", 0, (3, 5, 6)), ("cream", 1, (4, 5, 7))]
    for item, (scene, light, seeds) in zip(data, scenes, strict=True):
        assert (item["scene"], item["light"]) == (scene, light)
        for key, seed in zip(("image", "reflectance", "shading"), seeds, strict=True):
            # Proportional to light: no curve is decoded.
            np.testing.assert_array_equal(item[key], linear(pixels(seed)))
        np.testing.assert_array_equal(item["mask"], np.ones((HEIGHT, WIDTH), bool))
    assert ARAP(public_folder("arap"), "csm").ids == data.ids[1:]


def test_an_own_albedo_is_preferred_to_the_scenes_albedo(flat):
    save(flat / "CREAM_LIGHT1_ALBEDO.png", pixels(30))
    _, first, second = ARAP(flat)
    np.testing.assert_array_equal(first["reflectance"], linear(pixels(5)))
    np.testing.assert_array_equal(second["reflectance"], linear(pixels(30)))


def test_the_best_of_several_formats_is_read(flat):
    (flat / "Katie_albedo.jpg").write_bytes(b"not read")
    write_radiance(flat / "katie.hdr", np.full((HEIGHT, WIDTH, 3), 64, np.uint8))
    data = ARAP(flat)
    assert data.ids == ("cream_light0", "cream_light1", "katie")
    assert data[2]["image"].unique().tolist() == [0.25]
    wide = pixels(9, dtype=np.uint16)
    (flat / "cream_light0.png").write_bytes(encode_png(wide))
    np.testing.assert_array_equal(data[0]["image"], linear(wide, 65535))
    half = pixels(10).astype(np.float16)
    write_exr(flat / "cream_light0.exr", half)
    np.testing.assert_array_equal(ARAP(flat)[0]["image"], linear(half, 1))


def test_a_scene_may_have_several_words_and_mixed_formats(flat):
    save(flat / "old_room_light2.JPG", pixels(50) // 8 + 100)
    write_radiance(flat / "old_room_albedo.hdr", pixels(51) // 200)  # almost black
    save(flat / "old_room_light2_shading.png", pixels(52))
    item = ARAP(flat)[3]
    assert (item["id"], item["scene"], item["light"]) == ("old_room_light2", "old_room", 2)
    np.testing.assert_array_equal(item["reflectance"], linear(pixels(51) // 200, 256))
    np.testing.assert_array_equal(item["shading"], linear(pixels(52)))


@pytest.fixture
def folders(tmp_path):
    names = ("input/villa", "reflectance/villa_albedo", "shading/villa_shading")
    names += ("input/toad_light3", "reflectance/toad_albedo", "shading/toad_light3_shading")
    for seed, name in enumerate(names):
        save(tmp_path / f"{name}.png", pixels(seed))
    (tmp_path / "mask").mkdir()
    return tmp_path


def test_the_layout_in_folders_is_read(folders):
    data = ARAP(folders)
    assert data.ids == ("toad_light3", "villa")
    assert ARAP(folders, "csm").ids == ("villa",)
    for item, seeds in zip(data, ((3, 4, 5), (0, 1, 2)), strict=True):
        for key, seed in zip(("image", "reflectance", "shading"), seeds, strict=True):
            np.testing.assert_array_equal(item[key], linear(pixels(seed)))
    (folders / "reflectance" / "toad_albedo.png").unlink()
    with refused(r"reflectance/toad_light3_albedo.png is missing; get it from https://perso"):
        data = ARAP(folders)[0]


@pytest.mark.parametrize(
    ("name", "white"), [("villa_mask", 1), ("toad_alpha", 255), ("toad_light3_mask", 255), ("villa_mask", 0)]
)
def test_masks_are_read(folders, name, white):
    inside = np.zeros((HEIGHT, WIDTH), np.uint8)
    inside[1:3] = white
    Image.fromarray(inside).save(folders / "mask" / f"{name}.png")
    for item in ARAP(folders):
        expected = inside > 0 if item["scene"] in name else np.ones((HEIGHT, WIDTH), bool)
        np.testing.assert_array_equal(item["mask"], expected)
