"""What a .blend brings along with the block that is asked of it: made harmless, or refused.

Blender appends a block with all that it refers to. Before anything of it is evaluated:

- dropped: animation and drivers; OSL nodes, black taking their place; whole scenes (with their
  output paths, compositor and sequencer), texts, sounds, movie clips, node trees that are neither shader nor
  geometry, and every other kind of block that is not in `SHOWN`;
- kept: files that are packed into it, and those that its hash covers
  (`blender_assets.accompanying_files`); and
  simulations, for Blender writes no cache of them to disk as long as it works on no file of its own;
- refused: other files, and linked .blend files wherever they are; films and numbered pictures; files of
  animated geometry; simulations that write to disk; geometry nodes that import files or hold bakes; profiles
  of lamps in texts; generated pictures too large for memory. Without these the picture would be another.

Of an object that is asked for, shape and numbers are read and nothing is shown: there only linked .blend
files, and fonts and volumes as above, are refused, and pictures are dropped.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from blender_assets import accompanying_files
from generators.blender import bpy
from loaders.files.image_files import MAX_PIXELS

# What decides how things look; of a kind that Blender adds, nothing is known yet, so it is dropped.
SHOWN = frozenset(
    (
        *("objects", "collections", "meshes", "curves", "hair_curves", "pointclouds", "volumes", "metaballs"),
        *("grease_pencils", "lattices", "armatures", "shape_keys", "fonts", "particles", "lightprobes"),
        *("materials", "textures", "images", "node_groups", "lights", "cameras", "worlds", "speakers"),
        "libraries",
    )
)
MEASURED = SHOWN - {"images", "textures"}
TREES = ("ShaderNodeTree", "GeometryNodeTree")
WRITERS = ("FLUID", "DYNAMIC_PAINT")  # modifiers that write files of their own accord
IMPORTS = "GeometryNodeImport"  # how the nodes that read files are called: ImportOBJ, ImportText and so on
FILMS = ("SEQUENCE", "MOVIE")
UDIM = "<UDIM>"


def present() -> set[int]:
    """Identify the blocks that there are; what is not among them later was brought."""
    return {block.session_uid for _, block in _blocks()}


def sanitize(path: Path, before: set[int], shown: bool = True) -> list[str]:
    """Make harmless what was appended from a file.

    Args:
        path: the .blend; its folder holds whatever else may be read.
        before: what `present` said before.
        shown: whether it will be rendered as it is, and not only measured.

    Returns:
        Notes of what was dropped.

    Raises:
        ValueError: something is neither harmless nor dispensable; all that was brought is removed again.
    """
    brought = [(kind, block) for kind, block in _blocks() if block.session_uid not in before]
    try:
        notes = _still(brought) + _strip(brought)
        if shown:
            _refuse(brought)
        _refuse_elsewhere(path, brought, SHOWN if shown else ("libraries", "fonts", "volumes"))
        return notes + _drop(brought, SHOWN if shown else MEASURED)
    except ValueError as error:
        bpy.data.batch_remove([block for _, block in brought])
        raise ValueError(f"{path.name}: {error}") from None


def _blocks() -> Iterator[tuple[str, Any]]:
    for field in bpy.data.bl_rna.properties:
        if field.type == "COLLECTION":
            for block in getattr(bpy.data, field.identifier):
                yield field.identifier, block


def _of(kind: str, brought: Iterable[tuple[str, Any]]) -> list[Any]:
    return [block for other, block in brought if other == kind]


def _trees(brought: Iterable[tuple[str, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield each node tree with the block that it is in, or is."""
    for kind, block in brought:
        tree = block if kind == "node_groups" else getattr(block, "node_tree", None)
        if kind in SHOWN and tree is not None:
            yield block, tree


def _still(brought: list[tuple[str, Any]]) -> list[str]:
    """Take all animation, and with it every driver, from the blocks and the trees in them."""
    notes = []
    for block in [*(block for _, block in brought), *(tree for _, tree in _trees(brought))]:
        if getattr(block, "animation_data", None) is not None:
            block.animation_data_clear()
            notes.append(f"the animation of `{block.name}` is left out")
    return notes


def _strip(brought: list[tuple[str, Any]]) -> list[str]:
    """Take OSL from the node trees."""
    notes = []
    for block, tree in _trees(brought):
        for node in [node for node in tree.nodes if node.bl_idname == "ShaderNodeScript"]:
            notes.append(f"the script `{node.name}` of `{block.name}` is left out")
            for link in [link for output in node.outputs for link in output.links]:
                _blacken(link.to_socket)
            tree.nodes.remove(node)
    return notes


def _blacken(socket: Any) -> None:
    """Give a socket 0 for when its link is gone."""
    value: Any = getattr(socket, "default_value", None)
    if isinstance(value, float | int):
        socket.default_value = type(value)(0)
    elif hasattr(value, "__len__") and not isinstance(value, str):
        socket.default_value = [0.0] * len(value)


def _drop(brought: list[tuple[str, Any]], kept: Collection[str]) -> list[str]:
    """Remove the blocks of other kinds."""
    dropped = [
        block
        for kind, block in brought
        if kind not in kept or (kind == "node_groups" and block.bl_idname not in TREES)
    ]
    notes = [f"its {block.bl_rna.name.lower()} `{block.name}` is left out" for block in dropped]
    bpy.data.batch_remove(dropped)
    return notes


def _refuse(brought: list[tuple[str, Any]]) -> None:
    """Refuse what would have to be dropped and cannot be.

    Raises:
        ValueError: as said.
    """
    for cache in _of("cache_files", brought):
        raise ValueError(f"expected its shapes in the file, got some in `{cache.filepath}`; apply them")
    for thing in _of("objects", brought):
        for modifier in thing.modifiers:
            _refuse_modifier(thing, modifier)
    for block, tree in _trees(brought):
        for node in tree.nodes:
            if node.bl_idname.startswith(IMPORTS):
                raise ValueError(f"`{block.name}` has the node `{node.name}`, which reads files; apply it")
            if node.bl_idname == "ShaderNodeTexIES" and node.mode == "INTERNAL" and node.ies:
                raise ValueError(
                    f"`{block.name}` has a lamp's profile in the text `{node.ies.name}`; "
                    "put it beside as a file"
                )
    for picture in _of("images", brought):
        _refuse_picture(picture)
    for smoke in _of("volumes", brought):
        if smoke.is_sequence:
            raise ValueError(f"expected a still volume, got `{smoke.name}`; put one in its place")


def _refuse_modifier(thing: Any, modifier: Any) -> None:
    where = f"`{thing.name}` has the modifier `{modifier.name}`"
    cache = _point_cache(modifier)
    if modifier.type in WRITERS:
        raise ValueError(f"{where}, which writes to disk; apply or remove it")
    if (cache is not None and cache.use_external) or (modifier.type == "NODES" and len(modifier.bakes)):
        raise ValueError(f"{where}, whose result may lie elsewhere; apply or remove it")
    if modifier.type == "OCEAN" and not modifier.is_cached:
        modifier.filepath = ""  # names a folder though nothing was put there


def _point_cache(modifier: Any) -> Any:
    """Return where a modifier keeps the simulation of its object; None for most."""
    system = modifier.particle_system if modifier.type == "PARTICLE_SYSTEM" else modifier
    return getattr(system, "point_cache", None)


def _refuse_picture(picture: Any) -> None:
    if picture.source in FILMS or picture.use_multiview:
        raise ValueError(f"expected still pictures, got `{picture.name}`; put one in its place")
    if 0 < len(picture.packed_files) < len(picture.tiles):
        raise ValueError(f"expected all tiles of `{picture.name}` in the file, got some; pack them")
    size = (picture.generated_width, picture.generated_height)
    if picture.source == "GENERATED" and size[0] * size[1] > MAX_PIXELS:
        raise ValueError(
            f"its picture `{picture.name}` of {size[0]} x {size[1]} pixels is too large; shrink it"
        )


def _refuse_elsewhere(path: Path, brought: list[tuple[str, Any]], kinds: Collection[str]) -> None:
    """Refuse files that the hash of the asset does not cover; of a picture in tiles each is one."""
    covered: set[Path] | None = None
    # Blender's own list of the files that a block names and that are not packed.
    named = bpy.data.file_path_map(subset=[block for kind, block in brought if kind in kinds])
    for block, names in named.items():
        tiles = [str(tile.number) for tile in getattr(block, "tiles", ())] or [""]
        for name in sorted({name.replace(UDIM, tile) for name in names for tile in tiles}):
            file = Path(bpy.path.abspath(name, library=block.library))
            if file == path:
                continue  # the .blend itself is listed beside what it links to
            if covered is None:
                covered = {beside.resolve() for beside in accompanying_files(path.parent)}
            if file.resolve() not in covered:
                raise ValueError(
                    f"`{block.name}` needs `{file}`, which is missing, hidden, of a kind that is not read, "
                    "or outside the folder; pack it into the file, or put it beside"
                )
