"""Folders of this machine for what is on its way elsewhere."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loaders.files.file_locks import lock_file

_PREFIX = f"candlelight-staging-{os.getuid()}-"
_LOCK = ".held"


@contextmanager
def staging() -> Iterator[Path]:
    """Make a folder for what is on its way; those that killed processes of this user left are removed.

    It lies where the system keeps temporary files, which the environment variable TMPDIR names.

    Raises:
        OSError: there is no room for it.

    Example:
        >>> with staging() as folder:
        ...     there = folder.is_dir()
        >>> there, folder.exists()
        (True, False)
    """
    place = Path(tempfile.gettempdir())
    for old in place.glob(_PREFIX + "*"):
        _remove_abandoned(old)
    making = Path(tempfile.mkdtemp(prefix=".candlelight-"))
    handle = os.open(making / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock_file(handle, fcntl.LOCK_EX)
        # Named once it is locked, so that nobody takes it for abandoned.
        folder = making.rename(place / f"{_PREFIX}{making.name.rpartition('-')[2]}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    with suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if lock_file(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)
