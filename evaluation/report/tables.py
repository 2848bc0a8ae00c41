"""Tables that sections share, and how they write numbers."""

import math
from collections.abc import Sequence

from evaluation.intervals import Score
from evaluation.report.blocks import Table
from evaluation.result import MeanResult, Result, model_name

UNDEFINED = "not defined"


def number(value: float | str | None, digits: int = 3) -> str:
    """Write a number of a result with so many significant digits; None and "inf" are those of JSON.

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


def spread(mean: float, deviation: float) -> str:
    """Write a mean with the standard deviation behind it, which one sample alone does not have.

    Example:
        >>> spread(0.5, 0.25).split(), spread(0.5, math.nan)
        (['0.500', '±', '0.25'], '0.500')
    """
    return number(mean) if math.isnan(deviation) else _unbroken(f"{number(mean)} ± {number(deviation, 2)}")


def scores_table(caption: str, results: Sequence[Result]) -> Table:
    r"""Tabulate the scores of results on the same data: a row for each model, a column for each score.

    Example:
        >>> from evaluation.result import About, StatisticResult
        >>> about = About("irs", 1, "higher", {"name": "vae"}, {}, {}, {})
        >>> one = StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, ("a", "b"), (), {})
        >>> scores_table("Scores", [one]).rows
        (('vae', '0.500 (0.40\xa0to\xa00.60)'),)
    """
    names = list(dict.fromkeys(name for result in results for name in result.scores))
    arrow = "↓" if results[0].about.better == "lower" else "↑"
    rows = []
    for result in results:
        cells = [_with_interval(result.scores[name]) if name in result.scores else "" for name in names]
        if isinstance(result, MeanResult):
            cells.insert(0, _unbroken(f"{len(result.ids) - result.undefined} of {len(result.ids)}"))
            cells.insert(1, str(len(result.failed)))
        rows.append((model_name(result), *cells))
    counts = ("rows scored", "failed") if isinstance(results[0], MeanResult) else ()
    return Table(caption, ("model", *counts, *(f"{name} {arrow}" for name in names)), tuple(rows))


def _with_interval(score: Score) -> str:
    if math.isnan(score.low):
        return number(score.value)
    # On a phone the interval goes below the value, whole.
    return f"{number(score.value)} " + _unbroken(f"({number(score.low, 2)} to {number(score.high, 2)})")


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def settings_table(results: Sequence[Result]) -> Table:
    """Tabulate settings, data and versions, a row for each and a column for each of several results.

    Example:
        >>> from evaluation.result import About, StatisticResult
        >>> about = About("irs", 1, "higher", {"name": "vae"}, {"rows": 9}, {"bins": 20}, {"numpy": "2.0"})
        >>> settings_table([StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {})]).rows
        (('model name', 'vae'), ('data rows', '9'), ('bins', '20'), ('numpy', '2.0'))
    """
    columns = []
    for result in results:
        about = result.about
        model = {f"model {name}": value for name, value in about.model.items()}
        data = {f"data {name}": value for name, value in about.data.items()}
        columns.append({**model, **data, **about.settings, **about.packages})
    names = dict.fromkeys(name for column in columns for name in column)
    rows = tuple((name, *(str(column.get(name, "")) for column in columns)) for name in names)
    head = ("setting", *(model_name(result) for result in results))
    return Table("Settings, data and versions", head, rows, folded=True)
