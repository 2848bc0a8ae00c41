"""List a folder of a public data set, without the files that archives and desktops add."""

import re
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.missing_files import require_path


def list_names(folder: Path, source: str) -> tuple[str, ...]:
    """List a folder in natural order, with numbers in order of value: ``dir_2`` comes before ``dir_10``.

    Args:
        folder: the folder.
        source: where to get the data set, for messages.

    Returns:
        Names of files and folders, except names that begin with a dot (``.DS_Store``, ``._a.png``) or with
        ``__MACOSX``.

    Raises:
        InputError: there is no such folder.

    Example:
        >>> list_names(Path("nowhere"), "https://example.org")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere is missing; get it from https://example.org
    """
    if not require_path(folder, source).is_dir():
        raise InputError(f"{folder}: expected a folder, got a file; get it from {source}")
    found = (path.name for path in folder.iterdir())
    return tuple(sorted((name for name in found if not name.startswith((".", "__MACOSX"))), key=natural))


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that compares runs of digits by their value.

    Example:
        >>> sorted(["b", "a10", "a2", "1"], key=natural)
        ['1', 'a2', 'a10', 'b']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in parts)
