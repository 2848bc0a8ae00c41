"""Build every shipped asset and `manifest.json`: ``python blender_assets/build.py [OUT]``.

Needs `bpy`. Assets are data that change seldom, so the results are committed; run this again after editing
it, and commit what it writes. One variation per file, and the file name is the label. Environment maps are
copied from the CC0 maps that come with Blender; everything else is modelled here.
"""

import hashlib
import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy

OURS = "built by blender_assets/build.py"
# Base colours of CANDLE's materials, linear Rec.709 (candle-simulator, read from its .blend files).
COLORS = {
    "red": (0.8000, 0.0866, 0.0804),
    "blue": (0.0759, 0.0768, 0.8000),
    "yellow": (0.8000, 0.6083, 0.0561),
    "purple": (0.7257, 0.0879, 0.8000),
    "orange": (0.8000, 0.2237, 0.0194),
    "green": (0.0981, 0.8000, 0.0792),
}
# CANDLE's lights: one point of 5000 W and 0.25 m radius, white.
LIGHTS = {"left": (5.0, -5.0, 7.0), "middle": (0.0, 0.0, 7.0), "right": (-5.0, 5.0, 7.0)}
# label: (Blender's map, Poly Haven's name, turn in degrees, radiance multiplier). The turn brings a part of
# the panorama that looks like a photograph behind the objects and lights them about evenly from left and
# right; the multiplier keeps the map from outshining CANDLE's lamps, so that an object is lit from the side
# that the label says.
SCENES = {
    "indoor": ("interior", "hotel_room", 225.0, 1.0),
    "outdoor": ("courtyard", "courtyard", 90.0, 1.2),
    "city square": ("city", "portland_landing_pad", 45.0, 0.9),
    "grassland": ("sunrise", "spruit_sunrise", 225.0, 0.6),
    "moonlit grass": ("night", "moonless_golf", 180.0, 1.2),
    "dusk city": ("sunset", "venice_sunset", 225.0, 1.3),
    "garden": ("forest", "ninomaru_teien", 225.0, 0.7),
    "studio": ("studio", "studio_small_01", 0.0, 1.0),
}


def main(out: Path) -> None:
    """Write all assets below ``out`` and the manifest that lists them."""
    entries = [
        *[build_object(out, name, make) for name, make in OBJECTS.items()],
        *[build_color(out, name, rgb) for name, rgb in COLORS.items()],
        *[build_texture(out, name, make) for name, make in TEXTURES.items()],
        *[build_light(out, name, location) for name, location in LIGHTS.items()],
        *[build_scene(out, name, *source) for name, source in SCENES.items()],
    ]
    text = json.dumps({"schema": 1, "assets": entries}, indent=1) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")


# ------------------------------------------------------------------------------------------------ objects


def _smooth(degrees: float) -> None:
    mesh = bpy.context.object.data
    mesh.shade_smooth()
    mesh.set_sharp_from_angle(angle=math.radians(degrees))


def _cube() -> None:
    bpy.ops.mesh.primitive_cube_add(size=1)


def _sphere() -> None:
    bpy.ops.mesh.primitive_uv_sphere_add(segments=64, ring_count=32, radius=0.5)
    _smooth(180)


def _cylinder() -> None:
    bpy.ops.mesh.primitive_cylinder_add(vertices=96, radius=0.5, depth=1)
    _smooth(30)


def _cone() -> None:
    bpy.ops.mesh.primitive_cone_add(vertices=96, radius1=0.5, depth=1)
    _smooth(30)


def _torus() -> None:
    # CANDLE's torus is wider and flatter than the unit box: 1.25 x 1.25 x 0.25 m.
    bpy.ops.mesh.primitive_torus_add(
        major_segments=96, minor_segments=32, major_radius=0.5, minor_radius=0.125
    )
    _smooth(180)


def _suzanne() -> None:
    bpy.ops.mesh.primitive_monkey_add(size=1)
    smoother = bpy.context.object.modifiers.new("smooth", "SUBSURF")
    smoother.levels = 2
    bpy.ops.object.modifier_apply(modifier=smoother.name)
    _smooth(180)


OBJECTS: dict[str, Callable[[], None]] = {
    "cube": _cube,
    "sphere": _sphere,
    "cylinder": _cylinder,
    "cone": _cone,
    "torus": _torus,
    "suzanne": _suzanne,
}


def build_object(out: Path, name: str, make: Callable[[], None]) -> dict[str, Any]:
    """Model one object with its origin in the middle of its base, no material, one unit wide at most."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    make()
    thing = bpy.context.object
    thing.name = thing.data.name = name
    vertices = [tuple(vertex.co) for vertex in thing.data.vertices]
    low = [min(axis) for axis in zip(*vertices, strict=True)]
    high = [max(axis) for axis in zip(*vertices, strict=True)]
    widest = max(b - a for a, b in zip(low, high, strict=True))
    scale = 1.0 if name == "torus" else 1.0 / widest
    for vertex in thing.data.vertices:
        x, y, z = vertex.co
        vertex.co = (
            (x - (low[0] + high[0]) / 2) * scale,
            (y - (low[1] + high[1]) / 2) * scale,
            (z - low[2]) * scale,
        )
    size = [round((b - a) * scale, 6) for a, b in zip(low, high, strict=True)]
    return _save(out, "objects", name, {thing}, {"dimensions": size}, OURS)


# -------------------------------------------------------------------------------------- materials, textures


def _principled(name: str) -> tuple[Any, Any]:
    material = bpy.data.materials.new(name)
    nodes = material.node_tree.nodes
    nodes.clear()
    shader = nodes.new("ShaderNodeBsdfPrincipled")
    output = nodes.new("ShaderNodeOutputMaterial")
    material.node_tree.links.new(shader.outputs["BSDF"], output.inputs["Surface"])
    shader.inputs["Roughness"].default_value = 0.5
    shader.inputs["Specular IOR Level"].default_value = 0.5
    shader.inputs["IOR"].default_value = 1.45
    return material, shader


def build_color(out: Path, name: str, rgb: tuple[float, float, float]) -> dict[str, Any]:
    """Write one material of a single colour, the file name being the colour."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    material, shader = _principled(name)
    shader.inputs["Base Color"].default_value = (*rgb, 1.0)
    return _save(out, "materials", name, {material}, {"base_color": list(rgb)}, OURS)


def _checker(nodes: Any) -> tuple[Any, str, tuple[str, str]]:
    node = nodes.new("ShaderNodeTexChecker")
    node.inputs["Scale"].default_value = 5.0
    return node, "Color", ("Color1", "Color2")


def _bricks(nodes: Any) -> tuple[Any, str, tuple[str, str]]:
    node = nodes.new("ShaderNodeTexBrick")
    node.inputs["Scale"].default_value = 4.0
    node.inputs["Mortar"].default_value = (0.6, 0.6, 0.6, 1.0)
    return node, "Color", ("Color1", "Color2")


def _pattern(kind: str, output: str, **inputs: float) -> Callable[[Any], tuple[Any, str, tuple[str, str]]]:
    """Make a builder for a scalar pattern that a mix node turns into two colours."""

    def build(nodes: Any) -> tuple[Any, str, tuple[str, str]]:
        node = nodes.new(kind)
        for name, value in inputs.items():
            node.inputs[name.replace("_", " ")].default_value = value
        ramp = nodes.new("ShaderNodeMapRange")
        ramp.interpolation_type = "SMOOTHSTEP"
        ramp.inputs["From Min"].default_value = 0.42
        ramp.inputs["From Max"].default_value = 0.58
        mix = nodes.new("ShaderNodeMix")
        mix.data_type = "RGBA"
        links = node.id_data.links
        links.new(node.outputs[output], ramp.inputs["Value"])
        links.new(ramp.outputs["Result"], mix.inputs[0])
        mix["pattern"] = node.name
        return mix, "Result", ("A", "B")

    return build


TEXTURES: dict[str, Callable[[Any], tuple[Any, str, tuple[str, str]]]] = {
    "checker": _checker,
    "bricks": _bricks,
    "stripes": _pattern("ShaderNodeTexWave", "Fac", Scale=1.6),
    "marble": _pattern("ShaderNodeTexNoise", "Fac", Scale=4.0, Detail=6.0, Distortion=1.2),
    "dots": _pattern("ShaderNodeTexVoronoi", "Distance", Scale=5.0),
}


def build_texture(
    out: Path, name: str, make: Callable[[Any], tuple[Any, str, tuple[str, str]]]
) -> dict[str, Any]:
    """Write one two-coloured procedural material.

    Three nodes are the handles that the renderer turns: RGB nodes `color a` and `color b`, and the mapping
    node `mapping`, whose location and scale place the pattern in object coordinates.
    """
    bpy.ops.wm.read_factory_settings(use_empty=True)
    material, shader = _principled(name)
    tree = material.node_tree
    pattern, output, slots = make(tree.nodes)
    textured = tree.nodes[pattern["pattern"]] if "pattern" in pattern else pattern
    where = tree.nodes.new("ShaderNodeTexCoord")
    mapping = tree.nodes.new("ShaderNodeMapping")
    mapping.name = "mapping"
    tree.links.new(where.outputs["Object"], mapping.inputs["Vector"])
    tree.links.new(mapping.outputs["Vector"], textured.inputs["Vector"])
    for label, slot in zip(("color a", "color b"), slots, strict=True):
        color = tree.nodes.new("ShaderNodeRGB")
        color.name = label
        color.outputs[0].default_value = (0.8, 0.8, 0.8, 1.0) if label == "color a" else (0.1, 0.1, 0.1, 1.0)
        target = next(s for s in pattern.inputs if s.name == slot and s.type == "RGBA")
        tree.links.new(color.outputs[0], target)
    result = next(s for s in pattern.outputs if s.name == output and s.type == "RGBA")
    tree.links.new(result, shader.inputs["Base Color"])
    return _save(out, "textures", name, {material}, {"handles": ["color a", "color b", "mapping"]}, OURS)


# -------------------------------------------------------------------------------------------- lights, scenes


def build_light(out: Path, name: str, location: tuple[float, float, float]) -> dict[str, Any]:
    """Write one of CANDLE's point lights as an object at its place."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    lamp = bpy.data.lights.new(name, "POINT")
    lamp.energy, lamp.shadow_soft_size, lamp.color = 5000.0, 0.25, (1.0, 1.0, 1.0)
    thing = bpy.data.objects.new(name, lamp)
    thing.location = location
    facts = {"location": list(location), "power": 5000.0, "radius": 0.25, "color": [1.0, 1.0, 1.0]}
    return _save(out, "lights", name, {thing}, facts, OURS)


def build_scene(
    out: Path, name: str, source: str, haven: str, rotation: float, strength: float
) -> dict[str, Any]:
    """Copy one environment map under its label, and record how it is turned and scaled."""
    maps = Path(bpy.utils.resource_path("LOCAL")) / "datafiles" / "studiolights" / "world"
    target = out / "scenes" / f"{name}.exr"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(maps / f"{source}.exr", target)
    origin = f"Poly Haven `{haven}` by Greg Zaal, the 1k copy that comes with Blender as {source}.exr"
    return _entry("scenes", name, target, {"rotation": rotation, "strength": strength}, origin)


def _save(
    out: Path, kind: str, name: str, blocks: set[Any], facts: dict[str, Any], source: str
) -> dict[str, Any]:
    target = out / kind / f"{name}.blend"
    target.parent.mkdir(parents=True, exist_ok=True)
    bpy.data.libraries.write(str(target), blocks, fake_user=True, compress=True)
    return _entry(kind, name, target, facts, source)


def _entry(kind: str, name: str, target: Path, facts: dict[str, Any], source: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "file": f"{kind}/{target.name}",
        "licence": "CC0-1.0",
        "source": source,
        "blender": bpy.app.version_string,
        "sha256": hashlib.sha256(target.read_bytes()).hexdigest(),
        "facts": facts,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
