"""Files that `render` refuses are refused in the same words by `assets scan` and `recipes validate`."""

import re

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.blender_assets import ASSET_SUFFIXES
from candlelight.cli import main
from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.user_assets import asset_folders
from candlelight.generators.user_assets.asset_folders import open_assets
from tests.refusals import refused

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]

RECIPE = """
name: own
description: One object of one material in one environment; each set has files of one kind.
image: {width: 48, height: 36}
render: {preset: draft}
sets:
  materials: &own
    factors:
      shape: {assets: objects, values: [cube]}
      look: {assets: materials, values: [red]}
      scene: {assets: scenes, values: [studio]}
    layout:
      environment: {scene: $scene}
      objects: [{type: $shape, material: $look}]
      camera: {location: [0, 5, 2], look_at: [0, 0, 0.6]}
  objects: *own
  scenes: *own
"""

MAKE = """
import sys
from pathlib import Path
import bpy

root, picture = Path(sys.argv[1]), sys.argv[2]

def start():
    bpy.ops.wm.read_factory_settings(use_empty=True)

def save(kind, name):
    (root / kind).mkdir(exist_ok=True)
    bpy.ops.wm.save_as_mainfile(filepath=str(root / kind / f"{name}.blend"), relative_remap=False)

def material(name):
    start()
    made = bpy.data.materials.new(name)
    made.use_fake_user = True
    return made, made.node_tree

def textured(name, socket):
    _, tree = material(name)
    node = tree.nodes.new("ShaderNodeTexImage")
    node.image = bpy.data.images.load(picture)
    tree.links.new(node.outputs["Color"], tree.nodes["Principled BSDF"].inputs[socket])
    return node.image

def surface(name, kind, keep):
    _, tree = material(name)
    output, shader = tree.nodes["Material Output"], tree.nodes.new(kind)
    if not keep:
        tree.nodes.remove(tree.nodes["Principled BSDF"])
    tree.links.new(shader.outputs[0], output.inputs["Surface"])
    save("materials", name)

def collection(name):
    start()
    made = bpy.data.collections.new(name)
    bpy.context.scene.collection.children.link(made)
    return made

surface("emitting", "ShaderNodeEmission", False)
surface("mixed", "ShaderNodeMixShader", True)
for name, channel in (("glaring", 2.0), ("undefined", float("nan"))):
    shader = material(name)[1].nodes["Principled BSDF"]
    shader.inputs["Base Color"].default_value = (channel, 0.5, 0.5, 1)
    save("materials", name)
material("loose")[1].links.clear()
save("materials", "loose")
textured("torn", "Base Color").pack(data=b"no image", data_len=8)
save("materials", "torn")
textured("packed", "Base Color").pack()
save("materials", "packed")
textured("rough", "Roughness").pack()
save("textures", "rough")
collection("hollow")
save("scenes", "hollow")
room = collection("room")
mesh = bpy.data.meshes.new("floor")
mesh.from_pydata([(-9, -9, 0), (9, -9, 0), (9, 9, 0)], [], [(0, 1, 2)])
glass = bpy.data.materials.new("glass")
glass.node_tree.nodes.remove(glass.node_tree.nodes["Principled BSDF"])
mesh.materials.append(glass)
room.objects.link(bpy.data.objects.new("floor", mesh))
save("scenes", "room")
start()
bpy.context.scene.collection.objects.link(bpy.data.objects.new("lamp", bpy.data.lights.new("lamp", "POINT")))
save("objects", "lamp")
start()
bpy.ops.curve.primitive_bezier_circle_add()
save("objects", "ring")
"""

SHADER = "has no Principled BSDF; give it one as its surface"
REFUSED = {
    ("materials", "emitting"): f"emitting.blend: material `emitting` {SHADER}",
    ("materials", "mixed"): "mixed.blend: material `mixed` has `Mix Shader` at the Surface of its Material",
    ("materials", "loose"): "loose.blend: material `loose` has nothing at the Surface of its Material Output",
    ("materials", "glaring"): "glaring.blend: material `glaring` has the base colour (2.0, 0.5, 0.5); set",
    ("materials", "undefined"): "undefined.blend: material `undefined` has the base colour (nan, 0.5, 0.5)",
    ("materials", "torn"): "torn.blend: its image `picture.jpg` cannot be decoded; replace it",
    ("scenes", "hollow"): "hollow.blend: expected objects in the collection `hollow`, found none",
    ("scenes", "room"): f"room.blend: material `glass` {SHADER}",
    ("scenes", "square"): "square.exr: expected an equirectangular map, twice as wide as high, got 8 x 8",
    ("scenes", "bright"): "bright.exr: expected finite numbers, got 3 that are infinite or not numbers",
    ("scenes", "layered"): "layered.exr: expected one layer with the channels R, G and B, got several",
    ("scenes", "photo"): "photo.hdr: expected OpenEXR or Radiance data, got JPEG; convert it",
    ("scenes", "cut"): "cut.exr: cannot be read as an image; replace it",
    ("objects", "lamp"): "lamp.blend: expected a mesh object with faces, got `lamp`, a light; save a mesh",
    ("objects", "ring"): "ring.blend: expected a mesh object with faces, got `BézierCircle`, a curve; save",
}
FIELD = {"materials": "look", "scenes": "scene", "objects": "shape"}


def write_exr(path, channels):
    import OpenEXR

    with OpenEXR.File({"type": OpenEXR.scanlineimage}, channels) as file:
        file.write(str(path))


@pytest.fixture(scope="module")
def own(run_script, tmp_path_factory):
    """Make a folder of each kind, and the recipe that uses them."""
    root = tmp_path_factory.mktemp("own")
    picture = root / "picture.jpg"
    Image.fromarray(np.full((8, 16, 3), 90, np.uint8)).save(picture)
    run_script(MAKE, root, picture)
    scenes, gray = root / "scenes", np.ones((8, 16, 3), np.float32)
    write_exr(scenes / "plain.exr", {"RGB": gray})
    write_exr(scenes / "square.exr", {"RGB": gray[:, :8].copy()})
    bright = gray.copy()
    bright[3, 4] = np.inf
    write_exr(scenes / "bright.exr", {"RGB": bright})
    write_exr(scenes / "layered.exr", {"RGB": gray, **{f"lamp.{c}": gray[..., 0].copy() for c in "RGB"}})
    write_exr(scenes / "cut.exr", {"RGB": np.random.default_rng(0).random((64, 128, 3), np.float32)})
    (scenes / "cut.exr").write_bytes((scenes / "cut.exr").read_bytes()[:20000])
    (scenes / "photo.hdr").write_bytes(picture.read_bytes())
    picture.unlink()
    (root / "own.yaml").write_text(RECIPE)
    return root


def planned(own, labels, *overrides):
    """Plan labels of each kind."""
    changes = [
        f"sets.{kind}.factors.{FIELD[kind]}.values=[{', '.join(names)}]" for kind, names in labels.items()
    ]
    folders = {name: own / name for name in ASSET_SUFFIXES if (own / name).is_dir()}
    return make_plan(load_recipe(own / "own.yaml", [*changes, *overrides], assets=folders))


def test_render_scan_and_validate_say_the_same(one_blender, own, tmp_path):
    labels = {kind: [name for of, name in REFUSED if of == kind] for kind in FIELD}
    # A small map, because each failure opens it again.
    plan = planned(
        own, labels, *(f"sets.{kind}.factors.scene.values=[plain]" for kind in FIELD if kind != "scenes")
    )
    failed = render(plan, tmp_path / "frames", workers=1).failed
    rendered = {(one.set, one.factors[FIELD[one.set]]): failed[one.id] for one in plan.samples}
    assert rendered.keys() == REFUSED.keys()
    for file, message in REFUSED.items():
        assert rendered[file].startswith(message)
        assert "\n" not in rendered[file]
    files = [(kind, label, str(next(own.glob(f"{kind}/{label}.*")))) for kind, label in REFUSED]
    scanned = one_blender("candlelight.generators.blender.scan_file", files, 200.0, "late").replies
    assert [reply["error"] for reply in scanned] == [rendered[file] for file in REFUSED]
    some = "|".join(map(re.escape, rendered.values()))
    with refused(f"^({some}) \\(and {len(REFUSED) - 1} more\\)$"):
        open_assets(plan)


def validate(own, label):
    """Run `recipes validate` with materials of the user."""
    command = ["recipes", "validate", str(own / "own.yaml"), "--assets", f"materials={own / 'materials'}"]
    done = CliRunner().invoke(main, [*command, "--set", f"sets.materials.factors.look.values=[{label}]"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_good_files_are_opened_and_counted(own):
    counted = "own: valid, 4 samples from 4 traces\nown assets that opened in Blender: 1\n"
    assert validate(own, "packed, red") == counted


def test_a_recipe_that_does_not_fit_a_file_is_refused(one_blender, own):
    material = (
        "sets.materials.layout.objects.0.material={texture: rough, color_a: [0, 0, 0], color_b: [1, 1, 1]}"
    )
    with refused("material `rough` has a texture for Roughness; remove that field"):
        open_assets(planned(own, {"materials": ["red"]}, material))


def test_without_blender_validate_says_that_no_file_was_opened(own, monkeypatch):
    monkeypatch.setattr(asset_folders, "find_spec", lambda name: None)
    assert open_assets(planned(own, {"materials": ["red"]})) == 0
    assert "assets of your own were not opened, because bpy is not installed here" in validate(own, "loose")
