"""Locks on trace groups, so that several runs can share one output folder.

A lock is held on one byte of a file; the byte follows from the trace group's name. The lock ends with its
holder (`loaders.files.file_locks`), and holds between hosts if the file system has locks. Without locks two
runs may render the same group; the first to finish counts.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from loaders.files.file_locks import lock_file

GROUP_LOCKS_FILE = ".group-locks"
_DESCRIPTION_BYTE = 2**62  # larger than the byte of any group


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
        self._handle = os.open(root / GROUP_LOCKS_FILE, os.O_RDWR | os.O_CREAT, 0o644)

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
