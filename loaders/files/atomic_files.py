"""Write files atomically: under a temporary name, synced, then renamed."""

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def sync(path: Path) -> None:
    """Sync the bytes of a closed file, or the names inside a folder, to disk."""
    # fsync acts on the file and not on the handle, so a second handle syncs bytes that a library wrote.
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and sync its bytes; its name is synced with its folder."""
    path.write_bytes(data)
    sync(path)


def partial_name(path: Path) -> Path:
    """Return a unique temporary path next to ``path``, to write to before renaming.

    Example:
        >>> partial_name(Path("a/b.h5")).name.startswith(".b.h5.")
        True
    """
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")


def is_partial(path: Path) -> bool:
    """Tell whether a path has a name of `partial_name`.

    Example:
        >>> is_partial(partial_name(Path("b.h5"))), is_partial(Path(".mine.partial"))
        (True, False)
    """
    return re.fullmatch(r"\..+\.[0-9a-f]{32}\.partial", path.name) is not None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to ``path`` if nothing was raised.

    Readers see the old file or the new, never a part. After a failure, the temporary file is removed.

    Raises:
        OSError: the file cannot be written; the error names ``path``, not the temporary path.
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
        with suppress(OSError):  # a folder that cannot be written holds no temporary file
            partial.unlink(missing_ok=True)
    sync(path.parent)
