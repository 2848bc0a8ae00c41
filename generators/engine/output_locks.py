"""Locks in an output folder, so that several runs can share it.

Each run shares a lock on the folder; a run that is alone removes unfinished files. A run locks each trace
group while it renders it. The lock of a group is held on one byte of a file; the byte follows from the
group's name. All locks end with their holder (`candlelight.loaders.files.safe_writing`), and hold between
hosts if the file system has locks. Without locks two runs may render the same group; the first to finish
counts.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from candlelight.generators.engine.repair import remove_replaced_samples
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import is_partial, lock_file
from candlelight.loaders.frames import DATASET, clean_partial

RUN_LOCK_FILE = ".lock"
GROUP_LOCKS_FILE = ".group-locks"
_DESCRIPTION_BYTE = 2**62  # larger than the byte of any group


@contextmanager
def hold_folder(out: Path) -> Iterator[Callable[[], None]]:
    """Make the folder if necessary, and hold a lock on it that several runs share.

    Yields:
        A function that raises InputError if the path no longer leads to the folder that was opened.

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out / RUN_LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise cannot_write(out, error) from None
    try:
        if (out / DATASET).is_file():  # other folders may be refused, so nothing in them is removed
            _clean(out, handle)
        lock_file(handle, fcntl.LOCK_SH)
        yield partial(_check_folder, out, handle)
        _clean(out, handle)
    except OSError as error:
        if error.filename and Path(os.fsdecode(error.filename)).is_relative_to(out):
            raise cannot_write(out, error) from None
        raise
    finally:
        os.close(handle)


def cannot_write(out: Path, error: OSError) -> InputError:
    """Make the error that a folder cannot be written, in one line with the reason and a remedy.

    Example:
        >>> print(cannot_write(Path("frames"), OSError(28, "write failed")))
        output folder frames: cannot be written: No space left on device; make room or name another
    """
    if isinstance(error, FileExistsError):
        reason = "the path is not a folder"
    else:
        reason = os.strerror(error.errno) if error.errno else str(error)
    remedy = "make room or name another" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "name another"
    path = Path(os.fsdecode(error.filename)) if error.filename else out
    if path.name in (RUN_LOCK_FILE, GROUP_LOCKS_FILE):
        reason += f" ({path.name})"
        if error.errno == errno.EACCES and path.exists():  # of another user, whose umask left out the group
            remedy = f"its owner may run `chmod -R g+w {out}`, or name another"
    return InputError(f"output folder {out}: cannot be written: {reason}; {remedy}")


def _check_folder(out: Path, handle: int) -> None:
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), (out / RUN_LOCK_FILE).stat()):
            return
    raise InputError(
        f"output folder {out}: was moved, removed or replaced during the run; if it was moved, finished "
        "samples are whole at the new place: move the folder back and run again to resume"
    )


def _clean(out: Path, handle: int) -> None:
    """Remove unfinished files of killed runs, unless another run writes to the folder."""
    with suppress(BlockingIOError):
        if not lock_file(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return
        clean_partial(out)
        for path in filter(is_partial, out.iterdir()):
            path.unlink()
        remove_replaced_samples(out)


class GroupLocks:
    """Locks of one holder on trace groups of one folder; closing releases all of them.

    Args:
        root: folder of the data set.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first, second = GroupLocks(Path(folder)), GroupLocks(Path(folder))
        ...     locked = first.try_lock("00ff"), second.try_lock("00ff"), second.try_lock("0100")
        ...     first.close()
        ...     print(*locked, second.try_lock("00ff"))
        ...     second.close()
        True False True True
    """

    def __init__(self, root: Path) -> None:
        self._handle = os.open(root / GROUP_LOCKS_FILE, os.O_RDWR | os.O_CREAT, 0o666)

    def try_lock(self, group: str) -> bool:
        """Lock a trace group, and return whether it was free."""
        # Two groups may share a byte by chance; then one run waits for the other, and nothing is lost.
        byte = int(hashlib.sha256(group.encode()).hexdigest()[:15], 16)
        try:
            lock_file(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, byte)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Release all locks."""
        os.close(self._handle)


@contextmanager
def description_lock(root: Path) -> Iterator[None]:
    """Wait until no other run writes the description of the folder, and keep other runs from doing so."""
    with closing(GroupLocks(root)) as locks:
        lock_file(locks._handle, fcntl.LOCK_EX, _DESCRIPTION_BYTE)
        yield
