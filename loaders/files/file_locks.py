"""Locks on open files; the system releases them when their process ends, even if it is killed.

The package filelock was tried instead. It has neither shared locks nor locks on one byte of a file, so each
trace group would cost a file on the disk that runs share. On a file system without locks, filelock uses the
existence of a file as a lock, which stays if the process is killed.
"""

import errno
import fcntl
import os
import struct
import sys

# Errors of file systems without locks, such as Lustre in its usual configuration.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, process


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
