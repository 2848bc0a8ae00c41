"""The report's section on how well explanations cover the parts of objects."""

from evaluation.coverage.protocol import CoverageScores
from evaluation.report.drawing import bars, drawing, name_rows, to_svg
from evaluation.report.parts import Plot, Reading, Section, Table, number, settings_table

_READING = Reading(
    key="coverage",
    title="Coverage of parts",
    measures="How well what an explanation marks agrees with the objects in the frames: IoU with each part, "
    "weighted by the share of all methods' explanations that cover it (WAIoU, Behzadi-Khormouji and Oramas).",
    better="↑ Higher is better, among these methods only.",
    blind="whether the model uses what is marked, and all but rank: another method changes every number.",
)


def coverage_section(scores: CoverageScores) -> Section:
    """Report the comparison of methods."""
    parts = scores.best.parts.cpu()
    unseen = [name for name, column in zip(scores.parts, parts.T, strict=True) if bool(column.isnan().all())]
    notes = [f"WAIoU of {name} is not defined: no frame shows it." for name in unseen]
    if len(scores.methods) == 1:
        notes.append("With one method WAIoU is its mean IoU over the frames where it covers the part.")
    total = ", ".join(
        f"{method} {number(value)}"
        for method, value in zip(scores.methods, scores.score.tolist(), strict=True)
    )
    plot = Plot(_draw(scores), f"Bars of WAIoU by part. All parts: {total}.", "WAIoU by part and method.")
    tables = (_overall(scores), _means(scores), settings_table({"value": scores.settings}))
    return Section(_READING, tables, plot, tuple(notes))


def _overall(scores: CoverageScores) -> Table:
    rows = []
    for row, method in enumerate(scores.methods):
        share = scores.best_proportion[method]
        average = float(scores.average_iou[row, scores.proportions.index(share)])
        values = (float(scores.score[row]), average, *scores.best.parts[row].tolist())
        rows.append((method, f"{100 * share:.3g}%", *map(number, values)))
    head = ("method", "points marked", "WAIoU, all parts ↑", "mean IoU ↑", *scores.parts)
    return Table("WAIoU of each part, each method at its best share of points", head, tuple(rows))


def _means(scores: CoverageScores) -> Table:
    best, rows = scores.best, []
    for method, means, counts in zip(
        scores.methods, best.mean_iou.tolist(), best.counts.tolist(), strict=True
    ):
        cells = (f"{number(mean)} ({count})" for mean, count in zip(means, counts, strict=True))
        rows.append((method, *cells))
    caption = "Mean IoU where a method covers the part (number of frames)"
    return Table(caption, ("method", *scores.parts), tuple(rows), folded=True)


def _draw(scores: CoverageScores) -> str:
    rows = (*scores.parts, "all parts")
    table = scores.best.parts.new_empty(len(rows), len(scores.methods))
    table[:-1], table[-1] = scores.best.parts.T, scores.score
    with drawing(1.1 + (0.12 + 0.16 * len(scores.methods)) * len(rows)) as figure:
        axes = figure.subplots()
        bars(axes, table.cpu().numpy(), scores.methods)
        name_rows(axes, rows)
        axes.set_xlabel("WAIoU")
        return to_svg(figure, "waiou")
