"""Claims: which runs that share a folder of frames are at work on what.

A claim is a lock on one byte of a file, the byte that a trace group's name says. It is gone when its holder
is, however that ended, so that nothing stale is left; it holds between hosts if the file system has locks.
"""

import errno
import fcntl
import hashlib
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = ".claims"
# File systems without locks say one of these; then work may be done twice, and the first to finish counts.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_TAKEN = (errno.EAGAIN, errno.EACCES)
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, process
_DESCRIPTION = 2**62  # beyond every group's byte


class Claims:
    """The claims of one holder on the groups of one folder; closing gives all of them up.

    Args:
        root: folder of the data set.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first, second = Claims(Path(folder)), Claims(Path(folder))
        ...     taken = first.take("00ff"), second.take("00ff"), second.take("0100")
        ...     first.close()
        ...     print(*taken, second.take("00ff"))
        ...     second.close()
        True False True True
    """

    def __init__(self, root: Path) -> None:
        self._handle = os.open(root / FILE, os.O_RDWR | os.O_CREAT, 0o644)

    def take(self, group: str) -> bool:
        """Claim a trace group, and tell whether it was free."""
        try:
            _lock(self._handle, _byte(group), wait=False)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            return False
        return True

    def close(self) -> None:
        """Give up every claim."""
        os.close(self._handle)


@contextmanager
def describing(root: Path) -> Iterator[None]:
    """Be the only one that describes the folder, waiting for whoever does."""
    claims = Claims(root)
    try:
        _lock(claims._handle, _DESCRIPTION, wait=True)
        yield
    finally:
        claims.close()


def _byte(group: str) -> int:
    """Choose the byte of a group, below 2**60; two that share one by chance only wait for each other."""
    return int(hashlib.sha256(group.encode()).hexdigest()[:15], 16)


def _lock(handle: int, start: int, wait: bool) -> None:
    """Lock one byte for writing; nothing happens where the file system has no locks."""
    try:
        if sys.platform == "linux":
            # Locks of the open file, not of the process: two runs in one process are two holders, too.
            command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
            fcntl.fcntl(handle, command, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0))
        else:
            fcntl.lockf(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, start)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
