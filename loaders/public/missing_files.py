"""Report missing files of public data sets, with the address to get them from."""

from pathlib import Path

from candlelight.loaders.errors import InputError


def require_path(path: Path, source: str) -> Path:
    """Return a path that exists.

    Args:
        path: a file or folder of a data set.
        source: where to get the data set, for messages.

    Raises:
        InputError: the path is missing or cannot be reached.

    Example:
        >>> require_path(Path("nowhere/mos.txt"), "https://ponomarenko.info/tid2013.htm")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/mos.txt is missing; get it from https://ponomarenko.info/tid2013.htm
    """
    try:
        found = path.exists()
    except OSError as error:  # for example a name that is too long, or a folder without permission
        raise InputError(f"{path} cannot be reached: {error.strerror}; get it from {source}") from None
    if not found:
        raise InputError(f"{path} is missing; get it from {source}")
    return path
