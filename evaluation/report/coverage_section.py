"""Section of a report on how well explanations cover objects or their parts."""

from collections.abc import Sequence

import numpy as np

from evaluation.report.blocks import Block, PlotBlock, Section, TableBlock, TextBlock, note
from evaluation.report.drawing import draw_bars, drawing, label_rows, to_svg
from evaluation.report.tables import number, scores_table, settings_table
from evaluation.results.result import StatisticResult, model_name

NEEDS = ("parts", "proportions", "best_proportion", "average_iou", "mean_iou", "counts")
READING = (
    TextBlock(
        "WAIoU (Behzadi-Khormouji and Oramas) measures how well the points that an explanation marks agree "
        "with the annotated parts: the IoU with each part, weighted by the method's share of all "
        "explanations that cover the part."
    ),
    TextBlock("↑ Higher is better, among these methods only.", term="How to read"),
    TextBlock(
        "whether the model uses the marked points; and everything except the rank: adding a method changes "
        "every score.",
        term="Blind to",
    ),
)


def coverage_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of methods that were compared in one call."""
    parts = results[0].about.settings["parts"]
    notes = [
        f"WAIoU of {part} is not defined: no image shows it."
        for column, part in enumerate(parts)
        if all(result.details["parts"][column] is None for result in results)
    ]
    notes += [
        f"{model_name(result)}: {len(result.failed)} heatmaps are missing, not finite or constant; they mark "
        "no points."
        for result in results
        if result.failed
    ]
    if len(results) == 1:
        notes.append("With one method, WAIoU is its mean IoU over the images where it covers the part.")
    total = ", ".join(f"{model_name(result)} {number(result.score)}" for result in results)
    plot = PlotBlock(
        _draw(results), f"Bars of WAIoU by part. All parts: {total}.", "WAIoU by part and method."
    )
    caption = "WAIoU of each method at its best share of points, with 95 % intervals over groups of images"
    before: tuple[Block, ...] = (scores_table(caption, results), *map(note, notes), plot)
    after = (_parts(results), _means(results), settings_table(results))
    return Section("coverage", "Coverage of parts", (*before, *pictures, *after))


def _parts(results: Sequence[StatisticResult]) -> TableBlock:
    settings, rows = results[0].about.settings, []
    for result in results:
        best = result.details["best_proportion"]
        values = (result.details["average_iou"][best], *result.details["parts"])
        share = f"{100 * settings['proportions'][best]:.3g}%"
        rows.append((model_name(result), share, *map(number, values)))
    head = ("method", "points marked", "mean IoU ↑", *(f"{part} ↑" for part in settings["parts"]))
    return TableBlock("WAIoU of each part", head, tuple(rows))


def _means(results: Sequence[StatisticResult]) -> TableBlock:
    rows = []
    for result in results:
        pairs = zip(result.details["mean_iou"], result.details["counts"], strict=True)
        rows.append((model_name(result), *(f"{number(mean)} ({count})" for mean, count in pairs)))
    caption = "Mean IoU where a method covers the part (number of images)"
    return TableBlock(caption, ("method", *results[0].about.settings["parts"]), tuple(rows), folded=True)


def _draw(results: Sequence[StatisticResult]) -> str:
    rows = (*results[0].about.settings["parts"], "all parts")
    table = np.array([[*result.details["parts"], result.score] for result in results], dtype=float).T
    with drawing(1.1 + (0.12 + 0.16 * len(results)) * len(rows)) as figure:
        axes = figure.subplots()
        draw_bars(axes, table, [model_name(result) for result in results])
        label_rows(axes, rows)
        axes.set_xlabel("WAIoU")
        return to_svg(figure, "waiou")
