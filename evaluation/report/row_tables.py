"""Tables of parts of images, of groups and of single rows, with the models below each other."""

import math
from collections.abc import Iterable, Mapping, Sequence

from candlelight.evaluation.catalogue.record import direction, whole_column
from candlelight.evaluation.report.blocks import TableBlock, with_interval
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import MeanResult, Result, is_control, mark_best, model_name

MOST_ROWS = 1000  # of a table, so that a page stays quick
_Unit = tuple[tuple[str, ...], list[dict[str, Score]]]  # first cells, and the scores of each model


def row_tables(results: Sequence[Result]) -> list[TableBlock]:
    """Tabulate the scores of parts, groups and rows, a line for each model; the best of the models is bold.

    Args:
        results: results of one metric on the same rows.

    Returns:
        Folded tables: of parts, if there are any; of groups, if they are neither one nor all rows; of rows.
        More rows than `MOST_ROWS` are left out, those in which the first model is best. None of a statistic.

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
    wholes = [name for name in first.columns if name == whole_column(name)]
    parts = dict.fromkeys(name.partition(" of ")[2] for name in first.columns if name not in wholes)
    of_parts = (
        ((part,), [{name: one.scores[f"{name} of {part}"] for name in wholes} for one in means])
        for part in parts
    )
    tables = [_table("Scores of each part", ("part",), wholes, means, of_parts)] if parts else []
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, group in enumerate(first.groups):
        groups.setdefault((group,), []).append(row)
    if several := 1 < len(groups) < len(first.ids):
        tables.append(_means("group", ("group",), groups, wholes, means))
    keys = zip(first.ids, first.groups, strict=True) if several else zip(first.ids, strict=True)
    rows = {key: [row] for row, key in enumerate(keys)}
    return [*tables, _means("row", ("row", "group")[: 1 + several], rows, wholes, means)]


def _means(
    what: str,
    head: tuple[str, ...],
    units: Mapping[tuple[str, ...], Sequence[int]],
    names: Sequence[str],
    results: Sequence[MeanResult],
) -> TableBlock:
    """Tabulate means over the rows of units; of many units, those with the worst score of the first model."""
    caption, most, column = f"Scores of each {what}", max(1, MOST_ROWS // len(results)), names[0]
    kept = list(units)
    if len(units) > most:
        sign = -1 if direction(results[0].about.better, column) == "higher" else 1
        means = {key: sign * _mean(results[0], column, rows).value for key, rows in units.items()}
        known = [key for key in units if not math.isnan(means[key])]
        worst = set(sorted(known, key=means.__getitem__, reverse=True)[:most])
        kept = [key for key in units if key in worst]
        caption += (
            f": the {len(kept)} of {len(units)} in which {column} of {model_name(results[0])} is worst; "
            "--out FILE.rows.csv writes all rows"
        )
    scores = (
        (key, [{name: _mean(one, name, units[key]) for name in names} for one in results]) for key in kept
    )
    return _table(caption, head, names, results, scores, mark_failed=what == "row")


def _mean(result: MeanResult, column: str, rows: Sequence[int]) -> Score:
    """Average the defined values of some rows; there is no interval."""
    known = [one for row in rows if not math.isnan(one := result.columns[column][row])]
    return Score(sum(known) / len(known) if known else math.nan, math.nan, math.nan)


def _table(
    caption: str,
    head: tuple[str, ...],
    names: Sequence[str],
    results: Sequence[MeanResult],
    units: Iterable[_Unit],
    mark_failed: bool = False,
) -> TableBlock:
    better = results[0].about.better
    failed = [set(result.failed) if mark_failed else set() for result in results]
    rows = []
    for key, scores in units:
        columns = []
        for name in names:
            cells = [with_interval(one[name]) for one in scores]
            pairs = zip(results, scores, strict=True)
            values = [None if is_control(result) else one[name].value for result, one in pairs]
            columns.append(mark_best(cells, values, direction(better, name)))
        for place, result in enumerate(results):
            lost = " (failed)" if key[0] in failed[place] else ""
            rows.append((*key, f"{model_name(result)}{lost}", *(column[place] for column in columns)))
    titles = (f"{name}{results[0].about.arrow(name)}" for name in names)
    return TableBlock(caption, (*head, "model", *titles), tuple(rows), folded=True)
