"""Controls of concept sets: only the camera or the poses change; all else is that of a concept set."""

import itertools
import math

import numpy as np
import pytest

from candlelight.evaluation.views import match_controls, open_data
from candlelight.generators import load_recipe, make_plan, render
from candlelight.generators.scenes.camera import world_to_camera
from candlelight.loaders import FrameFolder
from candlelight.loaders.mixed_edges import mixed_edges

KINDS = ("camera", "pose")
CONTROLS = [f"{concept}_{kind}" for concept in ("albedo", "illumination") for kind in KINDS]
VARIED = {"albedo": "material", "illumination": "light_azimuth"}
MOVE = 0.05  # m, along x and y
TURN = 30  # degrees


def few(*names, **values):
    """Override the values of factors in some sets."""
    return [
        f"sets.{name}.factors.{factor}.values={text}" for name in names for factor, text in values.items()
    ]


@pytest.fixture(scope="module")
def samples():
    """Plan a few concept sets and their controls, by set."""
    scene = {"scene": "[vase_torus_cone]", "temperature": "[2500]"}
    albedo = {**scene, "light_azimuth": "[20]"}
    illumination = {**scene, "texturing": "[textured]"}
    recipes = {
        "concepts": [
            *(*few("albedo", **albedo), "sets.albedo.factors.material.count=2"),
            *(*few("illumination", **illumination), "sets.illumination.factors.material.count=1"),
        ],
        "concepts-controls": [
            *few("albedo_camera", "albedo_pose", **albedo, texturing="[rgb]"),
            *few("illumination_camera", "illumination_pose", **illumination, light_azimuth="[22]"),
            *(f"sets.{name}.factors.material.count=1" for name in CONTROLS),
            *(*few("negatives", **scene), "sets.negatives.factors.draw.count=20"),
        ],
    }
    planned = [
        sample
        for name, changes in recipes.items()
        for sample in make_plan(load_recipe(name, changes)).samples
    ]
    return {name: list(some) for name, some in itertools.groupby(planned, lambda sample: sample.set)}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_set_has_three_controls_of_as_many_images(name):
    concepts, controls = load_recipe("concepts"), load_recipe("concepts-controls")
    kind = name.partition("_")[0]
    concept, control, varied = concepts.sets[kind], controls.sets[name], VARIED[kind]
    kept = {factor: one for factor, one in control.factors.items() if factor not in control.varies}
    assert {**kept, varied: None} == {**concept.factors, varied: None}
    assert set(kept[varied].listed()) < set(concept.factors[varied].listed())
    assert len(kept[varied].listed()) == 3
    images = math.prod(len(control.factors[factor].listed()) for factor in control.varies)
    assert images == len(concept.factors[varied].listed()) == {"albedo": 100, "illumination": 44}[kind]
    for field in ("seed", "image", "render", "exposure", "layers"):
        assert getattr(controls, field) == getattr(concepts, field)


@pytest.mark.parametrize("name", CONTROLS)
def test_only_camera_or_poses_differ_from_the_concept_set(samples, name):
    concept, kind = name.split("_")
    shared = ("scene", "texturing", "light_azimuth", "temperature", "material")
    originals = {tuple(one.factors[f] for f in shared): one for one in samples[concept]}
    seen = {}
    for sample in samples[name]:
        key = tuple(sample.factors[f] for f in shared)
        original = originals[key]
        assert (sample.unit, sample.lights, sample.gain) == (original.unit, original.lights, original.gain)
        if kind == "camera":
            restored = sample.trace.model_copy(update={"camera": original.trace.camera})
            seen.setdefault(key, set()).add(sample.trace.camera.location)
        else:
            restored = sample.trace.model_copy(update={"objects": restore(sample.trace.objects, original)})
            seen.setdefault(key, set()).add(tuple((o.rotation, o.location) for o in sample.trace.objects))
        assert restored == original.trace
    assert {len(values) for values in seen.values()} == {100 if concept == "albedo" else 44}


def restore(objects, original):
    """Put objects back into the poses of another sample, and hold that they were near."""
    restored = []
    for one, other in zip(objects, original.trace.objects, strict=True):
        assert abs(one.rotation - other.rotation) <= TURN
        assert np.abs(np.subtract(one.location, other.location)).max() <= MOVE + 1e-9
        assert one.location[2] == 0
        restored.append(one.model_copy(update={"rotation": other.rotation, "location": other.location}))
    return tuple(restored)


def test_objects_move_apart_from_one_another(samples):
    turns = np.array([[placed.rotation for placed in one.trace.objects] for one in samples["albedo_pose"]])
    assert np.abs(np.corrcoef(turns.T) - np.eye(3)).max() < 0.5


@pytest.mark.parametrize("name", ["albedo_camera", "illumination_camera"])
def test_the_camera_keeps_its_direction(samples, name):
    (usual,) = {sample.trace.camera for sample in samples["albedo"]}
    places = []
    for sample in samples[name]:
        camera = sample.trace.camera
        np.testing.assert_allclose(world_to_camera(camera)[:3, :3], world_to_camera(usual)[:3, :3], atol=1e-9)
        places.append(np.subtract(camera.location, usual.location))
    assert np.mean(places, axis=0) == pytest.approx((0, 0, 0), abs=1e-9)
    assert np.abs(places).max(axis=0) == pytest.approx((0.15 if name[0] == "i" else 0.135, 0, 0.09))


def test_negatives_share_the_layout_of_their_scene_alone(samples):
    poses, found = poses_of(samples["albedo"][0]), samples["negatives"]
    assert len({one.unit for one in found}) == len(found) == 40
    for one in found:
        assert poses_of(one) == poses
    for part in ("camera", "lights"):
        assert len({repr(getattr(one.trace, part)) for one in found}) == len(found)
    assert len({repr([placed.material for placed in one.trace.objects]) for one in found}) == len(found)
    assert len({one.factors["light_azimuth"] for one in found}) == 13


def poses_of(sample):
    return [(o.type, o.size, o.rotation, o.tilt, o.location) for o in sample.trace.objects]


@pytest.mark.blender
@pytest.mark.usefixtures("kept_renderers")
@pytest.mark.slow
def test_rendered_controls_change_neither_albedo_nor_light(tmp_path):
    scene = {"scene": "[cube_sphere_cone]", "texturing": "[rgb]", "temperature": "[4500]"}
    small = ["image={width: 56, height: 56}", "render={samples: 2, bounces: 1, denoise: false}"]
    small += ["layers=[image, albedo, object]"]
    lit = few("albedo", "albedo_camera", "albedo_pose", **scene, light_azimuth="[20]")
    concepts = [*lit[:4], *few("illumination", **scene, light_azimuth="[2]")]
    concepts += ["sets.albedo.factors.material.count=2", "sets.illumination.factors.material.count=1"]
    rest = few("illumination_camera", "illumination_pose", **scene, light_azimuth="[22]")
    rest += [f"sets.{name}.factors.material.count=1" for name in CONTROLS]
    controls = [*lit[4:], *rest, *few("negatives", scene="[cube_sphere_cone]", texturing="[rgb]")]
    controls += ["sets.albedo_pose.factors.pose.count=3", "sets.negatives.factors.draw.count=3"]
    controls += few("albedo_camera", camera_x="[-0.135, 0.135]", camera_height="[3.51, 3.69]")
    roots = {"concepts": tmp_path / "concepts", "concepts-controls": tmp_path / "controls"}
    for (name, root), changes in zip(roots.items(), (concepts, controls), strict=True):
        render(make_plan(load_recipe(name, [*small, *changes]), limit=4), root, workers=1)
    (original,) = open_data("concepts", roots["concepts"], set_name="albedo").sets
    painted = FrameFolder(roots["concepts"], "albedo")
    assert painted.metadata(0).factors["material"] == 0
    colours = inner_albedo(painted.frame(0))
    assert len(colours) == 4  # three objects and the table
    for kind in KINDS:
        view = open_data("concepts", roots["concepts-controls"], set_name=f"albedo_{kind}")
        assert view.varies == kind
        assert match_controls([original], view.sets) == (view.sets,)
        frames = FrameFolder(roots["concepts-controls"], f"albedo_{kind}")
        read = [frames.frame(row) for row in range(len(frames))]
        assert len({frame.layers["object"].tobytes() for frame in read}) == len(read) >= 3
        for frame in read:
            assert inner_albedo(frame) == colours
            assert frame.metadata.lights == painted.metadata(0).lights
            seen, usual = (np.array(m.camera.world_to_camera) for m in (frame.metadata, painted.metadata(0)))
            np.testing.assert_allclose(seen[:3, :3], usual[:3, :3], atol=1e-9)
    assert match_controls(
        [original], open_data("concepts", roots["concepts-controls"], set_name="negatives").sets
    )
    assert open_data("concepts", roots["concepts-controls"], set_name="negatives").varies is None
    assert len(open_data("images", roots["concepts-controls"], set_name="negatives")) == 3


def inner_albedo(frame):
    """Albedo of each object and of the table away from their edges, where each has one value."""
    objects = frame.layers["object"]
    inner = ~mixed_edges(objects)
    found = {}
    for number in np.unique(objects):
        values = frame.layers["albedo"][inner & (objects == number)].astype(float).round(3)
        found[int(number)] = {tuple(value) for value in values}
        assert len(found[int(number)]) == 1
    return found
