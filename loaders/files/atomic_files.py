"""Files that survive a crash: written in full and synced before they get their name."""

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def sync(path: Path) -> None:
    """Make the bytes of a closed file, or the names inside a folder, durable."""
    # fsync acts on the file and not on the handle, so a second handle syncs what a library wrote.
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and make its bytes durable; its name is durable once its folder is synced."""
    path.write_bytes(data)
    sync(path)


def partial_name(path: Path) -> Path:
    """Name a sibling of ``path`` that nobody else uses, to build in before renaming.

    Example:
        >>> partial_name(Path("a/b.h5")).name.startswith(".b.h5.")
        True
    """
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")


def is_partial(path: Path) -> bool:
    """Tell whether a name is one that `partial_name` made up.

    Example:
        >>> is_partial(partial_name(Path("b.h5"))), is_partial(Path(".mine.partial"))
        (True, False)
    """
    return re.fullmatch(r"\..+\.[0-9a-f]{32}\.partial", path.name) is not None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name to write a file under, and move it to ``path`` in one step if nothing was raised.

    Readers see the old file or the new, never a part; nothing is left of a file that failed.

    Raises:
        OSError: it cannot be written; ``path`` is named, whatever was being written.
    """
    partial = partial_name(path)
    try:
        yield partial
        sync(partial)
        partial.replace(path)
    except OSError as error:
        if error.errno and (error.filename is None or partial.name in str(error.filename)):
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
        raise
    finally:
        with suppress(OSError):  # on what cannot be written there is nothing to remove
            partial.unlink(missing_ok=True)
    sync(path.parent)
