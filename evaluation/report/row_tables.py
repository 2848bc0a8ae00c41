"""Tables of parts of images, of groups and of single rows, with the models below each other."""

import math
from collections.abc import Sequence

from candlelight.evaluation.catalogue.record import direction, whole_column
from candlelight.evaluation.report.blocks import TableBlock, with_interval
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import MeanResult, Result, competing, mark_best, model_name

MOST_ROWS = 1000  # of a table, so that a page stays quick
_Units = dict[tuple[str, ...], list[dict[str, Score]]]  # scores of each model, by the first cells of a row


def row_tables(results: Sequence[Result]) -> list[TableBlock]:
    """Tabulate the scores of parts, groups and rows, a line for each model; the best of the models is bold.

    Args:
        results: results of one metric on the same rows.

    Returns:
        Folded tables: of parts, if there are any; of groups, if they are neither one nor all rows; of rows.
        Of more lines than `MOST_ROWS` those are kept in which the first model is worst. None of a statistic.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance
        >>> about = Provenance("mae", 1, "lower", {"name": "net"}, {}, {}, {})
        >>> one = MeanResult(about, ("a", "b", "c"), ("x", "x", "y"), {"mae": (1.0, 2.0, 4.0)}, ("c",))
        >>> groups, rows = row_tables([one])
        >>> groups.rows, rows.rows[2]
        ((('x', 'net', '1.50'), ('y', 'net', '4.00')), ('c', 'y', 'net (failed)', '4.00'))
    """
    means = [result for result in results if isinstance(result, MeanResult)]
    if len(means) < len(results) or any(one.ids != means[0].ids for one in means) or len(means[0].ids) < 2:
        return []
    first = means[0]
    names = [name for name in first.columns if name == whole_column(name)]
    several = 1 < len(set(first.groups)) < len(first.ids)
    units: dict[str, _Units] = {"part": {}, "group": {}, "row": {}}
    for part in dict.fromkeys(name.partition(" of ")[2] for name in first.columns if name not in names):
        units["part"][(part,)] = [{name: one.scores[f"{name} of {part}"] for name in names} for one in means]
    for group in dict.fromkeys(first.groups) if several else ():
        rows = [row for row, one in enumerate(first.groups) if one == group]
        units["group"][(group,)] = [_mean(one, names, rows) for one in means]
    for row, key in enumerate(zip(first.ids, first.groups, strict=True)):
        units["row"][key[: 1 + several]] = [_mean(one, names, [row]) for one in means]
    return [_table(what, some, means) for what, some in units.items() if some]


def _mean(result: MeanResult, names: Sequence[str], rows: Sequence[int]) -> dict[str, Score]:
    """Average the defined values of some rows; there are no intervals."""
    found = {}
    for name in names:
        known = [one for row in rows if not math.isnan(one := result.columns[name][row])]
        found[name] = Score(sum(known) / len(known) if known else math.nan, math.nan, math.nan)
    return found


def _table(what: str, units: _Units, results: Sequence[MeanResult]) -> TableBlock:
    """Tabulate scores of parts, groups or rows by their first cells, for each result."""
    about, caption, most = results[0].about, f"Scores of each {what}", MOST_ROWS // len(results)
    names = list(next(iter(units.values()))[0])
    if len(units) > most:
        sign = -1 if direction(about.better, names[0]) == "higher" else 1
        losses = {key: sign * some[0][names[0]].value for key, some in units.items()}
        worst = set(sorted(units, key=lambda key: (not math.isnan(losses[key]), losses[key]))[-most:])
        caption += f": the {most} of {len(units)} with the worst {names[0]} of {model_name(results[0])}; "
        caption += "--out FILE.rows.csv writes all rows"
        units = {key: some for key, some in units.items() if key in worst}
    lines = []
    for key, some in units.items():
        columns = []
        for name in names:
            values = [competing(one, scores[name].value) for one, scores in zip(results, some, strict=True)]
            cells = [with_interval(scores[name]) for scores in some]
            columns.append(mark_best(cells, values, direction(about.better, name)))
        for result, *cells in zip(results, *columns, strict=True):
            failed = " (failed)" if what == "row" and key[0] in result.failed else ""
            lines.append((*key, f"{model_name(result)}{failed}", *cells))
    head = (what, "group")[: len(next(iter(units)))]
    titles = (f"{name}{about.arrow(name)}" for name in names)
    return TableBlock(caption, (*head, "model", *titles), tuple(lines), folded=True)
