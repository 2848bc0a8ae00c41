"""The report's section on interventional robustness and unconfoundedness of encoders."""

from collections.abc import Sequence

import numpy as np

from evaluation.report.blocks import Block, PlotBlock, Section, TableBlock, TextBlock, note
from evaluation.report.drawing import drawing, to_svg
from evaluation.report.tables import number, scores_table, settings_table
from evaluation.results.result import StatisticResult, model_name

_LEGIBLE = 10  # codes; with more the heat map carries no numbers
NEEDS = ("factors", "codes", "matrix", "parents")
READING = (
    TextBlock(
        "Whether a code stays put as long as its factor does, whatever else changes (IRS, Suter et al. "
        "2019), and whether each factor has codes of its own (unconfoundedness UC, Reddy et al. 2022)."
    ),
    TextBlock("↑ Higher is better, 1 at most.", term="Read"),
    TextBlock(
        "information that is lost; factors that change together (IRS); how strongly a code answers, so that "
        "random codes often score high (UC).",
        term="Blind to",
    ),
)


def causal_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of encoders on the same data."""
    notes = []
    for result in results:
        codes, name = len(result.details["codes"]), model_name(result)
        undefined = [score for score, one in result.scores.items() if np.isnan(one.value)]
        if not codes:
            notes.append(f"{name}: no code varies: all images have the same, and IRS is 0.")
        elif undefined:
            notes.append(f"{name}: {', '.join(undefined)} needs more codes than the {codes} that vary.")
    caption = "Scores of each encoder, and their 95 % intervals over groups of images"
    plots = [_plot(result) for result in results if result.details["codes"]]
    before: tuple[Block, ...] = (scores_table(caption, results), *map(note, notes), *plots)
    after = (*map(_matrix, results), settings_table(results))
    return Section("causal", "Causal disentanglement", (*before, *pictures, *after))


def _plot(result: StatisticResult) -> PlotBlock:
    codes, factors = len(result.details["codes"]), result.about.settings["factors"]
    caption = f"{model_name(result)}: robustness of each code (column) while one factor (row) stays and all "
    caption += "others change; 1 is complete." + " An asterisk marks a code's own factor." * (
        codes <= _LEGIBLE
    )
    alt = f"Heat map of {codes} codes by {len(factors)} factors; the folded table has its numbers."
    return PlotBlock(_draw(result), alt, caption)


def _matrix(result: StatisticResult) -> TableBlock:
    factors, details = result.about.settings["factors"], result.details
    rows = [
        (str(code), *map(number, entries), factors[parent])
        for code, entries, parent in zip(details["codes"], details["matrix"], details["parents"], strict=True)
    ]
    caption = f"{model_name(result)}: robustness of each code"
    return TableBlock(caption, ("code", *factors, "own factor"), tuple(rows), folded=True)


def _draw(result: StatisticResult) -> str:
    matrix = np.array(result.details["matrix"], dtype=float).T
    factors, codes = matrix.shape
    low = min(0.0, float(matrix.min()))
    with drawing(1.4 + 0.32 * factors) as figure:
        axes = figure.subplots()
        image = axes.imshow(matrix, cmap="viridis", vmin=low, vmax=1, aspect="auto", interpolation="none")
        axes.set_yticks(range(factors), result.about.settings["factors"])
        axes.set(xlabel="code", xticks=[], title=_title(result))
        if codes <= _LEGIBLE:
            axes.set_xticks(range(codes), [str(code) for code in result.details["codes"]])
            for row, column in np.ndindex(*matrix.shape):
                own = "*" if result.details["parents"][column] == row else ""
                ink = "black" if matrix[row, column] > low + 0.6 * (1 - low) else "white"
                text = f"{matrix[row, column]:.2f}{own}"
                axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=9)
        figure.colorbar(image, ax=axes, pad=0.02).set_label("robustness")
        return to_svg(figure, "irs")


def _title(result: StatisticResult) -> str:
    """Name the robustness score and each unconfoundedness."""
    shown = {name: score for name, score in result.scores.items() if "," not in name}
    texts = (
        f"{name.replace('irs', 'IRS').replace('unconfoundedness', 'UC')} {number(score.value)}"
        for name, score in shown.items()
    )
    return ",  ".join(texts)
