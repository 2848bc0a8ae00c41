"""Temporary folders for frames that are copied elsewhere; folders of killed processes are removed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from candlelight.loaders.files.safe_writing import lock_file

_PREFIX = f"candlelight-staging-{os.getuid()}-"
_LOCK = ".held"


@contextmanager
def staging_folder() -> Iterator[Path]:
    """Make a temporary folder, and first remove those that killed processes of this user left behind.

    The folder is where the system keeps temporary files; the environment variable TMPDIR names the place.

    Raises:
        OSError: the folder cannot be made.

    Example:
        >>> with staging_folder() as folder:
        ...     inside = folder.is_dir()
        >>> inside, folder.exists()
        (True, False)
    """
    parent = Path(tempfile.gettempdir())
    for old in parent.glob(_PREFIX + "*"):
        _remove_abandoned(old)
    unlocked = Path(tempfile.mkdtemp(prefix=".candlelight-"))
    handle = os.open(unlocked / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock_file(handle, fcntl.LOCK_EX)
        # The folder gets its name after it is locked; otherwise another process may take it for abandoned.
        folder = unlocked.rename(parent / f"{_PREFIX}{unlocked.name.rpartition('-')[2]}")
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
