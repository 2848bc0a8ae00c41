"""Finished rows of a pack in the making, in files that appear whole: what a killed call leaves behind."""

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from loaders.errors import InputError
from loaders.files.atomic_files import sync

# What a killed call loses at most; small enough to matter little, large enough for few files.
PART_BYTES = 32 * 2**20
_HEAD = struct.Struct("<QI")


def append_rows(folder: Path, first: int, rows: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """Append rows to those that lie in a folder already, and pass each on when it is written.

    Args:
        folder: where to write; parts are named for the rows that they hold.
        first: number of the first row, which is how many rows lie in the folder.
        rows: the same number of byte strings for each row.

    Returns:
        The same rows. The last part is whole when they are all taken.
    """
    waiting = iter(rows)
    row = next(waiting, None)
    while row is not None:
        partial, end = folder / f".{first}", first
        with partial.open("wb") as file:
            while row is not None and (end == first or file.tell() < PART_BYTES):
                for blob in row:
                    file.write(_HEAD.pack(len(blob), zlib.crc32(blob)))
                    file.write(blob)
                yield row
                end += 1
                row = next(waiting, None)
        sync(partial)
        partial.replace(folder / f"{first:09d}-{end:09d}.part")
        sync(folder)
        first = end


def count_finished_rows(folder: Path) -> int:
    """Count the rows that lie in a folder.

    Example:
        >>> count_finished_rows(Path("nowhere"))
        0
    """
    return _paths(folder)[1]


def read_finished_rows(folder: Path, width: int) -> Iterator[list[bytes]]:
    """Read the rows that lie in a folder, in order.

    Args:
        folder: where `write_parts` wrote.
        width: how many byte strings a row has.

    Raises:
        InputError: a file was damaged meanwhile.
    """
    for path in _paths(folder)[0]:
        first, _, end = path.stem.partition("-")
        with path.open("rb") as file:
            for _ in range(int(first), int(end)):
                row = []
                for _ in range(width):
                    head = file.read(_HEAD.size)
                    length, check = _HEAD.unpack(head) if len(head) == _HEAD.size else (-1, 0)
                    row.append(file.read(max(length, 0)))
                    if (len(row[-1]), zlib.crc32(row[-1])) != (length, check):
                        raise InputError(f"{path} is damaged; delete {folder} and pack again")
                yield row


def _paths(folder: Path) -> tuple[list[Path], int]:
    """List the parts that follow each other from the first row on, and count their rows."""
    paths, rows = [], 0
    for path in sorted(folder.glob("[0-9]*.part")):
        first, _, end = path.stem.partition("-")
        if int(first) == rows:
            paths.append(path)
            rows = int(end)
    return paths, rows
