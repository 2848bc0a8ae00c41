"""Properties of rendered pixels, read from the one run of the fixture `probe` in tests/conftest.py."""

import math

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary, manifest
from candlelight.generators.language.set_settings import stored_layers
from candlelight.generators.scenes.camera import intrinsics, project, world_to_camera
from candlelight.generators.scenes.lights import blackbody
from candlelight.loaders.colour import srgb_to_linear, to_display

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


def inside(mask, margin=2):
    """Keep the pixels of a mask that are farther than ``margin`` from its edge and from the image border.

    The margin is 2 pixels, because the pixel filter and the single index sample each reach 0.75 pixels.
    """
    kept = np.pad(mask, margin)
    shifts = range(-margin, margin + 1)
    everywhere = [np.roll(kept, (dy, dx), (0, 1)) for dy in shifts for dx in shifts]
    return np.logical_and.reduce(everywhere)[margin:-margin, margin:-margin]


def points(frame):
    """Return the world coordinates of the points that pixels show, from depth and camera; H W 3."""
    camera = frame.metadata.camera
    depth = frame.layers["depth"].astype(float)
    y, x = np.indices(depth.shape) + 0.5
    rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(np.array(camera.intrinsics)).T
    pose = np.linalg.inv(np.array(camera.world_to_camera))
    return (rays * np.where(np.isfinite(depth), depth, np.nan)[..., None]) @ pose[:3, :3].T + pose[:3, 3]


def floats(frame, name):
    return frame.layers[name].astype(np.float64)


def every(pick, probe_plan):
    return [pair for name in probe_plan.recipe.sets for pair in pick(name)]


# --------------------------------------------------------------------------------------- every frame


def test_all_samples_are_rendered_with_their_layers(pick, probe_plan, probe_run):
    _, outcome = probe_run
    assert (outcome.written, outcome.failed) == (len(probe_plan), {})
    for sample, frame in every(pick, probe_plan):
        assert set(frame.layers) == set(stored_layers(probe_plan.recipe, sample.set))
        assert (frame.metadata.factors, frame.metadata.unit) == (sample.factors, sample.unit)
        assert frame.metadata.renderer.cycles_seed == sample.trace.cycles_seed


def test_passes_add_up_to_the_traced_radiance(pick, probe_plan):
    for sample, frame in every(pick, probe_plan):
        error = frame.metadata.checks.identity_error
        assert (error is None) if sample.set in CATCHER else error <= 1e-6, sample.id


def test_stored_radiance_is_exactly_that_of_the_stored_layers(pick, probe_plan):
    for sample, frame in every(pick, probe_plan):
        albedo, shading, residual = (
            frame.layers[n].astype(np.float32) for n in ("albedo", "shading", "residual")
        )
        again = (albedo * shading + residual).astype(np.float16)
        assert again.tobytes() == frame.layers["radiance"].tobytes(), sample.id
        assert frame.metadata.checks.stored_error <= HALF


def test_image_is_radiance_times_exposure_in_srgb(pick, probe_plan):
    for _, frame in every(pick, probe_plan):
        exposed = frame.layers["radiance"].astype(np.float32) * np.float32(frame.metadata.exposure)
        assert frame.metadata.exposure == pytest.approx(0.3)
        np.testing.assert_array_equal(frame.layers["image"], to_display(exposed))
        assert frame.metadata.checks.clipped == pytest.approx((exposed > 1).any(axis=-1).mean())


def test_frames_are_neither_black_nor_overexposed(pick, probe_plan):
    for sample, frame in every(pick, probe_plan):
        if sample.set != "floating":
            assert 20 < frame.layers["image"].mean() < 235, sample.id
        assert frame.metadata.checks.clipped < 0.2, sample.id


def test_masks_agree_with_the_metadata(pick, probe_plan):
    for sample, frame in every(pick, probe_plan):
        index = frame.layers["object"]
        assert index.max() <= len(sample.trace.objects)
        for number, record in enumerate(frame.metadata.objects, 1):
            rows, columns = np.nonzero(index == number)
            assert record.area == len(rows) > 0
            assert record.bbox == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


# --------------------------------------------------------------------------------------------- albedo


def test_albedo_is_the_base_colour_in_any_light_and_view(pick):
    for material, expected in ALBEDO.items():
        for _, frame in pick("views", material=material):
            seen = floats(frame, "albedo")[inside(frame.layers["object"] == 1)]
            assert len(seen) > 40
            np.testing.assert_allclose(seen, np.broadcast_to(expected, seen.shape), rtol=HALF * 1.01)
            assert np.unique(seen, axis=0).shape == (1, 3)


def test_albedo_is_the_colour_in_plan_and_metadata(pick):
    for sample, frame in pick("concepts", texturing="rgb"):
        color = sample.trace.objects[0].material.base_color
        np.testing.assert_allclose(frame.metadata.objects[0].base_color, color, atol=1e-6)
        seen = floats(frame, "albedo")[inside(frame.layers["object"] == 1)]
        np.testing.assert_allclose(seen, np.broadcast_to(color, seen.shape), rtol=HALF * 1.01)


def test_albedo_of_the_floor_is_its_colour(pick):
    _, frame = pick("stands", object_type="cube")[0]
    seen = floats(frame, "albedo")[inside(frame.layers["object"] == 0)]
    np.testing.assert_allclose(seen, 0.8, rtol=HALF * 1.01)


def test_a_material_of_the_users_folder_is_rendered(pick):
    for _, frame in pick("views", material="pink"):
        assert frame.metadata.objects[0].material == "pink"
        np.testing.assert_allclose(frame.metadata.objects[0].base_color, USERS["pink"], atol=1e-6)
        assert frame.metadata.factors["material"] == "pink"


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


def layers_equal(one, other, names):
    return {name: one.layers[name].tobytes() == other.layers[name].tobytes() for name in names}


def test_a_moved_light_changes_only_light(pick):
    for paint in (0, 1):
        for texturing in ("rgb", "textured"):
            (_, left), (_, right) = (
                pick("concepts", paint=paint, texturing=texturing, light_azimuth=a, temperature=4500)[0]
                for a in (-70, 70)
            )
            names = ("albedo", "depth", "normal", "object", "shading", "image")
            equal = layers_equal(left, right, names)
            assert equal == {name: name not in ("shading", "image") for name in names}


def test_another_material_changes_no_geometry(pick):
    frames = [
        frame
        for texturing in ("rgb", "textured")
        for _, frame in pick("concepts", texturing=texturing, light_azimuth=70, temperature=4500)
    ]
    assert len(frames) == 4
    for frame in frames[1:]:
        equal = layers_equal(frames[0], frame, ("depth", "normal", "object", "albedo"))
        assert equal == {"depth": True, "normal": True, "object": True, "albedo": False}


@pytest.mark.parametrize(("azimuth", "side"), [(-70, "left"), (70, "right")])
def test_the_lit_side_is_the_side_of_the_azimuth(pick, azimuth, side):
    for _, frame in pick("concepts", light_azimuth=azimuth):
        assert brighter_side(frame) == side


@pytest.mark.parametrize("label", ["left", "right"])
def test_the_lit_side_is_the_side_in_the_lights_label(pick, label):
    ((_, frame),) = pick("catcher", lights=label)
    assert brighter_side(frame) == label


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


@pytest.mark.parametrize(("name", "tolerance"), [("lamps", 0.15), ("lamps_raw", 0.003)])
def test_light_layers_add_up_to_radiance(pick, name, tolerance):
    # They add up except for rounding, and for denoising each on its own: a tenth at 8 samples.
    ((_, frame),) = pick(name)
    total = floats(frame, "light/key") + floats(frame, "light/fill")
    radiance = floats(frame, "radiance")
    error = np.percentile(np.abs(total - radiance), 95) / radiance.mean()
    assert error < tolerance
    assert frame.metadata.checks.light_sum_error == pytest.approx(error, rel=1e-6)
    np.testing.assert_allclose(total.mean(), radiance.mean(), rtol=tolerance)


def test_each_light_layer_has_the_colour_of_its_light(pick):
    ((_, frame),) = pick("lamps_raw")
    key, fill = (floats(frame, f"light/{name}") for name in ("key", "fill"))
    # 3000 K against 7000 K, on the same surfaces.
    assert key[..., 0].mean() / key[..., 2].mean() > 3 * fill[..., 0].mean() / fill[..., 2].mean()
    assert key.sum() > fill.sum()
    assert all("light/" not in name for name in pick("views")[0][1].layers)


@pytest.mark.parametrize("name", ["lamps", "lamps_raw"])
def test_direct_and_indirect_shading_add_up(pick, name):
    ((_, frame),) = pick(name)
    direct, indirect = (
        frame.layers[f"shading_{share}"].astype(np.float32) for share in ("direct", "indirect")
    )
    np.testing.assert_array_equal(frame.layers["shading"], (direct + indirect).astype(np.float16))
    assert indirect.max() > 0
    assert direct.mean() > indirect.mean()


# ---------------------------------------------------------------------------------------------- geometry


def test_depth_of_the_floor_is_that_of_height_zero(pick):
    for _, frame in pick("stands"):
        floor = inside(frame.layers["object"] == 0)
        assert np.isfinite(frame.layers["depth"][floor]).all()
        np.testing.assert_allclose(points(frame)[floor][:, 2], 0, atol=2e-3)


def test_depth_is_measured_along_the_optical_axis(pick):
    """Off the axis, the distance from the camera is longer than the depth; on a sphere both are known."""
    ((sample, frame),) = pick("stands", object_type="sphere")
    planned = sample.trace.objects[0]
    middle = np.add(planned.location, (0, 0, planned.size / 2))
    on_it = points(frame)[inside(frame.layers["object"] == 1, 1)]
    assert len(on_it) > 100
    np.testing.assert_allclose(np.linalg.norm(on_it - middle, axis=1), planned.size / 2, atol=0.01)


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
def test_projection_agrees_with_blender(pick, kind):
    """Mask and depth of an object lie where the pinhole camera of the plan projects its box."""
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


@pytest.mark.parametrize("kind", ["cube", "sphere", "cylinder", "cone", "torus", "suzanne"])
def test_objects_stand_on_the_floor(pick, kind):
    ((sample, frame),) = pick("stands", object_type=kind)
    heights = points(frame)[frame.layers["object"] == 1][:, 2]
    planned = sample.trace.objects[0]
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


def test_normals_of_the_floor_point_up(pick):
    sample, frame = pick("stands", object_type="torus")[0]
    floor = inside(frame.layers["object"] == 0)
    up = world_to_camera(sample.trace.camera)[:3, :3] @ (0, 0, 1)
    np.testing.assert_allclose(
        floats(frame, "normal")[floor], np.broadcast_to(up, (floor.sum(), 3)), atol=2e-3
    )


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


def test_objects_over_a_shadow_catcher_have_their_albedo(pick):
    for _, frame in pick("catcher"):
        seen = floats(frame, "albedo")[inside(frame.layers["object"] == 1)]
        expected = manifest()["materials", "yellow"]["facts"]["base_color"]
        np.testing.assert_allclose(seen, np.broadcast_to(expected, seen.shape), rtol=HALF * 1.01)


def test_samples_of_one_unit_differ_only_in_light(pick):
    (_, left), (_, right) = pick("catcher")
    assert layers_equal(left, right, ("albedo", "depth", "normal", "object", "residual")) == {
        **{"albedo": True, "depth": True, "normal": True, "object": True, "residual": False}
    }
