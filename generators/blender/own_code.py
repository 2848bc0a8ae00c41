"""Objects and materials that Python functions of the user make.

A function runs in an empty Blender scene, twice in a row with the same arguments. Both runs must give the
same to the bit, and leave all else as it was. Names of datablocks that exist are put aside meanwhile, so
that a function finds the names free that it gives, whatever was rendered before.
"""

import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candlelight.blender_assets import AssetLibrary
from candlelight.blender_assets.asset_kinds import CODE
from candlelight.generators.blender import bpy
from candlelight.generators.blender.own_mesh import OwnMesh, own_mesh
from candlelight.generators.blender.sanitize import RENDERED_KINDS, all_blocks, block_ids
from candlelight.generators.blender.untouched_state import check_untouched, struct_values, untouched_state
from candlelight.generators.scenes.plan_records import CodeArguments, keyword_arguments
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.files.python_files import exception_reason, functions_of, user_file

_NAMED_KINDS = RENDERED_KINDS - {"libraries"}
_KEPT_KINDS = (bpy.types.Material, bpy.types.NodeTree, bpy.types.Image, bpy.types.Texture)


@dataclass(frozen=True)
class _Product:
    """Result of a function: a mesh or a material, its datablock, and a digest that two equal runs share."""

    made: Any
    block: Any
    digest: str


_Take = Callable[[str, Any, Any, Collection[int]], _Product]
_Key = tuple[_Take, str, CodeArguments]


class OwnCode:
    """Meshes and materials of the user's functions; the next trace removes those that a trace did not use."""

    def __init__(self, library: AssetLibrary) -> None:
        self._library = library
        self._built: dict[_Key, tuple[Any, list[Any]]] = {}
        self._used: set[_Key] = set()

    def start(self) -> None:
        """Begin a new trace."""
        for key in self._built.keys() - self._used:
            made, blocks = self._built.pop(key)
            shaded = made.shaded.values() if isinstance(made, OwnMesh) else ()
            bpy.data.batch_remove([*blocks, *shaded])
        self._used.clear()

    def mesh(self, label: str, numbers: CodeArguments) -> OwnMesh:
        """Return the mesh of the object or collection that a function returns.

        Modifiers and geometry nodes are applied as for a render, instances are made real, and transforms are
        applied: the origin of the world is the origin of the mesh. The parts of an object are its materials,
        the parts of a collection its objects.

        Raises:
            InputError: the function fails, gives no mesh, gives another one in its second run, or changes
                anything else.
        """
        made: OwnMesh = self._get(_take_mesh, label, numbers)
        return made

    def material(self, label: str, numbers: CodeArguments) -> Any:
        """Return the material that a function returns.

        Raises:
            InputError: as `mesh`.
        """
        return self._get(_take_material, label, numbers)

    def _get(self, take: _Take, label: str, numbers: CodeArguments) -> Any:
        key = take, label, numbers
        self._used.add(key)
        if key not in self._built:
            path = self._library.find(CODE, label)
            self._built[key] = _build(take, label, path, keyword_arguments(numbers))
        return self._built[key][0]


def _build(take: _Take, label: str, path: Path, arguments: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Run a function twice; return what it made, and the datablocks that belong to it.

    After an error, the Blender scene that is rendered is of no use any more.
    """
    window = bpy.context.window
    home, names = window.scene, _put_names_aside()
    scene = bpy.data.scenes.new("Scene")
    before, known = block_ids(), untouched_state()
    sys.dont_write_bytecode = True  # the folder may be that of many processes
    with user_file(path) as module:
        function = _function(module, label)
        digests = []
        for run in range(2):
            window.scene = scene
            result = _call(function, label, path, arguments)
            check_untouched(label, known)
            _check_still(label, before)
            window.scene = scene
            product = take(label, result, scene, before)
            digests.append(product.digest)
            new = [block for _, block in all_blocks() if block.session_uid not in before]
            kept = _needed(product.block, new, label) if run else []
            bpy.data.batch_remove([block for block in new if block not in kept])
    if digests[0] != digests[1]:
        raise InputError(f"`{label}` gives another result at each call; take randomness from its numbers")
    product.block.use_fake_user = True
    window.scene = home
    bpy.data.scenes.remove(scene)
    for block in _named_blocks():
        if block.session_uid in names:
            block.rename(names[block.session_uid], mode="ALWAYS")
    return product.made, kept


def _put_names_aside() -> dict[int, str]:
    """Rename the datablocks that exist; return their names by id."""
    names = {block.session_uid: block.name for block in _named_blocks()}
    for block in list(_named_blocks()):
        block.name = f"~{block.session_uid}"
    return names


def _named_blocks() -> Iterator[Any]:
    return (block for kind, block in all_blocks() if kind in _NAMED_KINDS)


def _function(module: Any, label: str) -> Callable[..., Any]:
    file, _, name = label.partition(":")
    found: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(found):
        functions = functions_of(module)
        raise InputError(
            f"{file} has no function `{name}`{did_you_mean(name, functions)}; "
            f"it has: {', '.join(functions) or 'none'}"
        )
    return found


def _call(function: Callable[..., Any], label: str, path: Path, arguments: dict[str, Any]) -> Any:
    try:
        result = function(**arguments)
        if bpy.context.mode != "OBJECT":
            bpy.ops.object.mode_set(mode="OBJECT")  # the mesh does not have before what was edited
        return result
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise any exception
        traceback.print_exc()  # into the log of the sample
        folder = path.parent.resolve()
        places = [(Path(one.filename), one.lineno) for one in traceback.extract_tb(error.__traceback__)]
        inside = [(file.name, line) for file, line in places if file.is_relative_to(folder)]
        where = f" in {inside[-1][0]}, line {inside[-1][1]}" if inside else ""
        raise InputError(f"`{label}` failed{where}: {exception_reason(error)}") from None


def _check_still(label: str, before: Collection[int]) -> None:
    """Refuse animation: a sample has no time."""
    for block in (block for _, block in all_blocks() if block.session_uid not in before):
        for one in (block, getattr(block, "node_tree", None)):
            if getattr(one, "animation_data", None):
                raise InputError(
                    f"`{label}`: `{block.name}` is animated or has drivers; set the values themselves"
                )


def _take_mesh(label: str, result: Any, bpy_scene: Any, before: Collection[int]) -> _Product:
    by_object = isinstance(result, bpy.types.Collection)
    if not by_object and not isinstance(result, bpy.types.Object):
        raise InputError(f"`{label}`: expected an object or a collection, got {_kind(result)}; return one")
    objects = list(result.all_objects) if by_object else [result]
    _require_new(objects, label, before)
    made = own_mesh(label, objects, by_object, bpy_scene)
    return _Product(made, made.mesh, made.digest())


def _take_material(label: str, result: Any, _: Any, before: Collection[int]) -> _Product:
    if not isinstance(result, bpy.types.Material) or result.node_tree is None:
        raise InputError(f"`{label}`: expected a material with nodes, got {_kind(result)}; return one")
    _require_new([result], label, before)
    return _Product(result, result, repr(struct_values(result.node_tree)))


def _kind(result: Any) -> str:
    return "nothing" if result is None else type(result).__name__


def _require_new(blocks: Sequence[Any], label: str, before: Collection[int]) -> None:
    for block in blocks:
        if block.session_uid in before:
            raise InputError(f"`{label}` returns `{block.name}`, which it did not make; return a new one")


def _needed(root: Any, new: Sequence[Any], label: str) -> list[Any]:
    """List a new datablock and the new datablocks that it needs."""
    users = bpy.data.user_map(subset=new)
    needed = {root}
    while more := {block for block in new if block not in needed and users.get(block, set()) & needed}:
        for block in more:
            if not isinstance(block, _KEPT_KINDS):
                raise InputError(
                    f"`{label}`: a material needs `{block.name}`, of kind {block.bl_rna.name.lower()}, which "
                    "is not kept; use only images and groups of nodes"
                )
        needed |= more
    return list(needed)
