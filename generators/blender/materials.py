"""Materials: read from their files once, coloured for each trace, with the ground truth AOVs put in."""

from collections.abc import Sequence
from typing import Any

from blender_assets import AssetLibrary
from generators.blender import bpy
from generators.blender.append_files import append
from generators.blender.image_textures import IMAGE_NODE, Images, add_image_nodes
from generators.scenes.object_materials import PLAIN
from generators.scenes.scene import Floor, Material, PartMaterial

AOVS = {"albedo": "COLOR", "normal": "COLOR", "coverage": "VALUE", "roughness": "VALUE", "metallic": "VALUE"}
IMAGE = "image/"  # the source of all materials that show an image: no label ends in a slash
FLOOR_SLOT = -1


class Materials:
    """The materials of one stage.

    A material of a trace is a copy of its file's, kept and coloured anew for the next trace that has one of
    the same label at the same place, so that Cycles need not compile it again.
    """

    def __init__(self, library: AssetLibrary) -> None:
        self._library = library
        self._sources: dict[str, Any] = {}
        self._copies: dict[tuple[str, int, int, bool, bool], Any] = {}
        self._used: dict[str, int] = {}
        self._images = Images(library)

    def start(self) -> None:
        """Begin a new trace: all copies are free again."""
        self._used.clear()
        self._images.start()

    def apply(self, thing: Any, plan: Material, parts: Sequence[PartMaterial] = ()) -> None:
        """Give ``thing`` the materials of its ``parts`` slot by slot, or that of ``plan`` where it has none.

        Each of several slots gets its own copy, whose pass index is the part's number.

        Raises:
            ValueError: there are not as many slots as parts.
        """
        slots = len(thing.material_slots)
        if parts and len(parts) != slots:
            raise ValueError(
                f"object `{thing.data.name}`: the manifest names {len(parts)} parts, and the file has "
                f"{slots} material slots; give each part a slot"
            )
        plans = [part.material for part in parts] or [plan] * slots
        numbers = {source: self._used.get(source, 0) for source in map(_source, plans)}
        self._used.update({source: number + 1 for source, number in numbers.items()})
        for slot, painted in enumerate(plans):
            material = self._copy(painted, numbers[_source(painted)], slot)
            self._paint(material, painted)
            material.pass_index = slot + 1 if slots > 1 else 0
            thing.material_slots[slot].link = "OBJECT"
            thing.material_slots[slot].material = material

    def apply_floor(self, thing: Any, floor: Floor) -> None:
        """Give the floor its colour or material; a shadow catcher has a normal but no albedo of its own."""
        name = "catcher" if floor.catcher else "floor"
        if floor.material is not None:
            material = self._copy(floor.material, 0, FLOOR_SLOT)
            # The plane is one unit wide to either side and scaled, and its coordinates are not.
            scale = floor.material.scale * floor.half_width
            self._paint(material, floor.material.model_copy(update={"scale": scale}))
        else:
            if name not in self._sources:
                self._sources[name] = plain_material(name, albedo=not floor.catcher)
                shader_of(self._sources[name]).inputs["Specular IOR Level"].default_value = 0.0
            material = self._sources[name]
            set_base_color(material, floor.base_color)
        thing.material_slots[0].link = "OBJECT"
        thing.material_slots[0].material = material

    def _copy(self, plan: Material, number: int, slot: int) -> Any:
        # A copy whose gloss was painted keeps none of its file's, so it serves only plans that paint it.
        source = _source(plan)
        key = (source, number, slot, plan.roughness is None, plan.specular is None)
        if key not in self._copies:
            if source not in self._sources:
                self._sources[source] = image_material() if plan.image else self._read(plan.label)
            self._copies[key] = self._sources[source].copy()
        return self._copies[key]

    def _paint(self, material: Any, plan: Material) -> None:
        paint(material, plan)
        if plan.image:
            material.node_tree.nodes[IMAGE_NODE].image = self._images.get(plan.label)

    def _read(self, label: str) -> Any:
        if label == PLAIN:
            return plain_material(PLAIN)
        kind = "materials" if self._library.has("materials", label) else "textures"
        material = append(self._library.find(kind, label), "materials", label)
        material.use_fake_user = True
        add_aovs(material)
        return material


def _source(plan: Material) -> str:
    """Name what a material is a copy of."""
    return IMAGE if plan.image else plan.label


def plain_material(name: str, albedo: bool = True) -> Any:
    """Make a Principled material of one colour, as the shipped ones are, with its AOVs."""
    material = _bare_material(name)
    if albedo:
        add_aovs(material)
    else:
        add_aov(material, "normal", _geometry_normal(material))
    return material


def _bare_material(name: str) -> Any:
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
    return material


def image_material() -> Any:
    """Make a material that shows an image, as the plain ones are otherwise."""
    material = _bare_material(IMAGE)
    add_image_nodes(material, shader_of(material))
    add_aovs(material)
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
    for name, value in (("Roughness", plan.roughness), ("Specular IOR Level", plan.specular)):
        if value is not None:
            _set_gloss(material, name, value)
    if "mapping" in nodes:
        nodes["mapping"].inputs["Location"].default_value = plan.offset
        nodes["mapping"].inputs["Scale"].default_value = (plan.scale,) * 3


def _set_gloss(material: Any, name: str, value: float) -> None:
    socket = shader_of(material).inputs[name]
    if socket.is_linked:
        raise ValueError(
            f"material `{material.name}` decides its {name} by a texture; leave it out of the recipe's paint"
        )
    socket.default_value = value
    if name == "Roughness":
        material.node_tree.nodes["roughness"].inputs[0].default_value = value


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
    """Write albedo, roughness, metallic, shading normal and coverage into AOVs.

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
    for name in ("roughness", "metallic"):
        same = tree.nodes.new("ShaderNodeMath")
        same.name, same.operation = name, "ADD"
        _feed(tree, shader.inputs[name.capitalize()], same.inputs[0])
        same.inputs[1].default_value = 0.0
        add_aov(material, name, same.outputs[0])
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
