"""The computed view of an environment map, against closed forms, a slow loop and Cycles."""

import math

import numpy as np
import pytest

from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.layers.environment_view import view_map
from candlelight.generators.scenes.camera import intrinsics, world_to_camera
from candlelight.generators.scenes.plan_records import Trace
from candlelight.loaders.schema import EnvironmentRecord

CAMERA = PlacedCamera(
    location=(0, 5, 1), look_at=(0, 0, 1.5), field_of_view=50, pitch=3, yaw=-8, roll=4, zoom=1.2
)
PLAIN = EnvironmentRecord(scene="any")


def noise(rows, columns):
    return np.random.default_rng(0).random((rows, columns, 3), np.float32)


def test_a_constant_map_is_seen_as_its_radiance_times_the_strength():
    pixels = np.full((8, 16, 3), (0.5, 1.0, 2.0), np.float32)
    seen = view_map(pixels, EnvironmentRecord(scene="any", strength=3, rotation=40), CAMERA, 9, 7)
    np.testing.assert_allclose(seen, np.broadcast_to(np.float32((1.5, 3, 6)), (7, 9, 3)), rtol=1e-5)
    assert seen.dtype == np.float32


def test_turning_a_map_by_whole_texels_rolls_its_columns():
    pixels = noise(64, 128)
    turned = view_map(pixels, EnvironmentRecord(scene="any", rotation=360 * 5 / 128), CAMERA, 12, 9)
    # Azimuth decreases with the column, so a turned direction falls into an earlier column.
    np.testing.assert_allclose(turned, view_map(np.roll(pixels, 5, axis=1), PLAIN, CAMERA, 12, 9), atol=2e-4)


def interpolated(pixels, direction):
    """Interpolate a map linearly in one direction, texel by texel."""
    rows, columns = pixels.shape[:2]
    x, y, z = direction / np.linalg.norm(direction)
    column = (0.5 - math.atan2(y, x) / (2 * math.pi)) * columns - 0.5
    row = (0.5 + math.asin(z) / math.pi) * rows - 0.5
    total = np.zeros(3)
    for i in (math.floor(row), math.floor(row) + 1):
        for j in (math.floor(column), math.floor(column) + 1):
            weight = (1 - abs(row - i)) * (1 - abs(column - j))
            total += weight * pixels[min(max(i, 0), rows - 1), j % columns]
    return total


def window(offset):
    """Return the Blackman-Harris window of three pixels, by its definition."""
    angle = 2 * math.pi * (offset / 3 + 0.5)
    return 0.35875 - 0.48829 * math.cos(angle) + 0.14128 * math.cos(2 * angle) - 0.01168 * math.cos(3 * angle)


def test_pixels_match_a_slow_loop_over_the_filter():
    pixels, width, height, points = noise(48, 96), 5, 4, 12
    matrix, axes = intrinsics(CAMERA, width, height), world_to_camera(CAMERA)[:3, :3]
    steps = (np.arange(-points, 2 * points) + 0.5) / points
    for x, y in ((0, 0), (2, 1), (4, 3)):
        total, weights = np.zeros(3), 0.0
        for v in steps:
            for u in steps:
                ray = ((x + u - matrix[0, 2]) / matrix[0, 0], (y + v - matrix[1, 2]) / matrix[1, 1], 1.0)
                weight = window(u - 0.5) * window(v - 0.5)
                total += weight * interpolated(pixels, np.array(ray) @ axes)
                weights += weight
        seen = view_map(pixels, PLAIN, CAMERA, width, height)[y, x]
        np.testing.assert_allclose(seen, total / weights, atol=0.03)


def test_a_camera_that_looks_straight_up_sees_the_last_row():
    pixels = np.zeros((32, 64, 3), np.float32)
    pixels[-2:] = 1
    up = PlacedCamera(location=(0, 0, 0), look_at=(0, 1e-3, 1), field_of_view=4)
    np.testing.assert_allclose(view_map(pixels, PLAIN, up, 4, 4), 1, rtol=1e-5)


TRACED = Trace(
    objects=(),
    lights=(),
    environment=EnvironmentRecord(scene="outdoor", rotation=130, strength=1.2),
    floor=None,
    camera=CAMERA,
    cycles_seed=1,
)
BLENDER = """
import sys
import numpy as np
from candlelight.blender_assets import AssetLibrary
from candlelight.generators.blender import passes
from candlelight.generators.blender.blender_scene import BlenderScene
from candlelight.generators.scenes.plan_records import Trace

trace = Trace.model_validate_json(sys.argv[1])
scene = BlenderScene(width=48, height=36, samples=512, bounces=0, threads=1, library=AssetLibrary(()))
passes.request(scene.bpy_scene, ())
scene.show(trace)
file = passes.scratch_file()
passes.trace(scene.bpy_scene, file)
pixels = scene.environment.map_pixels(trace.environment)
np.savez(sys.argv[2], pixels=pixels, seen=passes.read(file)["Environment"])
"""


@pytest.mark.blender
def test_cycles_traces_the_same_with_many_samples(run_script, tmp_path):
    file = tmp_path / "traced.npz"
    run_script(BLENDER, TRACED.model_dump_json(), file)
    with np.load(file) as traced:
        seen = view_map(traced["pixels"], TRACED.environment, CAMERA, 48, 36)
        # Measured 0.004; a shift by half a pixel gives 0.1.
        error = np.clip(seen, 0, 1) - np.clip(traced["seen"], 0, 1)
        assert np.sqrt(np.mean(error**2)) < 0.01
