"""Reading from files: one named datablock of a .blend, or one picture, and nothing else."""

from pathlib import Path
from typing import Any

from generators.blender import bpy
from generators.blender.sanitize import present, sanitize


def append(path: Path, collection: str, label: str, notes: list[str] | None = None) -> Any:
    """Append one named datablock from a .blend file, and what it needs, made harmless.

    The block of that name is taken, whatever its case; where the file holds one block of the kind only, that
    one is taken whatever it is called.

    Args:
        path: the file.
        collection: kind of the block, as a field of `bpy.data`.
        label: its name.
        notes: where to say what was left out (`generators.blender.sanitize`).

    Raises:
        ValueError: the file is damaged, holds no such block, or one that is not harmless.
    """
    block = append_or_none(path, collection, label, notes)
    if block is None:
        raise ValueError(f"{path.name}: expected a block named `{label}` in {collection}, found none")
    return block


def append_or_none(path: Path, collection: str, label: str, notes: list[str] | None = None) -> Any:
    """Append as `append` does, or return None from a file without any block of the kind.

    Raises:
        ValueError: the file is damaged, holds several such blocks and none of that name, or one that is not
            harmless.
    """
    before = present()
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
    found = sanitize(path, before, shown=collection != "objects")
    if notes is not None:
        notes += found
    return None if not wanted else _alive(path, getattr(target, collection)[0])


def _alive(path: Path, block: Any) -> Any:
    """Return a block unless it went with what was dropped, as an object does that is a picture."""
    try:
        block.name  # noqa: B018 - which a block that is gone does not have
    except ReferenceError:
        raise ValueError(f"{path.name}: expected what has a shape or a look, got neither") from None
    return block


def load_map(path: Path) -> Any:
    """Load an environment map.

    Raises:
        ValueError: the file is damaged; Blender itself would go on with a map of one colour.
    """
    try:
        image = bpy.data.images.load(str(path))
    except RuntimeError:
        raise ValueError(f"{path}: cannot be read as an image; replace it") from None
    if not image.size[0]:
        raise ValueError(f"{path}: cannot be read as an image; replace it")
    return image
