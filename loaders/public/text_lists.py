"""Read text files of public data sets, and check the paths that they name."""

from collections.abc import Iterator
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.missing_files import require_path


def each_line(path: Path, source: str) -> Iterator[str]:
    """Yield the lines of a text file that are not blank.

    Args:
        path: the file, UTF-8 or ASCII, with any line endings.
        source: where to get the data set, for messages.

    Raises:
        InputError: the file is missing or not text.
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
    """Make the error that names a wrong line of a list.

    Args:
        path: the list.
        number: number of the line, from 0.
        line: text of the line.
        expected: description of a correct line.

    Example:
        >>> wrong_line(Path("mos.txt"), 0, "5,5", "one number")
        InputError("mos.txt, line 1: expected one number, got '5,5'")
    """
    return InputError(f"{path}, line {number + 1}: expected {expected}, got {line[:80]!r}")


def path_inside(folder: Path, name: str, where: str) -> Path:
    """Return the path of a file named by a list; it must lie in a folder.

    Args:
        folder: the folder.
        name: path relative to the folder, from the list.
        where: name of the list, for the message.

    Raises:
        InputError: the name leads out of the folder.

    Example:
        >>> path_inside(Path("images"), "../../secret", "images.txt")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: images.txt: '../../secret' leads out of images
    """
    path = folder / name
    if "\0" in name or not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{where}: {name!r} leads out of {folder}")
    return path
