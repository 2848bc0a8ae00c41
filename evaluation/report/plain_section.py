"""The section of results that need no more than a table, notes and bars."""

from collections.abc import Sequence

import numpy as np

from candlelight.evaluation.catalogue.record import direction, whole_column
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    note,
    number,
    scores_table,
    settings_table,
)
from candlelight.evaluation.report.drawing import draw_bars, drawing, label_rows, to_svg
from candlelight.evaluation.report.row_tables import row_tables
from candlelight.evaluation.run.result import MeanResult, Result, model_name, notes_of

_SYNTHETIC = "The labels are synthetic: they are made of the ground truth of rendered images, not by people."


def plain_section(
    key: str,
    title: str,
    results: Sequence[Result],
    pictures: Sequence[Block],
    plots: Sequence[PlotBlock] | None = None,
) -> Section:
    """Report the scores of models on the same data.

    Args:
        key: anchor within the page.
        title: heading.
        results: results of one metric.
        pictures: blocks that show the data.
        plots: plots; None for bars of each score that is defined, but for those of parts of images.
    """
    caption = "Scores of each model, with 95 % intervals over groups of images"
    settings = [result.about.settings for result in results]
    notes = [_SYNTHETIC] if any(_is_synthetic(one) for one in settings) else []
    notes += [line for result in results for line in _lost(result)] + notes_of(results)
    if plots is None:
        whole = [name for name in results[0].scores if name == whole_column(name)]
        known = [name for name in whole if any(np.isfinite(one.scores[name].value) for one in results)]
        plots = [score_bars(results, name) for name in known]
    scores, rows = scores_table(caption, results, whole=True), row_tables(results)
    blocks = scores, *map(note, notes), *plots, *pictures, *rows, settings_table(results)
    return Section(key, title, blocks)


def _lost(result: Result) -> list[str]:
    """Report the numbers of failed and of undefined rows of a result."""
    lines = []
    if result.failed:
        text = f"{model_name(result)}: {len(result.failed)} predictions failed (missing or not finite)"
        rest = next(iter(result.mean_of_rest.items())) if isinstance(result, MeanResult) else None
        lines.append(f"{text}; {rest[0]} of the other rows is {number(rest[1])}." if rest else f"{text}.")
    if isinstance(result, MeanResult) and result.undefined:
        count = f"{result.undefined} of {len(result.ids)}"
        lines.append(f"{model_name(result)}: {count} rows are left out, because the score is not defined.")
    return lines


def _is_synthetic(settings: dict[str, object]) -> bool:
    return settings.get("judgements") == "synthetic" or settings.get("synthetic") is True


def score_bars(results: Sequence[Result], score: str) -> PlotBlock:
    """Draw one score of each model as a bar, with its interval."""
    scores = [result.scores[score] for result in results]
    table = np.array([[one.value if np.isfinite(one.value) else np.nan] for one in scores])
    ends = np.array([[(one.value - one.low, one.high - one.value)] for one in scores])
    with drawing(0.8 + 0.35 * len(results)) as figure:
        axes = figure.subplots()
        draw_bars(axes, table, (score,), np.nan_to_num(ends).clip(min=0))
        marks = [" ∞" if one.value == np.inf else "" for one in scores]
        label_rows(axes, [f"{model_name(one)}{mark}" for one, mark in zip(results, marks, strict=True)])
        axes.set_xlabel(score)
        svg = to_svg(figure, score)
    values = ", ".join(f"{model_name(result)} {number(result.scores[score].value)}" for result in results)
    about = results[0].about
    best = {"lower": "shorter is better", "higher": "longer is better"}.get(direction(about.better, score))
    told = f"{score}{about.arrow(score)} of each model" + (f": {best}" if best else "")
    return PlotBlock(svg, f"Bars of {score} of each model: {values}.", f"{told}. Whiskers: 95 % intervals.")
