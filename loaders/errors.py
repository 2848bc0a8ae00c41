"""The one error that means: what you gave is not what was expected."""

import difflib
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# What zipfile, zlib, struct, numpy, Pillow, h5py, Arrow and OpenEXR raise on damaged bytes. Not among them:
# MemoryError, and AssertionError, AttributeError, ImportError and NameError, which are defects or a lack.
DAMAGED = (
    *(ArithmeticError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
_MEMORY_SIGNS = ("out of memory", "DefaultCPUAllocator", "ALLOC_FAILED")  # of CUDA and MPS, the CPU, cuBLAS


class InputError(ValueError):
    r"""A file, an argument or a recipe is not usable as it is.

    The message is one line that says what was expected, what came, and what to do next. The command
    line prints it as it stands and exits with status 2. Everything else that is raised is a defect.

    Example:
        >>> str(InputError("set `a\nb` is not there; expected one of: c"))
        'set `a b` is not there; expected one of: c'
    """

    def __str__(self) -> str:
        """Say it in one line, even where it names what a damaged file calls something."""
        return " ".join(super().__str__().splitlines())


def did_you_mean(value: object, known: Iterable[object]) -> str:
    """Suggest the nearest of the known names, at the end of a message; nothing if none is near.

    Example:
        >>> did_you_mean("bleu", ["red", "blue"])
        '; did you mean `blue`?'
    """
    near = difflib.get_close_matches(str(value), map(str, known), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def nearest_file(path: Path) -> str:
    """Suggest the file or folder whose name is nearest to a missing path; nothing if none is near.

    Example:
        >>> nearest_file(Path("nowhere") / "frames")
        ''
    """
    with suppress(OSError):
        if not path.exists():
            return did_you_mean(path.name, [one.name for one in path.parent.iterdir()])
    return ""


def blame(what: str, error: BaseException, cure: str) -> InputError:
    """Turn the error of a library that read a file into one line; errors of the system do not blame the file.

    Args:
        what: names the file and says what it is not.
        error: what was raised.
        cure: what to do next if the file is at fault.

    Example:
        >>> blame("a.npy: cannot be read", OSError(24, ""), "get it again")
        InputError('a.npy: cannot be read: Too many open files')
    """
    if isinstance(error, OSError) and error.errno:
        where = f": {error.filename}" if error.filename and str(error.filename) not in what else ""
        at_fault = isinstance(error, FileNotFoundError | IsADirectoryError)
        return InputError(f"{what}: {os.strerror(error.errno)}{where}{f'; {cure}' if at_fault else ''}")
    return InputError(f"{what}: {' '.join(str(error).split()) or type(error).__name__}; {cure}")


@contextmanager
def blaming(what: str, cure: str) -> Iterator[None]:
    """Blame a file for what the library that reads it raises on damaged bytes.

    Args:
        what: names the file and says what it is not.
        cure: what to do next.

    Raises:
        InputError: one of `DAMAGED` was raised.

    Example:
        >>> with blaming("a.npy: cannot be read", "get it again"):
        ...     raise ValueError("3 bytes are no header")
        Traceback (most recent call last):
        loaders.errors.InputError: a.npy: cannot be read: 3 bytes are no header; get it again
    """
    try:
        yield
    except DAMAGED as error:
        raise blame(what, error, cure) from None


def memory_ended(error: BaseException) -> bool:
    """Tell whether an exception says that memory ended, for which torch has no one class.

    Example:
        >>> memory_ended(MemoryError()), memory_ended(RuntimeError("size mismatch"))
        (True, False)
    """
    if isinstance(error, RuntimeError):
        return type(error).__name__ == "OutOfMemoryError" or any(sign in str(error) for sign in _MEMORY_SIGNS)
    return isinstance(error, MemoryError)
