"""Tables of scores as CSV, Markdown and LaTeX, for other programs and papers: models are rows."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from candlelight.evaluation.catalogue.record import direction
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.json_values import to_csv
from candlelight.evaluation.run.result import (
    BestCell,
    Result,
    is_control,
    mark_best,
    model_name,
    published_scores,
    published_sources,
)

_TEX = str.maketrans(
    {mark: "\\" + mark for mark in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
_ARROWS = {"lower": r" $\downarrow$", "higher": r" $\uparrow$", "neither": ""}
_Columns = dict[str, str]  # the better direction of each score
_Rows = dict[str, dict[str, Score]]  # scores by model and column


def score_csv(results: Sequence[Result]) -> str:
    """Tabulate scores as CSV: a line for each model, and for each score its value and 95 % interval.

    Published scores of a protocol have lines of their own, named "METHOD (published)", without intervals.

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
    """Tabulate scores in Markdown; the best of each column is bold, among models that are no controls.

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
    columns, rows, apart = _tabulate(results)
    arrows = {"lower": " ↓", "higher": " ↑", "neither": ""}
    head = ["model", *(f"{name}{arrows[better]}" for name, better in columns.items())]
    lines = _cells(columns, rows, apart, intervals, "**{}**".format, str)
    escaped = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in (head, *lines)]
    rule = "|".join(["---", *("---:" for _ in columns)])
    told = "".join(f"\nPublished scores were {source}.\n" for source in published_sources(results))
    return "\n".join([f"| {escaped[0]} |", f"|{rule}|", *(f"| {line} |" for line in escaped[1:]), told])


def score_latex(results: Sequence[Result], intervals: bool = False) -> str:
    r"""Tabulate scores in LaTeX with the rules of booktabs; the best of each column is bold, as in Markdown.

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
    columns, rows, apart = _tabulate(results)
    head = ["model", *(f"{_escape(name)}{_ARROWS[better]}" for name, better in columns.items())]
    lines = _cells(columns, rows, apart, intervals, r"\textbf{{{}}}".format, _escape)
    body = [
        r"\toprule",
        rf"{' & '.join(head)} \\",
        r"\midrule",
        *(rf"{' & '.join(line)} \\" for line in lines),
    ]
    told = [f"published scores were {source}" for source in published_sources(results)]
    about = "; ".join(dict.fromkeys([*(_origin(result) for result in results), *told]))
    start = rf"\begin{{tabular}}{{l{'r' * len(columns)}}}"
    return "\n".join(
        [rf"% \usepackage{{booktabs}}; {about}", start, *body, r"\bottomrule", r"\end{tabular}", ""]
    )


def _tabulate(results: Sequence[Result]) -> tuple[_Columns, _Rows, set[str]]:
    """Collect columns and rows, and the names of rows that do not compete: controls, and published scores.

    Scores of several metrics or protocols are named after them.
    """
    kinds = {_kind(result) for result in results}
    columns: _Columns = {}
    rows: _Rows = {}
    for result in results:
        for name, score in result.scores.items():
            label = f"{_kind(result)}: {name}" if len(kinds) > 1 else name
            columns[label] = direction(result.about.better, name)
            rows.setdefault(model_name(result), {})[label] = score
    apart = {model_name(result) for result in results if is_control(result)}
    for result in results:
        for method, values in published_scores([result]).items():
            named = {
                f"{_kind(result)}: {name}" if len(kinds) > 1 else name: one for name, one in values.items()
            }
            rows.setdefault(method, {}).update(
                {name: Score(one, math.nan, math.nan) for name, one in named.items()}
            )
            apart.add(method)
    return columns, rows, apart


def _kind(result: Result) -> str:
    return str(result.about.settings.get("protocol", result.about.metric))


def _origin(result: Result) -> str:
    about = result.about
    where = ", ".join(str(about.data[name]) for name in ("name", "set_name", "split") if about.data.get(name))
    text = f"{_kind(result)}, version {about.version}, on {where}, {about.data.get('rows', '?')} rows"
    return " ".join(text.split())


def _cells(
    columns: _Columns,
    rows: _Rows,
    apart: Collection[str],
    intervals: bool,
    bold: Callable[[str], str],
    escape: Callable[[str], str],
) -> Iterable[list[str]]:
    """Write the cells of each row, with its model first."""
    table = [list(map(escape, rows))]
    for name, better in columns.items():
        scores = [row.get(name) for row in rows.values()]
        cells = [_cell(score, intervals) for score in scores]
        values = [
            None if one is None or model in apart else one.value
            for model, one in zip(rows, scores, strict=True)
        ]
        table.append([_bold(cell, bold) for cell in mark_best(cells, values, better)])
    return map(list, zip(*table, strict=True))


def _cell(score: Score | None, intervals: bool) -> str:
    if score is None or math.isnan(score.value):
        return "" if score is None else "undefined"
    known = intervals and not math.isnan(score.low)
    return f"{score.value:.4g} [{score.low:.3g}, {score.high:.3g}]" if known else f"{score.value:.4g}"


def _bold(cell: str, bold: Callable[[str], str]) -> str:
    value, space, interval = cell.partition(" ")
    return f"{bold(value)}{space}{interval}" if isinstance(cell, BestCell) else cell


def _escape(text: str) -> str:
    return text.translate(_TEX)
