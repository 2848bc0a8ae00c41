"""Scenes of samples as .blend files: Blender renders the sample's image again, from the file alone."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from candlelight.generators import load_recipe, save_blend
from candlelight.generators.engine import blend_files
from candlelight.generators.engine.helper_process import HelperOutput
from candlelight.generators.planning.plan import make_plan, plan_samples
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.loaders.frames import frame_path, read_frame
from tests.command_line import refusal, run
from tests.refusals import refused

pytestmark = pytest.mark.blender

RECIPE = """
name: open
description: Parts and an image under two lights; a map with a shadow catcher; a modelled scene of the user.
image: {width: 32, height: 24}
render: {samples: 64, bounces: 2, denoise: false}
exposure: 0.3
layers: [image, radiance]
sets:
  parts:
    factors: &one
      turn: {values: [20], unit: degrees}
    render: {samples: 64, bounces: 2}
    layers: [image, light/*]
    layout:
      objects:
        - {type: finch, material: own, parts: {beak: blue}, size: 1.9, rotation: 130, location: [0.5, 0]}
        - {type: cube, material: {texture: plain/halves}, size: 0.9, rotation: $turn, location: [-0.9, 0]}
        - {type: cube, material: blue, size: 0.3, rotation: $turn, location: [-0.2, 0.8]}
      floor: {random_material: {texturing: textured, textures: [checker]}}
      lights:
        - {name: key, azimuth: -50, distance: 4, power: 800, temperature: 3000}
        - {name: fill, kind: spot, azimuth: 60, distance: 4, power: 300, color: [0.2, 0.5, 1]}
      camera: {location: [0, 4.5, 2.5], look_at: [0, 0, 0.6], field_of_view: 34, roll: 5, shift: [1, 0]}
  catcher:
    factors: *one
    layout:
      environment: {scene: moonlit grass, rotation: 30}
      floor: {catcher: true}
      lights: [{asset: left}]
      objects:
        - {type: sphere, material: chance, size: 2, location: [-1.2, -2]}
        - {type: sphere, material: chance, size: 2, location: [1.2, -2]}
      camera: {location: [0, 6.5, 2.6], look_at: [0, -2, 0.9], field_of_view: 40}
  yard:
    factors: *one
    layout:
      environment: {scene: yard}
      objects: [{type: cube, material: red, size: 2, rotation: $turn, location: [0, -2]}]
      lights:
        - {name: warm, location: [3, 0, 5], power: 2500, radius: 0.25, temperature: 2700}
        - {name: cold, location: [-3, 0, 5], power: 2500, radius: 0.25, temperature: 9000}
      camera: {location: [0, 6.5, 2.6], look_at: [0, -2, 0.9], field_of_view: 60}
  leaves:
    factors: {shape: {values: [disc]}}
    layers: [image]
    layout: {dead_leaves: {shape: $shape}}
"""

# A material whose colour depends on the name of the object; a yard with an image, a font and a light profile
# in files beside it.
MAKE_ASSETS = """
import shutil
import sys
from pathlib import Path
import bpy

root = Path(sys.argv[1])
scenes = root / "scenes"

def start():
    bpy.ops.wm.read_factory_settings(use_empty=True)

start()
chance = bpy.data.materials.new("chance")
tree = chance.node_tree
info = tree.nodes.new("ShaderNodeObjectInfo")
tree.links.new(info.outputs["Random"], tree.nodes["Principled BSDF"].inputs["Base Color"])
bpy.data.libraries.write(str(root / "materials" / "chance.blend"), {chance}, fake_user=True)

start()
yard = bpy.data.collections.new("yard")

def add(name, data, *place):
    made = bpy.data.objects.new(name, data)
    made.location = place
    yard.objects.link(made)
    return made

bpy.ops.mesh.primitive_plane_add(size=60)
ground = bpy.context.object
yard.objects.link(ground)
material = bpy.data.materials.new("lawn")
image = material.node_tree.nodes.new("ShaderNodeTexImage")
image.image = bpy.data.images.load(str(scenes / "lawn.png"))
socket = material.node_tree.nodes["Principled BSDF"].inputs["Base Color"]
material.node_tree.links.new(image.outputs["Color"], socket)
ground.data.materials.append(material)
text = bpy.data.curves.new("sign", "FONT")
fonts = Path(bpy.utils.system_resource("DATAFILES", path="fonts"))
shutil.copy(fonts / "Inter.woff2", scenes)
text.body, text.size, text.font = "K", 3.0, bpy.data.fonts.load(str(scenes / "Inter.woff2"))
add("sign", text, -3, -4, 0.1)
lamp = bpy.data.lights.new("lamp", "POINT")
lamp.energy, lamp.use_nodes = 900.0, True
nodes = lamp.node_tree.nodes
profile = nodes.new("ShaderNodeTexIES")
profile.mode, profile.filepath = "EXTERNAL", str(scenes / "lamp.ies")
lamp.node_tree.links.new(profile.outputs["Fac"], nodes["Emission"].inputs["Strength"])
add("lamp", lamp, -4, -4, 3)
bpy.data.libraries.write(str(scenes / "yard.blend"), {yard}, fake_user=True)
"""
PROFILE = """IESNA:LM-63-1995
TILT=NONE
1 1000 1 3 1 1 2 0 0 0
1 1 10
0 45 90
0
1 0.5 0
"""
# Render each file again, and list what is in it.
REOPEN = """
import json, sys
import bpy

found = {}
for name in sys.argv[2:]:
    bpy.ops.wm.open_mainfile(filepath=f"{sys.argv[1]}/{name}.blend")
    scene = bpy.context.scene
    kinds = ("objects", "materials", "images", "texts", "libraries", "scenes")
    facts = {kind: sorted(one.name for one in getattr(bpy.data, kind)) for kind in kinds}
    facts["denoised"] = scene.cycles.use_denoising
    facts["aovs"] = sorted(aov.name for aov in scene.view_layers[0].aovs)
    facts["named"] = [str(path) for paths in bpy.data.file_path_map().values() for path in paths]
    found[name] = facts
    for seed in (0, 1):
        scene.cycles.seed += seed
        scene.render.filepath = f"{sys.argv[1]}/{name}-{seed}"
        bpy.ops.render.render(write_still=True)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory, run_script, render_recipe):
    """Render the recipe with assets of the user into ``frames``."""
    folder = tmp_path_factory.mktemp("open")
    for name in ("materials", "scenes", "textures/plain"):
        (folder / name).mkdir(parents=True)
    halves = np.repeat(np.where(np.arange(30) < 15, 30, 220).astype(np.uint8), 3).reshape(1, 30, 3)
    for path in ("textures/plain/halves.png", "scenes/lawn.png"):
        Image.fromarray(np.repeat(halves, 20, 0)).save(folder / path)
    (folder / "scenes" / "lamp.ies").write_text(PROFILE)
    run_script(MAKE_ASSETS, folder)
    kinds = ", ".join(f"{kind}: {kind}" for kind in ("materials", "scenes", "textures"))
    render_recipe(folder, f"{RECIPE}assets: {{{kinds}}}\n")
    return folder


@pytest.fixture(scope="module")
def reopened(work, tmp_path_factory):
    """Save a sample of each set, and render the files again while the assets are elsewhere."""
    folder = tmp_path_factory.mktemp("blend")
    assets = [f"--assets={kind}={work / kind}" for kind in ("materials", "scenes", "textures")]
    for name in ("parts", "catcher", "yard"):
        out = folder / f"{name}.blend"
        assert run("blend", work / "frames", f"{name}-000000", "--out", out, *assets) == f"{out}\n"
    work.rename(work.with_name("elsewhere"))
    command = [sys.executable, "-c", REOPEN, str(folder), "parts", "catcher", "yard"]
    done = subprocess.run(command, check=True, timeout=280, capture_output=True, text=True, cwd=folder)
    work.with_name("elsewhere").rename(work)
    return folder, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("name", "noise"), [("parts", 1.0), ("catcher", 0.02), ("yard", 0.02)])
def test_blender_renders_the_image_of_the_sample(work, reopened, name, noise):
    """Errors count in those of another seed; the same lights and seed give the same noise.

    In `parts`, colours of the lights change the noise, and Blender denoises the image and not its parts.
    """
    image = read_frame(frame_path(work / "frames", name, 0)).layers["image"].astype(int)
    again, other = (np.asarray(Image.open(reopened[0] / f"{name}-{seed}.png"), int) for seed in (0, 1))
    error = again - image
    assert abs(error).mean() < noise * abs(other - image).mean()
    assert abs(error.mean(axis=(0, 1))).max() < 0.4  # of 255: an exposure that is wrong by 1 % gives as much


def test_names_and_settings_are_those_of_the_sample(reopened):
    _, found = reopened
    for name, facts in found.items():
        assert facts["scenes"] == [f"{name}-000000"]
        assert facts["aovs"] == ["albedo", "coverage", "metallic", "normal", "roughness"]
        assert facts["denoised"] == (name == "parts")
        assert facts["named"] == facts["libraries"] == []
    parts, catcher, yard = found.values()
    assert parts["objects"] == ["camera", "cube", "cube.001", "fill", "finch", "floor", "key"]
    assert {"beak: blue", "head: rgb", "blue", "checker", "plain/halves"} <= {*parts["materials"]}
    assert yard["objects"] == ["Plane", "camera", "cold", "cube", "lamp", "sign", "warm"]
    assert yard["materials"] == ["bare", "lawn", "red"]
    # The material draws its colour by the name that the object had in the render.
    assert catcher["objects"] == ["camera", "floor", "left", "object 1", "object 2"]
    assert catcher["images"] == ["moonlit grass.exr"]


def test_a_file_tells_no_path_of_its_assets(work, reopened):
    with pa.input_stream(reopened[0] / "yard.blend", compression="zstd") as file:
        content = file.read()
    assert b"lawn.png" in content
    assert str(work).encode() not in content
    assert b"blender_assets" not in content


def test_a_recipe_has_samples_that_are_not_rendered(tmp_path):
    out = tmp_path / "new" / "scene.blend"
    assert run("blend", "negatives", "negatives-000007", "--out", out) == f"{out}\n"
    line = refusal("blend", "negatives", "negatives-000007", "--out", out)
    assert line == f"Error: {out} already exists; give another --out, or --replace it"
    out.write_bytes(b"")
    plan = plan_samples(load_recipe("negatives"), ["negatives-000007"])
    assert save_blend(plan, "negatives-000007", out, replace=True) == out
    assert out.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("frames parts-000009", "sample `parts-000009` is not in the plan; expected an id such as parts-000"),
        (
            "frames/plan.parquet parts-9",
            "sample `parts-9` is not in the plan; expected an id such as parts-0",
        ),
        ("demo demo-000000", "sample `demo-000000` is not in the plan; expected an id from tabletop-000000"),
        ("frames leaves-000000", "sample `leaves-000000` shows dead leaves, which are painted without a sc"),
        ("nowhere parts-000000", "neither a file nor shipped"),
        ("materials parts-000000", "materials/dataset.json"),
        ("nothing.parquet parts-000000", "there is no such file"),
        ("frames parts-000000 --out scene.png", "--out: expected FILE.blend, got scene.png"),
        ("frames catcher-000000 --out /proc/none/scene.blend", "needs `chance` of materials, which was not"),
        ("frames catcher-000000 --assets materials=edited", "was made with another `chance` of materials"),
        ("frames yard-000000 --assets scenes=scenes --out /proc/none/scene.blend", "/proc/none"),
    ],
)
def test_bad_use_gets_one_line_and_no_file(work, monkeypatch, words, part):
    monkeypatch.chdir(work)
    if not Path("edited").exists():
        Path("edited").mkdir()
        Path("edited/chance.blend").write_bytes(Path("materials/chance.blend").read_bytes() + b"1")
    out = () if "--out" in words else ("--out", "scene.blend")
    assert part in refusal("blend", *words.split(), *out)
    assert [*work.glob("*.blend")] == []


def test_what_blender_refuses_is_one_line(work, tmp_path, monkeypatch):
    plan = make_plan(load_recipe(work / "recipe.yaml"))["parts-000000"]
    (sample,) = plan.samples
    trace = sample.trace.model_copy(update={"cycles_seed": 3})
    edited = replace(plan, samples=compress_samples([sample.model_copy(update={"trace": trace})]))
    with refused(
        "`parts-000000`: numbers or assets of `parts-000000` differ from the plan of its trace group"
    ):
        save_blend(edited, "parts-000000", tmp_path / "scene.blend")
    with refused("`parts-000000`: not saved within 0.1 s"):
        save_blend(plan, "parts-000000", tmp_path / "scene.blend", time_limit=0.1)
    monkeypatch.setattr(blend_files, "run_helper", lambda *_: HelperOutput((), -11, "Segmentation fault"))
    with refused(r"`parts-000000`: Blender ended with status -11 \(Segmentation fault\)"):
        save_blend(plan, "parts-000000", tmp_path / "scene.blend")
    assert [*tmp_path.iterdir()] == []
