"""The procedural textures: patterns of two colours, as node trees.

A pattern is a function of the node tree and of the coordinates. It returns the output socket of its colour
and the input sockets of the colours `a` and `b`. Solid patterns fill space; flat patterns are projected from
the side of a box that a point faces, so that lines stay lines on every side. Lengths are metres on an object
of size 1.
"""

import math
from collections.abc import Callable
from typing import Any

import bpy

# Output socket of the colour, and input sockets of the two colours.
Pattern = tuple[Any, Any, Any]


def paint_texture(material: Any, shader: Any, name: str) -> None:
    """Put the pattern ``name`` of `TEXTURES` into a Principled material.

    Three nodes are the handles that the renderer turns: RGB nodes `color a` and `color b`, and the mapping
    node `mapping`, whose location and scale place the pattern in object coordinates.
    """
    tree = material.node_tree
    where = tree.nodes.new("ShaderNodeTexCoord")
    mapping = tree.nodes.new("ShaderNodeMapping")
    mapping.name = "mapping"
    tree.links.new(where.outputs["Object"], mapping.inputs["Vector"])
    result, *colors = TEXTURES[name](tree, mapping.outputs["Vector"])
    for label, gray, socket in zip(("color a", "color b"), (0.8, 0.1), colors, strict=True):
        color = tree.nodes.new("ShaderNodeRGB")
        color.name = label
        color.outputs[0].default_value = (gray, gray, gray, 1.0)
        tree.links.new(color.outputs[0], socket)
    tree.links.new(result, shader.inputs["Base Color"])


# ------------------------------------------------------------------------------------------------ nodes


def _node(
    tree: Any, kind: str, vector: Any = None, modes: dict[str, str] | None = None, **inputs: Any
) -> Any:
    """Add a node with coordinates, settings, and inputs by name, each a socket or a number."""
    node = tree.nodes.new(f"ShaderNode{kind}")
    for name, value in (modes or {}).items():
        setattr(node, name, value)
    if vector is not None:
        tree.links.new(vector, node.inputs["Vector"])
    for name, value in inputs.items():
        _feed(tree, value, node.inputs[name.replace("_", " ")])
    return node


def _feed(tree: Any, value: Any, socket: Any) -> None:
    if isinstance(value, bpy.types.NodeSocket):
        tree.links.new(value, socket)
    else:
        socket.default_value = value


def _math(tree: Any, operation: str, *values: Any) -> Any:
    """Return the socket of a scalar operation on sockets and numbers."""
    node = tree.nodes.new("ShaderNodeMath")
    node.operation = operation
    for value, socket in zip(values, node.inputs, strict=False):
        _feed(tree, value, socket)
    return node.outputs[0]


def _vector(tree: Any, operation: str, *values: Any) -> Any:
    """Return the socket of a vector operation on sockets and triples."""
    node = tree.nodes.new("ShaderNodeVectorMath")
    node.operation = operation
    for value, socket in zip(values, node.inputs, strict=False):
        _feed(tree, value, socket)
    return node.outputs["Value" if operation in ("DOT_PRODUCT", "LENGTH") else "Vector"]


def _choose(tree: Any, share: Any, first: Any, second: Any) -> Any:
    """Return ``first`` where ``share`` is 0 and ``second`` where it is 1, for vectors."""
    node = _node(tree, "Mix", modes={"data_type": "VECTOR"})
    sockets = [s for s in node.inputs if s.type == "VECTOR" and s.name in ("A", "B")]
    for value, socket in zip((share, first, second), (node.inputs[0], *sockets), strict=True):
        _feed(tree, value, socket)
    return next(s for s in node.outputs if s.type == "VECTOR")


def _blend(
    tree: Any, value: Any, low: float, high: float, curve: str = "SMOOTHSTEP", steps: int = 0
) -> Pattern:
    """Blend from colour a to colour b while ``value`` goes from low to high."""
    ramp = _node(tree, "MapRange", modes={"interpolation_type": curve}, Value=value)
    ramp.inputs["From Min"].default_value, ramp.inputs["From Max"].default_value = low, high
    if curve == "STEPPED":
        ramp.inputs["Steps"].default_value = steps
    mix = _node(tree, "Mix", modes={"data_type": "RGBA"})
    tree.links.new(ramp.outputs["Result"], mix.inputs[0])
    first, second = (s for s in mix.inputs if s.type == "RGBA")
    return next(s for s in mix.outputs if s.type == "RGBA"), first, second


def _faced(tree: Any, where: Any) -> Any:
    """Return coordinates in the plane of the box side that a point faces, as x and y of a vector."""
    normal = _node(tree, "TexCoord").outputs["Normal"]
    n = _node(tree, "SeparateXYZ", _vector(tree, "ABSOLUTE", normal)).outputs
    p = _node(tree, "SeparateXYZ", where).outputs
    top, front, side = (
        _node(tree, "CombineXYZ", X=p[u], Y=p[v]).outputs[0] for u, v in (("X", "Y"), ("X", "Z"), ("Y", "Z"))
    )
    sideways = _math(tree, "GREATER_THAN", n["X"], n["Y"])
    upwards = _math(tree, "GREATER_THAN", n["Z"], _math(tree, "MAXIMUM", n["X"], n["Y"]))
    return _choose(tree, upwards, _choose(tree, sideways, front, side), top)


def _faced_uv(tree: Any, where: Any, scale: float) -> tuple[Any, Any]:
    plane = _vector(tree, "MULTIPLY", _faced(tree, where), (scale, scale, 0.0))
    u, v, _ = _node(tree, "SeparateXYZ", plane).outputs
    return u, v


# ------------------------------------------------------------------------------------------------ patterns


def _checker(tree: Any, where: Any) -> Pattern:
    node = _node(tree, "TexChecker", where, Scale=5.0)
    return node.outputs["Color"], node.inputs["Color1"], node.inputs["Color2"]


def _bricks(tree: Any, where: Any) -> Pattern:
    node = _node(tree, "TexBrick", _faced(tree, where), Scale=4.0, Mortar=(0.6, 0.6, 0.6, 1.0))
    return node.outputs["Color"], node.inputs["Color1"], node.inputs["Color2"]


def _solid(
    kind: str,
    output: str,
    low: float = 0.42,
    high: float = 0.58,
    modes: dict[str, str] | None = None,
    **inputs: Any,
) -> Callable[[Any, Any], Pattern]:
    """Make a pattern of one of Blender's scalar textures."""

    def build(tree: Any, where: Any) -> Pattern:
        node = _node(tree, kind, where, modes, **inputs)
        return _blend(tree, next(s for s in node.outputs if s.name == output), low, high)

    return build


def _wood(tree: Any, where: Any) -> Pattern:
    grain = _vector(tree, "MULTIPLY", where, (1.0, 1.0, 0.12))
    rings = _node(
        tree, "TexWave", grain, {"wave_type": "RINGS", "rings_direction": "Z", "wave_profile": "SAW"},
        Scale=2.2, Distortion=5.0, Detail=3.0, Detail_Scale=1.6,
    )  # fmt: skip
    return _blend(tree, rings.outputs["Factor"], 0.1, 0.95, "LINEAR")


def _waves(tree: Any, where: Any) -> Pattern:
    u, v = _faced_uv(tree, where, 5.0)
    bent = _math(
        tree, "ADD", v, _math(tree, "MULTIPLY", _math(tree, "SINE", _math(tree, "MULTIPLY", u, 3.0)), 0.35)
    )
    return _blend(tree, _math(tree, "PINGPONG", bent, 0.5), 0.2, 0.3)


def _gradient(tree: Any, where: Any) -> Pattern:
    along = _vector(tree, "DOT_PRODUCT", where, (0.45, 0.45, 0.75))
    return _blend(tree, _math(tree, "PINGPONG", along, 0.5), 0.0, 0.5, "LINEAR")


def _mosaic(tree: Any, where: Any) -> Pattern:
    cells = _node(tree, "TexVoronoi", where, Scale=7.0)
    chance = _node(tree, "SeparateXYZ", cells.outputs["Color"]).outputs["X"]
    return _blend(tree, chance, 0.499, 0.501)


def _camouflage(tree: Any, where: Any) -> Pattern:
    cloud = _node(tree, "TexNoise", where, Scale=2.6, Detail=1.5, Distortion=0.6)
    return _blend(tree, cloud.outputs["Factor"], 0.32, 0.62, "STEPPED", steps=2)


def _grid(tree: Any, where: Any) -> Pattern:
    lines = [_math(tree, "PINGPONG", axis, 0.5) for axis in _faced_uv(tree, where, 5.5)]
    return _blend(tree, _math(tree, "MINIMUM", *lines), 0.07, 0.1)


def _zigzag(tree: Any, where: Any) -> Pattern:
    u, v = _faced_uv(tree, where, 4.0)
    bent = _math(tree, "ADD", v, _math(tree, "PINGPONG", u, 0.5))
    return _blend(tree, _math(tree, "PINGPONG", bent, 0.5), 0.22, 0.28)


def _weave(tree: Any, where: Any) -> Pattern:
    u, v = _faced_uv(tree, where, 4.0)
    odd = _math(
        tree, "FLOORED_MODULO", _math(tree, "ADD", _math(tree, "FLOOR", u), _math(tree, "FLOOR", v)), 2.0
    )
    across, along = (_math(tree, "PINGPONG", _math(tree, "MULTIPLY", axis, 3.0), 0.5) for axis in (u, v))
    crossed = _math(tree, "ADD", _math(tree, "MULTIPLY", odd, along),
                    _math(tree, "MULTIPLY", _math(tree, "SUBTRACT", 1.0, odd), across))  # fmt: skip
    return _blend(tree, crossed, 0.2, 0.28)


def _hexagons(tree: Any, where: Any) -> Pattern:
    """Make hexagons from two rectangular lattices, whose nearest point is the middle of a hexagon."""
    sides, half = (1.0, math.sqrt(3.0), 1.0), (0.5, math.sqrt(3.0) / 2, 0.0)
    point = _vector(tree, "MULTIPLY", _faced(tree, where), (4.5, 4.5, 0.0))
    offsets = [_from_lattice(tree, p, sides, half) for p in (point, _vector(tree, "SUBTRACT", point, half))]
    lengths = [_vector(tree, "LENGTH", offset) for offset in offsets]
    nearer = _vector(
        tree, "ABSOLUTE", _choose(tree, _math(tree, "LESS_THAN", lengths[1], lengths[0]), *offsets)
    )
    across = _node(tree, "SeparateXYZ", nearer).outputs["X"]
    edge = _math(
        tree, "MAXIMUM", across, _vector(tree, "DOT_PRODUCT", nearer, (0.5, math.sqrt(3.0) / 2, 0.0))
    )
    return _blend(tree, edge, 0.39, 0.42)


def _from_lattice(tree: Any, point: Any, sides: tuple[float, ...], half: tuple[float, ...]) -> Any:
    cell = _vector(tree, "FRACTION", _vector(tree, "DIVIDE", point, sides))
    return _vector(tree, "SUBTRACT", _vector(tree, "MULTIPLY", cell, sides), half)


TEXTURES: dict[str, Callable[[Any, Any], Pattern]] = {
    "checker": _checker,
    "bricks": _bricks,
    "stripes": _solid("TexWave", "Factor", Scale=1.6),
    "marble": _solid("TexNoise", "Factor", Scale=4.0, Detail=6.0, Distortion=1.2),
    "dots": _solid("TexVoronoi", "Distance", Scale=5.0),
    "camouflage": _camouflage,
    "cracks": _solid("TexVoronoi", "Distance", 0.03, 0.07, {"feature": "DISTANCE_TO_EDGE"}, Scale=4.0),
    "gabor": _solid("TexGabor", "Value", 0.4, 0.6, {"gabor_type": "3D"}, Scale=3.0, Frequency=2.0),
    "gradient": _gradient,
    "grid": _grid,
    "hexagons": _hexagons,
    "mosaic": _mosaic,
    "speckle": _solid("TexNoise", "Factor", 0.56, 0.62, Scale=22.0, Detail=1.0),
    "swirls": _solid("TexMagic", "Factor", 0.4, 0.5, Scale=3.0, Distortion=2.0),
    "waves": _waves,
    "weave": _weave,
    "wood": _wood,
    "zigzag": _zigzag,
}
