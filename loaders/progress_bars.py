"""Progress bars in terminals, and a line a minute in log files."""

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from tqdm import tqdm

LINE_PAUSE = 60.0  # s between lines of progress where standard error is no terminal


def progress_bar(items: Iterable[Any] | None = None, *, desc: str, unit: str, **options: Any) -> Any:
    """Make a progress bar on standard error; where that is no terminal, it prints a plain line a minute.

    A run of less than a minute prints nothing there, so that logs of many short steps stay short. Without
    standard error, as in a daemon, nothing is printed.

    Args:
        items: items of the loop; without it, call `update` of the bar.
        desc: name of the counted work, at the beginning of the bar.
        unit: name of one item, in the singular.
        options: further arguments of `tqdm.tqdm`.

    Returns:
        A `tqdm.tqdm`.

    Example:
        >>> sum(progress_bar([1, 2, 3], desc="add", unit="number"))
        6
    """
    terminal = _is_terminal()
    if terminal is None:
        return tqdm(items, desc=desc, unit=unit, **{**options, "disable": True})
    if terminal:
        return tqdm(items, desc=desc, unit=unit, **{"dynamic_ncols": True, **options})
    return _Lines(items, desc=desc, unit=unit, **options)


def write_line(line: str) -> None:
    """Print a line at once, above the progress bars."""
    tqdm.write(line)
    sys.stdout.flush()


def _is_terminal() -> bool | None:
    """Tell whether standard error is a terminal; None if it cannot be written to."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError, OSError):  # none, an object that is no file, or a closed file
        return None


class _Lines(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A progress bar that prints lines, without carriage returns."""

    def __init__(self, items: Iterable[Any] | None, **options: Any) -> None:
        self._last = time.monotonic()
        self._printed = False
        known = options.get("total") is not None or hasattr(items, "__len__")
        form = "{desc}: {n_fmt}/{total_fmt} {unit}s, {rate_fmt}, {remaining} left{postfix}"
        if not known:
            form = "{desc}: {n_fmt} {unit}s, {rate_fmt}{postfix}"
        # One item may take longer than the pause, so every update asks the clock.
        options |= {"bar_format": form, "miniters": 1, "mininterval": min(1.0, LINE_PAUSE)}
        super().__init__(items, file=sys.stderr, **options)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if time.monotonic() - self._last >= LINE_PAUSE:
            self._print()

    def clear(self, nolock: bool = False) -> None:
        """Do nothing: a printed line stays."""

    def close(self) -> None:
        if self._printed and not self.disable:
            self._print()
        self.delay = float("inf")  # tells tqdm that there is no bar to remove
        super().close()

    def _print(self) -> None:
        self._last, self._printed = time.monotonic(), True
        with suppress(OSError, ValueError):  # a full disk, or a file that was closed meanwhile
            self.fp.write(" ".join(str(self).split()) + "\n")
            self.fp.flush()
