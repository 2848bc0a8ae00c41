"""What a reader of a public data set says where a file is not there."""

from pathlib import Path

from loaders.errors import InputError


def require_path(path: Path, source: str) -> Path:
    """Return a path that exists.

    Args:
        path: a file or folder of a data set.
        source: where the data set is to be had.

    Raises:
        InputError: there is nothing of that name, or it cannot be reached.

    Example:
        >>> require_path(Path("nowhere/mos.txt"), "https://ponomarenko.info/tid2013.htm")
        Traceback (most recent call last):
        loaders.errors.InputError: nowhere/mos.txt is missing; get it from https://ponomarenko.info/tid2013.htm
    """
    try:
        found = path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise InputError(f"{path} cannot be reached: {error.strerror}; get it from {source}") from None
    if not found:
        raise InputError(f"{path} is missing; get it from {source}")
    return path
