"""Rendered pixels of the sixteen scenes of CANDLE, and of scenes of users."""

from dataclasses import replace

import numpy as np
import OpenEXR
import pytest

from candlelight.blender_assets import manifest
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import condition
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.loaders.frames import frame_path, read_frame

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]

FIXED = {"object_type": "sphere", "color": "red", "size": 2.5, "rotation": 0, "lights": "left, right"}
SMALL = [
    *("image={width: 64, height: 48}", "render.samples=8"),
    *(f"sets.candle.factors.{name}.values=[{values}]" for name, values in FIXED.items()),
]
SCENES = load_recipe("candle").sets["candle"].factors["scene"].values
MODELLED = [name for name in SCENES if manifest()["scenes", name]["facts"].get("modelled")]


@pytest.fixture(scope="module")
def sixteen(tmp_path_factory):
    """Render a sphere in each scene with each light; keys are scene and light.

    In modelled scenes only the left light is rendered: `test_ground.py` shows that nothing hides the others.
    """
    plan = make_plan(load_recipe("candle", SMALL))
    key = {sample.index: (sample.factors["scene"], sample.factors["lights"]) for sample in plan.samples}
    some = [s for s in plan.samples if key[s.index][0] not in MODELLED or key[s.index][1] == "left"]
    root = tmp_path_factory.mktemp("sixteen")
    assert render(replace(plan, samples=compress_samples(some)), root, workers=2).failed == {}
    return {
        key[sample.index]: (sample, read_frame(frame_path(root, "candle", sample.index))) for sample in some
    }


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_a_sphere_is_brighter_on_the_side_in_the_lights_label(sixteen, scene):
    for light in ("left",) if scene in MODELLED else ("left", "right"):
        _, frame = sixteen[scene, light]
        mask = frame.layers["object"] == 1
        middle = np.nonzero(mask)[1].mean()
        columns = np.broadcast_to(np.arange(mask.shape[1]), mask.shape)
        shading = frame.layers["shading"].astype(np.float64).mean(axis=-1)
        sides = {
            "left": shading[mask & (columns < middle)].mean(),
            "right": shading[mask & (columns > middle)].mean(),
        }
        assert sides.pop(light) > 1.1 * max(sides.values())


@pytest.mark.slow
def test_one_exposure_suits_all_scenes(sixteen):
    for key, (_, frame) in sixteen.items():
        image = frame.layers["image"].astype(int)
        # Little of the largest and reddest sphere is overexposed; the rest is neither dark nor flat.
        assert (image[frame.layers["object"] == 1] == 255).any(axis=-1).mean() < 0.04, key
        around = image[frame.layers["object"] == 0].max(axis=-1)
        assert np.percentile(around, 75) > 20, key
        assert np.median(around) < 200, key
        assert around.std() > 8, key
        assert frame.metadata.environment.modelled == (key[0] in MODELLED)


@pytest.mark.slow
def test_a_frame_does_not_depend_on_previous_scenes(sixteen, tmp_path):
    sample, before = sixteen["station", "left"]
    alone = condition(make_plan(load_recipe("candle", SMALL)), scene="station", lights="left")
    assert render(alone, tmp_path, workers=1).written == 1
    after = read_frame(frame_path(tmp_path, "candle", sample.index))
    assert after.metadata.layers == before.metadata.layers


# ------------------------------------------------------------------------------------------ scenes of users

OWN = """
name: own
description: Scenes of a user.
image: {width: 64, height: 48}
render: {samples: 8, bounces: 2}
exposure: 0.4
assets: {scenes: scenes}
sets:
  own:
    factors:
      scene: {assets: scenes, values: [yard, stripes, station]}
    layout:
      environment: {scene: $scene}
      floor: {catcher: true}
      objects: [{type: cube, material: red, location: [0, -2]}]
      lights: [{location: [0, 0, 7], power: 5000, radius: 0.25}]
      camera: {location: [0, 6.5, 2.6], look_at: [0, -2, 0.9], field_of_view: 60}
  spot:  # a white ball below a map that only it and the camera see; the camera is level and looks along -y
    render: {samples: 16, bounces: 1}
    factors:
      turn: {values: [0, -18, -108, 72], unit: degrees}
    layout:
      environment: {scene: spot, rotation: $turn}
      objects: [{type: sphere, material: {base_color: [0.8, 0.8, 0.8], specular: 0}, location: [0, 0, -1.2]}]
      lights: []
      camera: {location: [0, 5, 0], look_at: [0, 0, 0], field_of_view: 60}
"""

# A green ground with a pass index and a driver, an object without a material, and a camera.
MAKE_YARD = """
import sys
import bpy
bpy.ops.wm.read_factory_settings(use_empty=True)
yard = bpy.data.collections.new("Yard")
def add(name, data):
    made = bpy.data.objects.new(name, data)
    yard.objects.link(made)
    return made
mesh = bpy.data.meshes.new("ground")
mesh.from_pydata([(-30, -30, 0), (30, -30, 0), (30, 30, 0), (-30, 30, 0)], [], [(0, 1, 2, 3)])
material = bpy.data.materials.new("lawn")
material.pass_index = 3
material.node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value = (0.1, 0.4, 0.05, 1)
mesh.materials.append(material)
ground = add("ground", mesh)
ground.pass_index = 7
ground.driver_add("location", 2).driver.expression = "9.0"
block = bpy.data.meshes.new("block")
block.from_pydata([(-9, -9, 0), (-5, -9, 0), (-5, -9, 4), (-9, -9, 4)], [], [(0, 1, 2, 3)])
add("block", block)
add("Camera", bpy.data.cameras.new("Camera"))
world = bpy.data.worlds.new("Yard")
world.node_tree.nodes["Background"].inputs["Color"].default_value = (0, 0, 0.5, 1)
bpy.data.libraries.write(sys.argv[1], {yard, world, bpy.data.texts.new("autorun.py")}, fake_user=True)
"""


def write_stripes(path):
    """Write a Radiance map of 4096 x 2048 pixels, with black and white stripes of 16 pixels."""
    pixels = np.zeros((2048, 4096, 4), np.uint8)
    pixels[:, np.arange(4096) // 16 % 2 == 1] = (128, 128, 128, 129)  # 1.0 in each channel
    path.write_bytes(b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 2048 +X 4096\n" + pixels.tobytes())


def write_spot(path):
    """Write a map with a spot 18 degrees right of -y and 18 degrees above the horizon."""
    # In 128 x 64 pixels, column 102 and row 25; 3/4 of the width is -y, straight ahead.
    pixels = np.full((64, 128, 3), 0.01, np.float32)
    pixels[24:27, 101:104] = 50.0
    with OpenEXR.File({"type": OpenEXR.scanlineimage}, {"RGB": pixels}) as file:
        file.write(str(path))


@pytest.fixture(scope="module")
def run(tmp_path_factory, render_recipe, run_script):
    """Render a modelled scene and maps of the user, and a shipped scene; return samples and frames by set."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "scenes").mkdir()
    write_stripes(folder / "scenes" / "stripes.hdr")
    write_spot(folder / "scenes" / "spot.exr")
    run_script(MAKE_YARD, folder / "scenes" / "yard.blend")
    plan, found = render_recipe(folder, OWN), {"own": [], "spot": []}
    for sample in plan.samples:
        frame = read_frame(frame_path(folder / "frames", sample.set, sample.index))
        found[sample.set].append((sample, frame))
    return found


@pytest.fixture(scope="module")
def own(run):
    return {sample.factors["scene"]: frame for sample, frame in run["own"]}


def test_a_users_modelled_scene_is_rendered(own):
    layers = own["yard"].layers
    below = layers["albedo"][-6:].astype(np.float64)
    np.testing.assert_allclose(below, np.broadcast_to((0.1, 0.4, 0.05), below.shape), atol=1e-3)
    # The driver, which would lift the ground by 9 m, is removed; the pass index of the ground is ignored.
    assert layers["depth"][-1].max() < 5
    assert set(np.unique(layers["object"])) == {0, 1}
    # The sky, above the edge of the ground and next to the block without a material.
    assert layers["residual"][0, 5].astype(float) == pytest.approx((0, 0, 0.5), abs=0.03)
    assert own["yard"].metadata.checks.identity_error < 1e-4
    assert own["station"].metadata.environment.modelled  # a shipped scene beside those of the user


def test_a_large_map_is_sharp(own):
    # The image of 64 pixels shows 683 pixels of the map, so a stripe is 1.5 pixels wide. Shrunk to 1024
    # pixels, the map would have one pixel for two stripes and look grey.
    top = own["stripes"].layers["radiance"][2:8].astype(np.float64).mean(axis=-1)
    assert top.std() > 0.2
    assert own["stripes"].metadata.environment.scene == "stripes"


def test_a_map_is_not_mirrored_and_turns_clockwise(run):
    centre, lit = {}, {}
    for sample, frame in run["spot"]:
        light, ball = frame.layers["radiance"].mean(axis=-1, dtype=np.float64), frame.layers["object"] == 1
        turn = sample.factors["turn"]
        if turn in (0, -18):  # the spot is in the picture
            centre[turn] = centroid(light * (light > 1) * ~ball)
        lit[turn] = centroid(light * ball)[0] - centroid(ball)[0]
    focal = 32 / np.tan(np.radians(30))
    right, up = (focal * np.tan(np.radians(angle)) for angle in (18.3, 18.3))
    assert centre[0] == pytest.approx((32 + right, 24 - up / np.cos(np.radians(18.3))), abs=1.5)
    assert centre[-18] == pytest.approx((32, 24 - up), abs=1.5)
    # Turned by -108 degrees, the spot has gone from the right of the picture over its middle to the left.
    assert lit[-108] < -1
    assert lit[72] > 1


def centroid(weights):
    """Return column and row of the centre of weights, in pixels."""
    rows, columns = np.indices(weights.shape) + 0.5
    return (columns * weights).sum() / weights.sum(), (rows * weights).sum() / weights.sum()
