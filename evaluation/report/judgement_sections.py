"""Sections of a report on scores of judgements and of regions: WHDR, SAW, MAW and constancy."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from candlelight.evaluation.report.blocks import Block, PlotBlock, Section, TextBlock, note
from candlelight.evaluation.report.drawing import COLOURS, INK, draw_bars, drawing, label_rows, to_svg
from candlelight.evaluation.report.tables import number, scores_table, settings_table
from candlelight.evaluation.results.result import MeanResult, Result, StatisticResult, model_name

WHDR_READING = (
    TextBlock(
        "WHDR (Bell et al. 2014) is the weighted share of comparisons of two points that the predicted "
        "reflectance contradicts: which of the two is darker, or whether they are equal."
    ),
    TextBlock("↓ Lower is better; 0 is perfect. A failed prediction counts as 1.", term="How to read"),
    TextBlock("all pixels that are not compared, scale, colour, and shading.", term="Blind to"),
)
SAW_READING = (
    TextBlock(
        "The average precision of smooth pixels (Kovacs et al. 2017) tells how well the gradient of the "
        "predicted shading separates pixels of smooth shading from edges of surfaces and shadows."
    ),
    TextBlock(
        "↑ Higher is better; the maximum is 1. Numbers of two variants are not comparable.",
        term="How to read",
    ),
    TextBlock("reflectance, and all pixels without a label.", term="Blind to"),
)
MAW_READING = (
    TextBlock(
        "Measured Albedo in the Wild (Wu et al. 2023): errors of the mean colour of regions of one material, "
        "in intensity after one scale for each image, and in chromaticity as CIEDE2000."
    ),
    TextBlock("↓ Lower is better; 0 is perfect.", term="How to read"),
    TextBlock("everything within a region, and all pixels outside the regions.", term="Blind to"),
)
CONSTANCY_READING = (
    TextBlock(
        "Illumination constancy: how much the predicted reflectance of the same material varies over lights "
        "(c_mat, chroma_drift), and how much of the chroma between materials is lost (chroma_loss)."
    ),
    TextBlock(
        "↓ Lower is better in all columns together: the controls `gray` and `constant` show that a model "
        "without colours, or without contrast, has a low drift too.",
        term="How to read",
    ),
    TextBlock("the true reflectance, but for its chroma.", term="Blind to"),
)
_SYNTHETIC = "The labels are synthetic: they are made of the ground truth of rendered images, not by people."


def _section(key: str, title: str, results: Sequence[Result], pictures: Sequence[Block]) -> Section:
    caption = "Scores of each model, with 95 % intervals over groups of images"
    settings = [result.about.settings for result in results]
    notes = [_SYNTHETIC] if any(_is_synthetic(one) for one in settings) else []
    for result in results:
        if result.failed:
            notes.append(
                f"{model_name(result)}: {len(result.failed)} predictions failed (missing or not finite)."
            )
        if isinstance(result, MeanResult) and result.undefined:
            count = f"{result.undefined} of {len(result.ids)}"
            notes.append(
                f"{model_name(result)}: {count} rows are left out, because the score is not defined."
            )
    plots = [_curves(results)] if key == "saw" else [_bars(results, name) for name in results[0].scores]
    blocks = scores_table(caption, results), *map(note, notes), *plots, *pictures, settings_table(results)
    return Section(key, title, blocks)


whdr_section = partial(_section, "whdr", "Comparisons of reflectance")
saw_section = partial(_section, "saw", "Labels of shading")
maw_section = partial(_section, "maw", "Measured albedo")
constancy_section = partial(_section, "constancy", "Illumination constancy")


def _is_synthetic(settings: dict[str, object]) -> bool:
    return settings.get("judgements") == "synthetic" or settings.get("synthetic") is True


def _bars(results: Sequence[Result], score: str) -> PlotBlock:
    scores = [result.scores[score] for result in results]
    table = np.array([[one.value] for one in scores])
    ends = np.array([[(one.value - one.low, one.high - one.value)] for one in scores])
    with drawing(0.8 + 0.35 * len(results)) as figure:
        axes = figure.subplots()
        draw_bars(axes, table, (score,), np.nan_to_num(ends).clip(min=0))
        label_rows(axes, [model_name(result) for result in results])
        axes.set_xlabel(score)
        svg = to_svg(figure, score)
    values = ", ".join(f"{model_name(result)} {number(result.scores[score].value)}" for result in results)
    return PlotBlock(
        svg, f"Bars of {score} of each model: {values}.", f"{score}; whiskers are 95 % intervals."
    )


def _curves(results: Sequence[Result]) -> PlotBlock:
    with drawing(3.4) as figure:
        axes = figure.subplots()
        for place, result in enumerate(results):
            assert isinstance(result, StatisticResult)  # the page checks it
            recall, precision = (result.details[name] for name in ("recall", "precision"))
            colour = COLOURS[place % len(COLOURS)]
            axes.plot(_numbers(recall), _numbers(precision), color=colour, label=model_name(result))
        axes.set_xlabel("recall of smooth pixels")
        axes.set_ylabel("precision")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        axes.legend(loc="lower left")
        svg = to_svg(figure, "saw")
    return PlotBlock(
        svg,
        "Curves of precision against recall, one for each model.",
        "Precision and recall of smooth pixels.",
    )


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]
