"""What a report is made of, before it is a page: tables, plots, sections, and how to read each metric."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

UNDEFINED = "not defined"


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first cell of each row names the row.

    Attributes:
        caption: what the numbers are.
        head: column titles, one for each cell of a row.
        rows: cells.
        folded: whether the page shows it only on request.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


@dataclass(frozen=True)
class Plot:
    """A drawing as inline SVG, what it shows in words, and its caption."""

    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Reading:
    """How to read a metric, whatever its numbers are.

    Attributes:
        key: anchor within the page.
        title: heading.
        measures: what it measures, and whose metric it is.
        better: arrow and words.
        blind: what it does not see.
    """

    key: str
    title: str
    measures: str
    better: str
    blind: str


@dataclass(frozen=True)
class Section:
    """One metric on the page.

    Attributes:
        reading: how to read it.
        tables: shown in order, the notes and the plot after the first.
        plot: None where there is nothing to draw.
        notes: why numbers are infinite or not defined.
    """

    reading: Reading
    tables: tuple[Table, ...]
    plot: Plot | None
    notes: tuple[str, ...]


def number(value: float, digits: int = 3) -> str:
    """Write a result with so many significant digits.

    Example:
        >>> [number(value) for value in (0.5, 123.4, -1e-7, math.inf, -math.inf, math.nan)]
        ['0.500', '123', '-1.00e-07', '∞', '-∞', 'not defined']
    """
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:#.{digits}g}".rstrip(".")


def spread(mean: float, deviation: float) -> str:
    """Write a mean with the standard deviation behind it, which one sample alone does not have.

    Example:
        >>> spread(0.5, 0.25), spread(0.5, math.nan)
        ('0.500 ± 0.25', '0.500')
    """
    return number(mean) if math.isnan(deviation) else f"{number(mean)} ± {number(deviation, 2)}"


def settings_table(columns: Mapping[str, Mapping[str, object]]) -> Table:
    """Tabulate what was chosen, a row for each setting and a column for each of several results.

    Example:
        >>> settings_table({"a": {"seed": 0}, "b": {"seed": 1}}).rows
        (('seed', '0', '1'),)
    """
    names = dict.fromkeys(name for settings in columns.values() for name in settings)
    rows = tuple((name, *(str(settings.get(name, "")) for settings in columns.values())) for name in names)
    return Table("Settings", ("setting", *columns), rows, folded=True)
