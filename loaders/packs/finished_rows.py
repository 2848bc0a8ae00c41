"""Store finished rows of an unfinished pack, so that packing can resume after it was killed."""

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import sync

# A killed call loses at most this much work. Smaller parts would need more files.
PART_BYTES = 32 * 2**20
_HEAD = struct.Struct("<QI")


def append_rows(folder: Path, first: int, rows: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """Append rows to the rows stored in a folder, and yield each row after writing it.

    Args:
        folder: folder of the parts; each part is named after its rows.
        first: number of the first row: the number of rows already stored.
        rows: rows of byte strings, the same number in each row.

    Yields:
        The same rows. The last part is finished when all rows are consumed.
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
    """Count the rows stored in a folder.

    Example:
        >>> count_finished_rows(Path("nowhere"))
        0
    """
    return _paths(folder)[1]


def read_finished_rows(folder: Path, width: int) -> Iterator[list[bytes]]:
    """Read the rows that `append_rows` stored in a folder, in order.

    Args:
        folder: folder of the parts.
        width: number of byte strings in a row.

    Raises:
        InputError: a part is damaged.
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
    """List the parts without a gap from the first row on, and count their rows."""
    paths, rows = [], 0
    for path in sorted(folder.glob("[0-9]*.part")):
        first, _, end = path.stem.partition("-")
        if int(first) == rows:
            paths.append(path)
            rows = int(end)
    return paths, rows
