"""Tables of scores as CSV, Markdown and LaTeX, for other programs and papers.

Models are rows; in Markdown and LaTeX they are columns where there are many scores, and more than models, and
scores that no model defines are left out.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from candlelight.evaluation.catalogue.record import direction
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.json_values import to_csv
from candlelight.evaluation.run.result import (
    BestCell,
    Better,
    Result,
    competing,
    mark_best,
    model_name,
    published_scores,
)

_TEX = str.maketrans(
    {mark: "\\" + mark for mark in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
_ARROWS = {"lower": r" $\downarrow$", "higher": r" $\uparrow$", "neither": ""}
_MANY = 8  # scores that fit beside each other on a page
_Columns = dict[str, Better]  # the better direction of each score
_Rows = dict[str, dict[str, Score]]  # scores by model and column
_Table = tuple[_Columns, _Rows, set[str]]  # with the models that compete for the best
_Write = Callable[[str], str]


def score_csv(results: Sequence[Result]) -> str:
    """Tabulate scores as CSV: a line for each model, and for each score its value and 95 % interval.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, StatisticResult
        >>> about = Provenance("irs", 1, "higher", {"name": "vae"}, {}, {}, {})
        >>> print(score_csv([StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {})]), end="")
        model,irs,irs low,irs high
        vae,0.5,0.4,0.6
    """
    columns, rows, _ = _tabulate(results)
    head = ("model", *(f"{name}{part}" for name in columns for part in ("", " low", " high")))
    unknown = Score(math.nan, math.nan, math.nan)
    scores = {model: [row.get(name, unknown) for name in columns] for model, row in rows.items()}
    lines = [
        (model, *(n for one in some for n in (one.value, one.low, one.high)))
        for model, some in scores.items()
    ]
    return to_csv([head, *lines])


def score_markdown(results: Sequence[Result], intervals: bool = False) -> str:
    """Tabulate scores in Markdown; the best of each score is bold, among models that are no controls.

    Args:
        results: results of one call.
        intervals: whether 95 % intervals stand beside the values.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, StatisticResult
        >>> def one(name, value):
        ...     about = Provenance("irs", 1, "higher", {"name": name}, {}, {}, {})
        ...     return StatisticResult(about, {"irs": Score(value, 0.1, 0.9)}, {}, (), (), {})
        >>> print(score_markdown([one("vae", 0.5), one("net", 0.25)]), end="")
        | model | irs ↑ |
        |---|---:|
        | vae | **0.5** |
        | net | 0.25 |
    """
    columns = (tabulated := _defined(_tabulate(results)))[0]
    arrows = {"lower": " ↓", "higher": " ↑", "neither": ""}
    head = ["model", *(f"{name}{arrows[better]}" for name, better in columns.items())]
    lines = _oriented(head, _cells(tabulated, intervals, "**{}**".format, str))
    escaped = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines]
    rule = "|".join(["---", *("---:" for _ in lines[0][1:])])
    return "\n".join([f"| {escaped[0]} |", f"|{rule}|", *(f"| {line} |" for line in escaped[1:]), ""])


def score_latex(results: Sequence[Result], intervals: bool = False) -> str:
    r"""Tabulate scores in LaTeX with the rules of booktabs; the best of each score is bold, as in Markdown.

    Args:
        results: results of one call.
        intervals: whether 95 % intervals stand beside the values.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, StatisticResult
        >>> about = Provenance("c_mat", 1, "lower", {"name": "a_b"}, {"name": "walls", "rows": 2}, {}, {})
        >>> result = StatisticResult(about, {"c_mat": Score(0.5, 0.4, 0.6)}, {}, (), (), {})
        >>> print(score_latex([result]), end="")
        % \usepackage{booktabs}; c_mat, version 1, on walls, 2 rows
        \begin{tabular}{lr}
        \toprule
        model & c\_mat $\downarrow$ \\
        \midrule
        a\_b & 0.5 \\
        \bottomrule
        \end{tabular}
    """
    columns = (tabulated := _defined(_tabulate(results)))[0]
    head = ["model", *(f"{_escape(name)}{_ARROWS[better]}" for name, better in columns.items())]
    lines = _oriented(head, _cells(tabulated, intervals, r"\textbf{{{}}}".format, _escape))
    first, *rest = (rf"{' & '.join(line)} \\" for line in lines)
    body = [r"\toprule", first, r"\midrule", *rest]
    about = "; ".join(dict.fromkeys(_origin(result) for result in results))
    start = rf"\begin{{tabular}}{{l{'r' * (len(lines[0]) - 1)}}}"
    return "\n".join(
        [rf"% \usepackage{{booktabs}}; {about}", start, *body, r"\bottomrule", r"\end{tabular}", ""]
    )


def _tabulate(results: Sequence[Result]) -> _Table:
    """Collect the columns and rows; scores of several metrics or protocols are named after them."""
    kinds = {_kind(result) for result in results}
    columns: _Columns = {}
    rows: _Rows = {}
    published: _Rows = {}
    for result in results:
        start = f"{_kind(result)}: " if len(kinds) > 1 else ""
        for name, score in result.scores.items():
            columns[f"{start}{name}"] = direction(result.about.better, name)
            rows.setdefault(model_name(result), {})[f"{start}{name}"] = score
        for method, values in published_scores([result]).items():
            known = {f"{start}{name}": Score(one, math.nan, math.nan) for name, one in values.items()}
            published.setdefault(method, {}).update(known)
    return (
        columns,
        rows | published,
        {model_name(result) for result in results if competing(result, 0) is not None},
    )


def _defined(tabulated: _Table) -> _Table:
    """Leave out columns that are undefined for all models, unless all are."""
    columns, rows, rivals = tabulated
    known = {
        name: better
        for name, better in columns.items()
        if not all(math.isnan(row[name].value) for row in rows.values() if name in row)
    }
    return known or columns, rows, rivals


def _kind(result: Result) -> str:
    return str(result.about.settings.get("protocol", result.about.metric))


def _origin(result: Result) -> str:
    about = result.about
    where = ", ".join(str(about.data[name]) for name in ("name", "set_name", "split") if about.data.get(name))
    text = f"{_kind(result)}, version {about.version}, on {where}, {about.data.get('rows', '?')} rows"
    return " ".join(text.split())


def _cells(tabulated: _Table, intervals: bool, bold: _Write, escape: _Write) -> Iterable[Sequence[str]]:
    """Write the cells of each row, with its model first."""
    columns, rows, rivals = tabulated
    table = [list(map(escape, rows))]
    for name, better in columns.items():
        scores = {model: row.get(name) for model, row in rows.items()}
        cells = [_cell(score, intervals) for score in scores.values()]
        values = [score.value if score and model in rivals else None for model, score in scores.items()]
        marked = mark_best(cells, values, better)
        table.append([cell.bold(bold) if isinstance(cell, BestCell) else cell for cell in marked])
    return zip(*table, strict=True)


def _oriented(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Join head and lines; lines are scores in place of models if these are many, and more than models."""
    table = [head, *lines]
    if len(head) - 1 <= max(_MANY, len(table) - 1):
        return table
    first, *scores = zip(*table, strict=True)
    return [("score", *first[1:]), *scores]


def _cell(score: Score | None, intervals: bool) -> str:
    if score is None or math.isnan(score.value):
        return "" if score is None else "undefined"
    known = intervals and not math.isnan(score.low)
    return f"{score.value:.4g}" + (f" [{score.low:.3g}, {score.high:.3g}]" if known else "")


def _escape(text: str) -> str:
    return text.translate(_TEX)
