"""Image textures: one material that shows any image, and the images that a trace shows."""

from typing import Any

import numpy as np

from blender_assets import AssetLibrary
from generators.blender import bpy
from generators.scenes.texture_images import read_texture

IMAGE_NODE = "image"
_BLEND = 0.2  # how far from the edges of the box its sides flow into one another


class TextureImageCache:
    """The images of the textures in use; what a trace does not show, the next one drops."""

    def __init__(self, library: AssetLibrary) -> None:
        self._library = library
        self._images: dict[str, Any] = {}
        self._used: set[str] = set()

    def start(self) -> None:
        """Begin a new trace: drop the images that the last one did not use."""
        for label in self._images.keys() - self._used:
            bpy.data.images.remove(self._images.pop(label))
        self._used.clear()

    def get(self, label: str) -> Any:
        """Return the image of a texture, as linear colour.

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
    """Let a Principled material show an image, laid on from the sides of a box and mirrored where it ends.

    The nodes `image` and `mapping` are the handles, as those of the procedural textures are.
    """
    tree = material.node_tree
    where = tree.nodes.new("ShaderNodeTexCoord")
    mapping = tree.nodes.new("ShaderNodeMapping")
    mapping.name = "mapping"
    image = tree.nodes.new("ShaderNodeTexImage")
    image.name, image.projection, image.extension = IMAGE_NODE, "BOX", "MIRROR"
    image.projection_blend = _BLEND
    tree.links.new(where.outputs["Object"], mapping.inputs["Vector"])
    tree.links.new(mapping.outputs["Vector"], image.inputs["Vector"])
    tree.links.new(image.outputs["Color"], shader.inputs["Base Color"])
