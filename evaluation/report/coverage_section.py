"""Section of a report on how well explanations cover objects or their parts."""

from collections.abc import Sequence

from candlelight.evaluation.coverage.explained_networks import chance_notes
from candlelight.evaluation.coverage.method_comparisons import MethodComparison, best_share, make_comparison
from candlelight.evaluation.report.blocks import Block, Section, TableBlock, TextBlock, note
from candlelight.evaluation.report.coverage_checks import (
    control_blocks,
    dissection_table,
    label_table,
    network_table,
    part_table,
    sensitivity_table,
    share_table,
)
from candlelight.evaluation.report.coverage_plots import curve_plot, part_plot, pooling_plot
from candlelight.evaluation.report.tables import number, scores_table, settings_table
from candlelight.evaluation.results.notes import notes_of
from candlelight.evaluation.results.result import StatisticResult, model_name

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
    comparison = make_comparison(results)
    chosen = {"others": "other", "same": "the same"}[results[0].about.settings.get("choose", "others")]
    caption = (
        f"WAIoU and mean IoU of each method, at the share of points that is best on {chosen} images, with "
        "95 % intervals over groups of images"
    )
    curve = curve_plot(comparison)
    blocks: tuple[Block, ...] = (
        scores_table(caption, results),
        *map(note, _notes(comparison)),
        *control_blocks(comparison),
        *network_table(comparison),
        part_plot(comparison),
        _parts(comparison),
        *label_table(comparison),
        *dissection_table(comparison),
        pooling_plot(comparison),
        *([curve] if curve else []),
        *sensitivity_table(comparison),
        *pictures,
        share_table(comparison),
        _means(comparison),
        settings_table(results),
    )
    return Section("coverage", "Coverage of parts", blocks)


def _notes(comparison: MethodComparison) -> list[str]:
    """Tell which images, parts and heatmaps are missing, and which networks have not learned the classes."""
    results = comparison.results
    notes = [f"{one}." for one in notes_of(results)]
    notes += [
        f"WAIoU of {part} is not defined: no image shows it."
        for column, part in enumerate(comparison.parts)
        if all(result.details["parts"][column] is None for result in results)
    ]
    notes += [
        f"{model_name(result)}: {len(result.failed)} heatmaps are missing, not finite or constant; they mark "
        "no points."
        for result in results
        if result.failed
    ]
    pairs = zip(comparison.methods, results, strict=True)
    notes += [f"{one}." for one in chance_notes({name: one.details.get("network") for name, one in pairs})]
    if len(results) == 1:
        notes.append("With one method, WAIoU is its mean IoU over the images where it covers the part.")
    return notes


def _parts(comparison: MethodComparison) -> TableBlock:
    rows = []
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        share, mean = best_share(result)
        rows.append((method, f"{100 * share:.3g}%", *map(number, (mean, *result.details["parts"]))))
    head = (
        "best share of points",
        "mean IoU there, in sample ↑",
        *(f"{part} ↑" for part in comparison.parts),
    )
    return part_table("WAIoU of each part", head, rows)


def _means(comparison: MethodComparison) -> TableBlock:
    rows = []
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        pairs = zip(result.details["mean_iou"], result.details["counts"], strict=True)
        rows.append((method, *(f"{number(mean)} ({count})" for mean, count in pairs)))
    caption = "Mean IoU where a method covers the part (number of images)"
    return part_table(caption, comparison.parts, rows, folded=True)
