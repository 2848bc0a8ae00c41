"""Make the datablocks of a .blend file harmless before they are evaluated, or refuse the file.

Blender appends a datablock with all datablocks that it refers to. Each of them is kept, dropped or refused:

- Dropped: animation and drivers; OSL nodes, replaced by black; whole scenes (with their output paths,
  compositor and sequencer), texts, sounds, movie clips, node trees that are neither shader nor geometry, and
  every other kind of block that is not in `RENDERED_KINDS`.
- Kept: files that are packed into the .blend, and files that its hash covers
(`candlelight.blender_assets.accompanying_files`);
  simulations, because Blender writes no cache of them to disk while the open file has no name.
- Refused: other files, and linked .blend files wherever they are; films and numbered images; files of
  animated geometry; simulations that write to disk; geometry nodes that import files or hold bakes; light
  profiles in texts; generated images too large for memory. Without them the render would differ.

Of an object asset, only the mesh is read, and nothing is rendered. So its images are dropped, and only linked
.blend files, fonts and volumes outside the folder are refused.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from candlelight.blender_assets import accompanying_files
from candlelight.generators.blender import bpy
from candlelight.loaders.files.safe_decoding import MAX_PIXELS

# Kinds of datablocks that affect the render. Kinds that a later Blender adds are dropped.
RENDERED_KINDS = frozenset(
    (
        *("objects", "collections", "meshes", "curves", "hair_curves", "pointclouds", "volumes", "metaballs"),
        *("grease_pencils", "lattices", "armatures", "shape_keys", "fonts", "particles", "lightprobes"),
        *("materials", "textures", "images", "node_groups", "lights", "cameras", "worlds", "speakers"),
        "libraries",
    )
)
_MEASURED_KINDS = RENDERED_KINDS - {"images", "textures"}
_TREES = ("ShaderNodeTree", "GeometryNodeTree")
_WRITING_MODIFIERS = ("FLUID", "DYNAMIC_PAINT")  # modifiers that write files when they are evaluated
_IMPORT_NODES = "GeometryNodeImport"  # prefix of nodes that read files: ImportOBJ, ImportText and others
_FILM_SOURCES = ("SEQUENCE", "MOVIE")
_UDIM = "<UDIM>"

_Blocks = list[tuple[str, Any]]  # kind and block


def block_ids() -> set[int]:
    """Return the ids of all datablocks, to tell later which ones were appended."""
    return {block.session_uid for _, block in all_blocks()}


def sanitize(path: Path, before: set[int], rendered: bool = True) -> list[str]:
    """Make harmless all datablocks that were appended from a file.

    Args:
        path: the .blend file; files in its folder may be read.
        before: `block_ids` before the file was appended.
        rendered: whether the datablocks will be rendered, and not only measured.

    Returns:
        Notes on the blocks and nodes that were dropped.

    Raises:
        ValueError: something harmful is needed; all appended datablocks are removed again.
    """
    appended = [(kind, block) for kind, block in all_blocks() if block.session_uid not in before]
    try:
        notes = _remove_animation(appended) + _remove_scripts(appended)
        if rendered:
            _refuse_harmful(appended)
        kinds = RENDERED_KINDS if rendered else ("libraries", "fonts", "volumes")
        _refuse_outside_files(path, appended, kinds)
        if rendered:
            _refuse_unreadable_images(appended)
        return notes + _drop_other_kinds(appended, RENDERED_KINDS if rendered else _MEASURED_KINDS)
    except ValueError as error:
        bpy.data.batch_remove([block for _, block in appended])
        raise ValueError(f"{path.name}: {error}") from None


def all_blocks() -> Iterator[tuple[str, Any]]:
    """Yield every datablock once, with its kind; a kind without a collection of its own is `all_ids`."""
    fields = [field for field in bpy.data.bl_rna.properties if field.type == "COLLECTION"]
    seen = set()
    for field in sorted(fields, key=lambda field: field.fixed_type.identifier == "ID"):
        for block in getattr(bpy.data, field.identifier):
            if block.session_uid not in seen:
                seen.add(block.session_uid)
                yield field.identifier, block


def _of_kind(kind: str, appended: Iterable[tuple[str, Any]]) -> list[Any]:
    return [block for other, block in appended if other == kind]


def _trees(appended: _Blocks) -> Iterator[tuple[Any, Any]]:
    """Yield each node tree with the block that contains it, or with itself if it is a node group."""
    for kind, block in appended:
        tree = block if kind == "node_groups" else getattr(block, "node_tree", None)
        if kind in RENDERED_KINDS and tree is not None:
            yield block, tree


def _remove_animation(appended: _Blocks) -> list[str]:
    """Remove all animation data, which include drivers, from blocks and their node trees."""
    notes = []
    for block in [*(block for _, block in appended), *(tree for _, tree in _trees(appended))]:
        if getattr(block, "animation_data", None) is not None:
            block.animation_data_clear()
            notes.append(f"the animation of `{block.name}` is left out")
    return notes


def _remove_scripts(appended: _Blocks) -> list[str]:
    """Remove OSL nodes from the node trees."""
    notes = []
    for block, tree in _trees(appended):
        for node in [node for node in tree.nodes if node.bl_idname == "ShaderNodeScript"]:
            notes.append(f"the script `{node.name}` of `{block.name}` is left out")
            for link in [link for output in node.outputs for link in output.links]:
                _set_to_zero(link.to_socket)
            tree.nodes.remove(node)
    return notes


def _set_to_zero(socket: Any) -> None:
    """Set the value that a socket has once its link is removed."""
    value: Any = getattr(socket, "default_value", None)
    if isinstance(value, float | int):
        socket.default_value = type(value)(0)
    elif hasattr(value, "__len__") and not isinstance(value, str):
        socket.default_value = [0.0] * len(value)


def _drop_other_kinds(appended: _Blocks, kept: Collection[str]) -> list[str]:
    """Remove the blocks whose kind is not ``kept``."""
    dropped = [
        block
        for kind, block in appended
        if kind not in kept or (kind == "node_groups" and block.bl_idname not in _TREES)
    ]
    notes = [f"its {block.bl_rna.name.lower()} `{block.name}` is left out" for block in dropped]
    bpy.data.batch_remove(dropped)
    return notes


def _refuse_harmful(appended: _Blocks) -> None:
    """Refuse harmful things that the render needs.

    Raises:
        ValueError: there is one; the message names it.
    """
    for cache in _of_kind("cache_files", appended):
        raise ValueError(f"expected its shapes in the file, got some in `{cache.filepath}`; apply them")
    for blender_object in _of_kind("objects", appended):
        for modifier in blender_object.modifiers:
            _refuse_modifier(blender_object, modifier)
    for block, tree in _trees(appended):
        for node in tree.nodes:
            if node.bl_idname.startswith(_IMPORT_NODES):
                raise ValueError(f"`{block.name}` has the node `{node.name}`, which reads files; apply it")
            if node.bl_idname == "ShaderNodeTexIES" and node.mode == "INTERNAL" and node.ies:
                raise ValueError(
                    f"`{block.name}` has a light profile in the text `{node.ies.name}`; "
                    "put it into the folder as a file"
                )
    for image in _of_kind("images", appended):
        _refuse_image(image)
    for volume in _of_kind("volumes", appended):
        if volume.is_sequence:
            raise ValueError(f"expected a still volume, got the sequence `{volume.name}`; keep one file")


def _refuse_modifier(blender_object: Any, modifier: Any) -> None:
    where = f"`{blender_object.name}` has the modifier `{modifier.name}`"
    cache = _point_cache(modifier)
    if modifier.type in _WRITING_MODIFIERS:
        raise ValueError(f"{where}, which writes to disk; apply or remove it")
    if (cache is not None and cache.use_external) or (modifier.type == "NODES" and len(modifier.bakes)):
        raise ValueError(f"{where}, whose result may be stored in another file; apply or remove it")
    if modifier.type == "OCEAN" and not modifier.is_cached:
        modifier.filepath = ""  # names a folder although nothing was stored there


def _point_cache(modifier: Any) -> Any:
    """Return the cache of a modifier's simulation; None for modifiers without one."""
    system = modifier.particle_system if modifier.type == "PARTICLE_SYSTEM" else modifier
    return getattr(system, "point_cache", None)


def _refuse_image(image: Any) -> None:
    if image.source in _FILM_SOURCES or image.use_multiview:
        raise ValueError(f"expected still images, got the film `{image.name}`; keep one image")
    if 0 < len(image.packed_files) < len(image.tiles):
        raise ValueError(f"expected all tiles of `{image.name}` in the file, got some; pack them")
    size = (image.generated_width, image.generated_height)
    if image.source == "GENERATED" and size[0] * size[1] > MAX_PIXELS:
        raise ValueError(
            f"its image `{image.name}` of {size[0]} x {size[1]} pixels is too large; make it smaller"
        )


def _refuse_unreadable_images(appended: _Blocks) -> None:
    """Refuse images that cannot be decoded, packed or not; Blender would show them as one colour."""
    for image in _of_kind("images", appended):
        if image.source in ("FILE", "TILED"):
            if not image.size[0]:
                raise ValueError(f"its image `{image.name}` cannot be decoded; replace it, and pack it again")
            image.buffers_free()  # Cycles reads the file itself


def _refuse_outside_files(path: Path, appended: _Blocks, kinds: Collection[str]) -> None:
    """Refuse files that the hash of the asset does not cover; each tile of an image is a file."""
    covered: set[Path] | None = None
    # Blender lists the files that a block names, without packed files.
    named = bpy.data.file_path_map(subset=[block for kind, block in appended if kind in kinds])
    for block, names in named.items():
        tiles = [str(tile.number) for tile in getattr(block, "tiles", ())] or [""]
        for name in sorted({name.replace(_UDIM, tile) for name in names for tile in tiles}):
            file = Path(bpy.path.abspath(name, library=block.library))
            if file == path:
                continue  # Blender lists the .blend file itself, too
            if covered is None:
                covered = {neighbour.resolve() for neighbour in accompanying_files(path.parent)}
            if file.resolve() not in covered:
                raise ValueError(
                    f"`{block.name}` needs `{file}`, which is missing, hidden, of an unsupported kind, or "
                    "outside the folder; pack it into the .blend file, or put it into the folder"
                )
