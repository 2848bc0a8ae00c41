"""Section of a report on the invariance of distances of images, compared with that of people."""

from collections.abc import Sequence

from candlelight.evaluation.report.blocks import Block, Section, TableBlock, TextBlock, note
from candlelight.evaluation.report.perception_plots import (
    ellipse_plot,
    moves_plot,
    psychometric_plot,
    sensitivity_plots,
    transduction_plot,
)
from candlelight.evaluation.report.perception_tables import order_table, threshold_table, verdict_table
from candlelight.evaluation.report.tables import number, settings_table
from candlelight.evaluation.results.notes import notes_of
from candlelight.evaluation.results.result import StatisticResult, model_name

NEEDS = ("moves", "people", "human", "levels", "psychometric", "transforms")
READING = (
    TextBlock(
        "Images are moved, turned, enlarged and relit in small steps. The distance d of a metric becomes a "
        "common distance D by its transduction D = a d^b, fitted to opinion scores. The metric's threshold "
        "is the magnitude at which D reaches D_T, where three of four forced choices of people are right; a "
        "metric is human-like if the threshold of people lies within its inverted quartiles "
        "(Alabau-Bosque et al. 2024)."
    ),
    TextBlock(
        "A metric with a smaller threshold than people sees what they do not; one with a larger threshold "
        "overlooks what they see. “Not reached”: D stays below D_T in the tested range. ∞: the metric "
        "never moves. Neither direction is better. The order of sensitivities is the weaker test; it needs "
        "no ratings.",
        term="How to read",
    ),
    TextBlock(
        "the errors of the transduction and of the thresholds of people, which intervals leave out; viewing "
        "conditions other than the stated pixels per degree; and images unlike these.",
        term="Blind to",
    ),
)


def perception_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the thresholds, ellipses and orders of metrics on the same data."""
    blocks: list[Block] = []
    if any(found["thresholds"] for found in _every(results)):
        blocks.append(verdict_table(results))
    if any(found["thresholds"] or found["illuminants"] for found in _every(results)):
        blocks.append(threshold_table(results))
    blocks.append(order_table(results))
    blocks += [note(f"{line}.") for line in notes_of(results)]
    plots = [transduction_plot(results), moves_plot(results), ellipse_plot(results)]
    blocks += [plot for plot in plots if plot is not None]
    blocks += sensitivity_plots(results)
    if fit := results[0].details["psychometric"]:
        blocks.append(psychometric_plot(fit))
    if any(result.details["transduction"] for result in results):
        blocks.append(_transductions(results))
    return Section("perception", "Perceptual distances", (*blocks, *pictures, settings_table(results)))


def _every(results: Sequence[StatisticResult]) -> list[dict[str, object]]:
    return [found for result in results for found in result.details["moves"].values()]


def _transductions(results: Sequence[StatisticResult]) -> TableBlock:
    """Tabulate the constants of D = a d^b and their origin."""
    rows = []
    for result in results:
        one = result.details["transduction"]
        if one is None:
            rows.append((model_name(result), "", "", "", "", "none"))
            continue
        numbers = (number(one["scale"], 4), number(one["exponent"], 4))
        error = "" if one["error"] is None else number(one["error"])
        rows.append((model_name(result), *numbers, error, str(one["pairs"] or ""), one["note"]))
    head = ("metric", "a", "b", "rms error in D", "pairs", "origin, or end of the fit")
    return TableBlock("Transductions D = a d^b", head, tuple(rows), folded=True)
