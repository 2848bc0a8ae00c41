"""Properties of rendered pixels, read from the one run of the fixture `probe`."""

import math

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary, manifest
from candlelight.generators.language.set_settings import stored_layers
from candlelight.generators.scenes.camera import intrinsics, project, world_to_camera
from candlelight.generators.scenes.lights import blackbody
from candlelight.loaders.colour import srgb_to_linear, to_display
from candlelight.loaders.mixed_edges import mixed_edges
from tests.generators.blender.frame_geometry import inside, points

pytestmark = pytest.mark.blender

GAINS = [min(blackbody(temperature)) for temperature in (2500, 4500, 6500)]
HALF = 2.0**-11  # largest relative rounding error of half precision
USERS = {"pink": (0.8, 0.3, 0.5), "satin": (0.4, 0.6, 0.8)}
ALBEDO = {
    "red": manifest()["materials", "red"]["facts"]["base_color"],
    "pink": USERS["pink"],
    # A quarter metal and a tenth glass; the rest is diffuse.
    "satin": tuple(channel * 0.75 * 0.9 for channel in USERS["satin"]),
}
CATCHER = {"catcher"}


def floats(frame, name):
    return frame.layers[name].astype(np.float64)


def assert_albedo(frame, expected, index=1):
    seen = floats(frame, "albedo")[inside(frame.layers["object"] == index)]
    assert len(seen) > 40
    np.testing.assert_allclose(seen, np.broadcast_to(expected, seen.shape), rtol=HALF * 1.01)
    assert np.unique(seen, axis=0).shape == (1, 3)


# --------------------------------------------------------------------------------------- every frame


@pytest.fixture(scope="module")
def every(pick, probe_plan):
    """Return all samples with their frames."""
    return [pair for name in probe_plan.recipe.sets for pair in pick(name)]


def test_all_samples_are_rendered_with_their_layers(every, probe_plan, probe_run):
    _, outcome = probe_run
    assert (outcome.written, outcome.failed, len(every)) == (len(probe_plan), {}, len(probe_plan))
    for sample, frame in every:
        assert set(frame.layers) == set(stored_layers(probe_plan.recipe, sample.set))
        assert (frame.metadata.factors, frame.metadata.unit) == (sample.factors, sample.unit)
        assert frame.metadata.renderer.cycles_seed == sample.trace.cycles_seed


def test_layers_add_up_to_the_radiance_and_the_image(every):
    for sample, frame in every:
        checks = frame.metadata.checks
        # Of the traced passes, and exactly of the stored layers.
        assert (checks.identity_error is None) if sample.set in CATCHER else checks.identity_error <= 1e-6
        albedo, shading, residual, radiance = (
            frame.layers[name].astype(np.float32) for name in ("albedo", "shading", "residual", "radiance")
        )
        again = (albedo * shading + residual).astype(np.float16)
        assert again.tobytes() == frame.layers["radiance"].tobytes(), sample.id
        assert checks.stored_error <= HALF
        exposed = radiance * np.float32(frame.metadata.exposure)
        assert frame.metadata.exposure == pytest.approx(0.3)
        np.testing.assert_array_equal(frame.layers["image"], to_display(exposed))
        assert checks.clipped == pytest.approx((exposed > 1).any(axis=-1).mean())
        assert checks.clipped < 0.2, sample.id


def test_masks_agree_with_the_metadata(every):
    for sample, frame in every:
        index = frame.layers["object"]
        assert index.max() <= len(sample.trace.objects)
        for number, record in enumerate(frame.metadata.objects, 1):
            rows, columns = np.nonzero(index == number)
            assert record.area == len(rows) > 0
            assert record.bbox == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


# --------------------------------------------------------------------------------------------- albedo


def test_albedo_is_the_base_colour_of_shipped_and_users_materials_in_any_view(pick):
    for material, expected in ALBEDO.items():
        for _, frame in pick("views", material=material):
            assert_albedo(frame, expected)
            assert frame.metadata.objects[0].material == material
            if material in USERS:
                color = frame.metadata.objects[0].base_color
                np.testing.assert_allclose(color, USERS[material], atol=1e-6)


def test_albedo_is_the_colour_in_plan_and_metadata(pick):
    for sample, frame in pick("concepts", texturing="rgb"):
        color = sample.trace.objects[0].material.base_color
        np.testing.assert_allclose(frame.metadata.objects[0].base_color, color, atol=1e-6)
        assert_albedo(frame, color)
    assert_albedo(pick("stands", object_type="cube")[0][1], 0.8, index=0)  # the floor


def test_textures_have_no_base_colour_and_vary(pick):
    for sample, frame in pick("concepts", texturing="textured"):
        record, material = frame.metadata.objects[0], sample.trace.objects[0].material
        assert (record.base_color, record.material) == (None, material.label)
        seen = floats(frame, "albedo")[inside(frame.layers["object"] == 1)]
        assert seen.std(axis=0).max() > 0.02
        # Each colour is a mixture of the two planned colours, or of one of them and the mortar of bricks.
        ends = np.array([material.color_a, material.color_b, *[(0.6,) * 3] * (material.label == "bricks")])
        assert (seen >= ends.min(axis=0) - 1e-3).all()
        assert (seen <= ends.max(axis=0) + 1e-3).all()


# ------------------------------------------------------------------------------ changes of a single factor


def test_moved_light_changes_only_light(pick):
    pairs = [pick("catcher")]
    for paint in (0, 1):
        for texturing in ("rgb", "textured"):
            pairs.append(pick("concepts", paint=paint, texturing=texturing, temperature=4500))
    for (_, left), (_, right) in pairs:
        names = ("albedo", "depth", "normal", "object", "shading", "image")
        equal = {name: left.layers[name].tobytes() == right.layers[name].tobytes() for name in names}
        assert equal == {name: name not in ("shading", "image") for name in names}


def test_the_lit_side_is_the_side_of_the_azimuth_or_the_lights_label(pick):
    for azimuth, side in ((-70, "left"), (70, "right")):
        for _, frame in [*pick("concepts", light_azimuth=azimuth), *pick("catcher", lights=side)]:
            assert brighter_side(frame) == side


def test_a_shadow_catcher_has_the_normal_of_the_ground(pick):
    ((sample, frame),) = pick("catcher", lights="left")
    up = world_to_camera(sample.trace.camera)[:3, :3] @ (0.0, 0.0, 1.0)
    ground = inside(frame.layers["object"] == 0) & np.isfinite(frame.layers["depth"])
    ground[: ground.shape[0] // 2] = False  # without the far edge of the ground
    assert ground.sum() > 100
    np.testing.assert_allclose(floats(frame, "normal")[ground], np.tile(up, (ground.sum(), 1)), atol=2e-3)


def brighter_side(frame):
    mask = frame.layers["object"] == 1
    middle = np.nonzero(mask)[1].mean()
    columns = np.broadcast_to(np.arange(mask.shape[1]), mask.shape)
    shading = floats(frame, "shading").mean(axis=-1)
    left, right = shading[mask & (columns < middle)].mean(), shading[mask & (columns > middle)].mean()
    assert max(left, right) > 1.1 * min(left, right)
    return "left" if left > right else "right"


# ------------------------------------------------------------------------------------- temperature and power


def test_temperatures_that_share_a_trace_are_multiples_of_it(pick):
    for azimuth in (-70, 70):
        frames = pick("concepts", texturing="rgb", paint=0, light_azimuth=azimuth)
        assert len({sample.group for sample, _ in frames}) == 1
        for layer in ("shading", "residual"):
            traced = [floats(frame, layer) / sample.gain for sample, frame in frames]
            for other in traced[1:]:
                # Equal except for rounding to half precision, whose smallest step is 6e-8.
                np.testing.assert_allclose(other, traced[0], rtol=2.1 * HALF, atol=6e-8 / min(GAINS))
        for sample, frame in frames:
            temperature = sample.factors["temperature"]
            np.testing.assert_allclose(sample.gain, np.array(blackbody(temperature)), rtol=1e-12)
            assert frame.metadata.lights[0].temperature == temperature
            np.testing.assert_allclose(frame.metadata.lights[0].color, blackbody(temperature))


def test_scaled_light_equals_the_light_of_a_coloured_light(pick):
    """A map of strength 0 makes the planner trace the light in its own colour."""
    ((coloured, traced),) = pick("coloured")
    ((shared, scaled),) = pick("concepts", texturing="rgb", paint=0, light_azimuth=-70, temperature=2500)
    assert coloured.trace.lights[0].color == blackbody(2500)
    np.testing.assert_allclose(shared.gain, blackbody(2500), rtol=1e-12)
    assert coloured.gain == (1, 1, 1)
    assert shared.trace.lights[0].color == (1, 1, 1)
    one, other = (floats(frame, "radiance") for frame in (traced, scaled))
    np.testing.assert_allclose(one.mean(axis=(0, 1)), other.mean(axis=(0, 1)), rtol=0.03)
    # Edges of shadows are denoised differently, so nearly all pixels agree, but not all.
    apart = np.abs(one - other) / np.maximum(other, 0.1 * other.mean())
    assert np.percentile(apart, 98) < 0.2
    assert np.median(apart) < 0.03


# ------------------------------------------------------------------------------------------ light layers


def test_light_layers_add_up_to_radiance(pick):
    # They add up except for denoising each on its own: a tenth at 8 samples.
    ((_, frame),) = pick("lamps")
    total = floats(frame, "light/key") + floats(frame, "light/fill")
    radiance = floats(frame, "radiance")
    error = np.percentile(np.abs(total - radiance), 95) / radiance.mean()
    assert error < 0.15
    assert frame.metadata.checks.light_sum_error == pytest.approx(error, rel=1e-6)
    np.testing.assert_allclose(total.mean(), radiance.mean(), rtol=0.15)


def test_direct_and_indirect_shading_add_up(pick):
    ((_, frame),) = pick("lamps")
    direct, indirect = (frame.layers[f"shading_{one}"].astype(np.float32) for one in ("direct", "indirect"))
    np.testing.assert_array_equal(frame.layers["shading"], (direct + indirect).astype(np.float16))
    assert direct.mean() > indirect.mean() > 0


# ---------------------------------------------------------------------------------------------- geometry


def test_the_floor_has_height_zero_and_a_normal_upwards(pick):
    for sample, frame in pick("stands"):
        floor = inside(frame.layers["object"] == 0)
        np.testing.assert_allclose(points(frame)[floor][:, 2], 0, atol=2e-3)
        up = world_to_camera(sample.trace.camera)[:3, :3] @ (0, 0, 1)
        np.testing.assert_allclose(floats(frame, "normal")[floor], np.tile(up, (floor.sum(), 1)), atol=2e-3)


@pytest.mark.parametrize("set_name", ["views", "catcher"])
def test_position_agrees_with_depth_and_camera(pick, set_name):
    _, frame = pick(set_name)[0]
    position, depth = floats(frame, "position"), frame.layers["depth"]
    camera = frame.metadata.camera
    matrix, intrinsics = np.array(camera.world_to_camera), np.array(camera.intrinsics)
    seen = position @ matrix[:3, :3].T + matrix[:3, 3]
    hit = np.isfinite(depth)
    assert hit.mean() > 0.4
    assert abs(seen[hit][:, 2] - depth[hit]).max() < 2e-3
    assert (position[~hit] == 0).all()
    # The single sample of a pixel may lie off its middle, but not beyond the pixel filter.
    pixels = seen[hit] @ intrinsics.T
    rows, columns = hit.nonzero()
    off = pixels[:, :2] / pixels[:, 2:] - np.stack([columns + 0.5, rows + 0.5], axis=1)
    assert abs(off).max() < 0.751
    thing = frame.layers["object"] == 1
    assert abs(position[hit & ~thing][:, 2]).max() < 1e-3
    if set_name == "catcher":
        radius = np.linalg.norm(position[thing] - (0, -2, 1), axis=-1)
        assert abs(radius - 1).max() < 0.014  # the mesh has flat faces


def test_roughness_and_metallic_are_those_of_the_material(pick):
    for name, roughness, metallic in (("pink", 0.3, 0.0), ("satin", 0.9, 0.25)):
        _, frame = pick("views", material=name)[0]
        hit, thing = np.isfinite(frame.layers["depth"]), frame.layers["object"] == 1
        pure = ~mixed_edges(thing.astype(np.uint8)) & ~mixed_edges(hit.astype(np.uint8))
        for layer, own, floor in (("roughness", roughness, 0.5), ("metallic", metallic, 0)):
            assert np.unique(frame.layers[layer][thing & pure]).tolist() == [np.float16(own)]
            assert np.unique(frame.layers[layer][hit & ~thing & pure]).tolist() == [floor]


def test_pixels_without_a_hit_have_infinite_depth_and_no_normal(pick):
    ((_, frame),) = pick("floating")
    nothing = inside(frame.layers["object"] == 0)
    assert nothing.any()
    assert np.isinf(frame.layers["depth"][nothing]).all()
    for name in ("normal", "albedo", "shading"):
        assert (frame.layers[name][nothing] == 0).all()
    assert np.isfinite(frame.layers["depth"][inside(frame.layers["object"] > 0)]).all()


def test_the_nearer_object_hides_the_farther_one(pick):
    ((sample, frame),) = pick("floating")
    cube, sphere = (frame.layers["depth"][inside(frame.layers["object"] == n, 1)] for n in (1, 2))
    assert sphere.max() < cube.min()
    (column, row) = project(np.array([[0.3, 0.9, 0.3]]), sample.trace.camera, 48, 36)[0]
    assert frame.layers["object"][int(row), int(column)] == 2


@pytest.mark.parametrize("kind", ["cube", "sphere", "cylinder", "cone", "torus", "suzanne"])
def test_objects_lie_where_the_camera_of_the_plan_projects_them_and_stand_on_the_floor(pick, kind):
    """Mask and depth agree with the projection of the object's box."""
    ((sample, frame),) = pick("stands", object_type=kind)
    height, width = frame.layers["object"].shape
    planned = sample.trace.objects[0]
    lengths = np.array(AssetLibrary().facts("objects", kind)["dimensions"]) * planned.size
    turn = math.radians(planned.rotation)
    rotation = np.array(
        [[math.cos(turn), -math.sin(turn), 0], [math.sin(turn), math.cos(turn), 0], [0, 0, 1]]
    )
    unit = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (0, 1)])
    box = project((unit * lengths) @ rotation.T + planned.location, sample.trace.camera, width, height)
    left, top, right, bottom = frame.metadata.objects[0].bbox
    # The mask has one sample per pixel, so half a pixel of error to either side.
    assert left > box[:, 0].min() - 1
    assert top > box[:, 1].min() - 1
    assert right < box[:, 0].max() + 1
    assert bottom < box[:, 1].max() + 1
    if kind == "cube":
        np.testing.assert_allclose(
            (left, top, right, bottom), (*box.min(axis=0), *box.max(axis=0)), atol=1.01
        )
    # The inverse projection of each pixel of the object lies in the rotated box.
    local = (points(frame)[inside(frame.layers["object"] == 1, 1)] - planned.location) @ rotation
    slack = 0.02 * lengths.max()
    assert (np.abs(local[:, :2]) < lengths[:2] / 2 + slack).all()
    assert (local[:, 2] > -slack).all()
    assert (local[:, 2] < lengths[2] + slack).all()
    heights = points(frame)[frame.layers["object"] == 1][:, 2]
    # One pixel is about 0.06 m. The camera does not see the lowest point of a sphere, only points above the
    # line of sight that touches it.
    seen_from = 0.25 * planned.size if kind == "sphere" else 0.1
    assert -0.01 < heights.min() < seen_from
    # Its shadow begins at its base, so some of the floor next to the object is dark.
    shading = floats(frame, "shading").mean(axis=-1)
    mask = frame.layers["object"] == 1
    around = ~inside(~mask, 2) & ~mask
    assert shading[around].min() < 0.25 * np.median(shading[~mask])


def test_normals_of_a_cube_are_those_of_its_faces(pick):
    """Each visible face has the normal of the box, in OpenCV's axes of the turned camera."""
    ((sample, frame),) = pick("stands", object_type="cube")
    planned = sample.trace.objects[0]
    turn = math.radians(planned.rotation)
    faces = [(math.cos(turn + k * math.pi / 2), math.sin(turn + k * math.pi / 2), 0) for k in range(4)]
    seen = floats(frame, "normal")[inside(frame.layers["object"] == 1, 1)]
    rotation = world_to_camera(sample.trace.camera)[:3, :3]
    expected = np.array([*faces, (0, 0, 1)]) @ rotation.T
    nearness = seen @ expected.T
    on_a_face = nearness.max(axis=1) > 0.9999
    assert on_a_face.mean() > 0.75  # other pixels lie on an edge
    visible = np.bincount(nearness[on_a_face].argmax(axis=1), minlength=5)
    assert (visible > 10).sum() == 3
    assert visible[4] > 10  # the top face
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), 1, atol=2e-3)
    assert (expected[visible > 10][:, 2] < 0).all()  # visible faces look towards the camera


def test_metadata_hold_the_camera_of_the_plan(pick):
    for name, size in (("stands", (64, 48)), ("views", (48, 36))):
        sample, frame = pick(name)[0]
        assert frame.layers["image"].shape == (size[1], size[0], 3)
        np.testing.assert_allclose(frame.metadata.camera.intrinsics, intrinsics(sample.trace.camera, *size))
        np.testing.assert_allclose(
            frame.metadata.camera.world_to_camera, world_to_camera(sample.trace.camera), atol=1e-9
        )


def test_shading_is_the_light_on_a_white_surface(pick):
    """On the floor under a small light, E / pi follows from power, distance and cosine."""
    sample, frame = pick("stands", object_type="torus")[0]
    light = sample.lights[0]
    floor = inside(frame.layers["object"] == 0, 3)
    offset = np.array(light.location) - points(frame)[floor]
    squared = (offset**2).sum(axis=1)
    # P / (4 pi) is the radiant intensity; on the level floor the cosine is height over distance.
    by_hand = light.power / (4 * np.pi) * offset[:, 2] / squared**1.5 / np.pi
    shading = floats(frame, "shading")[floor].mean(axis=1)
    lit = shading > 0.6 * np.median(shading)  # outside the shadow
    ratio = shading[lit] / by_hand[lit]
    # Light between floor and object adds some, and the light is not a point.
    assert 0.97 < np.median(ratio) < 1.1
    assert ratio.std() / ratio.mean() < 0.06


# ------------------------------------------------------------------------------------------------ catcher


def test_a_shadow_catcher_shows_the_map_and_has_no_albedo(pick):
    for _, frame in pick("catcher"):
        backdrop = inside(frame.layers["object"] == 0)
        assert (frame.layers["albedo"][backdrop] == 0).all()
        assert (frame.layers["shading"][backdrop] == 0).all()
        assert floats(frame, "residual")[backdrop].min() >= 0
        seen = srgb_to_linear(frame.layers["image"][backdrop] / 255.0)
        assert seen.std() > 0.2 * seen.mean()  # a photograph, not a single grey
        assert frame.metadata.environment.scene == "moonlit grass"


def test_objects_over_a_shadow_catcher_have_their_albedo_and_the_catcher_no_material(pick):
    for _, frame in pick("catcher"):
        assert_albedo(frame, manifest()["materials", "yellow"]["facts"]["base_color"])
        around = (frame.layers["object"] == 0) & ~mixed_edges(frame.layers["object"])
        assert (frame.layers["roughness"][around] == 0).all()
        assert (frame.layers["metallic"][around] == 0).all()
