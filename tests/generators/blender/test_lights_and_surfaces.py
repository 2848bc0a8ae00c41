"""Rendered pixels of area lights and suns, metal and glass, chosen floors, and several views of a scene."""

import math

import numpy as np
import pytest

from candlelight.generators.scenes.camera import project, world_to_camera
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.frames import frame_path, read_frame
from tests.generators.blender.frame_geometry import inside, points

pytestmark = pytest.mark.blender

HALF = 2.0**-11  # largest relative rounding error of half precision
AREA = {"power": 40.0, "location": np.array([0.4, 0.2, 1.5]), "size": (1.2, 0.4)}
ELEVATION, IRRADIANCE = 50.0, 3.0
BASE = (0.6, 0.4, 0.2)
RECIPE = """
name: looks
image: {width: 32, height: 24}
render: {samples: 4, bounces: 0, denoise: false}
sets:
  areas:  # over a Lambertian plane
    factors:
      y: {values: [0.2, 1.2], unit: m}  # it shines straight down, or sideways
    render: {samples: 128, bounces: 0, denoise: false}
    layers: [image, shading, depth]
    layout: &plane
      floor: {}
      lights: &area
        - {kind: area, power: 40, location: [0.4, 0.2, 1.5], size: [1.2, 0.4], aim: [0.4, $y, 0]}
      camera: &above {location: [0, 3, 5], look_at: [0, 0, 0], field_of_view: 30}
  suns:
    factors:
      angle: {values: [0, 0.53, 5], unit: degrees}
    render: {samples: 64, bounces: 0, denoise: false}
    layers: [image, shading, normal, object]
    layout:
      objects: [{type: sphere, material: {base_color: [0.8, 0.8, 0.8], specular: 0}, size: 1.4}]
      floor: {}
      lights: [{kind: sun, power: 3, azimuth: 40, elevation: 50, angle: $angle}]
      camera: *above
  several:
    factors:
      kelvin: {values: [3000, 8000], unit: K}
    unit_factors: []
    layers: [image, radiance, light/*]
    layout:
      floor: {}
      lights:
        - {name: left, kind: area, azimuth: -60, power: 300, temperature: $kelvin}
        - {name: right, kind: area, size: 0.2, azimuth: 60, power: 100, temperature: $kelvin}
        - {name: sun, kind: sun, power: 1, temperature: $kelvin}
      camera: *above
  surfaces:
    factors:
      metal: {values: [0, 1, 0.5]}
      glass: {values: [0, 0.25, 1]}
    variables:
      gloss: {low: 0.2, high: 0.9}
      ior: {low: 1.3, high: 2}
    unit_factors: []
    layers: [image, radiance, albedo, shading, residual, depth, normal, object, roughness, metallic]
    render: {samples: 4, bounces: 2, denoise: false}
    layout:
      objects:
        - type: sphere
          material: &surface {base_color: [0.6, 0.4, 0.2], metallic: $metal, transmission: $glass,
                              roughness: $gloss, specular: 0.3, ior: $ior}
          size: 1.2
          location: [0.7, 0]
        - type: cube
          material: {<<: *surface, base_color: null, texture: waves, color_a: [0.9, 0.2, 0.2],
                     color_b: [0, 0, 1]}
          location: [-0.7, 0]
      floor: {}
      camera: {location: [0, 5, 2.5], look_at: [0, 0, 0.5], field_of_view: 36}
  grounds:
    factors:
      ground: {values: [bare, metal, tiles, text]}
    layers: [image, albedo, metallic]
    layout:
      floor:
        half_width: 3
        base_color: [0.7, 0.7, 0.7]
        material:
          choose: $ground
          among:
            bare: null
            metal: {base_color: [0.6, 0.4, 0.2], metallic: 0.5}
            tiles: {texture: checker, color_a: [0.5, 0.5, 0.5], color_b: [0.1, 0.2, 0.3], scale: 0.4}
            text: '#3080c0'
      camera: {location: [0, 2, 2.5], look_at: [0, 0, 0], field_of_view: 34}
  views:
    factors:
      view: {values: [left, right, front]}
    variables:
      turn: {low: 0, high: 90}
    grid: [view]
    draws: 2
    unit_factors: []
    layers: [image, depth, position]
    layout:
      objects:
        - {type: cube, rotation: $turn, location: [0.4, 0]}
        - {type: sphere, size: 0.7, location: [-0.7, 0.3]}
      floor: {}
      lights: [{kind: sun, power: 5, location: [1, 1, 3]}]
      camera:
        choose: $view
        among:
          left: {location: [2, 4.5, 2], look_at: [0, 0, 0.4], field_of_view: 36}
          right: {location: [-2, 4.5, 2], look_at: [0, 0, 0.4], field_of_view: 36, roll: 10}
          front: {location: [0, 5, 3], look_at: [0, 0, 0.4], field_of_view: 50, zoom: 1.3}
"""


@pytest.fixture(scope="module")
def pick(tmp_path_factory, render_recipe):
    root = tmp_path_factory.mktemp("looks")
    plan = render_recipe(root, RECIPE)

    def read(set_name):
        return [
            (sample, read_frame(frame_path(root / "frames", sample.set, sample.index), verify=True))
            for sample in plan.samples
            if sample.set == set_name
        ]

    return read


def lambert(seen, corners):
    """Irradiance of level ground at points by a polygon of radiance 1, by Lambert's formula."""
    spokes = corners[:, None] - seen
    spokes /= np.linalg.norm(spokes, axis=-1, keepdims=True)
    following = np.roll(spokes, -1, axis=0)
    normals = np.cross(spokes, following)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    angles = np.arccos(np.clip((spokes * following).sum(-1), -1, 1))
    return np.abs((angles * normals[..., 2]).sum(0)) / 2


def test_an_area_light_gives_the_irradiance_of_its_rectangle(pick):
    for sample, frame in pick("areas"):
        # Its height rises as it turns from straight down to sideways; its width stays along x.
        down = math.atan2(sample.factors["y"] - 0.2, 1.5)
        across, up = np.array([1.0, 0, 0]), np.array([0, math.cos(down), math.sin(down)])
        width, height = AREA["size"]
        corners = np.array(
            [
                AREA["location"] + i * width / 2 * across + j * height / 2 * up
                for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))
            ]
        )
        radiance = AREA["power"] / (math.pi * width * height)
        expected = radiance * lambert(points(frame).reshape(-1, 3), corners).reshape(24, 32) / np.pi
        found = frame.layers["shading"].astype(float).mean(-1)
        np.testing.assert_allclose(found.mean(), expected.mean(), rtol=0.005)
        near = expected > expected.max() / 2  # farther away, light falls off within a pixel
        np.testing.assert_allclose(found[near], expected[near], rtol=0.01)


def test_a_sun_gives_its_irradiance_times_the_cosine(pick):
    for sample, frame in pick("suns"):
        found = frame.layers["shading"].astype(float).mean(-1)
        expected = IRRADIANCE * math.sin(math.radians(ELEVATION)) / math.pi
        lit = inside((frame.layers["object"] == 0) & (found > 0.9 * expected))  # not in the shadow
        assert lit.sum() > 100
        np.testing.assert_allclose(found[lit], expected, rtol=HALF)
        towards = -world_to_camera(sample.trace.camera)[:3, :3] @ sample.trace.lights[0].direction
        cosine = frame.layers["normal"].astype(float) @ towards
        ball = inside(frame.layers["object"] == 1) & (cosine > 0.3)
        assert ball.sum() > 20
        np.testing.assert_allclose(found[ball], IRRADIANCE * cosine[ball] / math.pi, rtol=0.02)


def test_lights_of_all_kinds_have_layers_and_share_a_trace(pick):
    (warm, first), (cold, second) = pick("several")
    assert warm.group == cold.group
    for frame in (first, second):
        layers = {name: array.astype(float) for name, array in frame.layers.items()}
        parts = [layers[f"light/{name}"] for name in ("left", "right", "sun")]
        np.testing.assert_allclose(sum(parts), layers["radiance"], rtol=0.01)
        assert min(part.mean() for part in parts) > 0.01
    kinds = [(light.kind, light.location is None, light.size, light.angle) for light in first.metadata.lights]
    assert kinds == [
        ("area", False, (1, 1), None),
        ("area", False, (0.2, 0.2), None),
        ("sun", True, None, 0.53),
    ]


def test_metal_and_glass_have_their_share_of_albedo_and_no_other_geometry(pick):
    frames = pick("surfaces")
    assert len({sample.exogenous["gloss"] for sample, _ in frames}) == 1
    (_, plain), *_ = frames
    ball, box = (inside(plain.layers["object"] == index) for index in (1, 2))
    for sample, frame in frames:
        metallic, transmission = sample.factors["metal"], sample.factors["glass"]
        share = (1 - metallic) * (1 - transmission)
        layers = {name: array.astype(float) for name, array in frame.layers.items()}
        np.testing.assert_allclose(
            layers["albedo"][ball], np.tile(BASE, (ball.sum(), 1)) * share, rtol=2 * HALF
        )
        own = plain.layers["albedo"][box].astype(float)
        np.testing.assert_allclose(layers["albedo"][box], own * share, rtol=4 * HALF, atol=1e-4)
        assert own.std(axis=0).max() > 0.1
        assert (layers["shading"][ball] > 0).any() == (share > 0)
        roughness = sample.exogenous["gloss"]
        for name, value in (("metallic", metallic), ("roughness", roughness)):
            np.testing.assert_allclose(layers[name][ball | box], value, rtol=2 * HALF)
        for name in ("depth", "normal", "object"):
            np.testing.assert_array_equal(frame.layers[name], plain.layers[name])
        assert frame.metadata.checks.identity_error < 1e-6
        assert frame.metadata.objects[0].base_color == pytest.approx(BASE)
    # Light passes through glass: the ground is seen in it.
    seen = {tuple(one.factors.values()): frame.layers["residual"][ball].mean() for one, frame in frames}
    assert seen[0, 1] > 1.5 * seen[0, 0]


def test_a_factor_chooses_the_material_of_the_floor(pick):
    albedo = {one.factors["ground"]: frame.layers["albedo"].astype(float) for one, frame in pick("grounds")}
    flat = {
        "bare": (0.7, 0.7, 0.7),
        "metal": (0.3, 0.2, 0.1),
        "text": srgb_to_linear(np.array([48, 128, 192]) / 255),
    }
    for ground, color in flat.items():
        np.testing.assert_allclose(albedo[ground], np.broadcast_to(color, (24, 32, 3)), rtol=2 * HALF)
    seen, times = np.unique(albedo["tiles"].reshape(-1, 3).round(2), axis=0, return_counts=True)
    colors = {tuple(color) for color in seen[np.argsort(times)[-2:]].tolist()}
    assert colors == {(0.5, 0.5, 0.5), (0.1, 0.2, 0.3)}


def test_views_of_a_unit_show_one_scene(pick):
    frames = pick("views")
    assert len({sample.unit for sample, _ in frames}) == 2
    scenes = {(one.unit, one.trace.objects, one.trace.lights, one.trace.cycles_seed) for one, _ in frames}
    assert len(scenes) == 2
    first = [(sample, frame) for sample, frame in frames if sample.unit == frames[0][0].unit]
    assert [sample.factors["view"] for sample, _ in first] == ["left", "right", "front"]
    for _, one in first:
        for sample, other in first:
            assert_same_surfaces(one, sample, other)


def assert_same_surfaces(one, sample, other):
    """Check that a view shows each point of another view, or something before it, within a pixel."""
    seen = points(one)[np.isfinite(one.layers["depth"])]
    depth = (world_to_camera(sample.trace.camera) @ np.c_[seen, np.ones(len(seen))].T)[2]
    column, row = np.floor(project(seen, sample.trace.camera, 32, 24)).astype(int).T
    kept = (depth > 0) & (column >= 1) & (column < 31) & (row >= 1) & (row < 23)
    assert kept.mean() > 0.5
    depth, column, row = depth[kept], column[kept], row[kept]
    around = np.stack([other.layers["depth"][row + i, column + j] for i in (-1, 0, 1) for j in (-1, 0, 1)])
    pixel = depth / other.metadata.camera.intrinsics[0][0]  # its width at that depth, in metres
    assert (around.min(0) < depth + pixel).all()
    assert (depth < around.max(0) + pixel).mean() > 0.85  # others are hidden there
