"""Read tiny copies of Hypersim: as Marigold's script prepares it, and as it is released."""

import math

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public import Hypersim
from candlelight.loaders.public.hypersim import cut_off, hypersim_truth, read_frame_list, tone_map

torch = pytest.importorskip("torch")

HEIGHT, WIDTH = 5, 7
FRAMES = ("ai_001_010/cam_00_fr0000", "ai_001_010/cam_01_fr0007", "ai_054_007/cam_00_fr0094")
KINDS = {"rgb": "png", "albedo": "npy", "shading": "npy", "residual": "npy", "shading_stats": "json"}
RELEASED = {"albedo": "diffuse_reflectance", "shading": "diffuse_illumination", "residual": "residual"}


def line_of(frame, folder="test"):
    scene, _, name = frame.partition("/")
    return " ".join(f"{folder}/{scene}/{kind}_{name}.{suffix}" for kind, suffix in KINDS.items())


def layers_of(number):
    """Make layers as the script stores them: float64, shading and residual unbounded and of two ranges."""
    rng = np.random.default_rng(number)
    made = {
        "albedo": rng.uniform(0.05, 1, (HEIGHT, WIDTH, 3)),
        "shading": rng.lognormal(0, 2, (HEIGHT, WIDTH, 3)),
        "residual": rng.lognormal(-3, 2, (HEIGHT, WIDTH, 3)),
    }
    made["residual"][0, 0] = -0.5  # renderers filter the image, and so make negative values
    return made


def pixels(number):
    return np.random.default_rng([number, 9]).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def file_of(root, kind, frame=FRAMES[0], folder="test"):
    scene, _, name = frame.partition("/")
    return root / folder / scene / f"{kind}_{name}.{KINDS[kind]}"


def write_list(root, lines, name="hypersim_test.txt"):
    (root / name).write_text("\n".join(lines))


@pytest.fixture
def copy(tmp_path):
    root = tmp_path / "hypersim"
    for number, frame in enumerate(FRAMES):
        image = file_of(root, "rgb", frame)
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(number)).save(image)
        for kind, array in layers_of(number).items():
            np.save(file_of(root, kind, frame), array)
    write_list(root, map(line_of, FRAMES))
    return root


def slow_cut(*layers):
    """Sort all values of each layer and interpolate at 98 percent."""
    found = []
    for layer in layers:
        values = sorted(value for value in layer.ravel().tolist() if not math.isnan(value))
        place = 0.98 * (len(values) - 1)
        low = math.floor(place)
        high = min(low + 1, len(values) - 1)
        found.append(values[low] + (place - low) * (values[high] - values[low]))
    return max(found)


def slow_scale(layer, cut):
    scaled = np.zeros((3, HEIGHT, WIDTH), np.float32)
    for y, x, c in np.ndindex(layer.shape):
        scaled[c, y, x] = min(max(layer[y, x, c], 0), cut) / cut
    return scaled


# ---------------------------------------------------------------------------------------------------- rows


def test_rows_follow_the_list(copy):
    data = Hypersim(str(copy), "test")
    assert (len(data), data.ids) == (3, FRAMES)
    assert [(item["id"], item["scene"]) for item in data] == [(key, key[:10]) for key in FRAMES]
    write_list(copy, [line_of(FRAMES[2]), "", line_of(FRAMES[0]) + "\r"])
    assert Hypersim(copy, "test").ids == (FRAMES[2], FRAMES[0])


def test_a_row_has_the_layers_of_its_frame(copy):
    item = Hypersim(copy, "test")[1]
    made = layers_of(1)
    for name in ("image", "reflectance", "shading", "residual"):
        assert (item[name].dtype, item[name].shape) == (torch.float32, (3, HEIGHT, WIDTH))
    for name in ("mask", "reflectance_mask", "shading_mask", "residual_mask"):
        assert (item[name].dtype, item[name].shape) == (torch.bool, (HEIGHT, WIDTH))
        assert item[name].all()
    np.testing.assert_array_equal(item["reflectance"], np.moveaxis(made["albedo"], 2, 0).astype(np.float32))
    cut = slow_cut(made["shading"], made["residual"])
    np.testing.assert_allclose(item["shading"], slow_scale(made["shading"], cut), rtol=1e-6)
    np.testing.assert_allclose(item["residual"], slow_scale(made["residual"], cut), rtol=1e-6)
    assert item["shading"].max() == 1  # values above the percentile are clipped
    assert 0 < item["residual"].max() < 1
    assert item["residual"].min() == 0


def test_the_image_is_decoded_so_that_encoding_gives_the_pixels_of_the_file(copy):
    image = Hypersim(copy, "test")[2]["image"]
    stored = np.moveaxis(pixels(2), 2, 0)
    np.testing.assert_array_equal(image, srgb_to_linear(stored / 255).astype(np.float32))
    np.testing.assert_allclose(linear_to_srgb(image.numpy()) * 255, stored, atol=1e-3)


def test_any_floats_are_read(copy):
    for kind, array in layers_of(0).items():
        np.save(file_of(copy, kind), array.astype(np.float16))
    half = {kind: array.astype(np.float16).astype(float) for kind, array in layers_of(0).items()}
    item = Hypersim(copy, "test")[0]
    cut = slow_cut(half["shading"], half["residual"])
    np.testing.assert_allclose(item["shading"], slow_scale(half["shading"], cut), rtol=1e-6)


# ----------------------------------------------------------------------------------------- scale and masks


@given(
    st.lists(st.floats(-10, 1e5), min_size=1, max_size=120),
    st.lists(st.floats(-10, 1e5), min_size=1, max_size=120),
)
def test_the_cut_off_is_the_larger_98th_percentile(shading, residual):
    layers = np.array(shading), np.array([*residual, np.nan])
    assert cut_off(*layers) == pytest.approx(max(slow_cut(*layers), 0), rel=1e-12, abs=1e-9)


def test_the_cut_off_is_over_all_channels_at_once():
    layer = np.zeros((1, 50, 3))
    layer[:, :, 2] = np.arange(50)
    # Of 150 values the 101st to 150th are 0 to 49, and place 0.98 * 149 = 146.02 lies between 46 and 47.
    assert cut_off(layer) == pytest.approx(46.02)


@pytest.mark.parametrize("brighter", ["shading", "residual"])
def test_both_layers_have_the_unit_of_the_brighter_one(brighter):
    gray = np.full((1, 1, 3), 2.0)
    layers = {"shading": gray, "residual": gray, brighter: 4 * gray}
    truth = hypersim_truth(gray / 4, **layers)
    other = "shading" if brighter == "residual" else "residual"
    assert (truth[brighter].max(), truth[other].max()) == (1, 0.25)


def test_albedo_is_unknown_where_it_is_not_finite_or_black():
    layers = layers_of(0)
    albedo = layers["albedo"]
    albedo[0, 0], albedo[1, 1, 2], albedo[2, 2, 0], albedo[3, 3, 1] = 0, np.nan, np.inf, -np.inf
    albedo[4, 4, :2] = 0  # two channels are 0, as in pure blue
    truth = hypersim_truth(**layers)
    assert np.argwhere(~truth["reflectance_mask"]).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert (truth["reflectance"][~truth["reflectance_mask"]] == 0).all()
    assert truth["reflectance"][4, 4].tolist() == [0, 0, np.float32(albedo[4, 4, 2])]
    assert truth["shading_mask"].all()
    assert truth["residual_mask"].all()


def test_a_nan_is_unknown_and_does_not_change_the_scale():
    layers = layers_of(0)
    whole = hypersim_truth(**layers)
    cut = slow_cut(layers["shading"], layers["residual"])
    layers["shading"][1, 2, 0], layers["residual"][3, 4] = np.nan, np.nan
    truth = hypersim_truth(**layers)
    assert np.argwhere(~truth["shading_mask"]).tolist() == [[1, 2]]
    assert np.argwhere(~truth["residual_mask"]).tolist() == [[3, 4]]
    assert truth["reflectance_mask"].all()
    assert truth["shading"][1, 2].tolist() == [0, 0, 0]
    ratio = slow_cut(layers["shading"], layers["residual"]) / cut
    below = (whole["shading"] < 0.5) & truth["shading_mask"][..., None]
    np.testing.assert_allclose(truth["shading"][below] * ratio, whole["shading"][below], rtol=1e-6)


def test_infinities_are_clipped_as_any_value_above_the_cut_off():
    layers = layers_of(0)
    layers["shading"][1, 2, 0], layers["residual"][1, 2, 1] = np.inf, -np.inf
    truth = hypersim_truth(**layers)
    assert truth["shading_mask"].all()
    assert truth["residual_mask"].all()
    assert (truth["shading"][1, 2, 0], truth["residual"][1, 2, 1]) == (1, 0)


@pytest.mark.parametrize(
    ("value", "infinite"),
    [(0.0, 0), (-1.0, 0), (np.nan, 0), (np.inf, 0), (1.0, 2)],  # the last percentile is at 75.46 of 78
)
def test_frames_without_a_scale_have_no_known_pixel(value, infinite):
    flat = np.full((2, 13, 3), value)
    flat[0, :infinite, 0] = np.inf
    truth = hypersim_truth(np.ones((2, 13, 3)), flat, flat)
    for name in ("shading", "residual"):
        assert not truth[f"{name}_mask"].any()
        assert (truth[name] == 0).all()
    assert truth["reflectance_mask"].all()


def test_the_mask_is_where_reflectance_and_shading_are_known(copy):
    layers = layers_of(0)
    layers["albedo"][0, 0], layers["albedo"][0, 1] = 0, np.inf
    layers["shading"][0, 2], layers["residual"][0, 3] = np.nan, np.nan
    for kind, array in layers.items():
        np.save(file_of(copy, kind), array)
    item = Hypersim(copy, "test")[0]
    assert (~item["mask"]).nonzero().tolist() == [[0, 0], [0, 1], [0, 2]]
    assert (~item["residual_mask"]).nonzero().tolist() == [[0, 3]]
    assert torch.isfinite(torch.cat([item["reflectance"], item["shading"], item["residual"]])).all()


# -------------------------------------------------------------------------------------------------- splits


def test_splits_follow_the_lists_beside_the_data(copy):
    write_list(copy, [line_of(FRAMES[1])], "hypersim_val.txt")
    write_list(copy, [line_of(FRAMES[0], "train")], "hypersim_train_filtered.txt")
    assert Hypersim(copy, "val").ids == FRAMES[1:2]
    assert torch.equal(Hypersim(copy, "val")[0]["image"], Hypersim(copy, "test")[1]["image"])
    assert Hypersim(copy, "train").ids == FRAMES[:1]
    with pytest.raises(InputError, match=r"train/ai_001_010/rgb_cam_00_fr0000.png is missing; get it from"):
        Hypersim(copy, "train")[0]


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_lists_of_the_script_are_read_without_those_of_the_repository(copy, split):
    name = "hypersim_train_filtered.txt" if split == "train" else f"hypersim_{split}.txt"
    (copy / name).unlink(missing_ok=True)
    with pytest.raises(InputError, match=rf"hypersim/{name} is missing; get it from https://github.com/prs-"):
        Hypersim(copy, split)
    write_list(copy, [line_of(FRAMES[2])], f"filename_list_{split}.txt")
    assert Hypersim(copy, split).ids == FRAMES[2:]
    write_list(copy, [line_of(FRAMES[0])], name)
    assert Hypersim(copy, split).ids == FRAMES[:1]


# ------------------------------------------------------------------------------------------- damaged lists


@pytest.mark.parametrize(
    "line",
    [
        line_of(FRAMES[0]).replace("test/ai", "../ai"),
        line_of(FRAMES[0]).replace("test/ai", "test/../../ai"),
        line_of(FRAMES[0]).replace("test/ai", "/ai"),
        line_of(FRAMES[0], "vis"),
        line_of("../cam_00_fr0000"),
        line_of("ai_001_010/cam_00_fr0000/../../x"),
        line_of(FRAMES[0]).replace("test/ai_001_010/albedo", "../secret/albedo"),
        line_of(FRAMES[0]).replace("albedo_cam_00_fr0000", "albedo_cam_00_fr0001"),
        line_of(FRAMES[0]).replace("albedo", "shading", 1).replace("/shading", "/albedo", 2),
        line_of(FRAMES[0]).rpartition(" ")[0],
        line_of(FRAMES[0]) + " more.npy",
        line_of(FRAMES[0]).replace("0000", "٠٠٠٠"),
        line_of(FRAMES[0]).replace("cam_00", "cam\0_00"),
        line_of(FRAMES[0]).replace(".png", ".png.npy"),
        "test/ai_001_010/rgb_cam_00_fr0000.png",
    ],
)
def test_lines_that_do_not_name_one_frame_are_refused(copy, line):
    write_list(copy, [line_of(FRAMES[1]), line])
    expected = r"hypersim_test.txt, line 2: expected the names of one frame, such as test/ai_001_010/rgb_"
    with pytest.raises(InputError, match=expected) as caught:
        Hypersim(copy, "test")
    assert "\n" not in str(caught.value)


def test_lists_with_a_frame_twice_or_without_frames_are_refused(copy):
    write_list(copy, [line_of(FRAMES[0]), line_of(FRAMES[1]), line_of(FRAMES[0])])
    with pytest.raises(
        InputError, match=rf"line 3: expected one line for `{FRAMES[0]}`, got 'test/ai_001_01"
    ):
        read_frame_list(copy / "hypersim_test.txt")
    write_list(copy, ["", " "])
    with pytest.raises(InputError, match=r"hypersim_test.txt: expected frames, found none; get them from"):
        Hypersim(copy, "test")
    (copy / "hypersim_test.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"hypersim_test.txt: cannot be read as text: "):
        Hypersim(copy, "test")


# ------------------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("kind", ["rgb", "albedo", "shading", "residual"])
def test_missing_files_are_named(copy, kind):
    data = Hypersim(copy, "test")
    file_of(copy, kind).unlink()
    with pytest.raises(
        InputError, match=rf"{kind}_cam_00_fr0000\.\w+ is missing; get it from https://github"
    ):
        data[0]
    assert data[1]["id"] == FRAMES[1]


@pytest.mark.parametrize("kind", ["albedo", "shading", "residual"])
@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((HEIGHT, WIDTH)), r"expected floats of 3 axes, got float64 \[5, 7\]"),
        (np.ones((3, HEIGHT, WIDTH)), r"expected \[height, width, 3\], got \[3, 5, 7\]"),
        (np.ones((HEIGHT, WIDTH, 4)), r"expected \[height, width, 3\], got \[5, 7, 4\]"),
        (np.ones((HEIGHT, WIDTH, 3), np.uint8), r"expected floats of 3 axes, got uint8 \[5, 7, 3\]"),
        (np.ones((HEIGHT, WIDTH, 3), complex), r"expected floats of 3 axes, got complex128 \[5, 7, 3\]"),
        (np.array([[[{}]]], object), "cannot be read: "),
    ],
)
def test_arrays_of_other_shapes_and_dtypes_are_refused(copy, kind, array, message):
    np.save(file_of(copy, kind), array, allow_pickle=True)
    with pytest.raises(InputError, match=rf"{kind}_cam_00_fr0000.npy: {message}") as caught:
        Hypersim(copy, "test")[0]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["albedo", "shading", "residual"])
def test_layers_of_another_size_than_the_image_are_refused(copy, kind):
    np.save(file_of(copy, kind), np.ones((HEIGHT, WIDTH + 1, 3)))
    with pytest.raises(
        InputError, match=rf"expected images of one size, got `image` 5 x 7 and `{kind}` 5 x 8"
    ):
        Hypersim(copy, "test")[0]


def test_damaged_files_are_refused(copy):
    whole = file_of(copy, "shading").read_bytes()
    claims = whole.replace(b"(5, 7, 3), }", b"(66666666, 7, 3), }")
    assert claims != whole
    for damaged in (b"", whole[:60], whole[:-8], claims):
        file_of(copy, "shading").write_bytes(damaged)
        with pytest.raises(InputError, match=r"shading_cam_00_fr0000.npy: cannot be read: .*; get it again"):
            Hypersim(copy, "test")[0]
    file_of(copy, "rgb", FRAMES[1]).write_bytes(b"no image")
    with pytest.raises(InputError, match=r"rgb_cam_01_fr0007.png: cannot be read as an image: "):
        Hypersim(copy, "test")[1]


@pytest.mark.parametrize(("low", "high"), [(-0.25, 1.0), (0.0, 255.0)])
def test_albedo_of_another_range_is_refused(copy, low, high):
    albedo = layers_of(0)["albedo"]
    albedo[0, 0], albedo[0, 1], albedo[0, 2] = low, high, np.inf
    np.save(file_of(copy, "albedo"), albedo)
    with pytest.raises(InputError, match=r"albedo_cam_00_fr0000.npy: expected albedo from 0 to 1, got .* to"):
        Hypersim(copy, "test")[0]


# ------------------------------------------------------------------------------------------------- release


def colour_of(number):
    layers = layers_of(number)
    return layers["albedo"] * layers["shading"] + layers["residual"]


def released_file(root, name, frame=FRAMES[0]):
    scene, camera, number = frame[:10], frame[11:17], frame[-4:]
    return root / scene / "images" / f"scene_{camera}_final_hdf5" / f"frame.{number}.{name}.hdf5"


def write_dataset(path, array, name="dataset"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file[name] = array


def write_release(root):
    """Write the frames as half floats."""
    for number, frame in enumerate(FRAMES):
        arrays = {"color": colour_of(number)}
        arrays |= {RELEASED[kind]: array for kind, array in layers_of(number).items()}
        for name, array in arrays.items():
            write_dataset(released_file(root, name, frame), array.astype(np.float16))
    write_list(root, map(line_of, FRAMES))


@pytest.fixture
def release(tmp_path):
    root = tmp_path / "release"
    root.mkdir()
    write_release(root)
    return root


def slow_tone_map(colour):
    """Find the factor by sorting, and map pixel after pixel."""
    bright = sorted(0.3 * r + 0.59 * g + 0.11 * b for r, g, b in colour.reshape(-1, 3).tolist())
    place = 0.9 * (len(bright) - 1)
    low = math.floor(place)
    high = bright[low] + (place - low) * (bright[min(low + 1, len(bright) - 1)] - bright[low])
    mapped = np.zeros(colour.shape, np.uint8)
    for where in np.ndindex(colour.shape):
        light = max(colour[where] * 0.8**2.2 / high, 0)
        mapped[where] = int(min(light ** (1 / 2.2), 1) * 255)
    return mapped


def test_the_release_is_read_as_the_prepared_folder(release, copy):
    for number, frame in enumerate(FRAMES):
        half = {kind: array.astype(np.float16).astype(float) for kind, array in layers_of(number).items()}
        for kind, array in half.items():
            np.save(file_of(copy, kind, frame), array)
        colour = colour_of(number).astype(np.float16).astype(float)
        Image.fromarray(slow_tone_map(colour)).save(file_of(copy, "rgb", frame))
    prepared, released = Hypersim(copy, "test"), Hypersim(release, "test")
    for one, other in zip(prepared, released, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert torch.equal(value, other[key]) if torch.is_tensor(value) else value == other[key]


def test_albedo_of_the_release_is_clipped(release):
    albedo = layers_of(0)["albedo"].astype(np.float16)
    albedo[0, 0], albedo[0, 1], albedo[0, 2] = 1.5, np.inf, -0.1
    write_dataset(released_file(release, "diffuse_reflectance"), albedo)
    item = Hypersim(release, "test")[0]
    assert item["reflectance"][:, 0, :3].tolist() == [[1, 1, 0]] * 3
    assert item["reflectance_mask"][0, :3].tolist() == [True, True, False]


def test_the_tone_map_puts_the_90th_percentile_at_8_tenths():
    colour = np.zeros((1, 11, 3))
    colour[0, :, 1] = np.arange(11)  # brightness 0, 0.59, ..., 5.9; the 90th percentile is the tenth
    mapped = tone_map(colour)
    assert mapped[0, :, 0].max() == 0
    green = (0.8**2.2 / (9 * 0.59) * np.arange(11)) ** (1 / 2.2)
    assert mapped[0, :, 1].tolist() == (np.minimum(green, 1) * 255).astype(int).tolist()
    gray = np.full((2, 2, 3), 5.0)
    assert set(tone_map(gray).ravel().tolist()) <= {203, 204}  # 0.8 * 255 = 204, cut off after rounding


def test_dark_and_damaged_colours_are_mapped():
    assert tone_map(np.full((1, 2, 3), 9e-5)).max() == 0
    assert tone_map(np.full((1, 2, 3), np.nan)).max() == 0
    rising = np.arange(1.0, 11)[None, :, None].repeat(3, axis=2)
    gaps = np.concatenate([rising, np.full((1, 10, 3), np.nan)], axis=1)
    assert tone_map(gaps)[:, :10].tolist() == tone_map(rising).tolist()
    colour = np.full((1, 30, 3), 2.0)
    colour[0, 0, 1], colour[0, 1], colour[0, 2], colour[0, 3] = np.nan, np.inf, -np.inf, -1
    mapped = tone_map(colour)
    assert mapped[0, 4:].tolist() == tone_map(np.full((1, 26, 3), 2.0))[0].tolist()
    assert (mapped[0, 0, 1], mapped[0, 1].min(), mapped[0, 2].max(), mapped[0, 3].max()) == (0, 255, 0, 0)


@pytest.mark.parametrize("name", ["color", *RELEASED.values()])
def test_missing_files_of_the_release_are_named(release, name):
    released_file(release, name).unlink()
    with pytest.raises(InputError, match=rf"frame.0000.{name}.hdf5 is missing; get it from .*ml-hypersim"):
        Hypersim(release, "test")[0]


@pytest.mark.parametrize(
    ("array", "name", "message"),
    [
        (np.ones((HEIGHT, WIDTH, 3), int), "dataset", "expected floats, got int64; get it again from"),
        (np.ones((HEIGHT, WIDTH)), "dataset", r"expected \[height, width, 3\], got \[5, 7\]"),
        (np.ones((HEIGHT, WIDTH, 1, 3)), "dataset", r"expected \[height, width, 3\], got \[5, 7, 1, 3\]"),
        (np.ones((HEIGHT, WIDTH, 3)), "data", "expected a dataset `dataset`, got data"),
        (np.ones((HEIGHT, 2, 3)), "dataset", "expected images of one size, got `image` 5 x"),
    ],
)
@pytest.mark.parametrize("kind", ["color", "residual"])
def test_wrong_files_of_the_release_are_refused(release, kind, array, name, message):
    write_dataset(released_file(release, kind), array, name)
    with pytest.raises(InputError, match=message):
        Hypersim(release, "test")[0]


def test_damaged_files_of_the_release_are_refused(release):
    path = released_file(release, "residual")
    for damaged in (b"", b"no HDF5", path.read_bytes()[:700]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"frame.0000.residual.hdf5 cannot be read: ") as caught:
            Hypersim(release, "test")[0]
        assert "\n" not in str(caught.value)
