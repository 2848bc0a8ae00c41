"""Save the scene of one planned sample as a .blend file that needs no other file.

``python -m candlelight.generators.blender.save_scene`` is asked by
`candlelight.generators.engine.helper_process.run_helper` with the ``recipe``, the ``sample`` and the ``file``
to write, and replies the ``error`` for which there is no file, or None.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.blender import bpy, passes
from candlelight.generators.blender.blender_scene import BlenderScene, PlacedObject
from candlelight.generators.engine.helper_process import answer_request
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import SetSettings, light_names, settings
from candlelight.generators.planning.provenance import check_group
from candlelight.generators.scenes.plan_records import SamplePlan, Trace


def save_scene(recipe: Recipe, sample: SamplePlan, file: Path) -> None:
    """Save the scene of a sample so that Blender renders the sample's image from the file alone.

    Args:
        recipe: the recipe of the sample.
        sample: a sample that is traced.
        file: the .blend file to write.

    Raises:
        ValueError: an asset cannot be rendered, has changed since the sample was planned, or needs a file
            that cannot be packed.
        RuntimeError: Blender cannot write the file.
    """
    chosen, library = settings(recipe, sample.set), AssetLibrary(recipe.assets)
    scene = BlenderScene(
        width=chosen.image.width,
        height=chosen.image.height,
        samples=chosen.render.samples,
        bounces=chosen.render.bounces,
        threads=1,
        library=library,
    )
    passes.request(scene.bpy_scene, light_names(recipe, sample.set))
    # The lights of the trace are those of all samples of its group, which multiply their radiance by a gain.
    shown = scene.show(sample.trace.model_copy(update={"lights": sample.lights}))
    _set_up_output(scene.bpy_scene, sample.id, chosen)
    _, floor, *objects = scene.solid_objects()
    _look_through_camera()
    _remove_unused(floor, objects)
    _rename(floor, objects, sample.trace, shown)
    _pack()
    check_group([sample], library)  # only now have all files been read
    bpy.ops.wm.save_as_mainfile(filepath=str(file), compress=True, relative_remap=False)


def _set_up_output(bpy_scene: Any, name: str, chosen: SetSettings) -> None:
    """Show and save renders as the layer `image`: denoised, exposed, in sRGB, as PNG."""
    bpy_scene.name = name
    bpy_scene.view_settings.exposure = math.log2(chosen.exposure)
    # Blender denoises the whole image, where frames have their parts denoised by the same library.
    bpy_scene.cycles.use_denoising = chosen.render.denoise
    render, image = bpy_scene.render, bpy_scene.render.image_settings
    image.media_type, image.file_format = "IMAGE", "PNG"
    image.color_mode, image.color_depth = "RGB", "8"
    render.filepath, render.use_file_extension = f"//{name}", True
    render.threads_mode, render.use_persistent_data = "AUTO", False


def _look_through_camera() -> None:
    for area in (area for screen in bpy.data.screens for area in screen.areas if area.type == "VIEW_3D"):
        area.spaces.active.region_3d.view_perspective = "CAMERA"


def _remove_unused(floor: Any, objects: Sequence[Any]) -> None:
    """Remove a hidden floor, materials that the plan replaced, and all that was kept for other traces."""
    if floor.hide_render:
        bpy.data.objects.remove(floor)
    for placed in objects:
        for slot in range(len(placed.data.materials)):
            placed.data.materials[slot] = None  # the slots of the object hold its materials
    for blocks in (bpy.data.materials, bpy.data.meshes, bpy.data.worlds, bpy.data.collections):
        for block in blocks:
            block.use_fake_user = False
    bpy.data.batch_remove(bpy.data.libraries)
    bpy.data.orphans_purge(do_recursive=True)


def _rename(floor: Any, objects: Sequence[Any], trace: Trace, shown: Sequence[PlacedObject]) -> None:
    """Name objects by their assets, and materials by their labels and parts."""
    if trace.floor is not None and trace.floor.material is not None:
        floor.material_slots[0].material.name = trace.floor.material.label
    # Cycles draws the output Random of such a node by the name of the object.
    named_random = any(node.bl_idname == "ShaderNodeObjectInfo" for node in _shader_nodes())
    for placed, planned, described in zip(objects, trace.objects, shown, strict=True):
        if not named_random:
            placed.name = planned.type
        names = [f"{part.name}: {part.material.label}" for part in described.parts]
        for material in (slot.material for slot in placed.material_slots if slot.material is not None):
            part = material.pass_index  # from 1; 0 if the object has no parts
            material.name = names[part - 1] if 0 < part <= len(names) else planned.material.label


def _shader_nodes() -> list[Any]:
    """List the nodes of all materials, lights, worlds and node groups."""
    owners = (*bpy.data.materials, *bpy.data.lights, *bpy.data.worlds)
    trees = [*bpy.data.node_groups, *(owner.node_tree for owner in owners)]
    return [node for tree in trees if tree is not None for node in tree.nodes]


def _pack() -> None:
    """Pack all files, and forget where they were.

    Raises:
        ValueError: a file cannot be packed.
    """
    for image in bpy.data.images:
        if image.is_dirty:  # made from an array
            image.pack()
    for node in _shader_nodes():
        if node.bl_idname == "ShaderNodeTexIES" and node.filepath:
            file = Path(bpy.path.abspath(node.filepath))
            node.mode, node.ies = "INTERNAL", bpy.data.texts.new(file.name)
            node.ies.from_string(file.read_text(encoding="utf-8", errors="replace"))
            node.filepath = ""
    bpy.ops.file.pack_all()
    for block, names in bpy.data.file_path_map().items():
        for name in names:
            raise ValueError(f"`{block.name}` needs `{name}`, which cannot be packed into a .blend file")
        if (origin := getattr(block, "library_weak_reference", None)) is not None:
            # A shorter text would leave the end of the path in the file.
            origin.filepath = " " * len(origin.filepath)
    for image in bpy.data.images:
        for packed in image.packed_files:
            packed.filepath = _name_alone(packed.filepath)
        image.filepath_raw = _name_alone(image.filepath_raw)
    for block in (*bpy.data.fonts, *bpy.data.volumes):
        if block.packed_file is not None:  # not Blender's own font
            block.filepath = _name_alone(block.filepath)


def _name_alone(path: str) -> str:
    return f"//{Path(path).name}"


def _reply(request: dict[str, Any]) -> Iterator[dict[str, str | None]]:
    recipe, sample = Recipe.model_validate(request["recipe"]), SamplePlan.model_validate(request["sample"])
    try:
        save_scene(recipe, sample, Path(request["file"]))
        yield {"error": None}
    except (OSError, RuntimeError, ValueError) as error:
        yield {"error": str(error)}


if __name__ == "__main__":
    answer_request(_reply)
