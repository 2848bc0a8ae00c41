"""Choose and name the rows of a view before any image is read."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, SupportsIndex, TypeVar

from candlelight.evaluation.views.view_items import DataIdentity
from candlelight.loaders.errors import InputError
from candlelight.loaders.samples import row_number

RowChoice = str | Iterable[SupportsIndex]
_Item = TypeVar("_Item")
_RANGE = re.compile(r"([0-9]{1,15}):([0-9]{1,15})")
_LIST = re.compile(r"[0-9]{1,15}(,[0-9]{1,15})*")


@dataclass(frozen=True)
class Request:
    """A user's request for data.

    Attributes:
        data: PATH, LAYOUT:PATH, hf:NAME, or a reader.
        set_name: image set; None for the only one.
        split: split; None for the only one.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.
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
        identity: name, set and split of the data.
        reader: reader of the data.
        numbers: the reader's number of each chosen row.
        ids: id of each chosen row.
        groups: group of each chosen row.
        every_id: lists the ids of all rows of the reader.
    """

    identity: DataIdentity
    reader: Any
    numbers: tuple[int, ...]
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    every_id: Callable[[], Iterable[str]]

    def __post_init__(self) -> None:
        """Refuse an id that names several rows."""
        name, count = Counter(self.ids).most_common(1)[0]
        if count > 1:
            raise InputError(f"{self.identity.name}: expected one row for each id, got {count} of `{name}`")


@dataclass(frozen=True, eq=False)
class ChosenRows(Generic[_Item]):
    """A view of chosen rows: `candlelight.evaluation.views.view_protocols.View`.

    Attributes:
        named: the rows.
        read: reads one row by the reader's number.
    """

    named: NamedRows
    read: Callable[[int], _Item]

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""
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
        """Ids of all rows of the data, listed at the first use."""
        return frozenset(self.named.every_id())

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.ids)

    def __getitem__(self, row: SupportsIndex, /) -> _Item:
        """Read one row."""
        return self.read(self.named.numbers[row_number(row, len(self))])


def parse_rows(text: str) -> Sequence[int]:
    """Parse row numbers: ``START:STOP`` without STOP itself, or numbers separated by commas.

    Args:
        text: such as "0:100" or "3,5,8"; rows are counted from 0.

    Raises:
        InputError: the text has neither form, or names no row.

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
    """Choose rows by ``rows`` and ``limit`` of a request.

    Args:
        count: number of rows of the data.
        request: the request.

    Raises:
        InputError: no row is chosen, a row does not exist or is named twice, or the limit is below 1.

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
