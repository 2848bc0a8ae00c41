from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from candlelight.loaders.colour import srgb_to_linear, to_display
from candlelight.loaders.downscale import downscale, downscaled_set, light_sum_error
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import ChecksRecord, Metadata, PartRecord, RecipeRecord, SetInfo, array_sha256
from tests.loaders.edits import changed
from tests.refusals import refused

SAMPLED = ("depth", "position", "object", "part")
MEANS = ("albedo", "residual", "roughness", "metallic", "light/left", "light/right")


@pytest.fixture
def grid(info):
    return info.sets["grid"]


def means(array, factor):
    """Average each block, one after the other."""
    array, (height, width) = array.astype(np.float64), array.shape[:2]
    corners = product(range(0, height, factor), range(0, width, factor))
    found = [array[top : top + factor, left : left + factor].mean(axis=(0, 1)) for top, left in corners]
    return np.array(found).reshape(height // factor, width // factor, *array.shape[2:])


def square(width, height):
    return SetInfo(count=1, width=width, height=height, layers=("image",), factors=())


def without(frame, *names):
    layers = {name: array for name, array in frame.layers.items() if name not in names}
    return replace(frame, layers=layers)


def only(frame, *names):
    return without(frame, *(name for name in frame.layers if name not in names))


def bare(layers):
    metadata = Metadata(
        **{"id": "a-000000", "set": "a", "index": 0, "unit": "a/0", "group": "g", "exposure": 0.5},
        **{"factors": {}, "exogenous": {}, "intervention": {}, "objects": (), "lights": ()},
        **{"environment": None, "camera": None, "renderer": None},
        recipe=RecipeRecord(name="tiny", sha256="a" * 64),
        checks=ChecksRecord(identity_error=0.25, stored_error=0.5, clipped=0.75, light_sum_error=0.125),
        layers={name: array_sha256(array) for name, array in layers.items()},
    )
    return Frame(metadata, layers)


@pytest.mark.parametrize("factor", [2, 8])
def test_means_match_a_slow_loop(make_frame, grid, factor):
    frame = make_frame()
    small = downscale(frame, grid, factor)
    for name in MEANS:
        expected = means(frame.layers[name], factor).astype(np.float16)
        np.testing.assert_array_equal(small.layers[name], expected, name)


def test_reflected_light_is_preserved(make_frame, grid):
    frame = make_frame()
    small, large = (
        {name: a.astype(np.float64) for name, a in one.layers.items()}
        for one in (downscale(frame, grid, 4), frame)
    )
    # Random direct and indirect shading do not add up to `shading`: the small shading is their sum.
    due = means(large["albedo"] * (large["shading_direct"] + large["shading_indirect"]), 4)
    np.testing.assert_allclose(small["albedo"] * small["shading"], due, rtol=3e-3)
    alone = downscale(without(frame, "shading_direct", "shading_indirect"), grid, 4).layers["shading"]
    due = means(large["albedo"] * large["shading"], 4)
    np.testing.assert_allclose(small["albedo"] * alone, due, rtol=1e-3)


def test_a_half_black_block_matches_values_computed_by_hand():
    albedo = np.array([[0.5, 0.25], [0, 0]], np.float16)[..., None].repeat(3, axis=2)
    shading = np.array([[2, 4], [0, 0]], np.float16)[..., None].repeat(3, axis=2)
    residual = np.full((2, 2, 3), 0.125, np.float16)
    frame = bare({"albedo": albedo, "shading": shading, "residual": residual})
    small = downscale(frame, square(2, 2), 2).layers
    assert (small["albedo"] == 0.1875).all()
    assert np.allclose(small["shading"].astype(float), 0.5 / 0.1875, rtol=1e-3)  # mean of 1, 1, 0, 0
    assert (small["residual"] == 0.125).all()


def test_the_identity_holds_and_the_image_is_the_radiance(make_frame, grid):
    small = downscale(changed(make_frame(), exposure=0.5), grid, 4).layers
    layers = {name: array.astype(np.float32) for name, array in small.items()}
    total = layers["albedo"] * layers["shading"] + layers["residual"]
    assert (small["radiance"] == total.astype(np.float16)).all()
    assert (small["image"] == to_display(layers["radiance"] * np.float32(0.5))).all()
    shading = layers["shading_direct"] + layers["shading_indirect"]
    assert (small["shading"] == shading.astype(np.float16)).all()


def test_radiance_without_a_decomposition_is_averaged(make_frame, grid):
    frame = only(make_frame(), "radiance", "albedo")
    expected = means(frame.layers["radiance"], 4).astype(np.float16)
    np.testing.assert_array_equal(downscale(frame, grid, 4).layers["radiance"], expected)


def test_an_image_alone_is_averaged_in_linear_light(make_frame, grid):
    frame = only(make_frame(), "image", "depth")
    small = downscale(frame, grid, 2)
    assert set(small.layers) == set(small.metadata.layers) == {"image", "depth"}
    expected = to_display(means(srgb_to_linear(frame.layers["image"] / 255), 2))
    np.testing.assert_array_equal(small.layers["image"], expected)
    checks = np.zeros((2, 2, 3), np.uint8)
    checks[0, 0] = checks[1, 1] = 255
    # Half the light is sRGB 188: the mean of the encoded values would be 128.
    assert (downscale(bare({"image": checks}), square(2, 2), 2).layers["image"] == 188).all()


def test_an_image_without_radiance_is_made_from_the_decomposition(make_frame, grid):
    frame = make_frame()
    with_radiance = downscale(frame, grid, 4).layers["image"]
    assert (downscale(without(frame, "radiance"), grid, 4).layers["image"] == with_radiance).all()


@pytest.mark.parametrize(("factor", "width", "place"), [(2, 32, 0), (3, 30, 1), (8, 32, 3)])
def test_sampled_layers_take_the_middle_pixel_of_each_block(make_frame, factor, width, place):
    frame = only(make_frame(), *SAMPLED)
    frame = replace(frame, layers={name: array[:, :width] for name, array in frame.layers.items()})
    small = downscale(frame, square(width, 24), factor).layers
    for name in SAMPLED:
        assert small[name].dtype == frame.layers[name].dtype
        np.testing.assert_array_equal(small[name], frame.layers[name][place::factor, place::factor], name)


def test_normals_are_unit_vectors_or_zero():
    normal = np.zeros((2, 4, 3), np.float16)
    normal[0, 0], normal[0, 1] = (1, 0, 0), (0, 0, -1)  # the other two pixels of the block are background
    normal[0, 2], normal[1, 2] = (1, 0, 0), (-1, 0, 0)  # opposite normals
    small = downscale(bare({"normal": normal}), square(4, 2), 2).layers["normal"]
    assert np.allclose(small[0, 0], (np.sqrt(0.5), 0, -np.sqrt(0.5)), atol=1e-3)
    assert (small[0, 1] == 0).all()


def test_shading_without_albedo_is_averaged_over_lit_pixels():
    shading = np.zeros((2, 4, 3), np.float16)
    shading[0, 0], shading[0, 1] = 1, 3
    small = downscale(bare({"shading": shading}), square(4, 2), 2).layers["shading"]
    assert (small[0, 0] == 2).all()
    assert (small[0, 1] == 0).all()


def test_boxes_and_areas_match_the_new_masks(make_frame, grid):
    frame = make_frame(index=2)  # three objects; the second is hidden
    parts = tuple(
        PartRecord(name=f"part {i}", index=i, material="x", base_color=None, bbox=(0, 0, 8, 8), area=9)
        for i in (1, 2)
    )
    objects = tuple(record.model_copy(update={"parts": parts}) for record in frame.metadata.objects)
    frame = changed(frame, objects=objects)
    small = downscale(frame, grid, 2)
    _, hidden, third = small.metadata.objects
    assert (hidden.bbox, hidden.area) == (None, 0)
    mask = small.layers["object"] == 3
    assert third.area == mask.sum() > 0
    left, top, right, bottom = third.bbox
    assert mask[top:bottom, left:right].sum() == third.area
    sides = (mask[top], mask[bottom - 1], mask[:, left], mask[:, right - 1])
    assert all(side.any() for side in sides)
    for part in third.parts:
        assert part.area == (mask & (small.layers["part"] == part.index)).sum() > 0


def test_boxes_without_masks_are_divided_by_the_factor(make_frame, grid):
    frame = make_frame()
    first = downscale(only(frame, "image"), grid, 4).metadata.objects[0]
    assert frame.metadata.objects[0].bbox == (3, 4, 20, 18)
    assert first.bbox == (0, 1, 5, 5)
    assert first.area == round(100 / 16)


def test_an_object_between_the_sampled_pixels_is_hidden(make_frame, grid):
    frame = only(make_frame(), "object")
    mask = np.zeros_like(frame.layers["object"])
    mask[1, 1] = 1
    small = downscale(replace(frame, layers={"object": mask}), grid, 2)
    assert (small.metadata.objects[0].bbox, small.metadata.objects[0].area) == (None, 0)


def test_the_camera_projects_to_the_new_pixels(make_frame, grid):
    frame = make_frame()
    intrinsics = ((50.0, 0.0, 16.0), (0.0, 48.0, 12.0), (0.0, 0.0, 1.0))
    camera = frame.metadata.camera.model_copy(update={"intrinsics": intrinsics})
    frame = changed(frame, camera=camera)
    found = downscale(frame, grid, 4).metadata.camera
    assert found.intrinsics == ((12.5, 0.0, 4.0), (0.0, 12.0, 3.0), (0.0, 0.0, 1.0))
    assert found.world_to_camera == camera.world_to_camera


def test_checks_are_computed_for_the_small_frame(make_frame, grid):
    frame = make_frame()
    small = downscale(frame, grid, 2)
    layers = {name: array.astype(np.float64) for name, array in small.layers.items()}
    checks = small.metadata.checks
    assert checks.identity_error == frame.metadata.checks.identity_error
    assert checks.clipped == (layers["radiance"] > 1).any(axis=-1).mean() > 0
    total = layers["albedo"] * layers["shading"] + layers["residual"]
    stored = (np.abs(total - layers["radiance"]) / np.maximum(1, total)).max()
    assert checks.stored_error == pytest.approx(stored, rel=1e-3)
    lights = [small.layers["light/left"], small.layers["light/right"]]
    assert checks.light_sum_error == light_sum_error(lights, small.layers["radiance"])
    assert downscale(without(frame, "light/left"), grid, 2).metadata.checks.light_sum_error is None


def test_checks_without_their_layers_are_kept():
    checks = downscale(bare({"depth": np.ones((2, 2), np.float32)}), square(2, 2), 2).metadata.checks
    assert (checks.clipped, checks.stored_error, checks.light_sum_error) == (0.75, 0.5, None)


def test_hashes_and_order_are_right_and_the_input_is_unchanged(make_frame, grid):
    frame = make_frame()
    before = {name: array.copy() for name, array in frame.layers.items()}
    small = downscale(frame, grid, 2)
    assert list(small.layers) == list(frame.layers)
    assert small.metadata.layers == {name: array_sha256(array) for name, array in small.layers.items()}
    assert all(array.flags.owndata and array.flags.c_contiguous for array in small.layers.values())
    assert all((frame.layers[name] == before[name]).all() for name in before)


def test_factor_one_changes_nothing(make_frame, grid):
    frame = make_frame()
    assert downscale(frame, grid, 1) is frame
    assert downscaled_set(grid, 1) == grid


@pytest.mark.parametrize("factor", [0, -2, 3, 64])
def test_a_factor_that_does_not_divide_is_refused(make_frame, grid, factor):
    with refused(f"divides 32 x 24 pixels, got {factor}; choose"):
        downscale(make_frame(), grid, factor)


def test_a_layer_of_another_size_is_refused(make_frame, grid):
    frame = make_frame()
    odd = replace(frame, layers={**frame.layers, "depth": frame.layers["depth"][:8]})
    with refused("`grid-000000`, layer `depth`: expected 24 x 32 pixels, got 8 x 32"):
        downscale(odd, grid, 2)
