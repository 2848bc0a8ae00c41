"""Read tiny copies of Hypersim: as Marigold's script prepares it, and as it is released."""

import math

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.public import Hypersim
from candlelight.loaders.public.hypersim import cut_off, hypersim_truth, tone_map
from tests.loaders.public.copies import (
    HEIGHT,
    HYPERSIM,
    WIDTH,
    hypersim_file,
    hypersim_layers,
    hypersim_line,
    pixels,
)
from tests.refusals import refused

torch = pytest.importorskip("torch")

RELEASED = {"albedo": "diffuse_reflectance", "shading": "diffuse_illumination", "residual": "residual"}


@pytest.fixture
def layers():
    """Make layers without unknown pixels."""
    made = hypersim_layers(0)
    made["albedo"][1, 2], made["albedo"][3, 4] = 0.5, 0.25
    return made


@pytest.fixture
def copy(own_copy):
    return own_copy("hypersim")


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


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_a_row_has_the_layers_of_its_frame(copy, dtype):
    made = {name: layer.astype(dtype) for name, layer in hypersim_layers(1).items()}
    for kind, layer in made.items():
        np.save(hypersim_file(copy, kind, HYPERSIM[1]), layer)
    made = {name: layer.astype(np.float64) for name, layer in made.items()}
    item = Hypersim(str(copy), "test")[1]
    assert (item["id"], item["scene"]) == (HYPERSIM[1], "ai_001_010")
    np.testing.assert_array_equal(
        item["image"], np.moveaxis(srgb_to_linear(pixels(1) / 255), 2, 0).astype(np.float32)
    )
    known = np.ones((HEIGHT, WIDTH), bool)
    known[1, 2] = known[3, 4] = False
    expected = np.where(known, np.moveaxis(made["albedo"], 2, 0), 0).astype(np.float32)
    np.testing.assert_array_equal(item["reflectance"], expected)
    cut = slow_cut(made["shading"], made["residual"])
    for name in ("shading", "residual"):
        assert item[name].dtype == torch.float32
        np.testing.assert_allclose(item[name], slow_scale(made[name], cut), rtol=1e-6)
        assert item[f"{name}_mask"].all()
    for name in ("reflectance_mask", "mask"):
        np.testing.assert_array_equal(item[name], known)
    assert item["shading"].max() == 1  # values above the percentile are clipped
    assert item["residual"].min() == 0


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
    truth = hypersim_truth(gray / 4, **{"shading": gray, "residual": gray, brighter: 4 * gray})
    assert {truth[name].max() for name in ("shading", "residual")} == {1, 0.25}
    assert truth[brighter].max() == 1


def test_albedo_is_unknown_where_it_is_not_finite_or_black(layers):
    albedo = layers["albedo"]
    albedo[0, 0], albedo[1, 1, 2], albedo[2, 2, 0], albedo[3, 3, 1] = 0, np.nan, np.inf, -np.inf
    albedo[3, 4, :2] = 0  # two channels are 0, as in pure blue
    truth = hypersim_truth(**layers)
    assert np.argwhere(~truth["reflectance_mask"]).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert (truth["reflectance"][~truth["reflectance_mask"]] == 0).all()
    assert truth["reflectance"][3, 4].tolist() == [0, 0, np.float32(albedo[3, 4, 2])]
    assert truth["shading_mask"].all()
    assert truth["residual_mask"].all()


def test_a_nan_is_unknown_and_does_not_change_the_scale(layers):
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


def test_infinities_are_clipped_as_any_value_above_the_cut_off(layers):
    layers["shading"][1, 2, 0], layers["residual"][1, 2, 1] = np.inf, -np.inf
    truth = hypersim_truth(**layers)
    assert truth["shading_mask"].all()
    assert truth["residual_mask"].all()
    assert (truth["shading"][1, 2, 0], truth["residual"][1, 2, 1]) == (1, 0)


@pytest.mark.parametrize(
    ("value", "infinite"),
    [(-1.0, 0), (np.nan, 0), (np.inf, 0), (1.0, 2)],  # the last percentile is at 75.46 of 78
)
def test_frames_without_a_scale_have_no_known_pixel(value, infinite):
    flat = np.full((2, 13, 3), value)
    flat[0, :infinite, 0] = np.inf
    truth = hypersim_truth(np.ones((2, 13, 3)), flat, flat)
    for name in ("shading", "residual"):
        assert not truth[f"{name}_mask"].any()
        assert (truth[name] == 0).all()
    assert truth["reflectance_mask"].all()


def test_the_mask_is_where_reflectance_and_shading_are_known(copy, layers):
    layers["albedo"][0, 0], layers["albedo"][0, 1] = 0, np.inf
    layers["shading"][0, 2], layers["residual"][0, 3] = np.nan, np.nan
    for kind, array in layers.items():
        np.save(hypersim_file(copy, kind), array)
    item = Hypersim(copy, "test")[0]
    assert (~item["mask"]).nonzero().tolist() == [[0, 0], [0, 1], [0, 2]]
    assert (~item["residual_mask"]).nonzero().tolist() == [[0, 3]]
    assert torch.isfinite(torch.cat([item["reflectance"], item["shading"], item["residual"]])).all()


# --------------------------------------------------------------------------------------------------- lists


def test_splits_follow_the_lists_beside_the_data(copy):
    (copy / "hypersim_val.txt").write_text(f"{hypersim_line(HYPERSIM[2])}\n\n{hypersim_line(HYPERSIM[1])}\r")
    (copy / "hypersim_train_filtered.txt").write_text(hypersim_line(HYPERSIM[0], "train"))
    assert Hypersim(copy, "val").ids == HYPERSIM[:0:-1]
    assert torch.equal(Hypersim(copy, "val")[1]["image"], Hypersim(copy, "test")[1]["image"])
    assert Hypersim(copy, "train").ids == HYPERSIM[:1]
    with refused(r"train/ai_001_010/rgb_cam_00_fr0000.png is missing; get it from"):
        Hypersim(copy, "train")[0]


def test_lists_of_the_script_are_read_without_those_of_the_repository(copy):
    (copy / "filename_list_train.txt").write_text(hypersim_line(HYPERSIM[2], "train"))
    assert Hypersim(copy, "train").ids == HYPERSIM[2:]
    (copy / "hypersim_train_filtered.txt").write_text(hypersim_line(HYPERSIM[0], "train"))
    assert Hypersim(copy, "train").ids == HYPERSIM[:1]


# ------------------------------------------------------------------------------------------------- release


def colour_of(number):
    layers = hypersim_layers(number)
    return np.nan_to_num(layers["albedo"]) * layers["shading"] + layers["residual"]


def released_file(root, name, frame=HYPERSIM[0]):
    scene, camera, number = frame[:10], frame[11:17], frame[-4:]
    return root / scene / "images" / f"scene_{camera}_final_hdf5" / f"frame.{number}.{name}.hdf5"


def write_dataset(path, array, name="dataset"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file[name] = array


@pytest.fixture
def release(tmp_path):
    """Write the frames as half floats."""
    for number, frame in enumerate(HYPERSIM):
        arrays = {"color": colour_of(number)}
        arrays |= {RELEASED[kind]: array for kind, array in hypersim_layers(number).items()}
        for name, array in arrays.items():
            write_dataset(released_file(tmp_path, name, frame), array.astype(np.float16))
    (tmp_path / "hypersim_test.txt").write_text("\n".join(map(hypersim_line, HYPERSIM)))
    return tmp_path


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


def test_the_release_is_read_as_the_prepared_folder(release, own_copy):
    copy = own_copy("hypersim")
    for number, frame in enumerate(HYPERSIM):
        for kind, array in hypersim_layers(number).items():
            np.save(hypersim_file(copy, kind, frame), array.astype(np.float16).astype(float))
        colour = colour_of(number).astype(np.float16).astype(float)
        Image.fromarray(slow_tone_map(colour)).save(hypersim_file(copy, "rgb", frame))
    for one, other in zip(Hypersim(copy, "test"), Hypersim(release, "test"), strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert torch.equal(value, other[key]) if torch.is_tensor(value) else value == other[key]


def test_albedo_of_the_release_is_clipped(release):
    albedo = np.full((HEIGHT, WIDTH, 3), 0.5, np.float16)
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
    with refused(rf"frame.0000.{name}.hdf5 is missing; get it from .*ml-hypersim"):
        Hypersim(release, "test")[0]


@pytest.mark.parametrize(
    ("array", "name", "message"),
    [
        (np.ones((HEIGHT, WIDTH, 3), int), "dataset", "expected floats, got int64; get it again from"),
        (np.ones((HEIGHT, WIDTH)), "dataset", r"expected \[height, width, 3\], got \[4, 6\]"),
        (np.ones((HEIGHT, WIDTH, 1, 3)), "dataset", r"expected \[height, width, 3\], got \[4, 6, 1, 3\]"),
        (np.ones((HEIGHT, WIDTH, 3)), "data", "expected a dataset `dataset`, got data"),
        (np.ones((HEIGHT, 2, 3)), "dataset", "expected images of one size, got `image` 4 x"),
    ],
)
@pytest.mark.parametrize("kind", ["color", "residual"])
def test_wrong_files_of_the_release_are_refused(release, kind, array, name, message):
    write_dataset(released_file(release, kind), array, name)
    with refused(message):
        Hypersim(release, "test")[0]


def test_a_damaged_file_of_the_release_is_refused(release):
    path = released_file(release, "residual")
    path.write_bytes(path.read_bytes()[:700])
    with refused(r"\A.*frame.0000.residual.hdf5 cannot be read: .*\Z"):
        Hypersim(release, "test")[0]
