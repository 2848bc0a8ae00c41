"""Rows of a reader that a view shows: chosen and named before any image is read."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, SupportsIndex, TypeVar

from loaders.errors import InputError
from loaders.samples import row_number
from loaders.views.view_items import DataIdentity

RowChoice = str | Iterable[SupportsIndex]
_Item = TypeVar("_Item")
_RANGE = re.compile(r"([0-9]{1,15}):([0-9]{1,15})")
_LIST = re.compile(r"[0-9]{1,15}(,[0-9]{1,15})*")


@dataclass(frozen=True)
class Request:
    """The data that a user asks for.

    Attributes:
        data: PATH, LAYOUT:PATH, hf:NAME, or a reader.
        set_name: image set; None for the only one.
        split: split; None for the only one.
        rows: row numbers or their text, see `parse_rows`; None for all.
        limit: the first so many of these; None for all.
    """

    data: Any
    set_name: str | None = None
    split: str | None = None
    rows: RowChoice | None = None
    limit: int | None = None

    @property
    def name(self) -> str:
        """Name of the data in messages."""
        return str(self.data) if isinstance(self.data, str | Path) else type(self.data).__name__


@dataclass(frozen=True, eq=False)
class NamedRows:
    """Chosen rows of a reader, with their names.

    Attributes:
        identity: which data these are.
        reader: reads the data.
        numbers: the reader's own number of each chosen row.
        ids: of the chosen rows.
        groups: of the chosen rows.
        every_id: lists the ids of all rows of the reader.
    """

    identity: DataIdentity
    reader: Any
    numbers: tuple[int, ...]
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    every_id: Callable[[], Iterable[str]]

    def __post_init__(self) -> None:
        """Refuse ids that do not name one row each."""
        name, count = Counter(self.ids).most_common(1)[0]
        if count > 1:
            raise InputError(f"{self.identity.name}: expected one row for each id, got {count} of `{name}`")


@dataclass(frozen=True, eq=False)
class ChosenRows(Generic[_Item]):
    """A view of chosen rows: `loaders.views.view_protocols.View`.

    Attributes:
        named: the rows.
        read: reads one row by the reader's own number.
    """

    named: NamedRows
    read: Callable[[int], _Item]

    @property
    def identity(self) -> DataIdentity:
        """Which data are read."""
        return self.named.identity

    @property
    def ids(self) -> tuple[str, ...]:
        """Id of each row."""
        return self.named.ids

    @property
    def groups(self) -> tuple[str, ...]:
        """Scene, object or unit of each row."""
        return self.named.groups

    @cached_property
    def known_ids(self) -> frozenset[str]:
        """Ids of all rows of the data, found when they are first asked for."""
        return frozenset(self.named.every_id())

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.ids)

    def __getitem__(self, row: SupportsIndex, /) -> _Item:
        """Read one row."""
        return self.read(self.named.numbers[row_number(row, len(self))])


def parse_rows(text: str) -> Sequence[int]:
    """Read row numbers from their text: ``START:STOP``, without STOP, or numbers with commas.

    Args:
        text: such as "0:100" or "3,5,8"; rows are counted from 0.

    Raises:
        InputError: the text is neither, or names no row.

    Example:
        >>> parse_rows("0:100"), parse_rows("3,5,8")
        (range(0, 100), (3, 5, 8))
    """
    bare = text.replace(" ", "")
    if found := _RANGE.fullmatch(bare):
        rows = range(int(found[1]), int(found[2]))
        if rows:
            return rows
    elif _LIST.fullmatch(bare):
        return tuple(map(int, bare.split(",")))
    raise InputError(f"rows: expected START:STOP with STOP above START, or numbers as 3,5,8, got {text!r}")


def choose_rows(count: int, request: Request) -> tuple[int, ...]:
    """Choose among the rows of data.

    Args:
        count: how many rows the data have.
        request: its ``rows`` and ``limit`` count.

    Raises:
        InputError: no row, a row that is not there or is named twice, or a limit below 1.

    Example:
        >>> choose_rows(5, Request("frames", rows="1:4", limit=2))
        (1, 2)
    """
    wanted = parse_rows(request.rows) if isinstance(request.rows, str) else request.rows
    if request.limit is not None and request.limit < 1:
        raise InputError(f"limit: expected at least 1, got {request.limit}")
    chosen: dict[int, None] = {}
    for row in range(count) if wanted is None else wanted:
        number = operator.index(row)
        if not 0 <= number < count or number in chosen:
            problem = "twice" if number in chosen else f"of {count}"
            raise InputError(
                f"rows: expected each at most once, from 0 to {count - 1} of {request.name}, got row "
                f"{number} {problem}"
            )
        chosen[number] = None
    if not chosen:
        raise InputError(f"rows: expected at least one row of {request.name}, got none of {count}")
    return tuple(chosen)[: request.limit]
