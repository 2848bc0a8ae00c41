"""Claims: which runs that share a folder of frames are at work on what.

A claim is a lock on one byte of a file, the byte that a trace group's name says. It is gone when its holder
is (`loaders.files.file_locks`), and holds between hosts if the file system has locks. Where it has none, work
may be done twice, and the first to finish counts.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from loaders.files.file_locks import lock_file

FILE = ".claims"
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
        # Two groups that share a byte by chance only wait for each other.
        byte = int(hashlib.sha256(group.encode()).hexdigest()[:15], 16)
        try:
            lock_file(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, byte)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Give up every claim."""
        os.close(self._handle)


@contextmanager
def describing(root: Path) -> Iterator[None]:
    """Be the only one that describes the folder, waiting for whoever does."""
    with closing(Claims(root)) as claims:
        lock_file(claims._handle, fcntl.LOCK_EX, _DESCRIPTION)
        yield
