from dataclasses import replace

import numpy as np
import pytest

from candlelight.loaders.colour import srgb_to_linear, to_display
from candlelight.loaders.downscale import downscale, downscaled_set, light_sum_error
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import PartRecord, SetInfo, array_sha256

SAMPLED = ("depth", "position", "object", "part")
MEANS = ("albedo", "residual", "roughness", "metallic", "light/left", "light/right")


@pytest.fixture
def grid(info):
    return info.sets["grid"]


def blocks(array, factor):
    """Yield the position and the pixels of each block."""
    for row in range(array.shape[0] // factor):
        for column in range(array.shape[1] // factor):
            yield (
                (row, column),
                array[row * factor : (row + 1) * factor, column * factor : (column + 1) * factor],
            )


def without(frame, *names):
    layers = {name: array for name, array in frame.layers.items() if name not in names}
    return replace(frame, layers=layers)


def only(frame, *names):
    return without(frame, *(name for name in frame.layers if name not in names))


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_means_match_a_slow_loop(make_frame, grid, factor):
    frame = make_frame()
    small = downscale(frame, grid, factor)
    for name in MEANS:
        for place, block in blocks(frame.layers[name], factor):
            mean = block.astype(np.float64).mean(axis=(0, 1))
            assert (small.layers[name][place] == mean.astype(np.float16)).all(), name


def test_reflected_light_is_preserved(make_frame, grid):
    frame = make_frame()
    small = downscale(frame, grid, 4)
    albedo, shading = (small.layers[name].astype(np.float64) for name in ("albedo", "shading"))
    old = frame.layers["albedo"].astype(np.float64) * frame.layers["shading"].astype(np.float64)
    # Random direct and indirect shading do not add up to `shading`: the small shading is their sum.
    shares = sum(frame.layers[f"shading_{name}"].astype(np.float64) for name in ("direct", "indirect"))
    for place, block in blocks(frame.layers["albedo"].astype(np.float64) * shares, 4):
        assert np.allclose(albedo[place] * shading[place], block.mean(axis=(0, 1)), rtol=3e-3)
    alone = downscale(without(frame, "shading_direct", "shading_indirect"), grid, 4)
    for place, block in blocks(old, 4):
        found = albedo[place] * alone.layers["shading"][place].astype(np.float64)
        assert np.allclose(found, block.mean(axis=(0, 1)), rtol=1e-3)


def test_a_half_black_block_matches_values_computed_by_hand():
    set_info = SetInfo(count=1, width=2, height=2, layers=("image",), factors=())
    albedo = np.array([[0.5, 0.25], [0, 0]], np.float16)[..., None].repeat(3, axis=2)
    shading = np.array([[2, 4], [0, 0]], np.float16)[..., None].repeat(3, axis=2)
    residual = np.full((2, 2, 3), 0.125, np.float16)
    frame = _bare({"albedo": albedo, "shading": shading, "residual": residual})
    small = downscale(frame, set_info, 2).layers
    assert (small["albedo"] == 0.1875).all()
    assert np.allclose(small["shading"].astype(float), 0.5 / 0.1875, rtol=1e-3)  # mean of 1, 1, 0, 0
    assert (small["residual"] == 0.125).all()


def _bare(layers):
    from candlelight.loaders.samples import Frame
    from candlelight.loaders.schema import ChecksRecord, Metadata, RecipeRecord

    metadata = Metadata(
        id="a-000000",
        set="a",
        index=0,
        recipe=RecipeRecord(name="tiny", sha256="a" * 64),
        unit="a/0",
        group="g",
        factors={},
        exogenous={},
        intervention={},
        objects=(),
        lights=(),
        environment=None,
        camera=None,
        exposure=0.5,
        renderer=None,
        checks=ChecksRecord(identity_error=0.25, stored_error=0.5, clipped=0.75, light_sum_error=0.125),
        layers={name: array_sha256(array) for name, array in layers.items()},
    )
    return Frame(metadata, layers)


def test_the_identity_holds_and_the_image_is_the_radiance(make_frame, grid):
    frame = make_frame()
    frame = replace(frame, metadata=frame.metadata.model_copy(update={"exposure": 0.5}))
    small = downscale(frame, grid, 4)
    layers = {name: array.astype(np.float32) for name, array in small.layers.items()}
    total = layers["albedo"] * layers["shading"] + layers["residual"]
    assert (small.layers["radiance"] == total.astype(np.float16)).all()
    assert (small.layers["image"] == to_display(layers["radiance"] * np.float32(0.5))).all()
    assert (
        small.layers["shading"] == (layers["shading_direct"] + layers["shading_indirect"]).astype(np.float16)
    ).all()


def test_radiance_without_a_decomposition_is_averaged(make_frame, grid):
    frame = only(make_frame(), "radiance", "albedo")
    small = downscale(frame, grid, 4).layers
    for place, block in blocks(frame.layers["radiance"], 4):
        assert (
            small["radiance"][place] == block.astype(np.float64).mean(axis=(0, 1)).astype(np.float16)
        ).all()


def test_an_image_alone_is_averaged_in_linear_light(make_frame, grid):
    frame = only(make_frame(), "image", "depth")
    small = downscale(frame, grid, 2)
    assert set(small.layers) == set(small.metadata.layers) == {"image", "depth"}
    for place, block in blocks(srgb_to_linear(frame.layers["image"] / 255), 2):
        assert (small.layers["image"][place] == to_display(block.mean(axis=(0, 1)))).all()
    checks = np.zeros((2, 2, 3), np.uint8)
    checks[0, 0] = checks[1, 1] = 255
    two = SetInfo(count=1, width=2, height=2, layers=("image",), factors=())
    # Half the light is sRGB 188: the mean of the encoded values would be 128.
    assert (downscale(_bare({"image": checks}), two, 2).layers["image"] == 188).all()


def test_an_image_without_radiance_is_made_from_the_decomposition(make_frame, grid):
    frame = make_frame()
    with_radiance = downscale(frame, grid, 4).layers["image"]
    assert (downscale(without(frame, "radiance"), grid, 4).layers["image"] == with_radiance).all()


@pytest.mark.parametrize(("factor", "place"), [(2, 0), (4, 1), (8, 3)])
def test_sampled_layers_take_one_pixel_of_each_block(make_frame, grid, factor, place):
    frame = make_frame()
    small = downscale(frame, grid, factor).layers
    for name in SAMPLED:
        assert small[name].dtype == frame.layers[name].dtype
        for where, block in blocks(frame.layers[name], factor):
            assert (small[name][where] == block[place, place]).all()


def test_an_odd_factor_takes_the_middle_pixel(make_frame):
    odd = SetInfo(count=1, width=30, height=24, layers=("depth",), factors=())
    frame = only(make_frame(), "depth")
    frame = replace(frame, layers={"depth": frame.layers["depth"][:, :30]})
    small = downscale(frame, odd, 3).layers["depth"]
    assert all(small[where] == block[1, 1] for where, block in blocks(frame.layers["depth"], 3))


def test_normals_are_unit_vectors_or_zero():
    two = SetInfo(count=1, width=4, height=2, layers=("normal",), factors=())
    normal = np.zeros((2, 4, 3), np.float16)
    normal[0, 0], normal[0, 1] = (1, 0, 0), (0, 0, -1)  # the other two pixels of the block are background
    normal[0, 2], normal[1, 2] = (1, 0, 0), (-1, 0, 0)  # opposite normals
    small = downscale(_bare({"normal": normal}), two, 2).layers["normal"]
    assert np.allclose(small[0, 0], (np.sqrt(0.5), 0, -np.sqrt(0.5)), atol=1e-3)
    assert (small[0, 1] == 0).all()


def test_shading_without_albedo_is_averaged_over_lit_pixels():
    two = SetInfo(count=1, width=4, height=2, layers=("shading",), factors=())
    shading = np.zeros((2, 4, 3), np.float16)
    shading[0, 0], shading[0, 1] = 1, 3
    small = downscale(_bare({"shading": shading}), two, 2).layers["shading"]
    assert (small[0, 0] == 2).all()
    assert (small[0, 1] == 0).all()


def test_boxes_and_areas_match_the_new_masks(make_frame, grid):
    frame = make_frame(index=2)  # three objects; the second is hidden
    parts = tuple(
        PartRecord(name=f"part {i}", index=i, material="x", base_color=None, bbox=(0, 0, 8, 8), area=9)
        for i in (1, 2)
    )
    objects = tuple(record.model_copy(update={"parts": parts}) for record in frame.metadata.objects)
    frame = replace(frame, metadata=frame.metadata.model_copy(update={"objects": objects}))
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
    frame = replace(frame, metadata=frame.metadata.model_copy(update={"camera": camera}))
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
    two = SetInfo(count=1, width=2, height=2, layers=("depth",), factors=())
    checks = downscale(_bare({"depth": np.ones((2, 2), np.float32)}), two, 2).metadata.checks
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


@pytest.mark.parametrize("factor", [0, -2, 3, 5, 64])
def test_a_factor_that_does_not_divide_is_refused(make_frame, grid, factor):
    with pytest.raises(InputError, match=f"divides 32 x 24 pixels, got {factor}; choose"):
        downscale(make_frame(), grid, factor)


def test_a_layer_of_another_size_is_refused(make_frame, grid):
    frame = make_frame()
    odd = replace(frame, layers={**frame.layers, "depth": frame.layers["depth"][:8]})
    with pytest.raises(InputError, match="`grid-000000`, layer `depth`: expected 24 x 32 pixels, got 8 x 32"):
        downscale(odd, grid, 2)
