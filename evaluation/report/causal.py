"""The report's section on interventional robustness and unconfoundedness of an encoder."""

import math

import numpy as np

from evaluation.causal.protocol import CausalScores
from evaluation.report.drawing import drawing, to_svg
from evaluation.report.parts import Plot, Reading, Section, Table, number

LEGIBLE = 16  # codes; with more the heat map carries no numbers
_READING = Reading(
    key="causal",
    title="Causal disentanglement",
    measures="Whether a code stays put as long as its factor does, whatever else changes (IRS, Suter et al. "
    "2019), and whether each factor has codes of its own (unconfoundedness UC, Reddy et al. 2022).",
    better="↑ Higher is better, 1 at most.",
    blind="information that is lost; factors that change together (IRS); how strongly a code answers, so "
    "that random codes often score high (UC).",
)


def causal_section(scores: CausalScores) -> Section:
    """Report the scores of an encoder."""
    codes = len(scores.irs.codes)
    notes = [
        f"UC({rho}) is not defined: it needs {rho} codes that vary, and {codes} do."
        for rho, value in scores.unconfoundedness.items()
        if math.isnan(value)
    ]
    if not codes:
        notes.append("No code varies: the encoder answers all frames alike, IRS is 0 and has no matrix.")
        return Section(_READING, (_numbers(scores),), None, tuple(notes))
    caption = (
        "Robustness of each code (column) while one factor (row) stays and all others change; 1 is complete."
    )
    plot = Plot(
        _draw(scores),
        f"Heat map of {codes} codes by {len(scores.factors)} factors; the folded table has its numbers.",
        caption + " An asterisk marks a code's own factor." * (codes <= LEGIBLE),
    )
    return Section(_READING, (_numbers(scores), _matrix(scores)), plot, tuple(notes))


def _numbers(scores: CausalScores) -> Table:
    exact = {f"UC({rho}) ↑": value for rho, value in scores.unconfoundedness.items()}
    published = {f"UC({rho}), authors' selection": v for rho, v in scores.unconfoundedness_candle2021.items()}
    head = ("frames", "codes that vary", "IRS ↑", *exact, *published)
    values = (float(scores.irs.score), *exact.values(), *published.values())
    row = (str(scores.frames), str(len(scores.irs.codes)), *map(number, values))
    return Table("Scores of the encoder", head, (row,))


def _matrix(scores: CausalScores) -> Table:
    irs, rows = scores.irs, []
    for code, entries, parent in zip(
        irs.codes.tolist(), irs.matrix.tolist(), irs.parents.tolist(), strict=True
    ):
        rows.append((str(code), *map(number, entries), scores.factors[parent]))
    return Table("Robustness of each code", ("code", *scores.factors, "own factor"), tuple(rows), folded=True)


def _draw(scores: CausalScores) -> str:
    matrix = scores.irs.matrix.cpu().numpy().T
    factors, codes = matrix.shape
    low = min(0.0, float(matrix.min()))
    with drawing(1.4 + 0.32 * factors) as figure:
        axes = figure.subplots()
        image = axes.imshow(matrix, cmap="viridis", vmin=low, vmax=1, aspect="auto", interpolation="none")
        axes.set_yticks(range(factors), scores.factors)
        axes.set(xlabel="code", xticks=[], title=_title(scores))
        if codes <= LEGIBLE:
            axes.set_xticks(range(codes), [str(code) for code in scores.irs.codes.tolist()])
            for row, column in np.ndindex(*matrix.shape):
                own = "*" if int(scores.irs.parents[column]) == row else ""
                ink = "black" if matrix[row, column] > low + 0.6 * (1 - low) else "white"
                text = f"{matrix[row, column]:.2f}{own}"
                axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=7)
        figure.colorbar(image, ax=axes, pad=0.02).set_label("robustness")
        return to_svg(figure, "irs")


def _title(scores: CausalScores) -> str:
    """Name the robustness score and each unconfoundedness."""
    exact = (f"UC({rho}) {number(value)}" for rho, value in scores.unconfoundedness.items())
    return ",  ".join((f"IRS {number(float(scores.irs.score))}", *exact))
