"""Elements of outdoor scenes: sky and sun, haze, relief, ground, trees, hills.

All lengths are metres, all colours linear. All trees of a kind share one mesh, so that files stay small.
"""

import math
from collections.abc import Sequence
from typing import Any

import bpy
import numpy as np
from mathutils import Vector

from build_finishes import Color, Point, add_node, feed, finish, mix
from build_scenes import Scenery

Corner = tuple[float, float, float]

# ---------------------------------------------------------------------------------------------- light and air


def sky(
    scenery: Scenery, zenith: Color, horizon: Color, clouds: Color, cover: float, strength: float
) -> None:
    """Give a scene a clear sky that pales towards the horizon, with a layer of clouds.

    Args:
        scenery: the scene.
        zenith: colour overhead.
        horizon: colour where the sky meets the ground.
        clouds: colour of the clouds.
        cover: share of the sky that clouds cover, 0 to 1.
        strength: factor of the three colours.
    """
    background = scenery.sky(horizon, strength)
    tree = background.id_data
    way = add_node(tree, "ShaderNodeTexCoord").outputs["Generated"]
    height = add_node(tree, "ShaderNodeSeparateXYZ", Vector=way).outputs["Z"]
    clear = mix(tree, spread(tree, height, 0.0, 0.45), horizon, zenith)
    # Clouds lie in a level layer, so they become flat and dense towards the horizon.
    layer = tree.nodes.new("ShaderNodeVectorMath")
    layer.operation = "DIVIDE"
    tree.links.new(way, layer.inputs[0])
    tree.links.new(calculate(tree, "ADD", height, 0.12), layer.inputs[1])
    noise = add_node(tree, "ShaderNodeTexNoise", Vector=layer.outputs[0], Scale=0.9, Detail=5.0)
    thick = spread(tree, noise.outputs["Fac"], 0.72 - 0.4 * cover, 0.84 - 0.4 * cover)
    shown = calculate(tree, "MULTIPLY", thick, spread(tree, height, 0.0, 0.06))
    feed(tree, mix(tree, shown, clear, clouds), background.inputs["Color"])


def sun(scenery: Scenery, towards: Point, color: Color, strength: float, width: float = 2.0) -> None:
    """Add a sun in the direction ``towards``, of ``strength`` W/m2, ``width`` degrees wide."""
    light = bpy.data.lights.new("sun", "SUN")
    light.energy, light.color, light.angle = strength, color, math.radians(width)
    hung = bpy.data.objects.new("sun", light)
    hung.rotation_euler = Vector(towards).to_track_quat("Z", "Y").to_euler()
    scenery.collection.objects.link(hung)


def hazy(material: Any, color: Color, distance: float) -> Any:
    """Fade a finish into the radiance of the air: by 63 % at ``distance``."""
    tree = material.node_tree
    shader = shader_of(material)
    seen = add_node(tree, "ShaderNodeCameraData").outputs["View Distance"]
    left = calculate(tree, "POWER", math.exp(-1.0 / distance), seen)
    base = shader.inputs["Base Color"]
    own = base.links[0].from_socket if base.is_linked else tuple(base.default_value)[:3]
    feed(tree, mix(tree, left, (0.0, 0.0, 0.0), own), base)
    feed(tree, mix(tree, left, color, (0.0, 0.0, 0.0)), shader.inputs["Emission Color"])
    shader.inputs["Emission Strength"].default_value = 1.0
    # The camera sees the radiance of the air, but it lights nothing, so no path samples it.
    material.cycles.emission_sampling = "NONE"
    return material


def bumpy(material: Any, size: float, height: float, stretch: Point = (1, 1, 1)) -> Any:
    """Give a finish bumps of ``height`` and ``size``, stretched by the factors ``stretch``."""
    tree = material.node_tree
    where = add_node(tree, "ShaderNodeTexCoord").outputs["Object"]
    scale = tuple(1.0 / (size * factor) for factor in stretch)
    mapping = add_node(tree, "ShaderNodeMapping", Vector=where, Scale=scale)
    noise = add_node(tree, "ShaderNodeTexNoise", Vector=mapping.outputs[0], Scale=1.0, Detail=2.0)
    bump = add_node(tree, "ShaderNodeBump", Height=noise.outputs["Fac"], Distance=height)
    feed(tree, bump.outputs[0], shader_of(material).inputs["Normal"])
    return material


def shader_of(material: Any) -> Any:
    """Return the Principled node of a finish."""
    return next(node for node in material.node_tree.nodes if node.type == "BSDF_PRINCIPLED")


def spread(tree: Any, value: Any, low: float, high: float) -> Any:
    """Map ``low`` .. ``high`` to 0 .. 1 smoothly, clamped at both ends."""
    node = add_node(tree, "ShaderNodeMapRange", Value=value, From_Min=low, From_Max=high)
    node.interpolation_type = "SMOOTHSTEP"
    return node.outputs[0]


def calculate(tree: Any, operation: str, a: Any, b: Any) -> Any:
    """Add a math node of two numbers, each a socket or a constant."""
    node = tree.nodes.new("ShaderNodeMath")
    node.operation = operation
    feed(tree, a, node.inputs[0])
    feed(tree, b, node.inputs[1])
    return node.outputs[0]


# ----------------------------------------------------------------------------------- ground, plants and hills


def level(
    scenery: Scenery, paint: Any, low: tuple[float, float], high: tuple[float, float], height: float = 0.0
) -> None:
    """Add a horizontal rectangle between two corners, at a height."""
    (x0, y0), (x1, y1) = low, high
    scenery.quad(paint, (x0, y0, height), (x1, y0, height), (x1, y1, height), (x0, y1, height))


def disc(scenery: Scenery, paint: Any, at: tuple[float, float], radius: float, height: float) -> None:
    """Add a horizontal disc at a height."""
    around = np.linspace(0, 2 * math.pi, 36, endpoint=False)
    ring = [(at[0] + radius * math.cos(a), at[1] + radius * math.sin(a), height) for a in around]
    scenery.quad(paint, *ring)


def leaves(name: str, dark: Color, light: Color) -> Any:
    """Make the finish of foliage, in which each leaf has a colour between two colours."""
    material = finish(name, dark, stain=0.0, roughness=0.6)
    tree = material.node_tree
    own = add_node(tree, "ShaderNodeNewGeometry").outputs["Random Per Island"]
    feed(tree, mix(tree, own, dark, light), shader_of(material).inputs["Base Color"])
    return material


def broadleaf(
    foliage: Any, bark: Any, *, seed: int, height: float, crown: Point, leaf: float, count: int
) -> Any:
    """Model a tree: a forked trunk, and leaves in bunches that fill an ellipsoid.

    Args:
        foliage: finish of the leaves.
        bark: finish of the trunk.
        seed: of its shape.
        height: of the crown's middle.
        crown: the crown's half axes.
        leaf: edge of a leaf; drawn large, for it stands for a spray of them.
        count: number of leaves.

    Returns:
        The mesh, to be shown with `plant`.
    """
    rng = np.random.default_rng(seed)
    bunches = _unit(rng.normal(size=(18, 3))) * rng.uniform(0.4, 0.75, (18, 1))
    offsets = _unit(rng.normal(size=(count, 3))) * rng.uniform(0.14, 0.36, (count, 1))
    middles = (bunches[rng.integers(18, size=count)] + offsets) * crown + (0.0, 0.0, height)
    along = _unit(rng.normal(size=(count, 3)))
    across = rng.normal(size=(count, 3))
    across = _unit(across - along * (along * across).sum(axis=1, keepdims=True))
    sizes = leaf / 2 * rng.uniform(0.6, 1.3, (count, 1))
    corners = [middles + sizes * (i * along + j * across) for i, j in ((-1, 0), (0, -0.7), (1, 0), (0, 0.7))]
    # Coordinates are rounded to centimetres, less than a pixel, because the file then compresses well.
    points = np.stack(corners, axis=1).reshape(-1, 3).round(2).tolist()
    faces = [list(range(4 * i, 4 * i + 4)) for i in range(count)]
    wood, bars = _trunk(rng, height, crown, first=len(points))
    return two_finishes("tree", [*points, *wood], (faces, foliage), (bars, bark))


def _trunk(rng: Any, height: float, crown: Point, first: int) -> tuple[list[Corner], list[list[int]]]:
    """Model a trunk and four branches as tapered bars of six sides, numbering points from ``first``."""
    points: list[Corner] = []
    faces: list[list[int]] = []
    fork, thick = height - 0.55 * crown[2], 0.04 * height
    bars = [((0.0, 0.0, 0.0), (0.0, 0.0, height), thick)]
    for angle in rng.uniform(0, 2 * math.pi) + np.arange(4) * math.pi / 2:
        end = (0.5 * crown[0] * math.cos(angle), 0.5 * crown[1] * math.sin(angle), height + 0.2 * crown[2])
        bars.append(((0.0, 0.0, fork), end, thick / 2))
    for low, high, radius in bars:
        k = first + len(points)
        for (x, y, z), wide in ((low, radius), (high, 0.35 * radius)):
            ring = [(wide * math.cos(i * math.pi / 3), wide * math.sin(i * math.pi / 3)) for i in range(6)]
            points += [(x + u, y + v, z) for u, v in ring]
        faces += [[k + i, k + (i + 1) % 6, k + 6 + (i + 1) % 6, k + 6 + i] for i in range(6)]
    return points, faces


def two_finishes(name: str, points: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> Any:
    """Make a mesh of two lists of faces, each with its finish."""
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(points, [], [*first[0], *second[0]])
    mesh.polygons.foreach_set("material_index", [0] * len(first[0]) + [1] * len(second[0]))
    mesh.materials.append(first[1])
    mesh.materials.append(second[1])
    return mesh


def plant(scenery: Scenery, mesh: Any, at: Point, scale: float = 1.0, turn: float = 0.0) -> None:
    """Add an object of a mesh at a location, scaled, and turned by degrees about the vertical."""
    made = bpy.data.objects.new(mesh.name, mesh)
    made.location, made.scale, made.rotation_euler = at, (scale,) * 3, (0.0, 0.0, math.radians(turn))
    scenery.collection.objects.link(made)


def ridge(scenery: Scenery, paint: Any, y: float, width: float, low: float, heights: Sequence[float]) -> None:
    """Add a chain of hills across the view at ``y``, with ``heights`` from left to right over ``width``."""
    count = 120
    share = np.linspace(0, 1, count)
    rng = np.random.default_rng(len(heights))
    rough = sum(np.interp(share, np.linspace(0, 1, k), rng.normal(size=k)) / k for k in (25, 60))
    top = np.interp(share, np.linspace(0, 1, len(heights)), heights)
    top = top + (top - low) * rough * 1.5
    across = width * (0.5 - share)
    foot = [(x, y, low) for x in across]
    points = [*foot, *((x, y - 1.5 * (z - low), z) for x, z in zip(across, top, strict=True))]
    faces = [(i, i + 1, count + i + 1, count + i) for i in range(count - 1)]
    scenery.mesh(paint, points, faces, smooth=True)


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
