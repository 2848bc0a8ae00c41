"""The ground of modelled scenes, where CANDLE's objects stand, in the light of CANDLE's lights."""

import math

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary, manifest
from candlelight.generators.scenes.camera import intrinsics, world_to_camera
from candlelight.loaders.frames import frame_path, read_frame

pytestmark = [pytest.mark.blender, pytest.mark.slow, pytest.mark.usefixtures("kept_renderers")]

SCENES = [
    name for (kind, name), entry in manifest().items() if kind == "scenes" and entry["facts"].get("modelled")
]
# The area of CANDLE's object locations, widened by half the diagonal of its largest cube; metres.
REACH = 2.5 * math.sqrt(2) / 2
LOW, HIGH = np.array([-1.4 - REACH, -4.5 - REACH]), np.array([1.4 + REACH, -1.0 + REACH])
RECIPE = """
name: ground
description: Modelled scenes without an object.
image: {width: 32, height: 24}
render: {samples: 16, bounces: 1, denoise: false}
exposure: 0.3
layers: [image, albedo, shading, depth]
sets:
  dark:
    factors:
      scene: &scenes {assets: scenes, values: SCENES}
    layout: &empty
      environment: {scene: $scene}
      camera: {location: [0, 6.5, 2.6], look_at: [0, -2, 0.9], field_of_view: 60}
  lit:
    factors:
      scene: *scenes
      lights: {assets: lights, values: [left, middle, right]}
    layout:
      <<: *empty
      lights: [{asset: $lights}]
"""


@pytest.fixture(scope="module")
def frames(tmp_path_factory, render_recipe):
    """Render each modelled scene in its own light and with each light; keys are scene and light or None."""
    root = tmp_path_factory.mktemp("ground")
    plan = render_recipe(root, RECIPE.replace("SCENES", str(SCENES)), workers=2)
    return {
        (sample.factors["scene"], sample.factors.get("lights")): (
            sample,
            read_frame(frame_path(root / "frames", sample.set, sample.index)),
        )
        for sample in plan.samples
    }


def rays(camera, width=32, height=24):
    """Return x, y of the ground points that the pixels see, and their depth along the axis; metres."""
    matrix = world_to_camera(camera)
    u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    seen = np.linalg.inv(intrinsics(camera, width, height)) @ np.stack(
        [u.ravel(), v.ravel(), np.ones(u.size)]
    )
    ways = (matrix[:3, :3].T @ seen).T
    depth = camera.location[2] / np.maximum(-ways[:, 2], 1e-3)  # rays above the horizon end far away
    places = np.array(camera.location[:2]) + depth[:, None] * ways[:, :2]
    return places.reshape(height, width, 2), depth.reshape(height, width)


def ground(sample):
    """Return a mask of the pixels that see the area of the objects, and ground points and depth of all."""
    places, depth = rays(sample.trace.camera)
    inside = ((places > LOW) & (places < HIGH)).all(axis=-1)
    assert inside.sum() > 100
    return inside, places, depth


@pytest.mark.parametrize("scene", SCENES)
def test_the_ground_is_free_and_level_and_has_albedo_where_objects_stand(frames, scene):
    for light in (None, "left", "middle", "right"):
        sample, frame = frames[scene, light]
        inside, _, depth = ground(sample)
        # Kerbs and other objects would be nearer than the ground.
        assert np.abs(frame.layers["depth"] - depth)[inside].max() < 0.01
        albedo = frame.layers["albedo"].astype(float)[inside]
        assert albedo.min() > 0.005
        assert albedo.max() < 0.9
        assert albedo.std() > 0.004  # a pattern
        assert frame.metadata.checks.identity_error < 1e-5
        if light:
            assert 40 < frame.layers["image"][inside].mean() < 220
            assert frame.metadata.checks.clipped < 0.03


@pytest.mark.parametrize("light", ["left", "middle", "right"])
@pytest.mark.parametrize("scene", SCENES)
def test_nothing_stands_between_lights_and_ground(frames, scene, light):
    """A light of P watts adds P cos / (4 pi^2 d^2) to the shading, and surfaces reflect some more."""
    facts = AssetLibrary().facts("lights", light)
    sample, lit = frames[scene, light]
    inside, places, _ = ground(sample)
    away = np.concatenate([places, np.zeros((*inside.shape, 1))], axis=-1) - facts["location"]
    distance = np.linalg.norm(away, axis=-1)
    expected = facts["power"] * -away[..., 2] / distance**3 / (4 * math.pi**2)
    added = (lit.layers["shading"].astype(float) - frames[scene, None][1].layers["shading"]).mean(axis=-1)
    # A polished floor loses up to a third, and walls add; a shadow would leave next to nothing.
    for half in (inside & (places[..., 0] < 0), inside & (places[..., 0] >= 0)):
        assert 0.55 < added[half].mean() / expected[half].mean() < 1.4
