import json
import math

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public import MultiIllumination
from candlelight.loaders.public.multi_illumination import FRONTAL

torch = pytest.importorskip("torch")

HEIGHT, WIDTH = 62, 93  # 4000 and 6000 over 2^6
SCENES = ("everett_kitchen5", "main_d424-11")
META = {
    "chrome": {
        "bounding_box": {"x": 940.0, "y": 2810.5, "w": 970, "h": 950.25},
        "boundary_points": [{"x": 941.0, "y": 3300.0}],
    },
    "gray": {"bounding_box": {"x": 2100.0, "y": 2815.0, "w": 960.0, "h": 955.0}, "boundary_points": []},
}


def value(scene, direction):
    return 100 * SCENES.index(scene) + 4 * direction


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("multi_illumination_test_mip2_jpg")
    for scene in SCENES:
        (root / scene / "probes").mkdir(parents=True)
        for direction in range(25):
            image = Image.new("RGB", (WIDTH, HEIGHT), (value(scene, direction),) * 3)
            image.save(root / scene / f"dir_{direction}_mip6.jpg", quality=100)
            for probe, size in (("chrome", 16), ("gray", 16)):
                gray = Image.new("RGB", (size, size), (direction, direction, direction))
                gray.save(root / scene / "probes" / f"dir_{direction}_{probe}256.jpg", quality=100)
        materials = Image.new("P", (WIDTH, HEIGHT))
        materials.putdata((np.arange(HEIGHT * WIDTH) % 40).tolist())
        materials.putpalette([channel for entry in range(40) for channel in (entry, 255 - entry, 7)])
        materials.save(root / scene / "materials_mip6.png")
        (root / scene / "thumb.jpg").write_bytes(b"")
        (root / scene / "._dir_0_mip6.jpg").write_bytes(b"")
    (root / SCENES[0] / "meta.json").write_text(json.dumps(META))
    (root / ".DS_Store").write_bytes(b"")
    (root / "__MACOSX").mkdir()
    (root / "empty").mkdir()
    return root


def test_a_row_is_a_photograph(copy):
    data = MultiIllumination(copy, mip=6)
    assert (data.scenes, len(data)) == (SCENES, 50)
    assert data.ids[2] == "everett_kitchen5/dir_2"
    assert data.ids[25 + 10] == "main_d424-11/dir_10"
    for row in (0, 2, 10, 35, -1):
        item = data[row]
        scene, direction = SCENES[row % 50 // 25], row % 25
        assert (item["id"], item["scene"]) == (f"{scene}/dir_{direction}", scene)
        assert (item["direction"], item["frontal"]) == (direction, direction in FRONTAL)
        assert item["image"].shape == (3, HEIGHT, WIDTH)
        expected = srgb_to_linear(np.array(value(scene, direction) / 255))
        np.testing.assert_allclose(item["image"], np.full((3, HEIGHT, WIDTH), expected), atol=0.01)
    with pytest.raises(IndexError):
        data[50]


def test_splits_follow_the_names_of_the_scenes(copy):
    assert MultiIllumination(copy, "test", mip=6).scenes == SCENES[:1]
    assert MultiIllumination(str(copy), "train", mip=6).scenes == SCENES[1:]


def test_scenes_and_their_rows(copy):
    data = MultiIllumination(copy, mip=6, directions=(24, 3))
    assert data.ids == tuple(f"{scene}/dir_{number}" for scene in SCENES for number in (24, 3))
    assert data.rows("main_d424-11") == range(2, 4)
    stack = data.stack("main_d424-11")
    assert stack.shape == (2, 3, HEIGHT, WIDTH)
    assert torch.equal(stack, torch.stack([data[2]["image"], data[3]["image"]]))
    with pytest.raises(
        InputError, match=r"scene: expected one of everett_kitchen5, main_d424-11, ..., got 'x'"
    ):
        data.rows("x")


def test_probes_and_materials_on_request(copy):
    item = MultiIllumination(copy, mip=6)[30]
    assert not {"chrome", "gray", "materials"} & item.keys()
    item = MultiIllumination(copy, mip=6, probes=256, materials=True)[30]
    assert item["chrome"].shape == item["gray"].shape == (3, 16, 16)
    assert item["gray"].mean() == pytest.approx(5 / 255 / 12.92, abs=1e-3)
    assert item["materials"].dtype == torch.int64
    # Indices of the palette, not its colours.
    np.testing.assert_array_equal(item["materials"].flatten(), np.arange(HEIGHT * WIDTH) % 40)


def test_boxes_of_the_probes(copy):
    data = MultiIllumination(copy, mip=6)
    assert data[0]["chrome_box"].tolist() == [940.0, 2810.5, 970.0, 950.25]
    assert data[0]["gray_box"].tolist() == [2100.0, 2815.0, 960.0, 955.0]
    assert data[25]["chrome_box"].dtype == torch.float64
    assert data[25]["chrome_box"].isnan().all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", [math.nan] * 4),
        ('{"chrome": null}', [math.nan] * 4),
        ('{"chrome": {"bounding_box": {"x": 1, "y": "2", "h": 4}}}', [1, math.nan, math.nan, 4]),
        # Not a number of pixels: infinite, or too large for a float.
        (f'{{"chrome": {{"bounding_box": {{"x": 1{"0" * 400}, "y": 1e999}}}}}}', [math.nan] * 4),
    ],
)
def test_an_incomplete_meta_file_gives_nan(copy, text, expected):
    path = copy / SCENES[1] / "meta.json"
    path.write_text(text)
    np.testing.assert_array_equal(MultiIllumination(copy, mip=6)[25]["chrome_box"], expected)
    path.unlink()


@pytest.mark.parametrize("text", ["", "{", "[" * 100000, "\xff"])
def test_a_damaged_meta_file_is_refused(copy, text):
    path = copy / SCENES[1] / "meta.json"
    path.write_text(text, encoding="latin1")
    with pytest.raises(InputError, match=r"meta.json: cannot be read as JSON: .*; get it again from"):
        MultiIllumination(copy, mip=6)[25]
    path.unlink()


def test_exr_is_linear_as_stored(tmp_path):
    openexr = pytest.importorskip("OpenEXR")
    folder = tmp_path / "everett_lobby1"
    folder.mkdir()
    half = np.linspace(0, 40, 4 * 6 * 3, dtype=np.float16).reshape(4, 6, 3)
    for direction in range(25):
        made = openexr.File({"compression": openexr.DWAB_COMPRESSION}, {"RGB": half})
        made.write(str(folder / f"dir_{direction}_mip2.exr"))
    image = MultiIllumination(tmp_path, "test", "exr")[24]["image"]
    np.testing.assert_allclose(image, np.moveaxis(half.astype(np.float32), 2, 0), rtol=0.02, atol=0.05)


def test_a_missing_photograph_is_refused_at_opening(tmp_path):
    (tmp_path / "everett_lobby1").mkdir()
    for direction in set(range(25)) - {7}:
        (tmp_path / "everett_lobby1" / f"dir_{direction}_mip2.jpg").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"everett_lobby1/dir_7_mip2.jpg is missing; get it from https://proj"
    ):
        MultiIllumination(tmp_path)
    assert len(MultiIllumination(tmp_path, directions=[8])) == 1
    with pytest.raises(InputError, match=r"dir_8_mip2.jpg: cannot be read as an image"):
        MultiIllumination(tmp_path, directions=[8])[0]


def test_missing_or_damaged_materials_and_probes_are_refused(copy, tmp_path):
    data = MultiIllumination(copy, mip=6, probes=128)
    with pytest.raises(InputError, match=r"probes/dir_0_chrome128.jpg is missing; get it from"):
        data[0]
    path = copy / SCENES[0] / "materials_mip6.png"
    whole = path.read_bytes()
    Image.new("P", (WIDTH, HEIGHT - 1)).save(path)
    with pytest.raises(
        InputError, match=r"materials_mip6.png: expected images of one size, got `image` 62 x 93"
    ):
        MultiIllumination(copy, mip=6, materials=True)[0]
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mip": 2}, r"expected scenes with dir_<n>_mip2.jpg, split all, found none; get them from"),
        ({"mip": 6, "kind": "exr"}, r"expected scenes with dir_<n>_mip6.exr"),
        ({"directions": [25]}, r"directions: expected numbers from 0 to 24, got \[25\]"),
        ({"directions": []}, r"directions: expected numbers from 0 to 24, got \[\]"),
    ],
)
def test_bad_arguments_are_refused(copy, options, message):
    with pytest.raises(InputError, match=message):
        MultiIllumination(copy, **options)
