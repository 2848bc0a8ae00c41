"""Text files of public data sets, and the files that they name."""

from collections.abc import Iterator
from pathlib import Path

from loaders.errors import InputError
from loaders.public.missing_files import require_path


def each_line(path: Path, source: str) -> Iterator[str]:
    """Give the lines of a text file one by one, without those that are blank.

    Args:
        path: the file, UTF-8 or ASCII, of any line ending.
        source: where the data set is to be had.

    Raises:
        InputError: the file is missing or is no text.
    """
    try:
        with require_path(path, source).open(encoding="utf-8-sig") as file:
            yield from (line.rstrip("\n") for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text: {error}; get it from {source}") from None


def read_lines(path: Path, source: str) -> list[str]:
    """Read all lines at once; arguments and errors as in `each_line`."""
    return list(each_line(path, source))


def wrong_line(path: Path, number: int, line: str, expected: str) -> InputError:
    """Say which line of a list is not as it should be.

    Args:
        path: the list.
        number: of the line, from 0.
        line: its text.
        expected: what it should hold.

    Example:
        >>> wrong_line(Path("mos.txt"), 0, "5,5", "one number")
        InputError("mos.txt, line 1: expected one number, got '5,5'")
    """
    return InputError(f"{path}, line {number + 1}: expected {expected}, got {line[:80]!r}")


def path_inside(folder: Path, name: str, where: str) -> Path:
    """Return the path of a file that a list names, which must lie in a folder.

    Args:
        folder: the folder.
        name: path within it, as the list writes it.
        where: the list, for the message.

    Raises:
        InputError: the name leads out of the folder.

    Example:
        >>> path_inside(Path("images"), "../../secret", "images.txt")
        Traceback (most recent call last):
        loaders.errors.InputError: images.txt: '../../secret' leads out of images
    """
    path = folder / name
    if "\0" in name or not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{where}: {name!r} leads out of {folder}")
    return path
