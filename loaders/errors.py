"""The one error that means: what you gave is not what was expected."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
    """Ask for the nearest of the known names, at the end of a message; nothing if none is near.

    Example:
        >>> did_you_mean("bleu", ["red", "blue"])
        '; did you mean `blue`?'
    """
    near = difflib.get_close_matches(str(value), map(str, known), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def nearest_file(path: Path) -> str:
    """Ask for the file or folder that is called most like one that is not there; nothing if none is near.

    Example:
        >>> nearest_file(Path("nowhere") / "frames")
        ''
    """
    with suppress(OSError):
        if not path.exists():
            return did_you_mean(path.name, [one.name for one in path.parent.iterdir()])
    return ""


@contextmanager
def blaming(what: str, cure: str) -> Iterator[None]:
    """Blame a file for whatever the library that reads it raises: damaged bytes can make it raise anything.

    Args:
        what: names the file and says what it is not.
        cure: what to do next.

    Raises:
        InputError: anything was raised.

    Example:
        >>> with blaming("a.npy: cannot be read", "get it again"):
        ...     raise ValueError("3 bytes are no header")
        Traceback (most recent call last):
        loaders.errors.InputError: a.npy: cannot be read: 3 bytes are no header; get it again
    """
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{what}: {reason}; {cure}") from None
