"""Finishes: procedural materials of noise, tiles and stains, and functions to build their nodes."""

from collections.abc import Sequence
from typing import Any

import bpy

Point = Sequence[float]
Color = tuple[float, float, float]


def finish(
    name: str,
    color: Color,
    *,
    other: Color | None = None,
    grain: float = 0.1,
    stretch: Point = (1, 1, 1),
    tile: tuple[float, float] | None = None,
    gap: float = 0.01,
    gap_color: Color = (0.2, 0.2, 0.2),
    bond: float = 0.0,
    variation: float = 0.15,
    wall: bool = False,
    stain: float = 0.2,
    stain_size: float = 2.0,
    roughness: float = 0.7,
    metallic: float = 0.0,
    emission: float = 0.0,
) -> Any:
    """Make a procedural material; lengths are metres, colours linear Rec.709.

    Args:
        name: of the material.
        color: base colour.
        other: a second colour, in patches of size ``grain``, stretched by the factors ``stretch``.
        grain: size of the patches.
        stretch: factors of the size along x, y and z.
        tile: width and height of bricks, tiles or planks; they lie in x and y, or on a wall.
        gap: width of the joint between tiles.
        gap_color: colour of the joint.
        bond: offset of every second row, in widths of a tile.
        variation: largest difference in brightness between tiles, 0 to 1.
        wall: whether tiles stand upright, on vertical faces of any direction.
        stain: largest darkening by dirt, 0 to 1.
        stain_size: size of the stains.
        roughness: of the surface.
        metallic: of the surface.
        emission: emitted radiance in ``color``; the albedo is then 0.

    Returns:
        The material.
    """
    material = bpy.data.materials.new(name)
    tree = material.node_tree
    shader = next(node for node in tree.nodes if node.type == "BSDF_PRINCIPLED")
    shader.inputs["Roughness"].default_value = roughness
    shader.inputs["Metallic"].default_value = metallic
    if emission:
        shader.inputs["Base Color"].default_value = (0.0, 0.0, 0.0, 1.0)
        shader.inputs["Emission Color"].default_value = (*color, 1.0)
        shader.inputs["Emission Strength"].default_value = emission
        return material
    where = _on_walls(tree) if wall else add_node(tree, "ShaderNodeTexCoord").outputs["Object"]
    paint: Any = color
    if other is not None:
        paint = mix(tree, patches(tree, where, grain, stretch, 0.0, 1.0), color, other)
    if tile is not None:
        paint = _tiles(tree, where, paint, tile, gap, gap_color, bond, variation)
    if stain:
        dirt = patches(tree, where, stain_size, (1, 1, 1), 1.0 - stain, 1.0)
        paint = mix(tree, 1.0, paint, dirt, "MULTIPLY")
    feed(tree, paint, shader.inputs["Base Color"])
    return material


def add_node(tree: Any, kind: str, **inputs: Any) -> Any:
    """Add a node whose inputs are sockets or values; ``From_Min`` names the input "From Min"."""
    node = tree.nodes.new(kind)
    for name, value in inputs.items():
        feed(tree, value, node.inputs[name.replace("_", " ")])
    return node


def feed(tree: Any, value: Any, socket: Any) -> None:
    """Link ``value`` to a socket if the value is a socket, else set the socket to it."""
    if hasattr(value, "is_linked"):
        tree.links.new(value, socket)
    else:
        socket.default_value = (*value, 1.0) if socket.type == "RGBA" else value


def _on_walls(tree: Any) -> Any:
    """Make coordinates on upright faces: metres along the wall, and metres above the ground."""
    place = add_node(tree, "ShaderNodeNewGeometry")
    along = tree.nodes.new("ShaderNodeVectorMath")
    along.operation = "CROSS_PRODUCT"
    along.inputs[0].default_value = (0.0, 0.0, 1.0)
    tree.links.new(place.outputs["True Normal"], along.inputs[1])
    distance = tree.nodes.new("ShaderNodeVectorMath")
    distance.operation = "DOT_PRODUCT"
    tree.links.new(along.outputs[0], distance.inputs[0])
    tree.links.new(place.outputs["Position"], distance.inputs[1])
    height = add_node(tree, "ShaderNodeSeparateXYZ", Vector=place.outputs["Position"]).outputs["Z"]
    return add_node(tree, "ShaderNodeCombineXYZ", X=distance.outputs["Value"], Y=height).outputs[0]


def patches(tree: Any, where: Any, size: float, stretch: Point, low: float, high: float) -> Any:
    """Make soft patches of a given size, between two values."""
    scale = tuple(1.0 / (size * factor) for factor in stretch)
    mapping = add_node(tree, "ShaderNodeMapping", Vector=where, Scale=scale)
    noise = add_node(tree, "ShaderNodeTexNoise", Vector=mapping.outputs[0], Scale=1.0, Detail=3.0)
    spread = add_node(tree, "ShaderNodeMapRange", Value=noise.outputs["Fac"], From_Min=0.35, From_Max=0.65)
    feed(tree, low, spread.inputs["To Min"])
    feed(tree, high, spread.inputs["To Max"])
    return spread.outputs[0]


def mix(tree: Any, share: Any, a: Any, b: Any, how: str = "MIX") -> Any:
    """Mix two colours, sockets or values, by a share of the second."""
    node = tree.nodes.new("ShaderNodeMix")
    node.data_type, node.blend_type = "RGBA", how
    sockets = {socket.identifier: socket for socket in node.inputs}
    for value, name in ((share, "Factor_Float"), (a, "A_Color"), (b, "B_Color")):
        feed(tree, value, sockets[name])
    return next(socket for socket in node.outputs if socket.identifier == "Result_Color")


def _tiles(
    tree: Any,
    where: Any,
    paint: Any,
    tile: tuple[float, float],
    gap: float,
    gap_color: Color,
    bond: float,
    variation: float,
) -> Any:
    darker = mix(tree, 1.0, paint, (1.0 - variation,) * 3, "MULTIPLY")
    node = add_node(tree, "ShaderNodeTexBrick", Vector=where, Color1=paint, Color2=darker, Mortar=gap_color)
    node.offset, node.squash = bond, 1.0
    for name, value in (
        ("Scale", 1.0),
        ("Mortar Size", gap / 2),
        ("Mortar Smooth", 0.1),
        ("Brick Width", tile[0]),
        ("Row Height", tile[1]),
    ):
        node.inputs[name].default_value = value
    return node.outputs["Color"]
