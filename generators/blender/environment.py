"""The environment of a Blender scene: an environment map, or a modelled scene around the objects."""

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.blender import bpy
from candlelight.generators.blender.append_files import append, append_or_none, load_map
from candlelight.generators.blender.materials import add_aovs, plain_material, require_shader
from candlelight.generators.blender.sanitize import block_ids
from candlelight.generators.blender.surface_albedo import albedo_notes
from candlelight.generators.language.lights_and_camera import ENVIRONMENT_LIGHT
from candlelight.loaders.schema import EnvironmentRecord

# Kinds of objects that Cycles would show in a gray of its own, without AOVs, if they had no material.
_SURFACES = frozenset(("MESH", "CURVE", "SURFACE", "FONT", "META", "CURVES", "POINTCLOUD"))
_NO_LIGHT = ""  # label of the Blender world without light


class BlenderEnvironment:
    """The environments of one Blender scene, read from their files once and kept.

    Args:
        bpy_scene: the Blender scene.
        library: the asset library.
    """

    def __init__(self, bpy_scene: Any, library: AssetLibrary) -> None:
        self._bpy_scene, self._library = bpy_scene, library
        self._worlds: dict[str, Any] = {}
        self._map_pixels: dict[str, Float32[ndarray, "rows columns 3"] | None] = {}
        self._collections: dict[str, Any] = {}
        self._linked: Any = None

    def show(self, environment: EnvironmentRecord | None) -> None:
        """Replace the environment of the previous trace."""
        label = _NO_LIGHT if environment is None else environment.scene
        modelled = environment is not None and environment.modelled
        self._link(self._modelled_scene(label) if modelled else None)
        # Each map has its own Blender world, and only changed values are set: Cycles rebuilds the sampling
        # table of a map after every assignment, which costs more than tracing a small frame.
        if label not in self._worlds:
            self._worlds[label] = self._new_world(label)
        world = self._worlds[label]
        if self._bpy_scene.world != world:
            self._bpy_scene.world = world
        nodes = world.node_tree.nodes
        if environment is not None and "turn" in nodes:
            _set_if_changed(nodes["turn"].inputs["Rotation"], (0.0, 0.0, math.radians(environment.rotation)))
            _set_if_changed(nodes["shader"].inputs["Strength"], environment.strength)

    def map_pixels(self, environment: EnvironmentRecord | None) -> Float32[ndarray, "rows columns 3"] | None:
        """Return the pixels of a map that `show` loaded: scene-linear Rec.709, first row at the bottom.

        Returns:
            None if the environment is not one opaque image.
        """
        return None if environment is None else self._map_pixels.get(environment.scene)

    def _link(self, collection: Any) -> None:
        """Link the collection of a modelled scene in place of the linked one; None links nothing."""
        if collection == self._linked:
            return
        if self._linked is not None:
            self._bpy_scene.collection.children.unlink(self._linked)
        if collection is not None:
            self._bpy_scene.collection.children.link(collection)
        self._linked = collection
        # Cycles' persistent data depend on collections that were unlinked (measured: the noise changes), and
        # a frame must not depend on previous frames. Cycles drops the data when the setting is off.
        self._bpy_scene.render.use_persistent_data = False
        self._bpy_scene.render.use_persistent_data = True

    def _modelled_scene(self, label: str) -> Any:
        if label not in self._collections:
            before = block_ids()
            collection = load_modelled_scene(self._library.find("scenes", label), label)
            collection.use_fake_user = True
            _prepare(before)
            self._collections[label] = collection
        return self._collections[label]

    def _new_world(self, label: str) -> Any:
        """Make the Blender world of a map, or read it from a .blend file; without either, a black world."""
        path = None if label == _NO_LIGHT else self._library.find("scenes", label)
        world = append_or_none(path, "worlds", label) if path and path.suffix == ".blend" else None
        if world is None:
            image = load_map(path) if path and path.suffix != ".blend" else None
            world = _map_world(label or "dark", image)
            self._map_pixels[label] = None if image is None else _opaque_pixels(image)
        world.use_fake_user = True
        world.lightgroup = ENVIRONMENT_LIGHT
        # Measured at 16 samples with changing worlds: 0.3 CPU s per frame, against 1.85 s with the resolution
        # that Cycles chooses, for 4 % more noise before denoising.
        world.cycles.sampling_method, world.cycles.sample_map_resolution = "MANUAL", 1024
        return world


def load_modelled_scene(path: Path, label: str, notes: list[str] | None = None) -> Any:
    """Append the collection of a modelled scene as `append` does.

    Raises:
        ValueError: as `append`; or the collection has another name, holds no object, or a material in it has
            no Principled BSDF.
    """
    before = block_ids()
    collection = append(path, "collections", label, notes)
    if collection.name.lower() != label.lower():
        # A file that was not scanned and holds only a world has the collection that Blender saves.
        raise ValueError(
            f"scene `{label}`: expected a collection of that name, found `{collection.name}`; if the "
            "file holds a world alone, run `candlelight assets scan` on its folder"
        )
    if not collection.all_objects:
        raise ValueError(f"{path.name}: expected objects in the collection `{collection.name}`, found none")
    for material in _appended(bpy.data.materials, before):
        if material.node_tree is not None and not material.is_grease_pencil:
            require_shader(path, material)
            if notes is not None:
                notes += albedo_notes(material)
    return collection


def _appended(blocks: Any, before: Collection[int]) -> list[Any]:
    return [block for block in blocks if block.session_uid not in before]


def _prepare(before: Collection[int]) -> None:
    """Give a modelled scene object and part index 0, the environment's light group, and AOVs.

    All objects and materials that came with it are meant, among them those of instances, particles and
    geometry nodes, which are not in its collection.

    Args:
        before: `block_ids` before the scene was appended.
    """
    for material in _appended(bpy.data.materials, before):
        material.pass_index = 0
        if material.node_tree is not None and not material.is_grease_pencil:
            add_aovs(material)
    for blender_object in _appended(bpy.data.objects, before):
        blender_object.pass_index = 0
        # Lights and glowing surfaces of a modelled scene count as light of the environment.
        blender_object.lightgroup = ENVIRONMENT_LIGHT
        if blender_object.type not in _SURFACES:
            continue
        if not blender_object.data.materials:
            blender_object.data.materials.append(None)
        for slot in blender_object.material_slots:
            slot.material = slot.material or plain_material("bare")


def _map_world(name: str, image: Any) -> Any:
    """Make a Blender world that shows an environment map; a black one if ``image`` is None."""
    world = bpy.data.worlds.new(name)
    tree = world.node_tree
    tree.nodes.clear()
    output = tree.nodes.new("ShaderNodeOutputWorld")
    shader = tree.nodes.new("ShaderNodeBackground")
    shader.name = "shader"
    shader.inputs["Color"].default_value = (0.0, 0.0, 0.0, 1.0)
    tree.links.new(shader.outputs[0], output.inputs["Surface"])
    if image is not None:
        coordinates = tree.nodes.new("ShaderNodeTexCoord")
        turn = tree.nodes.new("ShaderNodeMapping")
        turn.name = "turn"
        texture = tree.nodes.new("ShaderNodeTexEnvironment")
        texture.image = image
        image.colorspace_settings.name = "Linear Rec.709"
        tree.links.new(coordinates.outputs["Generated"], turn.inputs["Vector"])
        tree.links.new(turn.outputs["Vector"], texture.inputs["Vector"])
        tree.links.new(texture.outputs["Color"], shader.inputs["Color"])
    return world


def _opaque_pixels(image: Any) -> Float32[ndarray, "rows columns 3"] | None:
    """Return the colours of a Blender image; None if a pixel is transparent."""
    (columns, rows), channels = image.size, image.channels
    pixels = np.empty(rows * columns * channels, np.float32)
    image.pixels.foreach_get(pixels)
    pixels = pixels.reshape(rows, columns, channels)
    if channels in (2, 4) and (pixels[..., -1] < 1).any():
        return None
    return np.ascontiguousarray(pixels[..., :3] if channels > 2 else pixels[..., [0, 0, 0]])


def _set_if_changed(socket: Any, value: Any) -> None:
    """Set a socket if its value differs in single precision, which Blender keeps."""
    if not np.array_equal(np.array(socket.default_value, np.float32), np.array(value, np.float32)):
        socket.default_value = value
