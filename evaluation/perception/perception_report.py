"""Section of a report on perception: tables and plots."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from matplotlib.ticker import LogLocator
from numpy import ndarray

from candlelight.evaluation.perception.people import Ellipse, experimental_ellipse, macadam_ellipse
from candlelight.evaluation.perception.psychometric import FORCED_CHOICE, PsychometricFit, psychometric
from candlelight.evaluation.perception.scene_curves import GEOMETRIC_TRANSFORMS, HUMAN_ORDER
from candlelight.evaluation.perception.transform_families import transform_unit, unchanged_magnitude
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    settings_table,
    unbroken,
    with_interval,
)
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, legend_columns, short_name, to_svg
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import StatisticResult, align_columns, model_name, notes_of
from candlelight.loaders.illuminants import EQUAL_ENERGY

UNITS = {name: transform_unit(name) for name in GEOMETRIC_TRANSFORMS}
_TICK = "✓"
_DIGITS = {"scale": 4}


def moves_of(result: StatisticResult) -> list[str]:
    """List the kinds of moves of a result, the first of which plots show."""
    return list(result.details["moves"])


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


def score_of(value: Any) -> float:
    """Read a number from its JSON form: None is nan."""
    return math.nan if value is None else float(value)


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


_POINTS = 20  # at most: each rated pair has a level of its own
_CROWD = 10  # answers of a point of such pairs, at least


def share_points(
    magnitudes: Float64[ndarray, " answers"], correct: Bool[ndarray, " answers"]
) -> tuple[Float64[ndarray, " points"], Float64[ndarray, " points"]]:
    """Compute the share of correct answers at each level, or of groups of neighbours.

    Levels are grouped where there are more than 20, as of rated pairs.

    Returns:
        Mean magnitude and share of each point, ascending.

    Example:
        >>> share_points(np.array([2.0, 1.0, 2.0]), np.array([True, False, False]))
        (array([1., 2.]), array([0. , 0.5]))
    """
    values, places = np.unique(magnitudes, return_inverse=True)
    if len(values) > _POINTS:
        ranks = np.empty(len(magnitudes), dtype=np.int64)
        ranks[magnitudes.argsort(kind="stable")] = np.arange(len(magnitudes))
        places = ranks * min(_POINTS, len(magnitudes) // _CROWD) // len(magnitudes)
    count = np.bincount(places)
    return np.bincount(places, magnitudes) / count, np.bincount(places, correct) / count


def draw_psychometric(
    axes: Any,
    magnitudes: Float64[ndarray, " answers"],
    correct: Bool[ndarray, " answers"],
    fit: PsychometricFit | None,
) -> None:
    """Draw the shares of correct answers; of a fit that converged its function, threshold and 95 % interval.

    Args:
        axes: of matplotlib.
        magnitudes: level of each answer.
        correct: whether it was right.
        fit: to these answers.
    """
    axes.plot(*share_points(magnitudes, correct), "o", color=COLOURS[0], markersize=5, clip_on=False)
    axes.axhline(FORCED_CHOICE, color=INK, alpha=0.3, linewidth=0.8)
    if fit is not None and fit.converged:
        levels = torch.linspace(float(magnitudes.min()), float(magnitudes.max()), 200).double()
        curve = psychometric(levels, fit.score, fit.slope, fit.guess, fit.lapse)
        axes.plot(levels.numpy(), curve.numpy(), color=COLOURS[0])
        axes.axvspan(fit.low, fit.high, color=COLOURS[1], alpha=0.25, linewidth=0)
        axes.axvline(fit.score, color=COLOURS[1])
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share correct")


_BAND = "#e08a1e"  # of D_T
_PANEL = 2.1  # inches
_TICKS = {
    "translation": (0.01, 0.03, 0.1, 0.3),
    "parallax x": (0.01, 0.03, 0.1, 0.3),
    "rotation": (0.1, 0.3, 1, 3, 10),
    "scale": (0.003, 0.01, 0.03, 0.1, 0.3, 1),
}


def transduction_plot(results: Sequence[StatisticResult]) -> PlotBlock | None:
    """Draw D by magnitude for each metric with ratings, with D_T and the human threshold (Figure 1)."""
    rated = [result for result in results if result.details["moves"][moves_of(result)[0]]["thresholds"]]
    if not rated:
        return None
    moves = moves_of(rated[0])[0]
    low, level, high = rated[0].details["levels"]

    def draw(axes: Any, transform: str) -> None:
        axes.axhspan(low, high, color=_BAND, alpha=0.2, linewidth=0)
        axes.axhline(level, color=_BAND, linewidth=1.2)
        for place, result in enumerate(rated):
            curve = _curve(result, moves, transform)
            axes.plot(*_rising(curve, transform, curve["common"]), color=_colour(place), linewidth=1.5)
        axes.set_ylabel("D")
        axes.set_ylim(0, 1)

    names = [model_name(result) for result in rated]
    svg = _panels(results[0], names, draw, "transduction")
    told = "; ".join(f"{name}: {_told(result, moves)}" for name, result in zip(names, rated, strict=True))
    return PlotBlock(
        svg,
        f"Lines of the common distance D by the magnitude of each transform. Thresholds: {told}.",
        f"Common distance D by magnitude, {moves} moves, logarithmic axis (Figure 1 of the paper). Band: D_T "
        "with its quartiles; vertical line: threshold of people. A metric is human-like where its line and "
        "the vertical line meet in the band.",
    )


def moves_plot(results: Sequence[StatisticResult]) -> PlotBlock | None:
    """Draw the responses to physical moves beside those to the same moves on the image plane."""
    if len(moves_of(results[0])) < 2 or not _geometric(results[0]):
        return None

    def draw(axes: Any, transform: str) -> None:
        for place, result in enumerate(results):
            for moves, style in zip(moves_of(result), ("-", "--"), strict=True):
                curve = _curve(result, moves, transform)
                largest = max(_curve(result, moves_of(result)[0], transform)["response"]) or 1
                heights = np.array(curve["response"], dtype=float) / largest
                axes.plot(*_rising(curve, transform, heights), style, color=_colour(place), linewidth=1.5)
        axes.set_ylabel("d / largest d")
        axes.set_ylim(0, None)

    names = [model_name(result) for result in results]
    return PlotBlock(
        _panels(results[0], names, draw, "moves"),
        f"Lines of the distance by the magnitude of each transform, of {' and '.join(moves_of(results[0]))} "
        "moves.",
        "Mean distance of each metric by magnitude, in shares of its largest one for physical moves; solid: "
        "frames in which camera or light moved; dashed: the same moves of the reference on the image plane.",
    )


def ellipse_plot(results: Sequence[StatisticResult]) -> PlotBlock | None:
    """Draw the ellipses of just noticeable illuminants of people and metrics (Figure 6)."""
    first = results[0]
    shown = [
        moves
        for moves in moves_of(first)
        if any((one.details["moves"][moves]["illuminants"] or {}).get("ellipse") for one in results)
    ]
    if not shown:
        return None
    with drawing(3.9 if len(shown) > 1 else 4.6) as figure:
        panels = figure.subplots(1, len(shown), squeeze=False, sharex=True, sharey=True)[0]
        handles: dict[str, Any] = {}
        for axes, moves in zip(panels, shown, strict=True):
            people = (("MacAdam", macadam_ellipse(), "-"), ("experiment", experimental_ellipse(), "--"))
            for label, ellipse, style in people:
                points = ellipse.points().numpy().T
                [handles[label]] = axes.plot(*points, style, color=INK, linewidth=1.5)
            for place, result in enumerate(results):
                found = result.details["moves"][moves]["illuminants"]
                if found and found["ellipse"]:
                    points = Ellipse(**found["ellipse"]).points().numpy().T
                    name = short_name(model_name(result))
                    [handles[name]] = axes.plot(*points, color=_colour(place), linewidth=1.5)
            axes.plot(*EQUAL_ENERGY, "+", color=INK)
            axes.set(xlabel="x", title=moves if len(shown) > 1 else "", aspect="equal")
            axes.locator_params(nbins=5)
            axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        panels[0].set_ylabel("y")
        figure.legend(
            handles.values(), list(handles), loc="outside upper center", ncols=legend_columns(list(handles))
        )
        svg = to_svg(figure, "ellipses")
    return PlotBlock(
        svg,
        f"Ellipses about equal energy in CIE xy: {', '.join(handles)}.",
        "Just noticeable illuminants in CIE 1931 xy (Figure 6 of the paper): of people, by MacAdam and by "
        "the paper's experiment, and of each metric with ratings whose thresholds have an ellipse. Cross: "
        "equal energy.",
    )


def sensitivity_plots(results: Sequence[StatisticResult]) -> list[PlotBlock]:
    """Draw the distance of each metric against the energy of each transform (Figure 7)."""
    shown = [result for result in results if result.details["moves"][moves_of(result)[0]]["sensitivities"]]
    return [_sensitivity_plot(result) for result in shown]


def _sensitivity_plot(result: StatisticResult) -> PlotBlock:
    moves = moves_of(result)[0]
    found = result.details["moves"][moves]
    people = result.details["people"][moves]["sensitivities"]
    transforms = [name for name in HUMAN_ORDER if name in found["sensitivities"]]
    label = "D" if found["thresholds"] or found["illuminants"] else "d"
    with drawing(2.9) as figure:
        axes = figure.subplots()
        for transform in transforms:
            colour = _colour(HUMAN_ORDER.index(transform))
            curve = _curve(result, moves, transform)
            rmse, heights = (np.array(curve[name], dtype=float) for name in ("rmse", "common"))
            positive = rmse > 0
            axes.plot(rmse[positive], heights[positive], color=colour, linewidth=1.5, label=transform)
            energy = 1 / score_of(people[transform]) if people.get(transform) else np.nan
            axes.axvline(np.sqrt(energy), color=colour, linewidth=1, linestyle=":")
        axes.axhline(score_of(found["level"]), color=_BAND, linewidth=1.2)
        axes.set(xlabel="RMSE of the transform", ylabel=label, xscale="log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_ylim(0, None)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=legend_columns(transforms))
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        svg = to_svg(figure, "sensitivity")
    level = "D_T" if label == "D" else "the level of the order, the median of d at the thresholds of people"
    order = " > ".join(found["order"]["order"])
    return PlotBlock(
        svg,
        f"Lines of {label} of {model_name(result)} by the RMSE of each transform. Order: {order}.",
        f"{model_name(result)}: {label} by the energy of each transform, {moves} moves, logarithmic axis "
        "(Figure 7 of the paper). Dotted: thresholds of people in energy. Horizontal: "
        f"{level}. The transform whose line reaches it at the smallest energy is the one to which the metric "
        "is most sensitive.",
    )


def psychometric_plot(fit: Mapping[str, Any]) -> PlotBlock:
    """Draw the shares of correct answers with the fitted psychometric function (Figure 3)."""
    magnitudes = np.repeat(np.array(fit["levels"], dtype=float), fit["trials"])
    counts = zip(fit["correct"], fit["trials"], strict=True)
    correct = np.concatenate([np.arange(trials) < right for right, trials in counts])
    names = ("low", "high", "slope", "guess", "lapse", "deviance")
    numbers = {name: score_of(fit[name]) for name in names}
    fitted = PsychometricFit(
        score=score_of(fit["threshold"]), **numbers, converged=fit["converged"], note=fit["note"]
    )
    with drawing(2.9) as figure:
        axes = figure.subplots()
        draw_psychometric(axes, magnitudes, correct, fitted)
        axes.set_xlabel("D")
        svg = to_svg(figure, "psychometric")
    told = f"threshold {number(fit['threshold'])} ({number(fit['low'])} to {number(fit['high'])})"
    end = "" if fit["converged"] else f" The fit failed, and is not used: {fit['note']}."
    return PlotBlock(
        svg,
        f"Shares of correct answers by D; {told}.",
        f"Answers of people by the common distance D of the pair, and the fitted psychometric function "
        f"(Figure 3 of the paper): {told}, {len(correct)} answers.{end}",
    )


def _geometric(result: StatisticResult) -> list[str]:
    known = {curve["transform"] for curve in result.details["moves"][moves_of(result)[0]]["curves"]}
    return [name for name in GEOMETRIC_TRANSFORMS if name in known]


def _panels(first: StatisticResult, names: Sequence[str], draw: Callable[[Any, str], None], key: str) -> str:
    """Draw a panel for each geometric transform, with a legend of the metrics above them."""
    transforms = _geometric(first)
    with drawing(_PANEL * len(transforms) + 0.3) as figure:
        panels = figure.subplots(len(transforms), squeeze=False)[:, 0]
        for axes, transform in zip(panels, transforms, strict=True):
            draw(axes, transform)
            identity = unchanged_magnitude(transform)
            axes.axvline(first.details["human"][transform] - identity, color=INK, linewidth=1)
            axes.set(xlabel=f"{transform}, {UNITS[transform]}", xscale="log")
            axes.minorticks_off()
            axes.set_xticks(_TICKS[transform], [f"{identity + tick:g}" for tick in _TICKS[transform]])
            axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        handles = [
            panels[0].plot([], [], color=_colour(place), label=short_name(name))[0]
            for place, name in enumerate(names)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=legend_columns(names))
        return to_svg(figure, key)


def _rising(curve: Mapping[str, Any], transform: str, heights: Any) -> tuple[ndarray, ndarray]:
    """Leave out the identity, which has no place on a logarithmic axis."""
    magnitudes = np.array(curve["magnitudes"], dtype=float) - unchanged_magnitude(transform)
    return magnitudes[magnitudes > 0], np.array(heights, dtype=float)[magnitudes > 0]


def _curve(result: StatisticResult, moves: str, transform: str) -> dict[str, Any]:
    curves: list[dict[str, Any]] = result.details["moves"][moves]["curves"]
    return next(curve for curve in curves if curve["transform"] == transform)


def _told(result: StatisticResult, moves: str) -> str:
    found = result.details["moves"][moves]["thresholds"]
    return ", ".join(
        f"{name} {one['state'] if one['score'] in (None, 'inf') else number(one['score'], 4)}"
        for name, one in found.items()
    )


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


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
