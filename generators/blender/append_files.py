"""Read one named datablock of a .blend file, or one environment map, without anything harmful."""

from pathlib import Path
from typing import Any

from candlelight.generators.blender import bpy
from candlelight.generators.blender.sanitize import block_ids, sanitize


def append(path: Path, collection: str, label: str, notes: list[str] | None = None) -> Any:
    """Append a named datablock from a .blend file, with the datablocks that it needs, sanitized.

    The name is matched without regard to case. If the file holds a single block of the kind, that block is
    returned whatever its name is.

    Args:
        path: the file.
        collection: kind of the block, as a field of `bpy.data`.
        label: name of the block.
        notes: a list to extend by the notes of `candlelight.generators.blender.sanitize.sanitize`.

    Raises:
        ValueError: the file is damaged, holds no such block, or holds something harmful that is needed.
    """
    block = append_or_none(path, collection, label, notes)
    if block is None:
        raise ValueError(f"{path.name}: expected a block named `{label}` in {collection}, found none")
    return block


def append_or_none(path: Path, collection: str, label: str, notes: list[str] | None = None) -> Any:
    """Append a datablock as `append` does; return None if the file holds no block of the kind.

    Raises:
        ValueError: the file is damaged, holds several blocks of the kind and none of that name, or holds
            something harmful that is needed.
    """
    before = block_ids()
    try:
        with bpy.data.libraries.load(str(path), link=False) as (source, target):
            names = list(getattr(source, collection))
            wanted = [name for name in names if name.lower() == label.lower()] or names
            if len(wanted) > 1:
                raise ValueError(
                    f"{path.name}: expected one block named `{label}` in {collection}, found {names}; "
                    "give the block the file's name"
                )
            setattr(target, collection, wanted)
    except OSError:
        raise ValueError(f"{path}: cannot be read as a .blend file; replace it") from None
    found = sanitize(path, before, rendered=collection != "objects")
    if notes is not None:
        notes += found
    return _check_kept(path, getattr(target, collection)[0]) if wanted else None


def _check_kept(path: Path, block: Any) -> Any:
    """Return a block; refuse one that `sanitize` removed, such as an object that shows an image."""
    try:
        block.name  # noqa: B018 - raises if the block was removed
    except ReferenceError:
        raise ValueError(f"{path.name}: expected a block with a shape or a material, got neither") from None
    return block


def load_map(path: Path) -> Any:
    """Load an environment map as a Blender image.

    Raises:
        ValueError: the file is damaged; Blender itself would show a map of one colour.
    """
    try:
        image = bpy.data.images.load(str(path))
    except RuntimeError:
        raise ValueError(f"{path}: cannot be read as an image; replace it") from None
    if not image.size[0]:
        raise ValueError(f"{path}: cannot be read as an image; replace it")
    return image
