"""The blocks of a page.

Texts, tables, plots and pictures, grouped in sections; formats of numbers in tables.
"""

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar

from jaxtyping import UInt8
from numpy import ndarray

from candlelight.evaluation.catalogue.record import whole_column
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import (
    MeanResult,
    Result,
    marked_scores,
    model_name,
    published_scores,
)
from candlelight.loaders.files.layer_codecs import encode_png


@dataclass(frozen=True)
class TextBlock:
    """A paragraph.

    Attributes:
        text: the paragraph; may be empty below a heading.
        heading: heading above the paragraph.
        term: bold words before the paragraph.
        quiet: whether the text is smaller, as in notes.
    """

    kind: ClassVar[str] = "text"
    text: str
    heading: str = ""
    term: str = ""
    quiet: bool = False


@dataclass(frozen=True)
class TableBlock:
    """A table with a caption; the first cell of each row names the row, and a `BestCell` begins in bold.

    Attributes:
        caption: description of the numbers.
        head: column titles, one for each cell of a row.
        rows: cells of each row.
        folded: whether the table is closed until the reader opens it.
        sortable: whether the reader may sort two or more rows by any column.
    """

    kind: ClassVar[str] = "table"
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False
    sortable: bool = True


@dataclass(frozen=True)
class PlotBlock:
    """A plot as inline SVG, with a description in words (``alt``) and a caption."""

    kind: ClassVar[str] = "plot"
    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, with its size in pixels, a description in words (``alt``) and a caption."""

    uri: str
    width: int
    height: int
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class PicturesBlock:
    """Pictures side by side, wrapped to the width of the page, with one common caption."""

    kind: ClassVar[str] = "pictures"
    pictures: tuple[Picture, ...]
    caption: str


Block = TextBlock | TableBlock | PlotBlock | PicturesBlock


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        key: anchor within the page.
        title: heading, and entry in the table of contents.
        blocks: blocks in order.
    """

    key: str
    title: str
    blocks: tuple[Block, ...]


def note(text: str) -> TextBlock:
    """Make a small paragraph that starts with the word "Note".

    Example:
        >>> note("no image shows it.").term
        'Note'
    """
    return TextBlock(text, term="Note", quiet=True)


def png_picture(pixels: UInt8[ndarray, "height width 3"], alt: str, caption: str = "") -> Picture:
    """Encode pixels as a PNG picture.

    Args:
        pixels: sRGB-encoded pixels.
        alt: description in words.
        caption: caption below the picture.

    Example:
        >>> import numpy as np
        >>> picture = png_picture(np.zeros((2, 3, 3), np.uint8), "A black image.")
        >>> picture.width, picture.uri[:22]
        (3, 'data:image/png;base64,')
    """
    uri = "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()
    return Picture(uri, pixels.shape[1], pixels.shape[0], alt, caption)


UNDEFINED = "not defined"


def number(value: float | str | None, digits: int = 3) -> str:
    """Write a number with ``digits`` significant digits; None and "inf" are the JSON forms of nan and inf.

    Example:
        >>> [number(value) for value in (0.5, 123.4, -1e-7, math.inf, -math.inf, math.nan)]
        ['0.500', '123', '-1.00e-07', '∞', '-∞', 'not defined']
    """
    value = math.nan if value is None else float(value)
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:#.{digits}g}".rstrip(".")


def with_deviation(mean: float, deviation: float) -> str:
    """Write a mean with its standard deviation, which is nan for a single sample and then omitted.

    Example:
        >>> with_deviation(0.5, 0.25).split(), with_deviation(0.5, math.nan)
        (['0.500', '±', '0.25'], '0.500')
    """
    return number(mean) if math.isnan(deviation) else unbroken(f"{number(mean)} ± {number(deviation, 2)}")


def scores_table(caption: str, results: Sequence[Result], whole: bool = False) -> TableBlock:
    r"""Tabulate the scores of results on the same data: the best in bold, published scores beside them.

    Args:
        caption: description of the numbers.
        results: the results.
        whole: whether scores of parts of images are left out.

    Returns:
        Models as rows, or scores as rows where these are more, so that the table is narrow.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, StatisticResult
        >>> about = Provenance("irs", 1, "higher", {"name": "vae"}, {}, {}, {})
        >>> one = StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, ("a", "b"), (), {})
        >>> scores_table("Scores", [one]).rows
        (('vae', '0.500 (0.400\xa0to\xa00.600)'),)
    """
    marked = marked_scores(results, with_interval)
    if whole:
        marked = [
            {name: cell for name, cell in some.items() if name == whole_column(name)} for some in marked
        ]
    lost = any(one.failed or (isinstance(one, MeanResult) and one.undefined) for one in results)
    columns = [_column(*pair, lost) for pair in zip(results, marked, strict=True)]
    arrow, published = results[0].about.arrow, published_scores(results)
    columns += [
        {f"{name}{arrow(name)}": number(one) for name, one in some.items()} for some in published.values()
    ]
    names = list(dict.fromkeys(name for column in columns for name in column))
    models = [*map(model_name, results), *published]
    cells = [[column.get(name, "") for name in names] for column in columns]
    if len(names) > len(models):
        return TableBlock(caption, ("score", *models), tuple(zip(names, *cells, strict=True)))
    rows = tuple((model, *row) for model, row in zip(models, cells, strict=True))
    return TableBlock(caption, ("model", *names), rows)


def _column(result: Result, written: dict[str, str], lost: bool) -> dict[str, str]:
    """Name the cells of one model by column; rows are counted if some are lost."""
    scores = {f"{name}{result.about.arrow(name)}": cell for name, cell in written.items()}
    if not lost or not isinstance(result, MeanResult):
        return scores
    scored = unbroken(f"{len(result.ids) - result.undefined} of {len(result.ids)}")
    return {"rows scored": scored, "failed": str(len(result.failed)), **scores}


def with_interval(score: Score) -> str:
    r"""Write a value with its 95 % interval, if there is one.

    Example:
        >>> with_interval(Score(0.5, 0.4, 0.6))
        '0.500 (0.400\xa0to\xa00.600)'
    """
    if math.isnan(score.low):
        return number(score.value)
    # The interval is not broken: on a phone it moves below the value.
    return f"{number(score.value)} " + unbroken(f"({number(score.low)} to {number(score.high)})")


def unbroken(text: str) -> str:
    r"""Replace spaces by no-break spaces, so that the text stays on one line.

    Example:
        >>> unbroken("9 %")
        '9\xa0%'
    """
    return type(text)(text.replace(" ", "\N{NO-BREAK SPACE}"))


def settings_table(results: Sequence[Result]) -> TableBlock:
    """Tabulate settings, data and versions; values that are equal in all results get a common column.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, StatisticResult
        >>> about = Provenance("irs", 1, "higher", {"name": "vae"}, {"rows": 9}, {"bins": 20}, {"numpy": "2"})
        >>> settings_table([StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {})]).rows
        (('model name', 'vae'), ('data rows', '9'), ('bins', '20'), ('numpy', '2'))
    """
    columns = []
    for result in results:
        about = result.about
        model = {f"model {name}": value for name, value in about.model.items()}
        data = {f"data {name}": value for name, value in about.data.items()}
        columns.append({**model, **data, **about.settings, **about.packages})
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = [setting_text(column.get(name, "")) for column in columns]
        if len(cells) > 1:
            cells = [cells[0], *("" for _ in cells)] if len(set(cells)) == 1 else ["", *cells]
        rows.append((name, *cells))
    models = [model_name(result) for result in results]
    head = ("setting", *(["all"] if len(models) > 1 else []), *models)
    return TableBlock("Settings, data and versions", head, tuple(rows), folded=True, sortable=False)


def class_name(classes: Sequence[str] | None, number: int) -> str:
    """Name a class by its label, or by its number if the labels are not known.

    Example:
        >>> class_name(("bird", "fish"), 1), class_name(None, 1)
        ('fish', 'class 1')
    """
    return classes[number] if classes else f"class {number}"


def setting_text(value: object) -> str:
    """Write the value of a setting; a checksum is shortened.

    Example:
        >>> setting_text(["conv1", "conv2"]), setting_text("0123456789ab" + 52 * "f"), setting_text(None)
        ('conv1, conv2', '0123456789ab…', 'none')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(setting_text, value))
    if value is None:
        return "none"
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1…", str(value))


def split_method_names(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Split the names of compared methods into the words that they share and the names of the methods.

    Args:
        names: the names; each keeps at least its last word, and a single name is not split.

    Example:
        >>> split_method_names(["all birds vebi", "all birds topics"])
        ('all birds', ('vebi', 'topics'))
    """
    words = [name.split(" ") for name in names]
    shared = 0
    if len(names) > 1:
        starts = zip(*(some[:-1] for some in words), strict=False)
        shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, starts))
    return " ".join(words[0][:shared]), tuple(" ".join(some[shared:]) for some in words)
