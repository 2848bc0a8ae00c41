"""Build the shipped assets and `manifest.json`: ``scripts/assets/build.py [OUT] [--only KIND[/NAME]]...``.

Needs `bpy`. The results are committed, because assets change seldom; run the script again after editing it,
and commit the files that it writes. Each file holds one asset, and the file name is its label. Environment
maps are copied from the CC0 maps that come with Blender, and two meshes are read from npm packages
(`--meshes`, see `build_objects`); the modules of this folder model everything else. Blender's files differ
from one build to the next, so build only assets that changed, with the older of the supported versions.
"""

import argparse
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import bpy

from build_files import copy, save, start
from build_interiors import SETS as INTERIORS
from build_objects import FROM_NPM, OBJECTS, build_object
from build_outdoors import SETS as OUTDOORS
from build_parts import CLASSES, build_with_parts
from build_scenes import build_set
from build_textures import TEXTURES, paint_texture
from candlelight.blender_assets import shipped
from candlelight.blender_assets.asset_manifest import (
    ASSET_MANIFEST,
    read_asset_manifest,
    write_asset_manifest,
)

# Base colours of CANDLE's materials, linear Rec.709 (candle-simulator, read from its .blend files).
COLORS = {
    "red": (0.8000, 0.0866, 0.0804),
    "blue": (0.0759, 0.0768, 0.8000),
    "yellow": (0.8000, 0.6083, 0.0561),
    "purple": (0.7257, 0.0879, 0.8000),
    "orange": (0.8000, 0.2237, 0.0194),
    "green": (0.0981, 0.8000, 0.0792),
}
# CANDLE's lights: one point of 5000 W and 0.25 m radius, white.
LIGHTS = {"left": (5.0, -5.0, 7.0), "middle": (0.0, 0.0, 7.0), "right": (-5.0, 5.0, 7.0)}
# label: (Blender's map, Poly Haven's name, rotation in degrees, factor of the radiance). With the rotation,
# the part of the panorama behind the objects looks like a photograph, and both sides get about the same
# light. The factor keeps the map darker than CANDLE's lights, so that an object is lit from the side of the
# light's label.
MAPS = {
    "outdoor": ("courtyard", "courtyard", 90.0, 1.2),
    "city square": ("city", "portland_landing_pad", 45.0, 0.9),
    "grassland": ("sunrise", "spruit_sunrise", 225.0, 0.6),
    "moonlit grass": ("night", "moonless_golf", 180.0, 1.2),
    "dusk city": ("sunset", "venice_sunset", 225.0, 1.3),
    "garden": ("forest", "ninomaru_teien", 225.0, 0.7),
    "studio": ("studio", "studio_small_01", 0.0, 1.0),
}
SETS = {**INTERIORS, **OUTDOORS}


Builder = Callable[[Path], dict[str, Any]]


def builders(meshes: Path | None) -> dict[tuple[str, str], Builder]:
    """Return the functions that build the assets into a folder, by kind and name, in manifest order."""
    return {
        **{
            ("objects", name): partial(build_object, name=name, meshes=meshes)
            for name in (*OBJECTS, *FROM_NPM)
        },
        **{("objects", name): partial(build_with_parts, name=name) for name in CLASSES},
        **{("materials", name): partial(build_color, name=name, rgb=rgb) for name, rgb in COLORS.items()},
        **{("textures", name): partial(build_texture, name=name) for name in TEXTURES},
        **{("lights", name): partial(build_light, name=name, location=at) for name, at in LIGHTS.items()},
        **{("scenes", name): partial(build_map, name=name, source=source) for name, source in MAPS.items()},
        **{("scenes", name): partial(build_set, label=name, make=make) for name, make in SETS.items()},
    }


def main(out: Path, only: Collection[str] = (), meshes: Path | None = None) -> None:
    """Write assets below ``out``, and the manifest; assets that are not built keep their entries.

    Args:
        out: folder of the asset library.
        only: kinds, or "kind/name", to build; by default all.
        meshes: folder of the npm packages of two objects; without it, these are not built.
    """
    file = out / ASSET_MANIFEST
    known = read_asset_manifest(file) if file.exists() else {}
    for (kind, name), build in (table := builders(meshes)).items():
        wanted = not only or kind in only or f"{kind}/{name}" in only
        if wanted and not (meshes is None and name in FROM_NPM and kind == "objects"):
            known[kind, name] = build(out)
    write_asset_manifest(file, [known[key] for key in table if key in known])


# -------------------------------------------------------------------------------------- materials, textures


def _principled(name: str) -> tuple[Any, Any]:
    material = bpy.data.materials.new(name)
    nodes = material.node_tree.nodes
    nodes.clear()
    shader = nodes.new("ShaderNodeBsdfPrincipled")
    output = nodes.new("ShaderNodeOutputMaterial")
    material.node_tree.links.new(shader.outputs["BSDF"], output.inputs["Surface"])
    shader.inputs["Roughness"].default_value = 0.5
    shader.inputs["Specular IOR Level"].default_value = 0.5
    shader.inputs["IOR"].default_value = 1.45
    return material, shader


def build_color(out: Path, name: str, rgb: tuple[float, float, float]) -> dict[str, Any]:
    """Write one material of a single colour."""
    start()
    material, shader = _principled(name)
    shader.inputs["Base Color"].default_value = (*rgb, 1.0)
    return save(out, "materials", name, {material}, {"base_color": list(rgb)})


def build_texture(out: Path, name: str) -> dict[str, Any]:
    """Write one two-coloured procedural material."""
    start()
    material, shader = _principled(name)
    paint_texture(material, shader, name)
    return save(out, "textures", name, {material}, {"handles": ["color a", "color b", "mapping"]})


# -------------------------------------------------------------------------------------------- lights, scenes


def build_light(out: Path, name: str, location: tuple[float, float, float]) -> dict[str, Any]:
    """Write one of CANDLE's point lights as an object at its location."""
    start()
    data = bpy.data.lights.new(name, "POINT")
    data.energy, data.shadow_soft_size, data.color = 5000.0, 0.25, (1.0, 1.0, 1.0)
    made = bpy.data.objects.new(name, data)
    made.location = location
    facts = {"location": list(location), "power": 5000.0, "radius": 0.25, "color": [1.0, 1.0, 1.0]}
    return save(out, "lights", name, {made}, facts)


def build_map(out: Path, name: str, source: tuple[str, str, float, float]) -> dict[str, Any]:
    """Copy one environment map under its label, and record its rotation and the factor of its radiance."""
    blender, haven, rotation, strength = source
    maps = Path(bpy.utils.resource_path("LOCAL")) / "datafiles" / "studiolights" / "world"
    origin = f"Poly Haven `{haven}` by Greg Zaal, the 1k copy that comes with Blender as {blender}.exr"
    facts = {"rotation": rotation, "strength": strength}
    return copy(out, "scenes", name, maps / f"{blender}.exr", facts, origin)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", default=shipped())
    parser.add_argument("--only", action="append", default=[], metavar="KIND[/NAME]")
    parser.add_argument("--meshes", type=Path, help="folder of the unpacked npm packages bunny and teapot")
    given = parser.parse_args()
    main(given.out, given.only, given.meshes)
