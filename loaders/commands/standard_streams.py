"""Standard streams of a command: without standard error, or with a full disk behind it, work goes on."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


@contextmanager
def safe_standard_streams() -> Iterator[None]:
    """Open closed standard streams on the null device, and drop what standard error cannot take.

    A daemon may start a command with closed streams, as ``2>&-`` does. The next file that is opened would be
    number 2, and libraries in C would write their messages into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # `os.open` takes the smallest free number
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    before = sys.stdout, sys.stderr
    # Python has no object for a stream that was closed when it started.
    sys.stdout, sys.stderr = sys.stdout or _text(1), _lenient(sys.stderr or _text(2))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _DroppingFile(io.FileIO):
    """A file that drops what it cannot write: the disk is full, or the reader of the pipe has ended."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _text(number: int) -> TextIO:
    return open(number, "w", closefd=False)


def _lenient(stream: TextIO) -> TextIO:
    try:
        file = _DroppingFile(stream.fileno(), "w", closefd=False)
    except (AttributeError, ValueError, OSError):  # an object of the caller's, which is no file
        return stream
    return io.TextIOWrapper(file, stream.encoding, stream.errors, write_through=True)
