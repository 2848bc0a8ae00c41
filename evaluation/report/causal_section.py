"""Section of a report on the interventional robustness and unconfoundedness of encoders."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy import ndarray

from candlelight.evaluation.report.blocks import Block, PlotBlock, Section, TableBlock, TextBlock, note
from candlelight.evaluation.report.drawing import drawing, to_svg
from candlelight.evaluation.report.tables import number, scores_table, settings_table, with_interval
from candlelight.evaluation.results.mean_intervals import Score
from candlelight.evaluation.results.notes import notes_of
from candlelight.evaluation.results.result import StatisticResult, model_name

_LEGIBLE = 10  # maximal number of codes for which the heat map shows numbers
NEEDS = ("factors", "codes", "matrix", "parents", "matrices")
READING = (
    TextBlock(
        "IRS (Suter et al. 2019) measures whether a code keeps its value while one factor is fixed and all "
        "other factors change. Unconfoundedness UC (Reddy et al. 2022) measures whether different factors "
        "use different codes. MIG, SAP, modularity, InfoM and DCI's disentanglement ask whether codes and "
        "factors belong together one by one; minimality and T-MEX ask the same where factors depend on each "
        "other. Explicitness, InfoE, sufficiency, R2 and DCI's informativeness ask whether the "
        "codes tell the factors at all; MCC whether each factor is a map of one code."
    ),
    TextBlock(
        "\u2191 Higher is better; the maximum is 1. Compare with random codes (lower control), and with the "
        "factors themselves and supervised codes (upper controls), not with 0 and 1.",
        term="How to read",
    ),
    TextBlock(
        "the selection of the images: each note below the table names the metrics whose conditions these "
        "data break.",
        term="Blind to",
    ),
)
# By name in the details: title of the heat map, and its meaning.
_MATRICES = {
    "matrix": ("IRS", "robustness: 1 means that the code does not change while the factor is fixed"),
    "information": ("MIG", "information of the code about the factor, in shares of the factor's entropy"),
    "dci_fast": ("DCI (fast)", "importance of the code for predicting the factor"),
    "dci": ("DCI", "importance of the code for predicting the factor"),
}
# By name in the details: the columns of decoded against rendered counterfactuals.
_RENDERED = {
    "rendered_counterfactual(1)": "score",
    "rendered_counterfactual(1), changed region": "in the changed region",
    "rendered_counterfactual(1), random choice": "random code",
    "rendered_counterfactual, all codes": "all codes",
    "rendered_counterfactual, mean image": "mean image",
    "rendered_counterfactual, nearest other frame": "nearest other frame",
    "rendered_counterfactual(1), share": "share of all codes",
}


def causal_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of encoders on the same data."""
    notes = [f"{line}." for line in notes_of(results)]
    single = [result for result in results if "seeds" not in result.details]
    for result in single:
        if not result.details["codes"]:
            notes.append(f"{model_name(result)}: all images have the same codes, so IRS is 0.")
    caption = "Scores of each encoder, with 95 % intervals over groups of images"
    caption += "; of several seeds, over seeds" * (len(single) < len(results))
    plots = [_plot(result) for result in single if result.details["codes"]]
    decoded = [_decoder(result) for result in single if result.details.get("decoder")]
    decoded += [_rendered(result) for result in single if result.details.get("rendered")]
    before: tuple[Block, ...] = (scores_table(caption, results), *map(note, notes), *decoded, *plots)
    after = (*map(_matrix, single), settings_table(results))
    return Section("causal", "Causal disentanglement", (*before, *pictures, *after))


def _plot(result: StatisticResult) -> PlotBlock:
    codes, shown = len(result.details["codes"]), _matrices(result)
    meanings = "; ".join(f"{title}: {meaning}" for title, meaning in map(_MATRICES.__getitem__, shown))
    caption = f"{model_name(result)}: codes (columns) and factors (rows). {meanings}."
    caption += " An asterisk marks the largest value of each code." * (codes <= _LEGIBLE)
    alt = f"Heat maps of {codes} codes by {len(result.about.settings['factors'])} factors."
    return PlotBlock(_draw(result, shown), alt, caption)


def _matrices(result: StatisticResult) -> dict[str, ndarray]:
    """Return the matrices [factors, codes] of the codes that vary, by name."""
    codes = result.details["codes"]
    found = {
        name: np.array(matrix, dtype=float)[codes].T for name, matrix in result.details["matrices"].items()
    }
    return {"matrix": np.array(result.details["matrix"], dtype=float).T, **found}


def _decoder(result: StatisticResult) -> TableBlock:
    """Tabulate the effects of the codes of each factor on decoded images."""
    name, details = next(iter(result.details["decoder"].items()))
    rows = [
        (factor, *map(number, effects))
        for factor, *effects in zip(
            details["factors"], details["by_factor"], details["inside"], details["outside"], strict=True
        )
    ]
    left_out = "; ".join(f"{factor} is left out: {why}" for factor, why in details["left_out"].items())
    caption = (
        f"{model_name(result)}: {name} by factor, and the effects of the factor's codes and of all others; "
        f"mean squared reconstruction error {details['reconstruction_error']:.3g}"
    )
    caption += f"; {left_out}" if left_out else ""
    return TableBlock(
        caption, ("factor", "score", "effect of its codes", "effect of the others"), tuple(rows)
    )


def _rendered(result: StatisticResult) -> TableBlock:
    """Tabulate how far decoded images are from rendered counterfactuals, by factor."""
    details = result.details["rendered"]
    rows = []
    for name, one in details["factors"].items():
        cells = [one["scores"].get(label, [None] * 3) for label in _RENDERED]
        shown = [
            with_interval(Score(*(math.nan if part is None else part for part in cell))) for cell in cells
        ]
        codes = ", ".join(map(str, one["codes"].get("1", ())))
        rows.append((name, *shown, codes, str(one["pairs"])))
    unseen = ", ".join(details["not_decoded"])
    caption = (
        f"{model_name(result)}: decoded against rendered counterfactuals, one code of each factor changed; "
        "1 is the rendered image, 0 the input given back"
    )
    caption += f"; not decoded, so 0 or less in the mean: {unseen}" if unseen else ""
    head = ("factor", *_RENDERED.values(), "code", "pairs")
    return TableBlock(caption, head, tuple(rows))


def _matrix(result: StatisticResult) -> TableBlock:
    factors, details = result.about.settings["factors"], result.details
    rows = [
        (str(code), *map(number, entries), factors[parent])
        for code, entries, parent in zip(details["codes"], details["matrix"], details["parents"], strict=True)
    ]
    caption = f"{model_name(result)}: robustness of each code"
    return TableBlock(caption, ("code", *factors, "largest for"), tuple(rows), folded=True)


def _draw(result: StatisticResult, shown: dict[str, ndarray]) -> str:
    factors = result.about.settings["factors"]
    with drawing((1.2 + 0.3 * len(factors)) * len(shown)) as figure:
        for axes, (name, matrix) in zip(
            figure.subplots(len(shown), squeeze=False)[:, 0], shown.items(), strict=True
        ):
            low = min(0.0, float(np.nanmin(matrix)))
            image = axes.imshow(matrix, cmap="viridis", vmin=low, vmax=1, aspect="auto", interpolation="none")
            axes.set_yticks(range(len(factors)), factors)
            axes.set(xticks=[], title=_MATRICES[name][0])
            if matrix.shape[1] <= _LEGIBLE:
                _label(axes, matrix, low, result.details["codes"])
            figure.colorbar(image, ax=axes, pad=0.02)
        axes.set_xlabel("code")
        return to_svg(figure, "causal")


def _label(axes: Axes, matrix: ndarray, low: float, codes: Sequence[int]) -> None:
    """Write the values into the cells, and mark the largest of each code."""
    axes.set_xticks(range(len(codes)), [str(code) for code in codes])
    largest = np.nan_to_num(matrix, nan=-np.inf).argmax(axis=0)
    for row, column in np.ndindex(*matrix.shape):
        own = "*" if largest[column] == row else ""
        ink = "black" if matrix[row, column] > low + 0.6 * (1 - low) else "white"
        text = f"{matrix[row, column]:.2f}{own}"
        axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=9)
