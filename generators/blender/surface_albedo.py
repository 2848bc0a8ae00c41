"""The albedo of a material's surface, as nodes that compute it from the shaders that Cycles mixes."""

from collections.abc import Sequence
from typing import Any

from candlelight.generators.layers.decompose_trace import DARKEST_ALBEDO

BASE_NODE = "albedo base"  # name of the node that holds a Principled shader's base colour
# Shaders without diffuse light; the glass of a Principled shader has none either.
_NOT_DIFFUSE = frozenset(
    (
        *("EMISSION", "BACKGROUND", "HOLDOUT", "BSDF_TRANSPARENT", "BSDF_GLASS", "BSDF_REFRACTION"),
        *("BSDF_GLOSSY", "BSDF_METALLIC"),
    )
)


def surface_of(material: Any) -> Any:
    """Return the node that Cycles takes as the surface of a material, or None."""
    output = material.node_tree.get_output_node("CYCLES")
    return None if output is None else _shader_at(output.inputs["Surface"])


def _shader_at(socket: Any) -> Any:
    """Return the shader node at a socket; None if there is none, or it is muted."""
    node = None
    while socket is not None and socket.is_linked and not socket.links[0].is_muted:
        node = socket.links[0].from_node
        socket = node.inputs[0] if node.type == "REROUTE" else None
    return None if node is None or node.type == "REROUTE" or node.mute else node


def albedo_notes(material: Any) -> list[str]:
    """Name the nodes at the surface of a material for which `albedo_socket` is wrong, one note each."""
    return [
        f"`{name}` of its material `{material.name}` makes albedo and shading wrong where it shows; use "
        "Principled, Diffuse and Glossy BSDFs, mixed or added, and no half-transparent ones"
        for name in _unread(surface_of(material))
    ]


def _unread(node: Any) -> list[str]:
    if node is None or node.type == "BSDF_DIFFUSE" or node.type in _NOT_DIFFUSE:
        return []
    if node.type == "BSDF_PRINCIPLED":
        alpha = node.inputs["Alpha"]
        return [] if alpha.is_linked or not 0 < alpha.default_value < 1 else [node.name]
    parts = _parts(node)
    names = [name for part in parts for name in _unread(_shader_at(part))]
    return names if parts and not _is_half_transparent(node) else [*names, node.name]


def _is_half_transparent(node: Any) -> bool:
    """Tell whether a node mixes a transparent shader by a share that is no texture, such as leaves have."""
    kinds = {part.type for part in map(_shader_at, _parts(node)) if part is not None}
    return node.type == "MIX_SHADER" and "BSDF_TRANSPARENT" in kinds and not node.inputs[0].is_linked


def _parts(node: Any) -> list[Any]:
    """Return the sockets of the shaders that a node mixes or adds."""
    first = {"MIX_SHADER": 1, "ADD_SHADER": 0}.get(node.type)
    return [] if first is None else list(node.inputs)[first:]


def albedo_socket(material: Any) -> Any:
    """Add nodes that compute the albedo of a material; channels below `DARKEST_ALBEDO` are raised to it.

    The albedo of a Principled shader is base colour x (1 - metallic) x (1 - transmission), that of a diffuse
    shader its colour. Mixed and added shaders have the mixed and added albedo; other shaders have none.

    Returns:
        The socket of the albedo; None if the surface has none.
    """
    return _albedo(material.node_tree, surface_of(material))


def _albedo(tree: Any, node: Any) -> Any:
    if node is None:
        return None
    if node.type == "BSDF_PRINCIPLED":
        return _principled_albedo(tree, node)
    if node.type == "BSDF_DIFFUSE":
        _raise_color(tree, node.inputs["Color"])
        return _copied(tree, node.inputs["Color"]).outputs[0]
    found = [_albedo(tree, _shader_at(part)) for part in _parts(node)]
    if node.type == "MIX_SHADER":
        share = tree.nodes.new("ShaderNodeMath")
        share.operation, share.use_clamp = "ADD", True
        copy_input(tree, node.inputs[0], share.inputs[0])
        share.inputs[1].default_value = 0.0
        rest = _rest(tree, share.outputs[0])
        found = [
            None if albedo is None else _vector_math(tree, "MULTIPLY", albedo, part)
            for albedo, part in zip(found, (rest, share.outputs[0]), strict=True)
        ]
    known = [albedo for albedo in found if albedo is not None]
    return _vector_math(tree, "ADD", *known) if len(known) == 2 else next(iter(known), None)


def rest_node(name: str) -> str:
    """Return the name of the node whose second input is a copy of an input of a Principled shader."""
    return f"1 - {name}"


def _principled_albedo(tree: Any, shader: Any) -> Any:
    # A black surface that glows stays without albedo, because nearly all light from it is emission.
    if not _glows(shader):
        _raise_color(tree, shader.inputs["Base Color"])
    base = _copied(tree, shader.inputs["Base Color"])
    base.name = BASE_NODE
    albedo = base.outputs[0]
    for name in ("Metallic", "Transmission Weight"):
        rest = _rest(tree, shader.inputs[name])
        rest.node.name = rest_node(name)
        albedo = _vector_math(tree, "MULTIPLY", albedo, rest)
    if _may_be_transparent(shader):
        opaque = _rest(tree, _rest(tree, shader.inputs["Alpha"]))
        albedo = _vector_math(tree, "MULTIPLY", albedo, opaque)
    return albedo


def _may_be_transparent(shader: Any) -> bool:
    return bool(shader.inputs["Alpha"].is_linked or shader.inputs["Alpha"].default_value < 1)


def _glows(shader: Any) -> bool:
    strength, color = shader.inputs["Emission Strength"], shader.inputs["Emission Color"]
    return (strength.is_linked or strength.default_value > 0) and (
        color.is_linked or max(tuple(color.default_value)[:3]) > 0
    )


def _raise_color(tree: Any, socket: Any) -> None:
    """Raise a colour of a shader, so that the shading of a channel is known where the surface is black."""
    if not socket.is_linked:
        socket.default_value = (*raised(tuple(socket.default_value)[:3]), 1.0)
        return
    least = _vector_math(tree, "MAXIMUM", socket.links[0].from_socket, None)
    least.node.inputs[1].default_value = (DARKEST_ALBEDO,) * 3
    tree.links.new(least, socket)


def raised(rgb: Sequence[float]) -> tuple[float, ...]:
    """Raise the channels of a colour to at least `DARKEST_ALBEDO`."""
    return tuple(max(channel, DARKEST_ALBEDO) for channel in rgb)


def _copied(tree: Any, source: Any) -> Any:
    """Make a node whose output is the colour of a socket."""
    node = tree.nodes.new("ShaderNodeVectorMath")
    node.operation = "MULTIPLY"
    copy_input(tree, source, node.inputs[0])
    node.inputs[1].default_value = (1.0, 1.0, 1.0)
    return node


def _rest(tree: Any, share: Any) -> Any:
    """Return the socket of 1 - share; ``share`` is an input, whose value is copied, or an output."""
    node = tree.nodes.new("ShaderNodeMath")
    node.operation = "SUBTRACT"
    node.inputs[0].default_value = 1.0
    if share.is_output:
        tree.links.new(share, node.inputs[1])
    else:
        copy_input(tree, share, node.inputs[1])
    return node.outputs[0]


def _vector_math(tree: Any, operation: str, one: Any, other: Any) -> Any:
    node = tree.nodes.new("ShaderNodeVectorMath")
    node.operation = operation
    for socket, target in zip((one, other), node.inputs, strict=False):
        if socket is not None:
            tree.links.new(socket, target)
    return node.outputs[0]


def copy_input(tree: Any, source: Any, target: Any) -> None:
    """Give ``target`` the same link or the same constant as ``source``."""
    if source.is_linked:
        tree.links.new(source.links[0].from_socket, target)
    elif hasattr(target.default_value, "__len__"):
        target.default_value = tuple(source.default_value)[: len(target.default_value)]
    else:
        target.default_value = source.default_value
