"""Objects and materials of the user's own code: pixels, parts, metadata, and faults, one line each."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from candlelight.generators.engine.render_plan import render
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.interventions import condition
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.plan_table import load_plan
from candlelight.generators.user_assets.asset_folders import open_assets
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.schema import ObjectRecord
from candlelight.loaders.verification.verify_frames import verify
from tests.generators.blender.frame_geometry import inside, points
from tests.refusals import refused

pytestmark = pytest.mark.blender

SHAPES = '''
import math
import random

import bpy
from curves import tube


def painted(name, color):
    paint = bpy.data.materials.get(name) or bpy.data.materials.new(name)
    paint.node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value = (*color, 1)
    return paint


def trefoil(twist, turns=3):
    """A bevelled curve."""
    assert isinstance(turns, int)
    points = []
    for k in range(90):
        t = 2 * math.pi * k / 90
        r, z = 0.2 * (2 + math.cos(turns * t)), 0.6 + 0.2 * (1 + twist) * math.sin(turns * t)
        points.append((r * math.cos(2 * t), r * math.sin(2 * t), z))
    return tube(points)


def lamp():
    """A collection whose first object has two materials; the second is mirrored, and not in the scene."""
    lamp = bpy.data.collections.new("lamp")
    bpy.ops.mesh.primitive_cube_add(size=1, location=(0, 0, 0.25))
    foot = bpy.context.object
    foot.name, foot.scale = "Cube", (0.9, 0.9, 0.5)
    for name, color in (("red", (0.6, 0.1, 0.1)), ("blue", (0.1, 0.1, 0.6))):
        foot.data.materials.append(painted(name, color))
    foot.data.polygons[0].material_index = 1
    head = bpy.data.objects.new("Cube", bpy.data.meshes.new_from_object(foot))
    head.location, head.scale = (0, 0, 0.9), (-0.5, 0.5, 0.5)
    for one in (foot, head):
        lamp.objects.link(one)
    return lamp


def field(count):
    """Geometry nodes that put instances on points, with a material that only they name."""
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=count, y_subdivisions=count, size=1.6)
    ground = bpy.context.object
    ground.data.materials.append(painted("ground", (0.5, 0.3, 0.2)))
    tree = bpy.data.node_groups.new("trees", "GeometryNodeTree")
    for way in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=way, socket_type="NodeSocketGeometry")
    kinds = ("NodeGroupInput", "NodeGroupOutput", "GeometryNodeInstanceOnPoints", "GeometryNodeMeshCone",
             "GeometryNodeSetMaterial", "GeometryNodeJoinGeometry")
    into, out, put, cone, paint, join = map(tree.nodes.new, kinds)
    cone.inputs["Radius Bottom"].default_value, cone.inputs["Depth"].default_value = 0.15, 0.5
    paint.inputs["Material"].default_value = painted("leaf", (0.1, 0.5, 0.1))
    for one, other in ((into, put), (paint, join), (into, join), (join, out)):
        tree.links.new(one.outputs[0], other.inputs[0])
    tree.links.new(cone.outputs["Mesh"], put.inputs["Instance"])
    tree.links.new(put.outputs[0], paint.inputs["Geometry"])
    ground.modifiers.new("trees", "NODES").node_group = tree
    return ground


def plate(height):
    """A plane of 1.6 m that a subdivision with more levels in renders makes round."""
    bpy.ops.mesh.primitive_plane_add(size=1.6)
    plate = bpy.context.object
    plate.location = (0, 0, height)
    modifier = plate.modifiers.new("smooth", "SUBSURF")
    modifier.levels, modifier.render_levels, modifier.subdivision_type = 0, 1, "SIMPLE"
    return plate


def rust(wear=0.5):
    paint = bpy.data.materials.new("rust")
    tree = paint.node_tree
    noise, ramp = tree.nodes.new("ShaderNodeTexNoise"), tree.nodes.new("ShaderNodeValToRGB")
    noise.inputs["Scale"].default_value = 4
    dark, light = ramp.color_ramp.elements
    dark.position, dark.color = wear - 0.1, (0.4, 0.1, 0, 1)
    light.position, light.color = wear + 0.1, (0.1, 0.3, 0.5, 1)
    tree.links.new(noise.outputs[0], ramp.inputs[0])
    tree.links.new(ramp.outputs["Color"], tree.nodes["Principled BSDF"].inputs["Base Color"])
    return paint


def smooth():
    """A Mix Shader of two Diffuse BSDFs beside a Principled BSDF that is not seen."""
    order = [*{"fir", "oak", "elm", "ash", "yew", "box", "bay", "fig"}]  # by hashes, equal in all processes
    bpy.ops.mesh.primitive_uv_sphere_add(radius=0.5 + order.index("fir") / 50, location=(0, 0, 0.5))
    ball = bpy.context.object
    paint = bpy.data.materials.new("mixed")
    tree = paint.node_tree
    mix = tree.nodes.new("ShaderNodeMixShader")
    for i, color in enumerate(((0.8, 0.2, 0.2, 1), (0.2, 0.2, 0.8, 1)), 1):
        shader = tree.nodes.new("ShaderNodeBsdfDiffuse")
        shader.inputs["Color"].default_value = color
        tree.links.new(shader.outputs[0], mix.inputs[i])
    tree.links.new(mix.outputs[0], tree.nodes["Material Output"].inputs["Surface"])
    ball.data.materials.append(paint)
    return ball
'''
CURVES = """
import bpy


def tube(points):
    data = bpy.data.curves.new("tube", "CURVE")
    data.dimensions, data.bevel_depth = "3D", 0.12
    line = data.splines.new("NURBS")
    line.points.add(len(points) - 1)
    for point, place in zip(line.points, points):
        point.co = (*place, 1)
    line.use_cyclic_u = True
    return bpy.data.objects.new("tube", data)
"""
# A fault by the name of its function: the body of the function, and the reason that the run reports.
FAULTS = {
    "raises": (
        "1 / 0",
        "`faults.py:raises` failed in faults.py, line LINE: ZeroDivisionError: division by zero",
    ),
    "ends": (
        "import sys; sys.exit('done')",
        "`faults.py:ends` failed in faults.py, line LINE: SystemExit: done",
    ),
    "drawn": (
        "move(cube(), random.random())",
        "uses the generator of `random`; take randomness from its numbers",
    ),
    "seeded": (
        "np.random.seed(1); return cube()",
        "uses the global generator of numpy; take randomness from",
    ),
    "smooths": (
        "[setattr(f, 'use_smooth', True) for mesh in bpy.data.meshes for f in mesh.polygons]; return cube()",
        "changes meshes that it did not make",
    ),
    "hides": (
        "next(one for one in bpy.data.objects if one.type == 'MESH').visible_camera = False; return cube()",
        "changes objects that it did not make",
    ),
    "waits": (
        "bpy.app.handlers.render_pre.append(lambda *_: None); return cube()",
        "registers handlers",
    ),
    "unseeded": (
        "one = cube(); one.scale[0] = 1 + np.random.default_rng().random(); return one",
        "`faults.py:unseeded` gives another result at each call; take randomness from its numbers",
    ),
    "coloured": (
        "one = cube(); m = bpy.data.materials.new('m'); one.data.materials.append(m); "
        "m.node_tree.nodes['Principled BSDF'].inputs[0].default_value[0] = np.random.default_rng().random(); "
        "return one",
        "gives another result at each call",
    ),
    "counting": (
        "CALLS.append(1); one = cube(); one.scale[0] = len(CALLS); return one",
        "gives another result",
    ),
    "staged": (
        "bpy.data.scenes.new('stage'); return cube()",
        "adds or removes scenes; it may only make a new",
    ),
    "emptied": (
        "bpy.ops.wm.read_factory_settings(use_empty=True)",
        "`faults.py:emptied` adds or removes scenes",
    ),
    "exposed": (
        "bpy.context.scene.view_settings.exposure = 2; return cube()",
        "changes settings of rendering",
    ),
    "sampled": ("bpy.data.scenes[0].cycles.samples = 9; return cube()", "changes settings of rendering"),
    "unused": ("bpy.context.view_layer.use = False; return cube()", "changes settings of rendering"),
    "ended": (
        "raise BaseException('mine')",
        "`faults.py:ended` failed in faults.py, line LINE: BaseException",
    ),
    "animated": (
        "one = cube(); one.keyframe_insert('location', frame=1); return one",
        "`Cube` is animated or has drivers; set the values themselves",
    ),
    "driven": (
        "one = cube(); one.driver_add('location', 0); return one",
        "`Cube` is animated or has drivers",
    ),
    "painted": (
        "one = with_surface('ShaderNodeBsdfDiffuse'); tree = one.data.materials[0].node_tree; "
        "tree.driver_add('nodes[\"Diffuse BSDF\"].inputs[0].default_value', 0); return one",
        "`m` is animated or has drivers",
    ),
    "excluded": (
        "group = bpy.data.collections.new('away'); bpy.context.scene.collection.children.link(group); "
        "one = bpy.data.objects.new('x', cube().data); group.objects.link(one); "
        "bpy.context.view_layer.layer_collection.children['away'].exclude = True; return one",
        "no render shows `x`, whose collection `away` is excluded from the view layer; include it, or",
    ),
    "scaled": (
        "one = cube(); one.scale.x = float('nan'); return one",
        "expected finite numbers, `Cube` is placed at NaN or infinity",
    ),
    "moved": (
        "bpy.data.scenes['Scene'].camera.location.x += 1; return cube()",
        "changes objects that it did not",
    ),
    "cleared": (
        "[bpy.data.objects.remove(o) for o in bpy.data.objects]; return cube()",
        "removes what it did not",
    ),
    "borrowed": ("return bpy.data.scenes['Scene'].camera", "which it did not make; return a new one"),
    "nothing": ("cube()", "`faults.py:nothing`: expected an object or a collection, got nothing; return one"),
    "faceless": (
        "return bpy.data.objects.new('x', bpy.data.meshes.new('x'))",
        "expected faces, got none; return a",
    ),
    "infinite": (
        "one = cube(); one.scale = (0, 0, 0); return one",
        "expected a mesh of finite extent, got one of [0",
    ),
    "invalid": (
        "m = bpy.data.meshes.new('x'); m.from_pydata([(0, 0, 0)] * 3, [], [(0, 1, 1)]); "
        "return bpy.data.objects.new('x', m)",
        "`x` has invalid faces or coordinates; correct them",
    ),
    "glass": (
        "return with_surface('ShaderNodeBsdfTranslucent')",
        "faults.py: `Translucent BSDF` of its material `m` makes albedo and shading wrong where it shows",
    ),
    "bare": ("return with_surface('ShaderNodeEmission', keep=False)", "material `m` has no Principled BSDF"),
    "tied": (
        "one = with_surface('ShaderNodeBsdfDiffuse'); "
        "one.data.materials[0].node_tree.nodes.new('ShaderNodeTexCoord').object = cube(); return one",
        "a material needs `Cube.001`, of kind object, which is not kept",
    ),
}
HELPERS = """
import random
import bpy
import numpy as np

CALLS = []


def cube():
    bpy.ops.mesh.primitive_cube_add(size=0.5)
    return bpy.context.object


def move(one, x):
    one.location.x = x
    return one


def with_surface(kind, keep=True):
    one = cube()
    paint = bpy.data.materials.new("m")
    tree = paint.node_tree
    shader = tree.nodes.new(kind)
    tree.links.new(shader.outputs[0], tree.nodes["Material Output"].inputs["Surface"])
    if not keep:
        tree.nodes.remove(tree.nodes["Principled BSDF"])
    one.data.materials.append(paint)
    return one
"""


def layout(*objects, **fields):
    return {
        "objects": list(objects),
        "floor": {},
        "lights": [{"azimuth": 30, "elevation": 50, "distance": 4, "radius": 0.1}],
        "camera": {"location": [0, 4, 2.5], "look_at": [0, 0, 0.5], "field_of_view": 40},
        **fields,
    }


def one_set(factors, *objects, **fields):
    return {"factors": factors, "unit_factors": [], "layout": layout(*objects, **fields)}


LAMP = {"build": "shapes.py:lamp", "material": "$look", "location": [0.7, 0]}
FIELD = {
    "build": "shapes.py:field",
    "numbers": {"count": 2},
    "material": "$look",
    "location": [-0.7, 0, 0.02],
}
PLATE = {
    "build": "shapes.py:plate",
    "numbers": {"height": "$height"},
    "material": {"base_color": [0.3, 0.5, 0.7], "specular": 0},
    "location": [0.1, -0.2],
    "rotation": 20,
}
RECIPE = {
    "name": "own",
    "image": {"width": 48, "height": 36},
    "render": {"samples": 8, "bounces": 0, "denoise": False},
    "layers": ["image", "radiance", "albedo", "shading", "residual", "depth", "normal", "object", "part"],
    "sets": {
        "knots": one_set(
            {"twist": {"values": [0, 0.5, 1]}},
            {
                "build": "shapes.py:trefoil",
                "numbers": {"twist": "$twist", "turns": 3},
                "material": "css:teal",
            },
        ),
        "parts": one_set(
            {"look": {"values": ["own", "green", "shapes.py:rust"]}},
            LAMP | {"parts": {"Cube.001": {"build": "shapes.py:rust", "numbers": {"wear": 0.4}}}},
            FIELD,
        ),
        "mixed": one_set({"x": {"values": [0]}}, {"build": "shapes.py:smooth", "material": "own"}),
        "lit": one_set(
            {"height": {"values": [0.25]}},
            PLATE,
            lights=[{"location": [0.3, 0.2, 3], "radius": 0.005, "power": 500}],
        )
        | {"render": {"samples": 64, "bounces": 0, "denoise": False}},
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "shapes.py").write_text(SHAPES)
    (folder / "curves.py").write_text(CURVES)
    bodies = [f"\n\ndef {name}():\n    {body}\n" for name, (body, _) in FAULTS.items()]
    (folder / "faults.py").write_text(HELPERS + "".join(bodies))
    return folder


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("own") / "frames"
    plan = make_plan(load_recipe(RECIPE, assets={"code": folder}))
    outcome = render(plan, out, workers=1)
    assert (outcome.written, outcome.failed) == (8, {})
    return plan, out


def frames(run, name):
    reader = FrameFolder(run[1], name)
    return [reader.frame(row) for row in range(len(reader))]


def test_a_number_of_the_recipe_changes_the_shape(run):
    plain, _, twisted = frames(run, "knots")
    for frame, twist in ((plain, 0), (twisted, 1)):
        (knot,) = frame.metadata.objects
        assert (knot.type, knot.numbers) == ("shapes.py:trefoil", {"turns": 3, "twist": twist})
        assert (knot.parts, knot.material) == ((), "rgb")
        assert ObjectRecord.model_validate_json(knot.model_dump_json()) == knot
        height = np.reshape(knot.corners, (8, 3))[:, 2].max()
        assert height == pytest.approx(0.6 + 0.2 * (1 + twist) + 0.12, abs=0.02)
        albedo = frame.layers["albedo"][frame.layers["object"] == 1].astype(float)
        assert np.median(albedo, axis=0) == pytest.approx((0.0002, 0.2159, 0.2159), rel=1e-3)
    assert (plain.layers["depth"] != twisted.layers["depth"]).any()


def test_parts_are_the_objects_of_a_collection_or_the_materials_of_an_object(run):
    own, green, rust = frames(run, "parts")
    for frame in (own, green, rust):
        lamp, field = frame.metadata.objects
        assert [(part.name, part.index) for part in lamp.parts] == [("Cube", 1), ("Cube.001", 2)]
        assert [(part.name, part.index) for part in field.parts] == [("ground", 1), ("leaf", 2)]
        for index, one in enumerate((lamp, field), 1):
            mask = frame.layers["object"] == index
            assert one.area == mask.sum() > 50
            for part in one.parts:
                assert part.area == (mask & (frame.layers["part"] == part.index)).sum() > 5
        np.testing.assert_array_equal(frame.layers["part"], own.layers["part"])
        np.testing.assert_array_equal(frame.layers["normal"], own.layers["normal"])
        assert lamp.parts[1].material == "shapes.py:rust"
    assert [part.material for part in own.metadata.objects[1].parts] == ["own", "own"]
    assert [part.material for part in rust.metadata.objects[0].parts] == ["shapes.py:rust"] * 2


def test_own_materials_reach_the_albedo(run):
    own, _, rust = frames(run, "parts")
    lamp, field = own.metadata.objects
    assert lamp.parts[0].base_color is None  # its object has two colours
    for part, color in zip(field.parts, ((0.5, 0.3, 0.2), (0.1, 0.5, 0.1)), strict=True):
        assert part.base_color == pytest.approx(color)
        seen = inside((own.layers["object"] == 2) & (own.layers["part"] == part.index), 1)
        np.testing.assert_allclose(own.layers["albedo"][seen], np.tile(color, (seen.sum(), 1)), rtol=1e-3)
        assert seen.any()
    noisy = rust.layers["albedo"][rust.layers["object"] == 2].astype(float)
    ends = np.array(((0.4, 0.1, 0), (0.1, 0.3, 0.5)))
    assert np.ptp(noisy, axis=0).min() > 0.1
    share = (noisy[:, 2] - ends[0, 2]) / np.ptp(ends[:, 2])
    solid = inside(rust.layers["object"] == 2)[rust.layers["object"] == 2]
    np.testing.assert_allclose(
        noisy[solid, 0], (ends[0, 0] + share * (ends[1, 0] - ends[0, 0]))[solid], atol=0.01
    )
    (mixed,) = frames(run, "mixed")
    assert mixed.metadata.objects[0].base_color is None
    seen = mixed.layers["albedo"][inside(mixed.layers["object"] == 1)]
    np.testing.assert_allclose(seen, np.tile((0.5, 0.2, 0.5), (len(seen), 1)), rtol=2e-3)


def test_shading_and_depth_of_a_plate_are_those_of_the_closed_form(run):
    (frame,) = frames(run, "lit")
    seen = inside(frame.layers["object"] == 1)
    place = points(frame)[seen]
    np.testing.assert_allclose(place[:, 2], 0.25, atol=1e-4)
    light = frame.metadata.lights[0]
    offset = np.array(light.location) - place
    by_hand = light.power / (4 * np.pi) * offset[:, 2] / (offset**2).sum(axis=1) ** 1.5 / np.pi
    for channel in range(3):
        shading = frame.layers["shading"][seen][:, channel].astype(float)
        np.testing.assert_allclose(shading, by_hand, rtol=0.005)
    assert len(place) > 100
    half, turn = 0.8, np.radians(20)
    corners = np.reshape(frame.metadata.objects[0].corners, (8, 3))
    reach = half * (np.cos(turn) + np.sin(turn))
    np.testing.assert_allclose(corners.min(0), (0.1 - reach, -0.2 - reach, 0.25), atol=1e-5)
    np.testing.assert_allclose(corners.max(0), (0.1 + reach, -0.2 + reach, 0.25), atol=1e-5)


def test_samples_by_themselves_and_from_the_copied_code_have_the_same_bytes(run, files_of, tmp_path):
    _, out = run
    assert verify(out).whole
    again = load_plan(out / "plan.parquet", {"code": out / "code"})
    some = condition(again, twist=1).samples[:1], condition(again, look="shapes.py:rust").samples[:1]
    for i, samples in enumerate(some):
        part = replace(again, samples=samples)
        assert render(part, tmp_path / str(i), workers=1).failed == {}
        files = files_of(tmp_path / str(i))
        assert len(files) == 4
        assert files.items() <= files_of(out).items()
    backwards = replace(again, samples=again.samples[::-1])
    render(backwards, tmp_path / "out", workers=1, threads=2)
    assert files_of(tmp_path / "out") == files_of(out)
    assert not list(out.rglob("__pycache__"))


@pytest.fixture(scope="module")
def faults(folder, tmp_path_factory):
    """Render one sample of each fault, a good one between; return the reasons by fault, and the good ones."""
    recipe = {
        **RECIPE,
        "sets": {
            "s": one_set(
                {"fault": {"values": [f"faults.py:{name}" for name in FAULTS]}, "twist": {"values": [0]}},
                {"build": "$fault", "material": "own"},
            ),
            "good": RECIPE["sets"]["knots"],
        },
    }
    out = tmp_path_factory.mktemp("faults") / "frames"
    plan = make_plan(load_recipe(recipe, assets={"code": folder}))
    outcome = render(plan, out, workers=1)
    ids = {sample.factors.get("fault"): sample.id for sample in plan.samples}
    logs = {name: (out / "failed" / f"{ids[f'faults.py:{name}']}.log").read_text() for name in FAULTS}
    return outcome, {name: outcome.failed.get(ids[f"faults.py:{name}"], "") for name in FAULTS}, logs


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line(faults, folder, name):
    _, reasons, _ = faults
    text = (folder / "faults.py").read_text().split("\n")
    line = text.index(f"def {name}():") + 2
    assert FAULTS[name][1].replace("LINE", str(line)) in reasons[name]
    assert f"faults.py:{name}" in reasons[name] or "faults.py: " in reasons[name]
    assert "\n" not in reasons[name]


def test_a_fault_is_that_of_its_sample_alone(faults):
    outcome, _, logs = faults
    assert (outcome.written, len(outcome.failed)) == (3, len(FAULTS))
    assert re.search(r'File ".*faults.py", line \d+, in raises', logs["raises"])  # the traceback


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"build": "shapes.py:trefol"},
            r"shapes.py has no function `trefol`; did you mean `trefoil`\?; it has: ",
        ),
        (
            {"build": "shapes.py:trefoil"},
            r"`shapes.py:trefoil` failed: TypeError: trefoil\(\) missing 1 required",
        ),
        ({"build": "shapes.py:lamp", "parts": {"head": "red"}}, "`head` is no part of .*: Cube, Cube.001"),
        (
            {"build": "shapes.py:plate", "numbers": {"height": 0}, "parts": {"a": "red"}},
            "none, it has no parts",
        ),
        ({"build": "shapes.py:rust"}, "expected an object or a collection, got Material; return one"),
        ({"type": "cube", "material": "shapes.py:lamp"}, "expected a material with nodes, got Collection"),
    ],
)
def test_validation_says_what_is_wrong(one_blender, folder, fields, message):
    recipe = {**RECIPE, "sets": {"s": one_set({"x": {"values": [0]}}, {"material": "red", **fields})}}
    with refused(message):
        open_assets(make_plan(load_recipe(recipe, assets={"code": folder})))


def test_the_page_of_assets_shows_code_that_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[3] / "docs" / "assets.md").read_text(encoding="utf-8")
    code, recipe = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "knots.py").write_text(code)
    exec(recipe, {})
    assert capsys.readouterr().out == "3\n"


ORDER = """
import bpy
import numpy as np
from candlelight.generators.blender.mesh_order import ordered_mesh


def described(mesh):
    # Faces, edges and points with their attributes, whatever their order, and the normals of the corners.
    points = [tuple(one.co) for one in mesh.vertices]
    uv, shade, normals = mesh.uv_layers["UVMap"].uv, mesh.attributes["shade"].data, mesh.corner_normals
    crease, number = mesh.attributes["crease_edge"].data, mesh.attributes["number"].data
    faces = []
    for face in mesh.polygons:
        ring = [points[mesh.loops[c].vertex_index] for c in face.loop_indices]
        start = ring.index(min(ring))
        found = [
            (points[mesh.loops[c].vertex_index], tuple(uv[c].vector), tuple(normals[c].vector))
            for c in face.loop_indices
        ]
        found = found[start:] + found[:start]
        plain = [one[:2] for one in found], face.material_index, number[face.index].value
        faces.append((plain, [one[2] for one in found]))
    edges = [(sorted(points[v] for v in edge.vertices), crease[edge.index].value) for edge in mesh.edges]
    faces.sort()
    shades = sorted(zip(points, (tuple(one.color) for one in shade)))
    return ([plain for plain, _ in faces], sorted(edges), shades), np.concatenate([n for _, n in faces])


bpy.ops.wm.read_factory_settings(use_empty=True)
bpy.ops.mesh.primitive_cylinder_add(vertices=7)
mesh = bpy.context.object.data
rng = np.random.Generator(np.random.PCG64(0))
for name, kind, domain, field, width in (
    ("shade", "FLOAT_COLOR", "POINT", "color", 4),
    ("crease_edge", "FLOAT", "EDGE", "value", 1),
    ("number", "FLOAT", "FACE", "value", 1),
):
    one = mesh.attributes.new(name, kind, domain)
    one.data.foreach_set(field, rng.uniform(size=width * len(one.data)).astype(np.float32))
mesh.polygons.foreach_set("material_index", np.arange(len(mesh.polygons), dtype=np.int32) % 2)
for _ in range(2):
    mesh.materials.append(None)
mesh.normals_split_custom_set(rng.normal(size=(len(mesh.loops), 3)).tolist())
found = ordered_mesh(mesh)
assert not found.validate()
(whole, normals), (expected, of_mesh) = described(found), described(mesh)
assert whole == expected
assert np.abs(normals - of_mesh).max() < 2e-3  # Blender keeps angles in 16 bits
again = ordered_mesh(found)
assert [tuple(v.co) for v in again.vertices] == [tuple(v.co) for v in found.vertices]
"""


def test_ordering_a_mesh_keeps_its_faces_and_attributes(run_script):
    run_script(ORDER)
