"""Tables of CSM by factor, as Tables 1 and 2 of Gupta et al. 2022."""

from collections.abc import Iterator, Sequence
from typing import Any

from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BRANCHES, METRICS, WANTED
from candlelight.evaluation.report.blocks import TableBlock
from candlelight.evaluation.report.tables import number, unbroken
from candlelight.evaluation.results.result import StatisticResult, model_name
from candlelight.loaders.looking.sheet_rows import value_text
from candlelight.loaders.schema import FactorValue

_COLUMNS = {
    "mean_of_ratios": "mean of ratios ↑",
    "ratio_of_means": "ratio of means ↑",
    "bounded_mean_of_ratios": "bounded, mean of ratios ↑",
    "bounded_ratio_of_means": "bounded, ratio of means ↑",
    "wanted": "wanted sensitivity ↑",
    "unwanted": "unwanted sensitivity ↓",
}
_Groups = dict[tuple[str, tuple[FactorValue, ...], str], dict[str, Any]]


def factor_tables(results: Sequence[StatisticResult]) -> list[TableBlock]:
    """Tabulate the groups of `concepts.csm_by_factor`: two tables for each choice of factors.

    The first has aligned means of ratios with the sensitivities behind them, the second everything. Only the
    first table is open.
    """
    tables: list[TableBlock] = []
    for factors in dict.fromkeys(tuple(one["values"]) for result in results for one in _groups(result)):
        found: _Groups = {
            (model_name(result), tuple(one["values"].values()), one["concept"]): one
            for result in results
            for one in _groups(result)
            if tuple(one["values"]) == factors
        }
        tables += [_short_table(factors, found, folded=bool(tables)), _whole_table(factors, found)]
    return tables


def _groups(result: StatisticResult) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = result.details.get("groups", ())
    return found


def _short_table(factors: tuple[str, ...], found: _Groups, folded: bool) -> TableBlock:
    """Tabulate the aligned metrics of each model and value, and the sensitivities behind them."""
    concepts = [concept for concept in METRICS if any(key[2] == concept for key in found)]
    head = [*factors, "model"]
    for concept in concepts:
        arrows = {name: "↑" if name == WANTED[concept] else "↓" for name in BRANCHES}
        columns = (f"{name} to {concept} {arrow}" for name, arrow in arrows.items())
        head += [f"{METRICS[concept]} ↑", *columns, "sets"]
    rows = []
    for values in dict.fromkeys(values for _, values, _ in found):
        for model in dict.fromkeys(name for name, _, _ in found):
            groups = [found.get((model, values, concept)) for concept in concepts]
            if any(groups):
                cells = [cell for group in groups for cell in _short_cells(group)]
                rows.append((*map(value_text, values), model, *cells))
    caption = f"CSM by {' and '.join(factors)}: aligned, all sets, mean of ratios, with 95 % intervals"
    return TableBlock(caption, tuple(head), tuple(rows), folded)


def _short_cells(group: dict[str, Any] | None) -> Iterator[str]:
    if group is None:
        yield from ("",) * 4
        return
    scores = group["scores"]["aligned"]
    yield _with_range(scores["mean_of_ratios"])
    for branch in BRANCHES:
        name = "wanted" if branch == WANTED[group["concept"]] else "unwanted"
        yield number(scores[name]["value"])
    yield str(group["sets"]["aligned"])


def _whole_table(factors: tuple[str, ...], found: _Groups) -> TableBlock:
    rows = [
        (
            *map(value_text, values),
            model,
            METRICS[concept],
            alignment,
            str(group["sets"][alignment]),
            *(_with_range(group["scores"][alignment][name]) for name in _COLUMNS),
        )
        for concept in METRICS
        for values in dict.fromkeys(values for _, values, _ in found)
        for model in dict.fromkeys(name for name, _, _ in found)
        if (group := found.get((model, values, concept)))
        for alignment in ALIGNMENTS
    ]
    caption = f"CSM by {' and '.join(factors)}: both losses, both orders of averaging, bounded variants"
    head = (*factors, "model", "metric", "loss", "sets", *_COLUMNS.values())
    return TableBlock(caption, head, tuple(rows), folded=True)


def _with_range(score: dict[str, Any]) -> str:
    """Write a score in its JSON form, with its interval if there is one."""
    if score["low"] is None:
        return number(score["value"])
    return f"{number(score['value'])} " + unbroken(
        f"({number(score['low'], 2)} to {number(score['high'], 2)})"
    )
