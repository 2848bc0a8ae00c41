"""Image textures: the nodes that show an image on a material, and the images that a trace uses."""

from typing import Any

import numpy as np

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.blender import bpy
from candlelight.generators.scenes.object_materials import read_texture

IMAGE_NODE = "image"
_BLEND = 0.2  # width of the transition between the sides of a box projection


class TextureImageCache:
    """Blender's images of textures; an image that a trace did not use is removed at the next trace."""

    def __init__(self, library: AssetLibrary) -> None:
        self._library = library
        self._images: dict[str, Any] = {}
        self._used: set[str] = set()

    def start(self) -> None:
        """Begin a new trace: remove the images that the previous trace did not use."""
        for label in self._images.keys() - self._used:
            bpy.data.images.remove(self._images.pop(label))
        self._used.clear()

    def get(self, label: str) -> Any:
        """Return the image of a texture, in linear colour.

        Raises:
            InputError: the file cannot be read.
        """
        self._used.add(label)
        if label not in self._images:
            pixels = read_texture(self._library.find("textures", label))
            side = len(pixels)
            image = bpy.data.images.new(label, side, side, float_buffer=True)
            image.colorspace_settings.name = "Linear Rec.709"
            # Blender counts rows from the bottom.
            image.pixels.foreach_set(np.dstack([pixels[::-1], np.ones_like(pixels[..., :1])]).ravel())
            image.update()
            self._images[label] = image
        return self._images[label]


def add_image_nodes(material: Any, shader: Any) -> None:
    """Add nodes that project an image from the sides of a box, mirrored beyond its borders, as base colour.

    The nodes are named `image` and `mapping`; procedural textures have a `mapping` node, too.
    """
    tree = material.node_tree
    coordinates = tree.nodes.new("ShaderNodeTexCoord")
    mapping = tree.nodes.new("ShaderNodeMapping")
    mapping.name = "mapping"
    image = tree.nodes.new("ShaderNodeTexImage")
    image.name, image.projection, image.extension = IMAGE_NODE, "BOX", "MIRROR"
    image.projection_blend = _BLEND
    tree.links.new(coordinates.outputs["Object"], mapping.inputs["Vector"])
    tree.links.new(mapping.outputs["Vector"], image.inputs["Vector"])
    tree.links.new(image.outputs["Color"], shader.inputs["Base Color"])
