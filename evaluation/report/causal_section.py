"""Section of a report on the interventional robustness and unconfoundedness of encoders."""

from collections.abc import Sequence

import numpy as np

from evaluation.report.blocks import Block, PlotBlock, Section, TableBlock, TextBlock, note
from evaluation.report.drawing import drawing, to_svg
from evaluation.report.tables import number, scores_table, settings_table
from evaluation.results.notes import notes_of
from evaluation.results.result import StatisticResult, model_name

_LEGIBLE = 10  # maximal number of codes for which the heat map shows numbers
NEEDS = ("factors", "codes", "matrix", "parents")
READING = (
    TextBlock(
        "IRS (Suter et al. 2019) measures whether a code keeps its value while one factor is fixed and all "
        "other factors change. Unconfoundedness UC (Reddy et al. 2022) measures whether different factors "
        "use different codes."
    ),
    TextBlock("↑ Higher is better; the maximum is 1.", term="How to read"),
    TextBlock(
        "lost information; factors that always change together (IRS); the strength of a code's response, so "
        "random codes often score high (UC).",
        term="Blind to",
    ),
)


def causal_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of encoders on the same data."""
    notes = [f"{line}." for line in notes_of(results)]
    for result in results:
        codes, name = len(result.details["codes"]), model_name(result)
        undefined = [score for score, one in result.scores.items() if np.isnan(one.value)]
        if not codes:
            notes.append(f"{name}: all images have the same codes, so IRS is 0.")
        elif undefined:
            notes.append(f"{name}: only {codes} codes vary, too few for {', '.join(undefined)}.")
    caption = "Scores of each encoder, with 95 % intervals over groups of images"
    plots = [_plot(result) for result in results if result.details["codes"]]
    before: tuple[Block, ...] = (scores_table(caption, results), *map(note, notes), *plots)
    after = (*map(_matrix, results), settings_table(results))
    return Section("causal", "Causal disentanglement", (*before, *pictures, *after))


def _plot(result: StatisticResult) -> PlotBlock:
    codes, factors = len(result.details["codes"]), result.about.settings["factors"]
    caption = f"{model_name(result)}: robustness of each code (column) while one factor (row) is fixed and "
    caption += "all others change; 1 means that the code does not change."
    caption += " An asterisk marks the factor with the largest value." * (codes <= _LEGIBLE)
    alt = f"Heat map of {codes} codes by {len(factors)} factors; the folded table lists its numbers."
    return PlotBlock(_draw(result), alt, caption)


def _matrix(result: StatisticResult) -> TableBlock:
    factors, details = result.about.settings["factors"], result.details
    rows = [
        (str(code), *map(number, entries), factors[parent])
        for code, entries, parent in zip(details["codes"], details["matrix"], details["parents"], strict=True)
    ]
    caption = f"{model_name(result)}: robustness of each code"
    return TableBlock(caption, ("code", *factors, "largest for"), tuple(rows), folded=True)


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
    """Write IRS and each unconfoundedness score."""
    shown = {name: score for name, score in result.scores.items() if "," not in name}
    texts = (
        f"{name.replace('irs', 'IRS').replace('unconfoundedness', 'UC')} {number(score.value)}"
        for name, score in shown.items()
    )
    return ",  ".join(texts)
