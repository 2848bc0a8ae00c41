"""Albedo and shading of pure colours, and of all kinds of objects and shaders in scenes of users."""

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders import FrameFolder
from candlelight.loaders.colour import to_display
from tests.generators.blender.frame_geometry import inside

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]

PURE = {"red": (0.8, 0, 0), "green": (0, 0.8, 0), "black": (0, 0, 0), "gray": (0.5, 0.5, 0.5)}
PAINTS = """
name: pure
image: {width: 32, height: 32}
render: {samples: 16, bounces: 2, denoise: false}
exposure: 0.3
sets:
  raw: &set
    factors:
      paint: {values: [red, green, black, gray]}
    layout: &layout
      objects:
        choose: $paint
        among:
          gray: [&ball {type: sphere, size: 2, material: {base_color: [0.5, 0.5, 0.5], specular: 0}}]
          red: [{<<: *ball, material: {base_color: [0.8, 0, 0], specular: 0}}]
          green: [{<<: *ball, material: {base_color: [0, 0.8, 0], specular: 0}}]
          black: [{<<: *ball, material: {base_color: [0, 0, 0], specular: 0}}]
      lights: [{location: [1, 4, 4], power: 3000, radius: 0.1}]
      camera: {location: [0, 5.5, 2], look_at: [0, 0, 1], field_of_view: 30}
  denoised:
    <<: *set
    render: {denoise: true, samples: 64}
  caught:
    <<: *set
    layout:
      <<: *layout
      floor: {catcher: true}
      environment: {scene: studio}
"""


@pytest.fixture(scope="module")
def paints(run):
    root, _ = run

    def frames(set_name):
        reader = FrameFolder(root / "frames", set_name)
        return {frame.metadata.factors["paint"]: frame for frame in map(reader.frame, range(len(PURE)))}

    return frames


# The denoiser makes a gray ball of this size darker, too, and the light of a map is sampled.
@pytest.mark.parametrize(("set_name", "tolerance"), [("raw", 0.005), ("denoised", 0.015), ("caught", 0.1)])
def test_a_pure_colour_has_the_shading_of_gray(paints, set_name, tolerance):
    gray = paints(set_name)["gray"]
    inner = inside(gray.layers["object"] > 0)
    expected = gray.layers["shading"][inner].astype(float).mean(0)
    for paint, frame in paints(set_name).items():
        shading = frame.layers["shading"][inner].astype(float).mean(0)
        np.testing.assert_allclose(shading, expected, rtol=tolerance)
        albedo = np.maximum(PURE[paint], 2e-4)
        seen = frame.layers["albedo"][inner].astype(float)
        np.testing.assert_allclose(seen, np.tile(albedo, (inner.sum(), 1)), rtol=1e-3)
        assert frame.metadata.objects[0].base_color == pytest.approx(albedo)
        assert set_name == "caught" or frame.metadata.checks.identity_error < 1e-6


@pytest.mark.parametrize("set_name", ["raw", "denoised", "caught"])
def test_stored_layers_of_pure_colours_add_up(paints, set_name):
    for frame in paints(set_name).values():
        albedo, shading, residual = (
            frame.layers[name].astype(np.float32) for name in ("albedo", "shading", "residual")
        )
        again = (albedo * shading + residual).astype(np.float16)
        np.testing.assert_array_equal(again, frame.layers["radiance"])
        # Black reflects so little that an image changes by one step, unless white would be over-exposed.
        dark = np.where(albedo < 2.1e-4, 0, albedo)
        image = to_display((dark * shading + residual) * np.float32(0.3)).astype(int)
        assert np.abs(image - frame.layers["image"])[shading * 0.3 < 1].max() <= 1


# Each scene has one ball or another body at the same place.
MAKE = """
import sys
import bpy

MIXED = {"mix": "ShaderNodeMixShader", "add": "ShaderNodeAddShader", "cutout": "ShaderNodeMixShader"}


def new_material(name):
    made = bpy.data.materials.new(name)
    tree = made.node_tree
    principled = next(node for node in tree.nodes if node.type == "BSDF_PRINCIPLED")
    principled.inputs["Specular IOR Level"].default_value = 0
    principled.inputs["Base Color"].default_value = (0.4, 0.1, 0.1, 1)
    return made, tree, principled


def new_wall(collection, name, y, material):
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata([(-4, y, -4), (4, y, -4), (4, y, 4), (-4, y, 4)], [], [(0, 1, 2, 3)])
    mesh.materials.append(material)
    wall = bpy.data.objects.new(name, mesh)
    collection.objects.link(wall)
    return wall


def make(kind):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.data.collections.new(kind)
    if kind == "text":
        data = bpy.data.curves.new("word", "FONT")
        data.body, data.size, data.extrude = "O", 3, 0.1
        word = bpy.data.objects.new("word", data)
        word.location, word.rotation_euler = (-1.1, 0, -0.9), (1.5708, 0, 0)
        scene.objects.link(word)
    elif kind == "curve":
        data = bpy.data.curves.new("tube", "CURVE")
        data.dimensions, data.bevel_depth = "3D", 0.4
        spline = data.splines.new("POLY")
        spline.points.add(1)
        spline.points[0].co, spline.points[1].co = (-0.5, 0, 0, 1), (0.5, 0, 0, 1)
        scene.objects.link(bpy.data.objects.new("tube", data))
    elif kind == "metaball":
        data = bpy.data.metaballs.new("blob")
        data.elements.new().radius = 1
        scene.objects.link(bpy.data.objects.new("blob", data))
    elif kind == "instance":
        inner = bpy.data.collections.new("inner")
        new_wall(inner, "wall", 0, None)
        instance = bpy.data.objects.new("instance", None)
        instance.instance_type, instance.instance_collection = "COLLECTION", inner
        scene.objects.link(instance)
    else:
        paint, tree, first = new_material("paint")
        surface = tree.get_output_node("CYCLES").inputs["Surface"]
        wall = new_wall(scene, "wall", 0, paint)
        if kind == "colours":
            colours = wall.data.color_attributes.new("Col", "FLOAT_COLOR", "POINT")
            for corner in colours.data:
                corner.color = (0.3, 0, 0.6, 1)
            node = tree.nodes.new("ShaderNodeVertexColor")
            node.layer_name = "Col"
            tree.links.new(node.outputs["Color"], first.inputs["Base Color"])
        elif kind == "group":
            group = bpy.data.node_groups.new("group", "ShaderNodeTree")
            group.interface.new_socket("Shader", in_out="OUTPUT", socket_type="NodeSocketShader")
            diffuse, end = group.nodes.new("ShaderNodeBsdfDiffuse"), group.nodes.new("NodeGroupOutput")
            group.links.new(diffuse.outputs[0], end.inputs[0])
            node = tree.nodes.new("ShaderNodeGroup")
            node.node_tree = group
            tree.links.new(node.outputs[0], surface)
        else:
            mixed = tree.nodes.new(MIXED[kind])
            inputs = list(mixed.inputs)[-2:]
            tree.links.new(first.outputs[0], inputs[0])
            if kind == "cutout":
                other = tree.nodes.new("ShaderNodeBsdfTransparent")
                checker = tree.nodes.new("ShaderNodeTexChecker")
                checker.inputs["Scale"].default_value = 9
                tree.links.new(checker.outputs["Fac"], mixed.inputs[0])
                behind, _, shader = new_material("behind")
                shader.inputs["Base Color"].default_value = (0.1, 0.6, 0.1, 1)
                new_wall(scene, "behind", -1, behind)
            else:
                other = tree.nodes.new("ShaderNodeBsdfDiffuse")
                other.inputs["Color"].default_value = (0.2, 0.2, 0.6, 1)
            if kind == "mix":
                mixed.inputs[0].default_value = 0.25
            tree.links.new(other.outputs[0], inputs[1])
            tree.links.new(mixed.outputs[0], surface)
    world = bpy.data.worlds.new(kind)
    world.node_tree.nodes["Background"].inputs["Color"].default_value = (0, 0, 0, 1)
    bpy.data.libraries.write(f"{sys.argv[1]}/{kind}.blend", {scene, world}, fake_user=True)


for kind in sys.argv[2:]:
    make(kind)
"""
# Albedo in the middle of the image.
SCENES = {
    **{kind: [(0.8, 0.8, 0.8)] for kind in ("text", "curve", "metaball", "instance")},
    "mix": [(0.35, 0.125, 0.225)],
    "add": [(0.6, 0.3, 0.7)],
    "colours": [(0.3, 2e-4, 0.6)],
    "cutout": [(0.4, 0.1, 0.1), (0.1, 0.6, 0.1)],
    "group": [(0, 0, 0)],
}
USER = """
  scenes:
    image: {width: 24, height: 24}
    render: {samples: 16, bounces: 1, denoise: false}
    factors:
      scene: {assets: scenes, values: [text, curve, metaball, instance, mix, add, colours, cutout, group]}
    layout:
      environment: {scene: $scene}
      lights: [{location: [0.5, 4, 2], power: 2000, radius: 0.1}]
      camera: {location: [0, 4, 0], look_at: [0, 0, 0], field_of_view: 25}
assets: {scenes: scenes}
"""


@pytest.fixture(scope="module")
def run(run_script, tmp_path_factory):
    """Render pure colours and scenes of a user by the command; return their folder and what it said."""
    root = tmp_path_factory.mktemp("user")
    (root / "scenes").mkdir()
    (root / "pure.yaml").write_text(PAINTS + USER)
    run_script(MAKE, root / "scenes", *SCENES)
    arguments = ["render", str(root / "pure.yaml"), "--out", str(root / "frames"), "--workers", "1"]
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 0, told.output
    return root, told.stderr


@pytest.fixture(scope="module")
def user(run):
    """Return the frames of the scenes of a user."""
    root, _ = run
    frames = map(FrameFolder(root / "frames", "scenes").frame, range(len(SCENES)))
    return {frame.metadata.factors["scene"]: frame for frame in frames}


@pytest.mark.parametrize("name", SCENES)
def test_every_surface_of_a_users_scene_has_its_albedo(user, name):
    layers = {key: array.astype(np.float64) for key, array in user[name].layers.items()}
    seen = inside(np.isfinite(layers["depth"]), 1)
    assert seen.sum() > 40
    found = layers["albedo"][seen]
    off = np.min([np.abs(found - one).max(1) for one in SCENES[name]], 0)
    assert np.median(off) < 1e-3  # others are mixed edges
    assert (off < 0.05).any()
    for one in SCENES[name]:
        assert (np.abs(found - one).max(1) < 1e-3).any()
    error = user[name].metadata.checks.identity_error
    assert error > 0.1 if name == "group" else error < 1e-6
    if name not in ("group", "text"):
        # Light is white, so the shading of any albedo is.
        shading = layers["shading"][seen][off < 1e-3]
        np.testing.assert_allclose(shading[:, 0].mean(), shading[:, 1].mean(), rtol=0.03)


def test_a_surface_without_albedo_is_said(run):
    root, told = run
    assert told.count("has light without albedo") == 1
    assert "set scenes: scenes-000008 has light without albedo (identity_error " in told
    assert "from the scene `group`; give each surface a Principled BSDF" in told
    scanned = CliRunner().invoke(main, ["assets", "scan", str(root / "scenes")])
    notes = [line for line in scanned.output.splitlines() if "albedo" in line]
    assert len(notes) == 1
    assert "scenes/group.blend: `Group` of its material `paint` makes albedo and shading wrong" in notes[0]
