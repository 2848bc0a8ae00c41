"""The error for unusable input, and the translation of library errors into it."""

import csv
import difflib
import importlib.util
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from candlelight.loaders.foreign_text import printable

# Errors that zipfile, zlib, struct, numpy, Pillow, h5py, Arrow and OpenEXR raise on damaged bytes. Left out:
# MemoryError, AssertionError, AttributeError, ImportError and NameError, which have other causes.
DAMAGED = (
    *(ArithmeticError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(csv.Error, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
# In messages of CUDA and MPS, of the CPU, and of cuBLAS.
_MEMORY_SIGNS = ("out of memory", "DefaultCPUAllocator", "ALLOC_FAILED")

# The extra of the package that brings a module; without it a command ends with one line.
_EXTRA_OF_MODULE = {
    **dict.fromkeys(("OpenEXR", "bpy", "dask", "distributed", "psutil", "pyoidn"), "render"),
    **dict.fromkeys(("datasets", "huggingface_hub"), "hub"),
    **dict.fromkeys(("matplotlib", "sklearn", "threadpoolctl", "torch"), "evaluate"),
    **{"dask_jobqueue": "cluster", "dask_kubernetes": "kubernetes", "hdf5plugin": "filters"},
    **{
        "captum": "explain",
        "causallearn": "discovery",
        "diffusers": "diffusers",
        "transformers": "transformers",
    },
}


class InputError(ValueError):
    r"""Error for a file, an argument or a recipe that cannot be used.

    The message is one line that names the expected and the given value and the next step. The command
    line prints the message and exits with status 2. Every other exception is a defect.

    Example:
        >>> str(InputError("set `a\nb` is not there; expected one of: c"))
        'set `a b` is not there; expected one of: c'
    """

    def __str__(self) -> str:
        """Return the message in one line, even if it quotes a name with line breaks from a damaged file."""
        return printable(" ".join(super().__str__().splitlines()))


def argument(name: str, in_python: str = "") -> str:
    """Name an argument in a message as the user gave it: an option of the running command, or in Python.

    Args:
        name: the argument, and the name of the option's value in the function of a command.
        in_python: name of the argument in Python, where it differs.

    Returns:
        Such as "--size HEIGHT WIDTH" while a command with this option runs, else "`size`".

    Example:
        >>> argument("size")
        '`size`'
    """
    context = click.get_current_context(silent=True)
    for parameter in context.command.params if context else ():
        if parameter.name == name and isinstance(parameter, click.Option):
            values = f" {parameter.metavar}" if parameter.nargs > 1 and parameter.metavar else ""
            return max(parameter.opts, key=len) + values
    return f"`{in_python or name}`"


def did_you_mean(value: object, known: Iterable[object]) -> str:
    """Suggest the most similar known name, for the end of a message; "" if no name is similar.

    Numbers with equal digits are not similar.

    Example:
        >>> did_you_mean("bleu", ["red", "blue"]), did_you_mean(9000, [12000])
        ('; did you mean `blue`?', '')
    """
    with suppress(ValueError):
        float(str(value))
        return ""
    near = difflib.get_close_matches(str(value), map(str, known), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def nearest_file(path: Path) -> str:
    """Suggest the file or folder whose name is most similar to a missing path; "" if no name is similar.

    Example:
        >>> nearest_file(Path("nowhere") / "frames")
        ''
    """
    with suppress(OSError):
        if not path.exists():
            return did_you_mean(path.name, [one.name for one in path.parent.iterdir()])
    return ""


def blame(what: str, error: BaseException, cure: str) -> InputError:
    """Make a one-line error of the error that a library raised on a file.

    Errors of the operating system, such as too many open files, do not blame the file.

    Args:
        what: beginning of the message: the file, and that it cannot be used.
        error: the raised exception.
        cure: next step if the file is damaged.

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
    """Turn the exceptions that a library raises on damaged bytes into an `InputError` (context manager).

    Args:
        what: beginning of the message: the file, and that it cannot be used.
        cure: next step.

    Raises:
        InputError: one of `DAMAGED` was raised.

    Example:
        >>> with blaming("a.npy: cannot be read", "get it again"):
        ...     raise ValueError("3 bytes are no header")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: a.npy: cannot be read: 3 bytes are no header; get it again
    """
    try:
        yield
    except DAMAGED as error:
        raise blame(what, error, cure) from None


@contextmanager
def within(where: str) -> Iterator[None]:
    """Begin the message of an `InputError` with the field, set or file that it is about (context manager).

    Example:
        >>> with within("layout.floor"):
        ...     raise InputError("expected a colour, got -1")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: layout.floor: expected a colour, got -1
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an exception means that memory ran out: torch raises several classes.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("size mismatch"))
        (True, False)
    """
    if isinstance(error, RuntimeError):
        return type(error).__name__ == "OutOfMemoryError" or any(sign in str(error) for sign in _MEMORY_SIGNS)
    return isinstance(error, MemoryError)


def missing_module(module: str, extra: str | None = None) -> ModuleNotFoundError:
    """Make the error for a module that is not installed: one line with the command that installs it.

    Args:
        module: the module, such as "torch".
        extra: extra of candlelight to install; None for the usual one of this module.

    Example:
        >>> print(missing_module("sklearn"))
        this needs sklearn, not installed here; run `pip install "candlelight[evaluate]"`
    """
    extra = extra or _EXTRA_OF_MODULE.get(module)
    what = f'"candlelight[{extra}]"' if extra else module
    return ModuleNotFoundError(
        f"this needs {module}, not installed here; run `pip install {what}`", name=module
    )


def require_module(module: str, extra: str | None = None) -> None:
    """Raise the error of `missing_module` if a module is not installed; the module is not imported.

    Example:
        >>> require_module("numpy")
    """
    if importlib.util.find_spec(module) is None:
        raise missing_module(module, extra)
