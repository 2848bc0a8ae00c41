"""Random poses: numbered variations of a unit, for each object on its own."""

import numpy as np
import pytest

from candlelight.generators.language.layout import Object, RandomPose, Scene
from candlelight.generators.language.lights_and_camera import Camera
from candlelight.generators.language.load_recipe import load_recipe, recipe_sha256
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.object_placement import place_objects, vary_pose

CUBE = Object(type="cube", rotation="$base", location=(1, "$y"))
VARIED = RandomPose(variation="$pose", turn=30, move=0.05)


def inputs(pose=0, unit="scene=cube"):
    return LayoutInputs(0, unit, {"pose": pose, "base": 25, "y": -2})


def changes(poses, i=0, **where):
    """Return turn and moves of each pose."""
    moved = [vary_pose(CUBE, VARIED, i, inputs(pose, **where), "") for pose in poses]
    return np.array([(one.rotation - 25, one.location[0] - 1, one.location[1] + 2) for one in moved])


def test_turns_and_moves_fill_their_ranges_evenly():
    drawn = changes(range(2000)) / (30, 0.05, 0.05)
    assert np.abs(drawn).max() <= 1 + 1e-6
    assert np.abs(drawn.mean(axis=0)).max() < 0.05
    assert drawn.std(axis=0) == pytest.approx([3**-0.5] * 3, abs=0.02)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.08


def test_a_pose_depends_on_unit_number_and_object_alone():
    assert (changes([5]) == changes([4, 5])[1:]).all()
    others = [changes([5]), changes([6]), changes([5], i=1), changes([5], unit="scene=vase")]
    assert len({tuple(one.ravel()) for one in others}) == 4


def test_all_else_of_an_object_stays():
    moved = vary_pose(CUBE, VARIED, 0, inputs(), "")
    kept = {"rotation": CUBE.rotation, "location": CUBE.location}
    assert moved.model_copy(update=kept) == CUBE
    assert moved.location[2] == 0
    assert vary_pose(CUBE, None, 0, inputs(), "") is CUBE


def test_the_middle_of_a_tilted_object_moves_as_drawn():
    # The random turn is part of the rotation, so the anchor is placed after it.
    tilted = CUBE.model_copy(update={"tilt": (40.0, 0.0), "anchor": "center", "location": (1, "$y", 1)})
    layout = Scene(
        camera=Camera(location=(0, 5, 2), look_at=(0, 0, 0)), objects=(tilted,), random_pose=VARIED
    )
    (placed,) = place_objects(layout, inputs())
    angle, tilt = np.radians(placed.rotation), np.radians(40)
    up = (np.sin(tilt) * np.sin(angle), -np.sin(tilt) * np.cos(angle), np.cos(tilt))
    ((_, dx, dy),) = changes([0])
    assert np.add(placed.location, np.multiply(0.5, up)) == pytest.approx((1 + dx, dy - 2, 1), abs=1e-6)


def test_a_recipe_without_random_poses_keeps_its_hash():
    # Frames are refused by a recipe of another hash: the field must not turn old folders away.
    plain = load_recipe("concepts")
    assert "random_pose" not in plain.model_dump_json()
    assert recipe_sha256(load_recipe("concepts", ["sets.albedo.layout.random_pose={}"])) != recipe_sha256(
        plain
    )
