import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.public import ARAP

torch = pytest.importorskip("torch")

SIZE = (6, 9)


def noise(seed, dtype=np.uint8):
    return np.random.default_rng(seed).integers(0, 256, (*SIZE, 3), np.uint8).astype(dtype)


def rgbe(image):
    """Encode values, bytes over 256, as a flat Radiance image."""
    pixels = np.concatenate([image, np.full((*SIZE, 1), 128, np.uint8)], axis=-1)
    pixels[0, 0, 0] = 7  # 2 would begin a scanline of runs
    head = b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y %d +X %d\n" % SIZE
    return head + pixels.tobytes()


def linear(array):
    return torch.from_numpy(np.moveaxis(array.astype(np.float32), 2, 0).copy())


@pytest.fixture
def flat(tmp_path):
    """Write a scene with one light, a scene with two lights and one albedo, and an HDR scene."""
    root = tmp_path / "ARAP"
    root.mkdir()
    pictures = ("Katie", "Katie_albedo", "katie_shading", "cream_light0", "cream_light1", "cream_albedo")
    for seed, name in enumerate((*pictures, "cream_light0_shading", "cream_light1_shading", "cream_normal")):
        Image.fromarray(noise(seed)).save(root / f"{name}.png")
    (root / "alley_light0.hdr").write_bytes(rgbe(noise(20)))
    (root / "alley_light0_albedo.hdr").write_bytes(rgbe(noise(21) // 200))  # almost black
    Image.fromarray(noise(22)).save(root / "alley_light0_shading.JPG", quality=100)
    for name in (".DS_Store", "._Katie.png", "readme.txt", "cream_depth.exr"):
        (root / name).write_bytes(b"")
    return root


def test_the_flat_layout_is_read(flat):
    data = ARAP(flat)
    assert data.ids == ("Katie", "alley_light0", "cream_light0", "cream_light1")
    one, _, first, second = data
    assert (one["id"], one["scene"], one["light"]) == ("Katie", "Katie", -1)
    assert (second["scene"], first["light"], second["light"]) == ("cream", 0, 1)
    for key, seed in {"image": 0, "reflectance": 1, "shading": 2}.items():
        assert torch.equal(one[key], linear(noise(seed)) / 255)  # proportional to light: no curve is decoded
    assert torch.equal(first["reflectance"], second["reflectance"])
    assert torch.equal(first["reflectance"], linear(noise(5)) / 255)
    assert torch.equal(second["image"], linear(noise(4)) / 255)
    assert torch.equal(second["shading"], linear(noise(7)) / 255)
    assert one["mask"].dtype == torch.bool
    assert one["mask"].shape == SIZE
    assert one["mask"].all()


def test_formats_are_mixed_within_a_scene(flat):
    item = ARAP(str(flat))[1]
    expected = noise(20)
    expected[0, 0, 0] = 7
    assert torch.equal(item["image"], linear(expected) / 256)
    assert 0 < item["reflectance"].max() < 0.03
    assert item["shading"].shape == (3, *SIZE)


def test_an_own_albedo_is_preferred_to_the_scenes_albedo(flat):
    Image.fromarray(noise(30)).save(flat / "CREAM_LIGHT1_ALBEDO.png")
    data = ARAP(flat)
    assert torch.equal(data[3]["reflectance"], linear(noise(30)) / 255)
    assert torch.equal(data[2]["reflectance"], linear(noise(5)) / 255)


def test_the_best_of_several_formats_is_read(flat):
    (flat / "katie.hdr").write_bytes(rgbe(noise(40)))
    (flat / "Katie_albedo.jpg").write_bytes(b"not read")
    data = ARAP(flat)
    assert data.ids == ("alley_light0", "cream_light0", "cream_light1", "katie")
    assert data[3]["image"].max() <= 255 / 256


def test_sixteen_bits_and_exr_are_read_in_full(flat):
    wide = noise(3, np.uint16) * 256 + noise(4, np.uint16)
    (flat / "Katie.png").write_bytes(encode_png(wide))
    assert torch.equal(ARAP(flat)[0]["image"], linear(wide) / 65535)
    openexr = pytest.importorskip("OpenEXR")
    half = np.linspace(0, 9, wide.size, dtype=np.float16).reshape(wide.shape)
    openexr.File({"compression": openexr.ZIP_COMPRESSION}, {"RGB": half}).write(str(flat / "Katie.exr"))
    assert torch.equal(ARAP(flat)[0]["image"], linear(half))


def test_a_scene_may_have_several_words(flat):
    for seed, name in enumerate(("old_room_light2", "old_room_albedo", "old_room_light2_shading"), 50):
        Image.fromarray(noise(seed)).save(flat / f"{name}.png")
    item = ARAP(flat)[4]
    assert (item["id"], item["scene"], item["light"]) == ("old_room_light2", "old_room", 2)
    assert torch.equal(item["reflectance"], linear(noise(51)) / 255)


def test_scenes_of_the_concept_sensitivity_metric(flat):
    assert ARAP(flat, "csm").ids == ("alley_light0", "cream_light0", "cream_light1")


@pytest.fixture
def folders(tmp_path):
    root = tmp_path / "ARAP_new_scenes"
    files = {
        "input/villa": 0,
        "reflectance/villa_albedo": 1,
        "shading/villa_shading": 2,
        "input/toad_light3": 3,
        "reflectance/toad_albedo": 4,
        "shading/toad_light3_shading": 5,
    }
    for name, seed in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(seed)).save(root / f"{name}.png")
    (root / "mask").mkdir()
    (root / "mask" / ".DS_Store").write_bytes(b"")
    return root


def test_the_layout_in_folders_is_read(folders):
    data = ARAP(folders)
    assert data.ids == ("toad_light3", "villa")
    assert ARAP(folders, "csm").ids == ("villa",)
    toad, villa = data
    for item, seeds in ((villa, (0, 1, 2)), (toad, (3, 4, 5))):
        for key, seed in zip(("image", "reflectance", "shading"), seeds, strict=True):
            assert torch.equal(item[key], linear(noise(seed)) / 255)
    assert (toad["scene"], toad["light"], villa["light"]) == ("toad", 3, -1)


@pytest.mark.parametrize("name", ["villa_mask", "toad_alpha", "toad_light3_mask"])
@pytest.mark.parametrize("white", [1, 255])
def test_masks_are_read(folders, name, white):
    inside = np.zeros(SIZE, np.uint8)
    inside[1:3] = white
    Image.fromarray(inside).save(folders / "mask" / f"{name}.png")
    for item in ARAP(folders):
        expected = inside > 0 if item["scene"] in name else np.ones(SIZE, bool)
        np.testing.assert_array_equal(item["mask"], expected)


def test_an_empty_mask_is_empty(folders):
    Image.fromarray(np.zeros(SIZE, np.uint8)).save(folders / "mask" / "villa_mask.png")
    assert not ARAP(folders)[1]["mask"].any()


def test_missing_files_are_named(flat, folders, tmp_path):
    (flat / "cream_light1_shading.png").unlink()
    with pytest.raises(
        InputError, match=r"ARAP/cream_light1_shading.png is missing; get it from https://perso"
    ):
        ARAP(flat)[3]
    (folders / "reflectance" / "toad_albedo.png").unlink()
    with pytest.raises(InputError, match=r"reflectance/toad_light3_albedo.png is missing; get it from"):
        ARAP(folders)[0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: expected images, found none; get them from"):
        ARAP(tmp_path / "empty")


def test_different_sizes_are_refused(flat):
    Image.fromarray(noise(0)[:-1]).save(flat / "Katie_albedo.png")
    with pytest.raises(
        InputError, match=r"Katie.png: expected images of one size, got `image` 6 x 9 and `refl"
    ):
        ARAP(flat)[0]


def test_other_layers_are_not_inputs(flat):
    for name in ("cream_light0_shading_direct", "cream_normal_light0", "cream_light1_mask", "cream_depth_2"):
        Image.fromarray(noise(1)).save(flat / f"{name}.png")
    assert ARAP(flat).ids == ("Katie", "alley_light0", "cream_light0", "cream_light1")
