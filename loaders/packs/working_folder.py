"""A folder next to a pack in which the pack is built: it gets its name when it is complete.

A killed call leaves ``.<name>.partial`` next to the pack. The next call empties the folder and begins anew.
"""

import errno
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import lock_file, sync

_log = logging.getLogger("candlelight")
# A folder with files but without a lock file was made by another program.
_LOCK = "candlelight.lock"
_REPLACED = "replaced"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def open_working_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder to build ``target`` in; afterwards, also on an error, it is removed.

    Args:
        target: the file or folder to be made; its parent folder is created if it is missing.

    Raises:
        InputError: another process is making the same target, another program made the working folder, or
            the target cannot be written.
    """
    folder = target.with_name(f".{target.name}.partial")
    with _writing(target):
        _refuse_foreign(folder)
        handle = _lock(folder, target)
        try:
            if _empty(folder, target):
                _log.warning("%s: an earlier call was killed; its pack is begun anew", target)
            try:
                yield folder
            finally:
                with suppress(OSError):
                    _empty(folder, target)
                    (folder / _LOCK).unlink()  # last, so that a partly emptied folder is recognised
                    folder.rmdir()
        finally:
            os.close(handle)


def replace_folder(folder: Path, target: Path) -> None:
    """Give a folder made in a working folder its name; an earlier folder of this name is removed with it."""
    # No system call replaces a folder that is not empty. `_empty` puts the earlier one back after a kill.
    if target.exists():
        target.rename(folder.with_name(_REPLACED))
    folder.rename(target)
    sync(target.parent)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turn errors of the file system into one line that names the target."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py raises RuntimeError if closing a file fails
        number = _errno(error)
        if not number or (isinstance(error, OSError) and _is_elsewhere(error.filename, target.parent)):
            raise
        remedy = "make room or name another" if number in _FULL else "name another"
        raise InputError(f"{target}: cannot be written: {os.strerror(number)}; {remedy}") from None


def _errno(error: BaseException | None) -> int | None:
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        if found := re.search(r"errno = (\d+)", str(error)):
            return int(found[1])
        error = error.__context__
    return None


def _is_elsewhere(name: object, folder: Path) -> bool:
    return isinstance(name, str) and not Path(name).is_relative_to(folder)


def _refuse_foreign(folder: Path) -> None:
    if folder.is_symlink():
        raise InputError(f"{folder} is a link; move it, or name another target")
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    if names and _LOCK not in names:
        raise InputError(
            f"{folder} holds `{min(names)}`, which `candlelight pack` did not write; move it, or name "
            "another target"
        )


def _lock(folder: Path, target: Path) -> int:
    """Lock the folder until the returned handle is closed or the process ends."""
    from fcntl import LOCK_EX, LOCK_NB  # not at module level: reading packs works on systems without fcntl

    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock_file(handle, LOCK_EX | LOCK_NB)
        if not os.fstat(handle).st_nlink:  # the process that held it has just removed it
            raise BlockingIOError
    except BlockingIOError:
        os.close(handle)
        raise InputError(
            f"{target} is being packed by another process; wait for it, or name another target"
        ) from None
    return handle


def _empty(folder: Path, target: Path) -> bool:
    """Remove all but the lock file, after putting a replaced target back; return whether there was any."""
    if (replaced := folder / _REPLACED).exists() and not target.exists():
        replaced.rename(target)
    left = [path for path in folder.iterdir() if path.name != _LOCK]
    for path in left:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return bool(left)
