"""Tables of scores as CSV, Markdown and LaTeX, for other programs and papers: models are rows."""

import math
from collections.abc import Callable, Iterable, Sequence

from candlelight.evaluation.catalogue.record import direction
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.json_values import to_csv
from candlelight.evaluation.run.result import Result, model_name

_TEX = str.maketrans(
    {mark: "\\" + mark for mark in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
_ARROWS = {"lower": r" $\downarrow$", "higher": r" $\uparrow$", "neither": ""}
_Columns = dict[str, str]  # the better direction of each score
_Rows = dict[str, dict[str, Score]]  # scores by model and column


def score_csv(results: Sequence[Result]) -> str:
    """Tabulate scores as CSV: a line for each model, and for each score its value and 95 % interval.

    Example:
        >>> from candlelight.evaluation.run.result import Provenance, StatisticResult
        >>> about = Provenance("irs", 1, "higher", {"name": "vae"}, {}, {}, {})
        >>> print(score_csv([StatisticResult(about, {"irs": Score(0.5, 0.4, 0.6)}, {}, (), (), {})]), end="")
        model,irs,irs low,irs high
        vae,0.5,0.4,0.6
    """
    columns, rows = _tabulate(results)
    head = ("model", *(f"{name}{part}" for name in columns for part in ("", " low", " high")))
    unknown = Score(math.nan, math.nan, math.nan)
    scores = {model: [row.get(name, unknown) for name in columns] for model, row in rows.items()}
    lines = [
        (model, *(n for one in some for n in (one.value, one.low, one.high)))
        for model, some in scores.items()
    ]
    return to_csv([head, *lines])


def score_markdown(results: Sequence[Result], intervals: bool = False) -> str:
    """Tabulate scores in Markdown; the best of each column is bold.

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
    columns, rows = _tabulate(results)
    arrows = {"lower": " ↓", "higher": " ↑", "neither": ""}
    head = ["model", *(f"{name}{arrows[better]}" for name, better in columns.items())]
    lines = _cells(columns, rows, intervals, "**{}**".format, str)
    escaped = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in (head, *lines)]
    rule = "|".join(["---", *("---:" for _ in columns)])
    return "\n".join([f"| {escaped[0]} |", f"|{rule}|", *(f"| {line} |" for line in escaped[1:]), ""])


def score_latex(results: Sequence[Result], intervals: bool = False) -> str:
    r"""Tabulate scores in LaTeX with the rules of booktabs; the best of each column is bold.

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
    columns, rows = _tabulate(results)
    head = ["model", *(f"{_escape(name)}{_ARROWS[better]}" for name, better in columns.items())]
    lines = _cells(columns, rows, intervals, r"\textbf{{{}}}".format, _escape)
    body = [
        r"\toprule",
        rf"{' & '.join(head)} \\",
        r"\midrule",
        *(rf"{' & '.join(line)} \\" for line in lines),
    ]
    about = "; ".join(dict.fromkeys(_origin(result) for result in results))
    start = rf"\begin{{tabular}}{{l{'r' * len(columns)}}}"
    return "\n".join(
        [rf"% \usepackage{{booktabs}}; {about}", start, *body, r"\bottomrule", r"\end{tabular}", ""]
    )


def _tabulate(results: Sequence[Result]) -> tuple[_Columns, _Rows]:
    """Collect the columns and rows; scores of several metrics or protocols are named after them."""
    kinds = {_kind(result) for result in results}
    columns: _Columns = {}
    rows: _Rows = {}
    for result in results:
        for name, score in result.scores.items():
            label = f"{_kind(result)}: {name}" if len(kinds) > 1 else name
            columns[label] = direction(result.about.better, name)
            rows.setdefault(model_name(result), {})[label] = score
    return columns, rows


def _kind(result: Result) -> str:
    return str(result.about.settings.get("protocol", result.about.metric))


def _origin(result: Result) -> str:
    about = result.about
    where = ", ".join(str(about.data[name]) for name in ("name", "set_name", "split") if about.data.get(name))
    text = f"{_kind(result)}, version {about.version}, on {where}, {about.data.get('rows', '?')} rows"
    return " ".join(text.split())


def _cells(
    columns: _Columns, rows: _Rows, intervals: bool, bold: Callable[[str], str], escape: Callable[[str], str]
) -> Iterable[list[str]]:
    """Write the cells of each row, with its model first."""
    best = {name: _best(name, better, rows) for name, better in columns.items()}
    for model, row in rows.items():
        cells = [escape(model)]
        for name in columns:
            score = row.get(name)
            if score is None or math.isnan(score.value):
                cells.append("" if score is None else "undefined")
                continue
            text = f"{score.value:.4g}"
            text = bold(text) if text == best[name] else text
            known = intervals and not math.isnan(score.low)
            cells.append(f"{text} [{score.low:.3g}, {score.high:.3g}]" if known else text)
        yield cells


def _best(name: str, better: str, rows: _Rows) -> str | None:
    """Return the best value of a column as it is printed; None without a direction or a second value."""
    values = [row[name].value for row in rows.values() if name in row and not math.isnan(row[name].value)]
    if better == "neither" or len(values) < 2:
        return None
    return f"{min(values) if better == 'lower' else max(values):.4g}"


def _escape(text: str) -> str:
    return text.translate(_TEX)
