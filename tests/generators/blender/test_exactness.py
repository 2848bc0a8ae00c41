"""Counterfactual frames equal their originals: exactly in unchanged layers, within noise in light.

The test of light: each sample is traced eight times with different seeds, without denoising. In each pixel
outside both objects, Welch's t compares the direct light, ``radiance - albedo * shading_indirect``, of the
sample and its counterfactual. Light that the object reflects onto the floor differs without being noise, so
``shading_indirect`` is subtracted. Points of the floor in the shadow of either object are left out, because
another shape has another shadow.
"""

import numpy as np
import pytest

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.mixed_edges import mixed_edges
from tests.generators.blender.frame_geometry import points

TRACES = 8
# A pair has the same seeds, so it shares noise, and t is small: the largest of 7,600 was 1.0.
LARGEST_T = 3.0
BALL = 0.9 * 3**0.5 / 2  # m; radius of a ball that contains either object, of size 0.9

RECIPE = """
name: exact
description: One object, and its counterfactuals.
image: {width: 48, height: 36}
render: {samples: 16, bounces: 3, denoise: false}
exposure: 0.3
layers: [image, radiance, albedo, shading, shading_direct, shading_indirect, residual, depth, normal, object]
do: {object_type: sphere, color: red}
sets:
  base:
    factors:
      object_type: {assets: objects, values: [sphere, cube]}
      color: {assets: materials, values: [red, blue]}
    grid: []
    draws: 8
    layout:
      objects: [{type: $object_type, material: $color, size: 0.9, rotation: 30}]
      floor: {base_color: [0.8, 0.8, 0.8]}
      lights: [{azimuth: 35, elevation: 55, distance: 4, power: 600, radius: 0.3}]
      camera: {location: [0, 5, 3], look_at: [0, 0, 0.3], field_of_view: 40}
  changed:
    counterfactual: {of: base, do: [{color: blue}, {object_type: cube}]}
"""
QUESTIONS = ("color", "shape")

# Two lights, traced together with a layer for each, and traced alone.
LIGHTS = """
name: lights
description: Two lights traced together and apart.
image: {width: 48, height: 36}
render: {samples: 32, bounces: 3, denoise: false}
exposure: 0.3
sets:
  together: &scene
    factors: {}
    draws: 8
    layers: [image, radiance, object, light/*]
    layout: &layout
      objects: [{type: sphere, size: 1, material: {base_color: [0.7, 0.5, 0.3]}}]
      floor: {base_color: [0.8, 0.8, 0.8]}
      lights:
        - &west {name: west, azimuth: -60, elevation: 40, distance: 4, power: 300, temperature: 2800}
        - &east {name: east, azimuth: 55, elevation: 30, distance: 5, power: 900, temperature: 9000}
      camera: {location: [0, 5, 3], look_at: [0, 0, 0.3], field_of_view: 40}
  west: {<<: *scene, layers: [image, radiance, object], layout: {<<: *layout, lights: [*west]}}
  east: {<<: *scene, layers: [image, radiance, object], layout: {<<: *layout, lights: [*east]}}
"""

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]


@pytest.fixture(scope="module")
def frames(tmp_path_factory, render_recipe):
    out = tmp_path_factory.mktemp("exact")
    render_recipe(out, RECIPE)
    base, changed = (FrameFolder(out / "frames", name) for name in ("base", "changed"))
    found = {"base": [base.frame(i) for i in range(TRACES)]}
    for k, name in enumerate(QUESTIONS):
        found[name] = [changed.frame(i * 2 + k) for i in range(TRACES)]
    return found


def footprints(one, other):
    """Return the pixels that either object may cover: its mask, and the reach of the pixel filter."""
    either = (one.layers["object"] > 0) | (other.layers["object"] > 0)
    return either | mixed_edges(one.layers["object"]) | mixed_edges(other.layers["object"])


def shadowed(frame):
    """Return the pixels whose floor point is shadowed, in part or in full, by a ball around the objects."""
    light, ball = np.array(frame.metadata.lights[0].location), np.array([0, 0, 0.45])
    floor = points(frame)
    towards = light - floor
    length = np.linalg.norm(towards, axis=-1, keepdims=True)
    along = np.clip(((ball - floor) * towards / length).sum(-1, keepdims=True), 0, length)
    distance = np.linalg.norm(floor + along * towards / length - ball, axis=-1)
    return distance < BALL + frame.metadata.lights[0].radius


def direct_light(frame):
    layers = {name: array.astype(np.float64) for name, array in frame.layers.items()}
    return layers["radiance"] - layers["albedo"] * layers["shading_indirect"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_geometry_and_albedo_are_exactly_equal_outside_the_objects(frames, question):
    for one, other in zip(frames["base"], frames[question], strict=True):
        assert other.metadata.counterfactual_of == one.metadata.id
        assert other.metadata.renderer.cycles_seed == one.metadata.renderer.cycles_seed
        outside = ~footprints(one, other)
        assert outside.mean() > 0.5
        for name in ("depth", "normal", "object", "albedo"):
            assert np.array_equal(one.layers[name][outside], other.layers[name][outside]), name
        assert not np.array_equal(one.layers["albedo"], other.layers["albedo"])
        if question == "color":  # geometry is equal everywhere
            for name in ("depth", "normal", "object"):
                assert np.array_equal(one.layers[name], other.layers[name]), name


@pytest.mark.parametrize("question", QUESTIONS)
def test_light_outside_the_objects_is_equal_within_noise(frames, question):
    one, other = frames["base"][0], frames[question][0]
    outside = ~footprints(one, other) & ~shadowed(one)
    assert outside.mean() > 0.3
    t = welch(frames["base"], frames[question], outside)
    assert np.abs(t).max() < LARGEST_T


def test_the_test_of_light_detects_a_light_that_is_one_percent_brighter_and_a_shadow(frames):
    outside = ~footprints(frames["base"][0], frames["shape"][0])
    lit = outside & ~shadowed(frames["base"][0])
    t = welch(frames["base"], frames["shape"], lit, factor=1.01)
    assert (np.abs(t) > LARGEST_T).mean() > 0.5
    assert np.abs(welch(frames["base"], frames["shape"], outside)).max() > LARGEST_T


def welch(first, second, where, factor=1.0):
    a = np.stack([direct_light(frame)[where] for frame in first])
    b = np.stack([direct_light(frame)[where] for frame in second]) * factor
    # Stored layers are rounded to half precision, so a smaller deviation cannot be measured.
    step = 2.0**-10 * np.abs(a.mean(0)) + 2.0**-20
    deviation = np.sqrt((a.var(0, ddof=1) + b.var(0, ddof=1)) / len(a) + step**2 / len(a))
    return (a.mean(0) - b.mean(0)) / deviation


def test_direct_shading_does_not_depend_on_colour(frames):
    inside = (frames["base"][0].layers["object"] > 0) & ~mixed_edges(frames["base"][0].layers["object"])
    assert inside.sum() >= 20
    first, second = (
        np.stack([frame.layers["shading_direct"][inside].astype(np.float64) for frame in frames[name]])
        for name in ("base", "color")
    )
    # A rounding step of half precision, divided by an albedo of 0.08, is larger.
    step = 2.0**-9 * np.abs(first.mean(0)) + 2.0**-10
    assert (np.abs(first - second) <= 3 * step).all()


@pytest.fixture(scope="module")
def light_frames(tmp_path_factory, render_recipe):
    out = tmp_path_factory.mktemp("lights")
    render_recipe(out, LIGHTS)
    return {
        name: [FrameFolder(out / "frames", name).frame(i).layers for i in range(TRACES)]
        for name in ("together", "west", "east")
    }


def means(frames, layer):
    """Return the means of each trace over the object, the floor, and its left and right half: 8 x 12."""
    mask = frames[0]["object"] > 0
    left = np.arange(mask.shape[1]) < mask.shape[1] / 2
    regions = (mask, ~mask, ~mask & left, ~mask & ~left)
    stack = np.stack([frame[layer].astype(np.float64) for frame in frames])
    return np.concatenate([stack[:, region].mean(1) for region in regions], axis=1)


def t_of_means(first, second):
    deviation = np.sqrt((first.var(0, ddof=1) + second.var(0, ddof=1)) / TRACES)
    return (first.mean(0) - second.mean(0)) / deviation


@pytest.mark.parametrize("light", ["west", "east"])
def test_a_light_layer_equals_the_light_traced_alone_and_layers_add_up(light_frames, light):
    for frame in light_frames["together"]:
        total = frame["light/west"].astype(np.float64) + frame["light/east"]
        assert total == pytest.approx(frame["radiance"].astype(np.float64), rel=4e-3, abs=4e-3)
    # Student's t with 7 to 14 degrees of freedom exceeds 6.5 once in 3000 times; there are 12 means.
    layer, alone = means(light_frames["together"], f"light/{light}"), means(light_frames[light], "radiance")
    t = t_of_means(layer, alone)
    assert np.abs(t).max() < 6.5
    assert layer.mean(0) == pytest.approx(alone.mean(0), rel=0.02)
    assert np.abs(t_of_means(1.05 * layer, alone)).max() > 6.5  # the test is not blind
