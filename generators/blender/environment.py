"""Surroundings: the map, or the modelled scene, that a trace is set in."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from blender_assets import AssetLibrary
from generators.blender import bpy
from generators.blender.append_files import append, append_if_there, load_map
from generators.blender.materials import add_aovs, plain_material
from generators.language.lights_and_camera import ENVIRONMENT_LIGHT
from generators.scenes.scene import Environment

DARK = ""  # the label of a world without light


class Surroundings:
    """The surroundings of one stage, read from their files once and kept.

    Args:
        scene: the Blender scene.
        library: where assets are found.
    """

    def __init__(self, scene: Any, library: AssetLibrary) -> None:
        self._scene, self._library = scene, library
        self._worlds: dict[str, Any] = {}
        self._pictures: dict[str, Float32[ndarray, "rows columns 3"] | None] = {}
        self._sets: dict[str, Any] = {}
        self._standing: Any = None

    def show(self, environment: Environment | None) -> None:
        """Put up the surroundings of a trace and take down those of the one before."""
        label = DARK if environment is None else environment.scene
        self._stand(None if environment is None or not environment.modelled else self._set(label))
        # A world of its own for each map, and touched only where it changes: Cycles builds the map's sampling
        # table anew at every touch, which costs more than tracing a small frame.
        if label not in self._worlds:
            self._worlds[label] = self._new_world(label)
        world = self._worlds[label]
        if self._scene.world != world:
            self._scene.world = world
        nodes = world.node_tree.nodes
        if environment is not None and "turn" in nodes:
            _set(nodes["turn"].inputs["Rotation"], (0.0, 0.0, math.radians(environment.rotation)))
            _set(nodes["shader"].inputs["Strength"], environment.strength)

    def picture(self, environment: Environment | None) -> Float32[ndarray, "rows columns 3"] | None:
        """Return the pixels of a map that has been put up, the first row at the bottom.

        Returns:
            None where what shines is not a picture alone.
        """
        return None if environment is None else self._pictures.get(environment.scene)

    def _stand(self, collection: Any) -> None:
        if collection == self._standing:
            return
        if self._standing is not None:
            self._scene.collection.children.unlink(self._standing)
        if collection is not None:
            self._scene.collection.children.link(collection)
        self._standing = collection
        # What Cycles keeps from render to render remembers sets that are gone (measured: other noise after
        # another set), and frames must not depend on those before: switched off, it forgets.
        self._scene.render.use_persistent_data = False
        self._scene.render.use_persistent_data = True

    def _set(self, label: str) -> Any:
        if label not in self._sets:
            collection = append(self._library.find("scenes", label), "collections", label)
            if collection.name.lower() != label.lower():
                # An unscanned file with a world alone still has the collection that Blender saves by default.
                raise ValueError(
                    f"scene `{label}`: expected a collection of that name, found `{collection.name}`; if the "
                    "file holds a world alone, run `candlelight assets scan` on its folder"
                )
            collection.use_fake_user = True
            prepare(collection)
            self._sets[label] = collection
        return self._sets[label]

    def _new_world(self, label: str) -> Any:
        """Make the world of one map, or read that of a .blend file; without either, a black one."""
        path = None if label == DARK else self._library.find("scenes", label)
        world = append_if_there(path, "worlds", label) if path and path.suffix == ".blend" else None
        if world is None:
            image = load_map(path) if path and path.suffix != ".blend" else None
            world = _map_world(label or "dark", image)
            self._pictures[label] = None if image is None else _pixels(image)
        world.use_fake_user = True
        world.lightgroup = ENVIRONMENT_LIGHT
        # Measured at 16 samples on changing worlds: 0.3 CPU s a frame against 1.85 s with the resolution that
        # Cycles chooses, for 4 % more noise before denoising.
        world.cycles.sampling_method, world.cycles.sample_map_resolution = "MANUAL", 1024
        return world


def prepare(collection: Any) -> None:
    """Make a set of a user's or ours fit to be background: of index 0, and with its ground truth."""
    materials = {}
    for thing in collection.all_objects:
        thing.pass_index = 0
        # What shines of itself belongs to the surroundings' share of the light.
        thing.lightgroup = ENVIRONMENT_LIGHT
        if thing.type == "MESH" and not thing.data.materials:
            thing.data.materials.append(None)
        for slot in thing.material_slots:
            slot.material = slot.material or plain_material("bare")
            materials[slot.material.name] = slot.material
    for material in materials.values():
        material.pass_index = 0
        if "albedo base" not in material.node_tree.nodes:
            add_aovs(material)


def _map_world(name: str, picture: Any) -> Any:
    """Make a world of a map; without one, of darkness."""
    world = bpy.data.worlds.new(name)
    tree = world.node_tree
    tree.nodes.clear()
    output = tree.nodes.new("ShaderNodeOutputWorld")
    shader = tree.nodes.new("ShaderNodeBackground")
    shader.name = "shader"
    shader.inputs["Color"].default_value = (0.0, 0.0, 0.0, 1.0)
    tree.links.new(shader.outputs[0], output.inputs["Surface"])
    if picture is not None:
        where = tree.nodes.new("ShaderNodeTexCoord")
        turn = tree.nodes.new("ShaderNodeMapping")
        turn.name = "turn"
        image = tree.nodes.new("ShaderNodeTexEnvironment")
        image.image = picture
        image.image.colorspace_settings.name = "Linear Rec.709"
        tree.links.new(where.outputs["Generated"], turn.inputs["Vector"])
        tree.links.new(turn.outputs["Vector"], image.inputs["Vector"])
        tree.links.new(image.outputs["Color"], shader.inputs["Color"])
    return world


def _pixels(image: Any) -> Float32[ndarray, "rows columns 3"] | None:
    """Return the colours of a picture as Blender holds them; None where they are not alike opaque."""
    (columns, rows), channels = image.size, image.channels
    pixels = np.empty(rows * columns * channels, np.float32)
    image.pixels.foreach_get(pixels)
    pixels = pixels.reshape(rows, columns, channels)
    if channels in (2, 4) and (pixels[..., -1] < 1).any():
        return None
    return np.ascontiguousarray(pixels[..., :3] if channels > 2 else pixels[..., [0, 0, 0]])


def _set(socket: Any, value: Any) -> None:
    """Set a socket, but only if that changes it."""
    # Blender keeps single precision, so that is what is compared.
    if not np.array_equal(np.array(socket.default_value, np.float32), np.array(value, np.float32)):
        socket.default_value = value
