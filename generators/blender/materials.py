"""Load each material once, add its extra outputs (AOVs), and set its colours for each trace."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bmesh

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import CODE, is_code_label
from candlelight.generators.blender import bpy
from candlelight.generators.blender.append_files import append
from candlelight.generators.blender.image_textures import IMAGE_NODE, TextureImageCache, add_image_nodes
from candlelight.generators.blender.own_code import OwnCode
from candlelight.generators.blender.own_mesh import OwnMesh
from candlelight.generators.blender.surface_albedo import (
    BASE_NODE,
    albedo_notes,
    albedo_socket,
    copy_input,
    raised,
    rest_node,
    surface_of,
)
from candlelight.generators.scenes.object_materials import ABSENT, OWN, PLAIN
from candlelight.generators.scenes.plan_records import PartMaterial, PlacedFloor, PlacedMaterial

AOVS = {"albedo": "COLOR", "normal": "COLOR", "coverage": "VALUE", "roughness": "VALUE", "metallic": "VALUE"}
_SHOWN = ("roughness", "metallic")  # AOVs of inputs of the shader
_IMAGE_SOURCE = "image/"  # source of all materials that show an image; labels never end in a slash
_CODE_SOURCE = "code/"  # prefix of the sources that are own code; labels of .blend files have no slash
_FLOOR_SLOT = -1
_CUT = "cut"
# Inputs of the shader by the fields of a planned material.
_INPUTS = {
    "roughness": "Roughness",
    "specular": "Specular IOR Level",
    "metallic": "Metallic",
    "transmission": "Transmission Weight",
    "ior": "IOR",
}


_CopyKey = tuple[str, int, int, tuple[str, ...]]


class Materials:
    """The materials of one Blender scene.

    A trace uses copies of the materials that were read. A copy is kept and coloured anew for the next trace
    that has the same label at the same place, so that Cycles does not compile it again; a copy of own code as
    long as each trace has it.
    """

    def __init__(self, library: AssetLibrary, own_code: OwnCode) -> None:
        self._library, self._own_code = library, own_code
        self._sources: dict[str, Any] = {}
        self._copies: dict[_CopyKey, Any] = {}
        self._used: dict[str, int] = {}
        self._images = TextureImageCache(library)

    def start(self) -> None:
        """Begin a new trace, in which all copies are free again."""
        for key in [key for key in self._copies if key[0].startswith(_CODE_SOURCE)]:
            if key[0] not in self._used:
                bpy.data.materials.remove(self._copies.pop(key))
        self._own_code.start()
        self._used.clear()
        self._images.start()

    def apply(
        self,
        blender_object: Any,
        planned: PlacedMaterial,
        parts: Sequence[PartMaterial] = (),
        own: OwnMesh | None = None,
    ) -> None:
        """Give an object the material ``planned``, or the material of each of its ``parts`` slot by slot.

        If there are several slots, each gets its own copy, whose pass index is the number of the part. The
        slots of absent parts get none, and their faces are removed (`cut_absent`). An ``own`` mesh of own
        code says itself which part each slot belongs to.

        Raises:
            ValueError: the number of slots is not the number of parts, or a material of own code has no known
                albedo.
        """
        slots = len(blender_object.material_slots)
        if own is None and parts and len(parts) != slots:
            raise ValueError(
                f"object `{blender_object.data.name}`: the manifest names {len(parts)} parts, and the file "
                f"has {slots} material slots; give each part a slot"
            )
        of_slots = range(slots) if own is None else own.slots
        by_slot = [parts[part].material for part in of_slots] if parts else [planned] * slots
        cut_absent(blender_object, [of_slot.label == ABSENT for of_slot in by_slot])
        numbers = {source: self._used.get(source, 0) for source in map(_source, by_slot)}
        self._used.update({source: number + 1 for source, number in numbers.items()})
        for slot, of_slot in enumerate(by_slot):
            blender_object.material_slots[slot].link = "OBJECT"
            if of_slot.label == ABSENT:
                blender_object.material_slots[slot].material = None
                continue
            if own is not None and of_slot.label == OWN:
                material = _own_material(own, slot)
            else:
                material = self._coloured_copy(of_slot, numbers[_source(of_slot)], slot)
            material.pass_index = of_slots[slot] + 1 if len(set(of_slots)) > 1 else 0
            blender_object.material_slots[slot].material = material

    def apply_floor(self, blender_object: Any, floor: PlacedFloor) -> None:
        """Give the floor its colour or material."""
        if floor.material is not None:
            # Texture coordinates of the floor span -1 to 1 whatever its size in metres.
            scale = floor.material.scale * floor.half_width
            planned = floor.material.model_copy(update={"scale": scale})
            material = self._coloured_copy(planned, 0, _FLOOR_SLOT)
        else:
            # A shadow catcher has no albedo AOV, because its pixels show the environment map.
            name = "catcher" if floor.catcher else "floor"
            if name not in self._sources:
                self._sources[name] = plain_material(name, albedo=not floor.catcher)
                shader_of(self._sources[name]).inputs["Specular IOR Level"].default_value = 0.0
            material = self._sources[name]
            _set_base_color(material, floor.base_color)
        blender_object.material_slots[0].link = "OBJECT"
        blender_object.material_slots[0].material = material

    def _coloured_copy(self, planned: PlacedMaterial, number: int, slot: int) -> Any:
        # A copy whose surface was set has lost that of its file, so only plans that set it share the copy.
        source = _source(planned)
        key = (source, number, slot, (*planned.surface(),))
        if source.startswith(_CODE_SOURCE):
            return self._copy_of_code(planned, key)
        if key not in self._copies:
            if source not in self._sources:
                self._sources[source] = _image_material() if planned.image else self._read(planned.label)
            self._copies[key] = self._sources[source].copy()
        material = self._copies[key]
        _set_planned_values(material, planned)
        if planned.image:
            material.node_tree.nodes[IMAGE_NODE].image = self._images.get(planned.label)
        return material

    def _copy_of_code(self, planned: PlacedMaterial, key: _CopyKey) -> Any:
        made = self._own_code.material(planned.label, planned.numbers)
        if key not in self._copies:
            file = self._library.find(CODE, planned.label)
            require_surface(file, made)
            require_albedo(file, made)
            self._copies[key] = made.copy()
            add_aovs(self._copies[key])
        return self._copies[key]

    def _read(self, label: str) -> Any:
        if label == PLAIN:
            return plain_material(PLAIN)
        kind = "materials" if self._library.has("materials", label) else "textures"
        material = load_material(self._library.find(kind, label), label)
        material.use_fake_user = True
        add_aovs(material)
        return material


def cut_absent(blender_object: Any, absent: Sequence[bool]) -> None:
    """Give an object a copy of its mesh without the faces of absent slots; `is_cut` tells such copies.

    Vertices stay, so that the bounding box, and what textures take from it, is that of the whole object.
    """
    if not any(absent):
        return
    edited = bmesh.new()
    edited.from_mesh(blender_object.data)
    gone = [face for face in edited.faces if absent[face.material_index]]
    bmesh.ops.delete(edited, geom=gone, context="FACES_ONLY")
    cut = blender_object.data.copy()
    edited.to_mesh(cut)
    edited.free()
    cut.use_fake_user = False
    cut[_CUT] = True
    blender_object.data = cut


def is_cut(mesh: Any) -> bool:
    """Tell whether a mesh is a copy of `cut_absent`, which belongs to one trace."""
    return _CUT in mesh


def _source(planned: PlacedMaterial) -> str:
    """Return the key of the material that a planned material is a copy of."""
    if is_code_label(planned.label):
        return _CODE_SOURCE + planned.model_dump_json(include={"label", "numbers"})
    return _IMAGE_SOURCE if planned.image else planned.label


def _own_material(own: OwnMesh, slot: int) -> Any:
    """Return the material that the function of an own mesh gave a slot, with AOVs."""
    if slot not in own.shaded:
        given = own.mesh.materials[slot]
        if given is None:
            own.shaded[slot] = plain_material("bare")
        else:
            file = Path(own.label.partition(":")[0])
            require_shader(file, given)
            require_albedo(file, given)
            own.shaded[slot] = given.copy()
            add_aovs(own.shaded[slot])
    return own.shaded[slot]


def plain_material(name: str, albedo: bool = True) -> Any:
    """Make a Principled material of one colour, with the settings of the shipped materials, and its AOVs."""
    material = _bare_material(name)
    if albedo:
        add_aovs(material)
    else:
        _add_aov(material, "normal", _geometry_normal(material))
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


def _image_material() -> Any:
    """Make a material that shows an image, with the settings of plain materials otherwise."""
    material = _bare_material(_IMAGE_SOURCE)
    add_image_nodes(material, shader_of(material))
    add_aovs(material)
    return material


def load_material(path: Path, label: str, notes: list[str] | None = None) -> Any:
    """Append the material of a .blend file as `append` does.

    Raises:
        ValueError: as `append`; or the surface of the material is not a Principled BSDF.
    """
    material = append(path, "materials", label, notes)
    require_surface(path, material)
    if notes is not None:
        notes += albedo_notes(material)
    return material


def require_surface(path: Path, material: Any) -> None:
    """Refuse a material as `require_shader` does, and one whose surface is not its Principled BSDF.

    Raises:
        ValueError: the message names file and material.
    """
    require_shader(path, material)
    surface = surface_of(material)
    if surface is None or surface.type != "BSDF_PRINCIPLED":
        got = "nothing" if surface is None else f"`{surface.name}`"
        raise ValueError(
            f"{path.name}: material `{material.name}` has {got} at the Surface of its Material Output; "
            "connect its Principled BSDF there, because albedo, roughness and metallic are read from it"
        )


def require_albedo(path: Path, material: Any) -> None:
    """Refuse a material whose albedo the nodes of `albedo_socket` do not show.

    Raises:
        ValueError: the message names file, material and node.
    """
    for note in albedo_notes(material):
        raise ValueError(f"{path.name}: {note}")


def require_shader(path: Path, material: Any) -> None:
    """Refuse a material without a Principled BSDF, or with one whose base colour is no share of light.

    Raises:
        ValueError: there is none, or its base colour is beyond 0..1, of which albedo and shading would be
            wrong; the message names file and material.
    """
    if not _shaders(material):
        raise ValueError(
            f"{path.name}: material `{material.name}` has no Principled BSDF; give it one as its surface, "
            "because albedo, roughness and metallic are read from it"
        )
    color = base_color(material)
    if color is not None and not all(0 <= channel <= 1 for channel in color):  # NaN is in no interval
        raise ValueError(
            f"{path.name}: material `{material.name}` has the base colour {color}; set numbers from 0 to 1, "
            "because it is the albedo"
        )


def shader_of(material: Any) -> Any:
    """Return the Principled node of a material: the node at its surface, else the first."""
    surface = surface_of(material)
    return surface if surface in (shaders := _shaders(material)) else shaders[0]


def _shaders(material: Any) -> list[Any]:
    tree = material.node_tree
    return [] if tree is None else [node for node in tree.nodes if node.type == "BSDF_PRINCIPLED"]


def _set_planned_values(material: Any, planned: PlacedMaterial) -> None:
    """Set the base colour of a plain material, or the colours and mapping of a texture, and the surface."""
    nodes = material.node_tree.nodes
    if planned.label == PLAIN and planned.base_color is not None:
        _set_base_color(material, planned.base_color)
    for name, color in (("color a", planned.color_a), ("color b", planned.color_b)):
        if color is not None and name in nodes:
            nodes[name].outputs[0].default_value = (*color, 1.0)
    for field, value in planned.surface().items():
        _set_surface(material, planned.label, field, value)
    if "mapping" in nodes:
        nodes["mapping"].inputs["Location"].default_value = planned.offset
        nodes["mapping"].inputs["Scale"].default_value = (planned.scale,) * 3


def _set_surface(material: Any, label: str, field: str, value: float) -> None:
    """Set an input of the shader, and the constants that AOVs have copied from it."""
    nodes, name = material.node_tree.nodes, _INPUTS[field]
    socket = shader_of(material).inputs[name]
    if socket.is_linked:
        raise ValueError(f"material `{label}` has a texture for {name}; remove that field from the recipe")
    socket.default_value = value
    if field in _SHOWN:
        nodes[field].inputs[0].default_value = value
    if (rest := rest_node(name)) in nodes:
        nodes[rest].inputs[1].default_value = value


def _set_base_color(material: Any, rgb: tuple[float, float, float]) -> None:
    """Set the base colour of a plain material, and of its albedo AOV if it has one.

    A material with that AOV gets each channel as `raised` makes it.
    """
    has_albedo = BASE_NODE in material.node_tree.nodes
    color = raised(rgb) if has_albedo else rgb
    shader_of(material).inputs["Base Color"].default_value = (*color, 1.0)
    if has_albedo:
        material.node_tree.nodes[BASE_NODE].inputs[0].default_value = color


def base_color(material: Any) -> tuple[float, float, float] | None:
    """Return the base colour of a material, linear Rec.709, or None if a texture decides it."""
    socket = shader_of(material).inputs["Base Color"]
    if socket.is_linked:
        return None
    red, green, blue = (round(float(value), 6) for value in socket.default_value[:3])
    return red, green, blue


def add_aovs(material: Any) -> None:
    """Add nodes that write albedo, roughness, metallic, shading normal and coverage into AOVs.

    The albedo is computed from the sockets (`albedo_socket`), because Cycles' own Diffuse Color depends on
    the view if the material has gloss. Roughness and metallic are those of `shader_of`. The normal is the
    geometry's, because the Normal pass is weighted over closures and so changes with the base colour.
    Coverage is 1 on every object; its mean over a pixel is the share of the pixel that objects cover.
    """
    tree = material.node_tree
    shader = shader_of(material)
    albedo = albedo_socket(material)
    for name in _SHOWN:
        same = tree.nodes.new("ShaderNodeMath")
        same.name, same.operation = name, "ADD"
        copy_input(tree, shader.inputs[name.capitalize()], same.inputs[0])
        same.inputs[1].default_value = 0.0
        _add_aov(material, name, same.outputs[0])
    if albedo is not None:
        _add_aov(material, "albedo", albedo)
    _add_aov(material, "normal", _geometry_normal(material))
    coverage = tree.nodes.new("ShaderNodeValue")
    coverage.outputs[0].default_value = 1.0
    _add_aov(material, "coverage", coverage.outputs[0])


def _add_aov(material: Any, name: str, socket: Any) -> None:
    """Write the value of a socket into the AOV ``name``."""
    output = material.node_tree.nodes.new("ShaderNodeOutputAOV")
    output.aov_name = name
    slot = "Value" if AOVS[name] == "VALUE" else "Color"
    material.node_tree.links.new(socket, output.inputs[slot])


def _geometry_normal(material: Any) -> Any:
    return material.node_tree.nodes.new("ShaderNodeNewGeometry").outputs["Normal"]
