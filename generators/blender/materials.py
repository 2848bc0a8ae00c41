"""Materials: read from their files once, coloured for each trace, with the ground truth AOVs put in."""

from typing import Any

from blender_assets import AssetLibrary
from generators.blender import bpy
from generators.layout import PLAIN
from generators.scene import Floor, Material

AOVS = {"albedo": "COLOR", "normal": "COLOR", "coverage": "VALUE"}


class Materials:
    """The materials of one stage.

    A material of a trace is a copy of its file's, kept and coloured anew for the next trace that has one of
    the same label at the same place, so that Cycles need not compile it again.
    """

    def __init__(self, library: AssetLibrary) -> None:
        self._library = library
        self._sources: dict[str, Any] = {}
        self._copies: dict[tuple[str, int, int], Any] = {}
        self._used: dict[str, int] = {}

    def start(self) -> None:
        """Begin a new trace: all copies are free again."""
        self._used.clear()

    def apply(self, thing: Any, plan: Material) -> None:
        """Give ``thing`` the material of ``plan`` in all its slots.

        An object of several material slots has parts: each slot gets its own copy, whose pass index is the
        part's number.
        """
        slots = len(thing.material_slots)
        number = self._used.get(plan.label, 0)
        self._used[plan.label] = number + 1
        for slot in range(slots):
            material = self._copy(plan.label, number, slot)
            paint(material, plan)
            material.pass_index = slot + 1 if slots > 1 else 0
            thing.material_slots[slot].link = "OBJECT"
            thing.material_slots[slot].material = material

    def apply_floor(self, thing: Any, floor: Floor) -> None:
        """Give the floor its colour; a shadow catcher has a normal but no albedo of its own."""
        name = "catcher" if floor.catcher else "floor"
        if name not in self._sources:
            self._sources[name] = plain_material(name, albedo=not floor.catcher)
            shader_of(self._sources[name]).inputs["Specular IOR Level"].default_value = 0.0
        material = self._sources[name]
        set_base_color(material, floor.base_color)
        thing.material_slots[0].link = "OBJECT"
        thing.material_slots[0].material = material

    def _copy(self, label: str, number: int, slot: int) -> Any:
        key = (label, number, slot)
        if key not in self._copies:
            if label not in self._sources:
                self._sources[label] = self._read(label)
            self._copies[key] = self._sources[label].copy()
        return self._copies[key]

    def _read(self, label: str) -> Any:
        from generators.blender.stage import append

        if label == PLAIN:
            return plain_material(PLAIN)
        kind = "materials" if self._library.has("materials", label) else "textures"
        material = append(self._library.find(kind, label), "materials", label)
        material.use_fake_user = True
        add_aovs(material)
        return material


def plain_material(name: str, albedo: bool = True) -> Any:
    """Make a Principled material of one colour, as the shipped ones are, with its AOVs."""
    material = bpy.data.materials.new(name)
    material.use_fake_user = True
    tree = material.node_tree
    tree.nodes.clear()
    shader = tree.nodes.new("ShaderNodeBsdfPrincipled")
    shader.inputs["Roughness"].default_value = 0.5
    shader.inputs["Specular IOR Level"].default_value = 0.5
    shader.inputs["IOR"].default_value = 1.45
    output = tree.nodes.new("ShaderNodeOutputMaterial")
    tree.links.new(shader.outputs["BSDF"], output.inputs["Surface"])
    if albedo:
        add_aovs(material)
    else:
        add_aov(material, "normal", _geometry_normal(material))
    return material


def shader_of(material: Any) -> Any:
    """Return the Principled node of a material.

    Raises:
        ValueError: there is none, so the material has no albedo to speak of.
    """
    for node in material.node_tree.nodes:
        if node.type == "BSDF_PRINCIPLED":
            return node
    raise ValueError(f"material `{material.name}` has no Principled BSDF; albedo is read from one")


def paint(material: Any, plan: Material) -> None:
    """Colour a copy of a material: the base colour of a plain one, the handles of a texture."""
    nodes = material.node_tree.nodes
    if plan.label == PLAIN and plan.base_color is not None:
        set_base_color(material, plan.base_color)
    for name, color in (("color a", plan.color_a), ("color b", plan.color_b)):
        if color is not None and name in nodes:
            nodes[name].outputs[0].default_value = (*color, 1.0)
    if "mapping" in nodes:
        nodes["mapping"].inputs["Location"].default_value = plan.offset
        nodes["mapping"].inputs["Scale"].default_value = (plan.scale,) * 3


def set_base_color(material: Any, rgb: tuple[float, float, float]) -> None:
    """Set the base colour of a plain material, and of its albedo AOV if it has one."""
    shader_of(material).inputs["Base Color"].default_value = (*rgb, 1.0)
    if "albedo base" in material.node_tree.nodes:
        material.node_tree.nodes["albedo base"].inputs[0].default_value = rgb


def base_color(material: Any) -> tuple[float, float, float] | None:
    """Return the base colour of a material, or None where a texture decides it."""
    socket = shader_of(material).inputs["Base Color"]
    if socket.is_linked:
        return None
    red, green, blue = (round(float(value), 6) for value in socket.default_value[:3])
    return red, green, blue


def add_aovs(material: Any) -> None:
    """Write albedo, shading normal and coverage into AOVs.

    Albedo is base colour x (1 - metallic) x (1 - transmission), straight from the sockets, because Cycles'
    own Diffuse Color depends on the view as soon as there is gloss. The normal is the geometry's, because
    the Normal pass is weighted over closures and so changes with the base colour. Coverage is 1 wherever an
    object is seen, so that it says what share of a pixel is not backdrop.
    """
    tree = material.node_tree
    shader = shader_of(material)
    base = tree.nodes.new("ShaderNodeVectorMath")
    base.name, base.operation = "albedo base", "MULTIPLY"
    _feed(tree, shader.inputs["Base Color"], base.inputs[0])
    base.inputs[1].default_value = (1.0, 1.0, 1.0)
    albedo = base
    for name in ("Metallic", "Transmission Weight"):
        rest = tree.nodes.new("ShaderNodeMath")
        rest.operation = "SUBTRACT"
        rest.inputs[0].default_value = 1.0
        _feed(tree, shader.inputs[name], rest.inputs[1])
        product = tree.nodes.new("ShaderNodeVectorMath")
        product.operation = "MULTIPLY"
        tree.links.new(albedo.outputs[0], product.inputs[0])
        tree.links.new(rest.outputs[0], product.inputs[1])
        albedo = product
    add_aov(material, "albedo", albedo.outputs[0])
    add_aov(material, "normal", _geometry_normal(material))
    coverage = tree.nodes.new("ShaderNodeValue")
    coverage.outputs[0].default_value = 1.0
    add_aov(material, "coverage", coverage.outputs[0])


def add_aov(material: Any, name: str, socket: Any) -> None:
    """Write what a socket carries into the AOV of that name."""
    output = material.node_tree.nodes.new("ShaderNodeOutputAOV")
    output.aov_name = name
    slot = "Value" if AOVS[name] == "VALUE" else "Color"
    material.node_tree.links.new(socket, output.inputs[slot])


def _geometry_normal(material: Any) -> Any:
    return material.node_tree.nodes.new("ShaderNodeNewGeometry").outputs["Normal"]


def _feed(tree: Any, source: Any, target: Any) -> None:
    """Give ``target`` what ``source`` gets: the same link, or the same constant."""
    if source.is_linked:
        tree.links.new(source.links[0].from_socket, target)
    elif hasattr(target.default_value, "__len__"):
        target.default_value = tuple(source.default_value)[: len(target.default_value)]
    else:
        target.default_value = source.default_value
