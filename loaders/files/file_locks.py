"""Locks on open files: gone when their holder is, however that ended, so that nothing stale is left.

The package filelock was tried for them and has neither shared locks nor locks on one byte of a file: each
trace group would cost a file on the disk that runs share. Where a file system has no locks it takes to files
whose mere existence locks, and those outlive a holder that is killed.
"""

import errno
import fcntl
import os
import struct
import sys

# File systems without locks, as Lustre often is, say one of these.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, process


def lock_file(handle: int, how: int, byte: int | None = None) -> bool:
    """Lock an open file, or one byte of it that need not be there; closing the file gives the lock up.

    Args:
        handle: descriptor of the file; two of them are two holders, even within one process.
        how: flags of `fcntl.flock`.
        byte: which byte; without it the lock is another one, of the file as such.

    Returns:
        False where the file system has no locks.

    Raises:
        BlockingIOError: another holder has it, and ``how`` says not to wait.
    """
    try:
        if byte is None:
            fcntl.flock(handle, how)
        elif sys.platform == "linux":
            # Locks of the open file. Those of `lockf` are the process's, whose runs would share them.
            command = fcntl.F_OFD_SETLK if how & fcntl.LOCK_NB else fcntl.F_OFD_SETLKW
            fcntl.fcntl(handle, command, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
        else:
            fcntl.lockf(handle, how, 1, byte)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        if how & fcntl.LOCK_NB and error.errno == errno.EACCES:  # as some systems say that it is taken
            raise BlockingIOError(*error.args) from None
        raise
    return True
