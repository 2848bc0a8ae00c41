"""Progress bars of library functions: on a terminal, and nowhere else."""

import sys
from typing import Any

from tqdm import tqdm


def progress_bar(rows: Any = None, **options: Any) -> Any:
    """Make a bar of tqdm that is drawn only where standard error is a terminal.

    In a log file a bar would fill the disk; a daemon has no standard error, or a closed one, where `tqdm`
    alone raises.

    Args:
        rows: what to iterate over, if anything.
        options: options of `tqdm`.

    Example:
        >>> list(progress_bar(["a", "b"], desc="read", unit="row"))
        ['a', 'b']
    """
    return tqdm(rows, disable=not _terminal(), **options)


def _terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError, OSError):  # none, an object that cannot tell, or a closed file
        return False
