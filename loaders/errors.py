"""The one error that means: what you gave is not what was expected."""

from collections.abc import Iterator
from contextlib import contextmanager


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
