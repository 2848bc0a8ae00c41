"""The plans of the recipes `invariance` and `identifiable`."""

import itertools
import math

import numpy as np
import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.scenes.camera import intrinsics, project
from candlelight.generators.scenes.object_placement import turn
from candlelight.loaders.illuminants import illuminant
from tests.generators.recipes.geometry import margin

SIDE = 256
MOVES = {"translation": "translation", "parallax": "parallax", "rotation": "rotation", "scale": "scale"}
FACTS = AssetLibrary()


def corners(placed):
    """Corners of the box around an object, from the manifest."""
    width, depth, height = FACTS.facts("objects", placed.type)["dimensions"]
    across = max(width, depth) / 2
    unit = np.array(list(itertools.product((-across, across), (-across, across), (0, height))))
    return np.array(placed.location) + placed.size * unit @ turn(placed.tilt, placed.rotation).T


@pytest.fixture(scope="module")
def extremes():
    """Plan every scene of `invariance` without a move and with the largest move."""
    changes = [
        "sets.translation.factors.translation.values=[0, 0.35]",
        "sets.parallax.factors.parallax.values=[0, 0.35]",
        "sets.rotation.factors.rotation.values=[0, 10.9]",
        "sets.scale.factors.scale.values=[1, 1.98]",
        "sets.illuminant.factors.hue.values=[611, -510]",
        "sets.illuminant.factors.saturation.values=[8]",
    ]
    return make_plan(load_recipe("invariance", changes)).samples


def test_invariance_has_the_grids_of_the_paper():
    recipe = load_recipe("invariance")
    values = {name: recipe.sets[name].factors[factor].values for name, factor in MOVES.items()}
    assert all(list(listed) == sorted(listed) for listed in values.values())
    assert (values["translation"][0], values["rotation"][0], values["scale"][0]) == (0, 0, 1)
    assert set(values["parallax"]) <= set(values["translation"])
    assert (0.23 in values["translation"], 3.6 in values["rotation"], 1.026 in values["scale"]) == (True,) * 3
    assert values["translation"][-1] >= 10 / 29.2
    assert (values["rotation"][-1], values["scale"][-1]) == (10.9, 1.98)
    hues = recipe.sets["illuminant"].factors["hue"].values
    assert (len(hues), hues[0], hues[-1]) == (20, 611, -495)
    assert recipe.sets["illuminant"].factors["saturation"].values == tuple(range(9))
    spec = recipe.sets["rotation"].layout.camera
    camera = PlacedCamera(location=spec.location, look_at=spec.look_at, field_of_view=spec.field_of_view)
    assert intrinsics(camera, SIDE, SIDE)[0, 0] * math.pi / 180 == pytest.approx(29.2, abs=0.005)


def test_images_of_a_scene_differ_by_the_move_alone(extremes):
    by_unit = {}
    for sample in extremes:
        by_unit.setdefault(sample.unit, []).append(sample)
    assert len(by_unit) == 20
    for samples in by_unit.values():
        assert len({sample.trace.objects for sample in samples}) == 1
        assert len({sample.trace.floor for sample in samples}) == 1
        assert len({sample.trace.cycles_seed for sample in samples}) == 1
        # The reference of each set is the same picture, but for the illuminant's white, which is E.
        still = [s for s in samples if s.set in MOVES and s.factors[MOVES[s.set]] in (0, 1)]
        lit = [s for s in samples if s.set == "illuminant"]
        assert len({sample.trace for sample in [*still, *lit]}) == 1
        assert {sample.gain for sample in still} == {(1.0, 1.0, 1.0)}
        assert len({sample.group for sample in lit}) == 1
        for sample in lit:
            np.testing.assert_allclose(
                sample.gain, illuminant(sample.factors["hue"], sample.factors["saturation"])
            )
    moved = {s.trace.camera.shift for s in extremes if s.set == "translation"}
    assert moved == {(0, 0), (0.35, 0), (0, 0.35)}


def test_objects_of_invariance_leave_the_image_by_scale_alone(extremes):
    places = {(one.trace.objects, one.trace.camera) for one in extremes if one.trace.camera.zoom == 1}
    for objects, camera in places:
        assert min(margin(FACTS, placed, camera, SIDE, SIDE) for placed in objects) > 0


def test_parallax_moves_the_middle_as_translation_does_and_what_is_nearer_further(extremes):
    cameras = {
        (s.set, s.factors.get(s.set)): s.trace.camera for s in extremes if s.factors.get("axis") != "y"
    }
    still, shifted, aside = (
        cameras[key] for key in (("parallax", 0), ("translation", 0.35), ("parallax", 0.35))
    )
    assert still == cameras["translation", 0]
    away = np.array(still.location) - still.look_at
    points = still.look_at + np.outer((0, 0.1, -0.1), away)  # nearer and further by a tenth
    before, flat, seen = (project(points, camera, SIDE, SIDE) for camera in (still, shifted, aside))
    pixels = SIDE / 2 / math.tan(math.radians(8.75 / 2)) * math.tan(math.radians(0.35))
    np.testing.assert_allclose(flat - before, [(pixels, 0)] * 3, atol=1e-6)
    np.testing.assert_allclose(seen - before, [(pixels / share, 0) for share in (1, 0.9, 1.1)], atol=2e-4)


@pytest.fixture(scope="module")
def drawn():
    return make_plan(load_recipe("identifiable"), 30).samples


def test_every_object_of_identifiable_is_inside_the_image(drawn):
    """Test bounding spheres at the corners of the ranges, and the box of each drawn object."""
    camera = drawn[0].trace.camera
    recipe = load_recipe("identifiable")
    directions = np.random.default_rng(0).normal(size=(2000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for name, image_set in recipe.sets.items():
        sizes = {(s.trace.objects[0].type, s.trace.objects[0].size) for s in drawn if s.set == name}
        radius = max(
            size * math.hypot(*FACTS.facts("objects", kind)["dimensions"]) / 2 for kind, size in sizes
        )
        ends = [(f.low, f.high) for f in (image_set.factors[axis] for axis in "xyz")]
        assert ends[2][0] >= radius
        for middle in itertools.product(*ends):
            seen = project(np.array(middle) + radius * directions, camera, 224, 224)
            assert seen.min() > 0
            assert seen.max() < 224
    for sample in drawn:
        (placed,) = sample.trace.objects
        middle = [sample.factors[axis] for axis in "xyz"]
        np.testing.assert_allclose(corners(placed).mean(axis=0), middle, atol=1e-6)


def test_the_numbers_of_identifiable_are_its_factors(drawn):
    for sample in drawn:
        factors, spot = sample.factors, sample.lights[0]
        assert (sample.trace.objects[0].tilt, sample.trace.objects[0].rotation) == (
            (factors["tilt_x"], factors["tilt_y"]),
            factors["rotation"],
        )
        # The camera looks along -y, so that right in the picture is -x.
        x, y, z = spot.location
        assert (math.hypot(x, y), z) == (pytest.approx(4, abs=1e-3), pytest.approx(6, abs=1e-3))
        assert math.degrees(math.atan2(-x, y)) == pytest.approx(factors["spot"], abs=1e-6)
        assert (spot.kind, spot.cone, spot.power) == ("spot", 35, 3000)
        towards = np.array([factors[axis] for axis in "xyz"]) - spot.location
        np.testing.assert_allclose(spot.direction, towards / np.linalg.norm(towards), atol=1e-8)
        assert max(spot.color) == 1
        assert min(spot.color) == pytest.approx(0.2)
        assert min(sample.trace.floor.base_color) == pytest.approx(0.4)
        assert (
            min(sample.trace.objects[0].material.base_color),
            max(sample.trace.objects[0].material.base_color),
        ) == (0, 1)
    assert len({sample.trace.objects[0].type for sample in drawn if sample.set == "shapes"}) == 7
    assert sum(len(image_set.factors) for image_set in load_recipe("identifiable").sets.values()) == 32
