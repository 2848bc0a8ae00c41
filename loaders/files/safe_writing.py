"""Write files safely, even if the process is killed or others write too: atomic replacement, and locks.

A file is written under a temporary name, synced, then renamed. The system releases locks when their process
ends, even if it is killed.

For locks, the package filelock was tried. It has neither shared locks nor locks on one byte of a file, so
each trace group would cost a file on the disk that runs share. On a file system without locks, filelock uses
the existence of a file as a lock, which stays if the process is killed.
"""

import errno
import os
import re
import struct
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Errors of file systems without locks, such as Lustre in its usual configuration.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, process


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


def lock_file(handle: int, how: int, byte: int | None = None) -> bool:
    """Lock an open file, or one byte of it; closing the file releases the lock.

    Args:
        handle: descriptor of the file; two descriptors are two holders, even within one process.
        how: flags of `fcntl.flock`.
        byte: position of the byte, which may lie after the end of the file; None to lock the whole file,
            which is independent of locks on bytes.

    Returns:
        False if the file system has no locks.

    Raises:
        BlockingIOError: another holder has the lock, and ``how`` contains ``LOCK_NB``.
    """
    import fcntl  # not at module level: reading frames works on systems without fcntl

    try:
        if byte is None:
            fcntl.flock(handle, how)
        elif sys.platform == "linux":
            # Locks of the open file: `lockf` locks for the whole process, so its runs would share the lock.
            command = fcntl.F_OFD_SETLK if how & fcntl.LOCK_NB else fcntl.F_OFD_SETLKW
            fcntl.fcntl(handle, command, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
        else:
            fcntl.lockf(handle, how, 1, byte)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        if how & fcntl.LOCK_NB and error.errno == errno.EACCES:  # some systems report a taken lock so
            raise BlockingIOError(*error.args) from None
        raise
    return True
