"""Objects of shipped recipes are in the picture, on the floor, and apart from one another."""

import itertools
import math

import pytest

from candlelight.blender_assets import AssetLibrary
from candlelight.generators import load_recipe, make_plan
from candlelight.generators.scenes.object_placement import footprint
from candlelight.generators.scenes.plan_records import PlacedMaterial
from tests.generators.recipes.geometry import margin
from tests.refusals import refused

SCANS = ("happy", "homer", "max-planck", "nefertiti", "spot", "stanford-bunny")
RED = PlacedMaterial(label="red")
MOVE, TURN = 0.05, 30  # of `concepts-controls`: metres along x and y, and degrees


def values(name, **factors):
    return [f"sets.{name}.factors.{factor}.values={text}" for factor, text in factors.items()]


def ends(recipe, name, *variables):
    """Replace variables by factors with the two ends of their ranges."""
    ranges = load_recipe(recipe).sets[name].variables
    factors = {one: f"{{values: [{ranges[one].low}, {ranges[one].high}]}}" for one in variables}
    return [f"sets.{name}.factors.{one}={text}" for one, text in factors.items()]


CONTROL = {"texturing": "[rgb]", "temperature": "[4500]"}
SCENES = ["sets.albedo.factors.material.count=1", "sets.illumination.factors.material.count=1"]
SCENES += values("albedo", **CONTROL, light_azimuth="[20]")
SCENES += values("illumination", **CONTROL, light_azimuth="[20]")
OTHERS = ("albedo_pose", "illumination_camera", "illumination_pose", "negatives")
# Recipe, overrides that leave the extremes or a number of drawn samples, samples of each set.
CASES = {
    # Of a box only the extremes matter: the corners move monotonically with place and turn of the camera.
    "candle": (
        [
            "sets.candle.variables={}",
            *values(
                "candle",
                scene="[garden]",
                lights="[left]",
                color="[red]",
                rotation="[0, 15, 45]",
                size="[2.5]",
            ),
            *ends("candle", "candle", "x", "y", "pitch", "yaw"),
        ],
        None,
    ),
    "concepts": (SCENES, None),
    "concepts-scans": (SCENES, None),
    "concepts-controls": (
        [
            *values("albedo_camera", **CONTROL, light_azimuth="[20]"),
            *values("albedo_camera", camera_x="[-0.15, 0.15]", camera_height="[3.5, 3.7]"),
            *values("illumination_camera", camera_x="[-0.15, 0.15]", camera_height="[3.51, 3.69]"),
            *itertools.chain(*(values(name, **CONTROL, scene="[cube]") for name in OTHERS)),
            *("sets.albedo_pose.factors.pose.count=8", "sets.illumination_pose.factors.pose.count=8"),
            "sets.negatives.factors.draw.count=30",
        ],
        80,
    ),
    "demo": ([], 12),
    "negatives": ([], 25),
    "parts": ([], 36),
    "parts-removed": (["sets.original.draws=1"], 36),
}


@pytest.fixture(scope="module", params=CASES)
def plan(request, tmp_path_factory):
    overrides, limit = CASES[request.param]
    folder = tmp_path_factory.mktemp("objects")
    for name in SCANS:
        (folder / f"{name}.blend").touch()  # a plan does not open it
    assets = {"objects": folder} if request.param == "concepts-scans" else None
    return make_plan(load_recipe(request.param, overrides, assets=assets), limit)


def test_every_object_is_in_the_picture_and_on_the_floor(plan):
    library = AssetLibrary(plan.recipe.assets)
    least = 4 if plan.recipe.name in ("concepts", "concepts-scans") else 0
    scenes = {}
    for sample in plan.samples:
        image = plan.recipe.sets[sample.set].image or plan.recipe.image
        for placed in sample.trace.objects:
            stands = placed.model_copy(update={"material": RED, "parts": ()})
            scenes[stands, sample.trace.camera, image, sample.trace.floor] = sample.id
    for (placed, camera, image, floor), name in scenes.items():
        assert margin(library, placed, camera, image.width, image.height) > least, (name, placed.type)
        reach = math.hypot(*placed.location[:2]) + placed.size * footprint(library, placed.type)
        assert floor is None or floor.catcher or reach < floor.half_width + 0.05, (name, placed.type)


@pytest.mark.parametrize("plan", ["concepts", "concepts-scans", "concepts-controls"], indirect=True)
def test_no_objects_of_concept_sets_touch(plan):
    library = AssetLibrary(plan.recipe.assets)
    gap = 2 * math.sqrt(2) * MOVE if plan.recipe.name == "concepts-controls" else 0.05
    scenes = {sample.factors["scene"]: sample.trace for sample in plan.samples}
    assert len(scenes) == 20
    for scene, trace in scenes.items():
        for a, b in itertools.combinations(trace.objects, 2):
            radii = sum(placed.size * footprint(library, placed.type) for placed in (a, b))
            assert math.dist(a.location, b.location) > radii + gap, (scene, a.type, b.type)


@pytest.mark.parametrize("plan", ["concepts"], indirect=True)
def test_varied_poses_stay_in_the_picture(plan):
    library = AssetLibrary()
    scenes = {sample.factors["scene"]: sample.trace for sample in plan.samples.of_set("albedo")}
    for scene, trace in scenes.items():
        ends = (-TURN, TURN), (-MOVE, MOVE), (-MOVE, MOVE)
        for placed, turn, dx, dy in itertools.product(trace.objects, *ends):
            x, y, z = placed.location
            changes = {"rotation": placed.rotation + turn, "location": (x + dx, y + dy, z)}
            moved = placed.model_copy(update=changes)
            assert margin(library, moved, trace.camera, 256, 256) > 0, (scene, placed.type)


def test_all_missing_scans_are_named(tmp_path):
    (tmp_path / "spot.blend").touch()
    message = (
        r"sets\.albedo: layout\.objects\.among: there are no objects `happy`, `homer`, `max-planck`, "
        r"`nefertiti`, `stanford-bunny`; bring each in with `candlelight assets add MESH --name LABEL "
        r"--out FOLDER`, and name the folder with `assets` objects=FOLDER"
    )
    with refused(message):
        make_plan(load_recipe("concepts-scans", SCENES, assets={"objects": tmp_path}))
