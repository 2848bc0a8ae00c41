"""Section of a report on perception: tables, and the text of the terminal."""

import math
from collections.abc import Sequence
from typing import Any

from candlelight.evaluation.perception.people import HUMAN_ORDER
from candlelight.evaluation.perception.perception_plots import (
    UNITS,
    ellipse_plot,
    moves_of,
    moves_plot,
    psychometric_plot,
    score_of,
    sensitivity_plots,
    transduction_plot,
)
from candlelight.evaluation.report.blocks import (
    Block,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    settings_table,
    unbroken,
    with_interval,
)
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.record import Page
from candlelight.evaluation.run.result import StatisticResult, align_columns, model_name, notes_of

_TICK = "✓"
_DIGITS = {"scale": 4}


def row_name(result: StatisticResult, moves: str) -> str:
    """Name a metric, and the kind of moves if there are several."""
    return model_name(result) + (f", {moves}" if len(moves_of(result)) > 1 else "")


def threshold_table(results: Sequence[StatisticResult]) -> TableBlock:
    """Tabulate thresholds and errors of illuminants: Table II of the paper."""
    first = results[0]
    transforms = [name for name in UNITS if name in first.about.settings["transforms"]]
    errors = [name for name in ("illuminant_macadam", "illuminant_experimental") if _has(results, name)]
    heads = {
        "illuminant_macadam": "illuminants: error to MacAdam",
        "illuminant_experimental": "error to the experiment",
    }
    human = first.details["human"]
    cells = [f"{number(human[name], _digits(name))}, {_whose(first, name)}" for name in transforms]
    rows = [("people", *cells, *("" for _ in errors))]
    for result in results:
        for moves in moves_of(result):
            found = result.details["moves"][moves]["thresholds"]
            if not _is_rated(result, moves):
                continue
            cells = [_cell(found[name], name, _score(result, name, moves)) for name in transforms]
            scores = [_score(result, name, moves) for name in errors]
            rows.append(
                (
                    row_name(result, moves),
                    *cells,
                    *("" if score is None else with_interval(score) for score in scores),
                )
            )
    head = ("metric", *(f"{name}, {UNITS[name]}" for name in transforms), *(heads[name] for name in errors))
    caption = (
        "Thresholds ± half the distance of the inverted quartiles of D_T, with 95 % intervals over scenes, "
        f"and errors of the ellipse of illuminants in CIE xy (Table II of the paper); {_TICK} human-like"
    )
    return TableBlock(caption, head, tuple(rows))


def verdict_table(results: Sequence[StatisticResult]) -> TableBlock:
    """Tabulate the verdicts: is each threshold that of people?"""
    transforms = [name for name in UNITS if name in results[0].about.settings["transforms"]]
    rows = []
    for result in results:
        for moves in moves_of(result):
            found = result.details["moves"][moves]["thresholds"]
            if not found:
                continue
            verdicts = [_verdict(found[name]) for name in transforms]
            ticked = [f"{_TICK} " * (verdict == "human-like") + verdict for verdict in verdicts]
            rows.append((row_name(result, moves), *ticked))
    caption = (
        "Verdicts: is a metric as sensitive to a transform as people are? Human-like: the threshold of "
        "people lies within the inverted quartiles of D_T"
    )
    return TableBlock(caption, ("metric", *transforms), tuple(rows))


def order_table(results: Sequence[StatisticResult]) -> TableBlock:
    """Tabulate the orders of sensitivities and their agreement with people: Table III of the paper."""
    rows = [("people, published", " > ".join(HUMAN_ORDER), "1")]
    people = results[0].details["people"]
    for moves, found in people.items():
        name = "people, on these images" + (f", {moves}" if len(people) > 1 else "")
        rows.append((name, _order_text(found["order"]), _agreement(found["order"])))
    for result in results:
        for moves in moves_of(result):
            order = result.details["moves"][moves]["order"]
            agreement = _agreement(order, _score(result, "order", moves))
            rows.append(
                (row_name(result, moves), _order_text(order), agreement + f" {_TICK}" * order["is_human"])
            )
    caption = (
        "Transforms from the largest sensitivity to the smallest, and share of the pairs in the order of "
        f"people (Table III of the paper); {_TICK} the order of people"
    )
    return TableBlock(caption, ("metric", "order", "agreement"), tuple(rows))


def perception_lines(results: Sequence[StatisticResult]) -> list[str]:
    """Write the verdicts and the orders as text tables for a terminal."""
    rows: list[tuple[str, ...]] = [
        ("metric", "transform", "threshold", "± quartiles", "95 % interval", "people", "verdict")
    ]
    orders = [("metric", "agreement", "order of sensitivities"), ("people", "1", " > ".join(HUMAN_ORDER))]
    for result in results:
        for moves in moves_of(result):
            name, found = row_name(result, moves), result.details["moves"][moves]
            for transform, one in found["thresholds"].items():
                own = _whose(result, transform) == "measured"
                people = f"{one['human']:.4g}" + ", measured" * own
                line = _line(transform, one, _score(result, transform, moves))
                rows.append((name, *line, people, _verdict(one)))
            for label in ("illuminant_macadam", "illuminant_experimental"):
                if (score := _score(result, label, moves)) is not None:
                    value = f"error {score.value:.4f}" if math.isfinite(score.value) else "no ellipse"
                    rows.append((name, label, value, "", _ends(score, 3), "", ""))
            orders.append((name, _agreement(found["order"]), _order_text(found["order"])))
    return [*([align_columns(rows)] if len(rows) > 1 else []), align_columns(orders)]


def _whose(result: StatisticResult, transform: str) -> str:
    """Tell whether the threshold of people is published, or of the user's own observers."""
    return "measured" if transform in result.about.settings.get("measured_human", {}) else "published"


def _line(transform: str, one: dict[str, Any], score: Score | None) -> tuple[str, ...]:
    digits, reach = _digits(transform), score_of(one["uncertainty"])
    return (
        f"{transform}, {one['unit']}",
        _value_text(one, digits),
        "" if math.isnan(reach) else f"{reach:.2g}",
        _ends(score, digits),
    )


def _cell(one: dict[str, Any], transform: str, score: Score | None) -> str:
    """Write a threshold with its quartiles and interval."""
    digits, reach = _digits(transform), score_of(one["uncertainty"])
    text = _value_text(one, digits)
    if not math.isnan(reach):
        text = unbroken(f"{text} ± {reach:.2g}")
    if ends := _ends(score, digits):
        text += " " + unbroken(f"({ends})")
    return f"{_TICK} " * (one["verdict"] == "human-like") + text


def _is_rated(result: StatisticResult, moves: str) -> bool:
    found = result.details["moves"][moves]
    return bool(found["thresholds"] or found["illuminants"])


def _verdict(one: dict[str, Any]) -> str:
    if one["verdict"] == "not reached" and one["state"] != "not reached":
        return "a quartile of D_T is not reached"
    return str(one["verdict"])


def _value_text(one: dict[str, Any], digits: int) -> str:
    if one["state"] == "infinite":
        return "∞, never moves"
    if one["state"] == "not reached":
        return "not reached"
    return ("at most " if one["state"] == "at the start" else "") + number(one["score"], digits)


def _ends(score: Score | None, digits: int) -> str:
    if score is None or math.isnan(score.low):
        return ""
    return f"{number(score.low, digits)} to {number(score.high, digits)}"


def _digits(transform: str) -> int:
    return _DIGITS.get(transform, 3)


def _score(result: StatisticResult, label: str, moves: str) -> Score | None:
    """Return a score of one kind of moves; the first has names without an ending."""
    found = result.scores.get(f"{label} ({moves})")
    return result.scores.get(label) if found is None and moves == moves_of(result)[0] else found


def _agreement(order: dict[str, Any], score: Score | None = None) -> str:
    """Write the agreement with people; of an incomplete order, the number of pairs."""
    known, share = len(order["order"]), score_of(order["score"])
    if math.isnan(share):
        return "undefined"
    if known < len(HUMAN_ORDER):
        return f"{share * math.comb(known, 2):g} of {math.comb(known, 2)} pairs"
    return f"{share:.3g}" if score is None else with_interval(score)


def _has(results: Sequence[StatisticResult], label: str) -> bool:
    return any(label in result.scores for result in results)


def _order_text(order: dict[str, Any]) -> str:
    text = " > ".join(order["order"]) or "none"
    return text + (f" (not reached: {', '.join(order['unknown'])})" if order["unknown"] else "")


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


PERCEPTION_PAGE = Page(section=perception_section, reading=READING, needs=NEEDS, lines=perception_lines)
