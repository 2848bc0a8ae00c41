"""Section of a report on perception, the text of the terminal, and the plot of answers of people."""

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from matplotlib.ticker import LogLocator
from numpy import ndarray

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.perception.people import (
    HUMAN_ORDER,
    Ellipse,
    experimental_ellipse,
    macadam_ellipse,
)
from candlelight.evaluation.perception.psychometric import FORCED_CHOICE, PsychometricFit, psychometric
from candlelight.evaluation.perception.transforms import (
    GEOMETRIC_TRANSFORMS,
    transform_unit,
    unchanged_magnitude,
)
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    settings_table,
    with_interval,
)
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, legend_columns, short_name, to_svg
from candlelight.evaluation.report.plain_section import plain_section
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import StatisticResult, align_columns, model_name, notes_of
from candlelight.loaders.illuminants import EQUAL_ENERGY

if TYPE_CHECKING:
    from candlelight.evaluation.perception.experiment.answers import AnswerFit, ExperimentAnswers

_Results = Sequence[StatisticResult]
_Rows = list[tuple[str, ...]]


def _score_of(value: Any) -> float:
    """Read a number from its JSON form: None is nan."""
    return math.nan if value is None else float(value)


def _moves_of(result: StatisticResult) -> list[str]:
    """List the kinds of moves of a result, the first of which plots show."""
    return list(result.details["moves"])


def _every(results: _Results) -> Iterator[tuple[StatisticResult, str, str, dict[str, Any]]]:
    """Yield each result with each kind of moves, the name of the two, and their details."""
    for result in results:
        for moves, found in result.details["moves"].items():
            ending = f", {moves}" if len(result.details["moves"]) > 1 else ""
            yield result, moves, model_name(result) + ending, found


def _score(result: StatisticResult, label: str, moves: str) -> Score | None:
    """Return a score of one kind of moves; the first has names without an ending."""
    found = result.scores.get(f"{label} ({moves})")
    return result.scores.get(label) if found is None and moves == _moves_of(result)[0] else found


_THRESHOLDS = ("metric", "transform", "threshold", "± quartiles", "95 % interval", "people", "verdict")


def threshold_rows(results: _Results) -> _Rows:
    """Write a row for each threshold, and for each error of the ellipse of illuminants."""
    rows: _Rows = []
    for result, moves, name, found in _every(results):
        for transform, one in found["thresholds"].items():
            digits, reach = 4 if transform == "scale" else 3, _score_of(one["uncertainty"])
            own = transform in result.about.settings.get("measured_human", {})
            cells = (
                f"{transform}, {one['unit']}",
                _threshold(one, digits),
                "" if math.isnan(reach) else f"{reach:.2g}",
                _ends(_score(result, transform, moves), digits),
                f"{one['human']:.4g}" + ", measured" * own,
                _verdict(one),
            )
            rows.append((name, *cells))
        for label in ("illuminant_macadam", "illuminant_experimental"):
            if (score := _score(result, label, moves)) is not None:
                value = f"error {score.value:.4f}" if math.isfinite(score.value) else "no ellipse"
                rows.append((name, label, value, "", _ends(score, 3), "", ""))
    return rows


def _threshold(one: Mapping[str, Any], digits: int) -> str:
    if one["state"] in ("infinite", "not reached"):
        return {"infinite": "∞, never moves"}.get(one["state"], "not reached")
    return ("at most " if one["state"] == "at the start" else "") + number(one["score"], digits)


def _verdict(one: Mapping[str, Any]) -> str:
    if one["verdict"] == "not reached" and one["state"] != "not reached":
        return "a quartile of D_T is not reached"
    return str(one["verdict"])


def _ends(score: Score | None, digits: int) -> str:
    if score is None or math.isnan(score.low):
        return ""
    return f"{number(score.low, digits)} to {number(score.high, digits)}"


def order_table(results: _Results) -> TableBlock:
    """Tabulate the orders of sensitivities and their agreement with people: Table III of the paper."""
    people = results[0].details["people"]
    rows = [("people, published", "1", " > ".join(HUMAN_ORDER))]
    for moves, found in people.items():
        name = "people, on these images" + (f", {moves}" if len(people) > 1 else "")
        rows.append((name, *_order(found["order"])))
    rows += [
        (name, *_order(found["order"], _score(result, "order", moves)))
        for result, moves, name, found in _every(results)
    ]
    caption = (
        "Transforms from the largest sensitivity to the smallest, and share of the pairs in the order of "
        "people (Table III of the paper)"
    )
    return TableBlock(caption, ("metric", "agreement", "order"), tuple(rows))


def _order(order: Mapping[str, Any], score: Score | None = None) -> tuple[str, str]:
    """Write the agreement with people, of an incomplete order the number of pairs; and the order."""
    known, share = len(order["order"]), _score_of(order["score"])
    if math.isnan(share):
        agreement = "undefined"
    elif known < len(HUMAN_ORDER):
        agreement = f"{share * math.comb(known, 2):g} of {math.comb(known, 2)} pairs"
    else:
        agreement = f"{share:.3g}" if score is None else with_interval(score)
    unknown = f" (not reached: {', '.join(order['unknown'])})" if order["unknown"] else ""
    return agreement, (" > ".join(order["order"]) or "none") + unknown


def perception_lines(results: _Results) -> list[str]:
    """Write the verdicts and the orders as text tables for a terminal."""
    rows = threshold_rows(results)
    orders = [("metric", "agreement", "order of sensitivities"), ("people", "1", " > ".join(HUMAN_ORDER))]
    orders += [(name, *_order(found["order"])) for _, _, name, found in _every(results)]
    return [*([align_columns([_THRESHOLDS, *rows])] if rows else []), align_columns(orders)]


_BAND = "#e08a1e"  # of D_T
_PANEL = 2.1  # inches
_TICKS = {
    "translation": (0.01, 0.03, 0.1, 0.3),
    "parallax x": (0.01, 0.03, 0.1, 0.3),
    "rotation": (0.1, 0.3, 1, 3, 10),
    "scale": (0.003, 0.01, 0.03, 0.1, 0.3, 1),
}


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _curve(result: StatisticResult, moves: str, transform: str) -> dict[str, Any]:
    curves: list[dict[str, Any]] = result.details["moves"][moves]["curves"]
    found = next(curve for curve in curves if curve["transform"] == transform)
    return {
        name: np.array(values, dtype=float) if isinstance(values, list) else values
        for name, values in found.items()
    }


def _panels(
    results: _Results, key: str, label: str, top: float | None, draw: Callable[[Any, str], None]
) -> str:
    """Draw a panel for each geometric transform, by magnitude, with a legend of the metrics above them."""
    first, names = results[0], [model_name(result) for result in results]
    transforms = [name for name in GEOMETRIC_TRANSFORMS if name in first.about.settings["transforms"]]
    with drawing(_PANEL * len(transforms) + 0.3) as figure:
        panels = figure.subplots(len(transforms), squeeze=False)[:, 0]
        for axes, transform in zip(panels, transforms, strict=True):
            draw(axes, transform)
            identity = unchanged_magnitude(transform)
            axes.axvline(first.details["human"][transform] - identity, color=INK, linewidth=1)
            axes.set(xlabel=f"{transform}, {transform_unit(transform)}", ylabel=label, xscale="log")
            axes.set_ylim(0, top)
            axes.minorticks_off()
            axes.set_xticks(_TICKS[transform], [f"{identity + tick:g}" for tick in _TICKS[transform]])
        handles = [
            panels[0].plot([], [], color=_colour(place), label=short_name(name))[0]
            for place, name in enumerate(names)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=legend_columns(names))
        return to_svg(figure, key)


def _draw_rise(axes: Any, curve: Mapping[str, Any], heights: Any, style: str, place: int) -> None:
    """Draw a line without the identity, which has no place on a logarithmic axis."""
    magnitudes = curve["magnitudes"] - unchanged_magnitude(curve["transform"])
    rising = magnitudes > 0
    axes.plot(magnitudes[rising], heights[rising], style, color=_colour(place), linewidth=1.5)


def _transduction_plot(results: _Results) -> PlotBlock:
    """Draw D by magnitude, with D_T and the human threshold (Figure 1)."""
    moves = _moves_of(results[0])[0]
    low, level, high = results[0].details["levels"]

    def draw(axes: Any, transform: str) -> None:
        axes.axhspan(low, high, color=_BAND, alpha=0.2, linewidth=0)
        axes.axhline(level, color=_BAND, linewidth=1.2)
        for place, result in enumerate(results):
            curve = _curve(result, moves, transform)
            _draw_rise(axes, curve, curve["common"], "-", place)

    return PlotBlock(
        _panels(results, "transduction", "D", 1.0, draw),
        "Lines of the common distance D by the magnitude of each transform.",
        f"Common distance D by magnitude, {moves} moves, logarithmic axis (Figure 1 of the paper). Band: D_T "
        "with its quartiles; vertical line: threshold of people. A metric is human-like where its line and "
        "the vertical line meet in the band.",
    )


def _moves_plot(results: _Results) -> PlotBlock:
    """Draw the responses to physical moves beside those to the same moves on the image plane."""

    def draw(axes: Any, transform: str) -> None:
        for place, result in enumerate(results):
            first, second = (_curve(result, moves, transform) for moves in _moves_of(result))
            largest = first["response"].max() or 1
            _draw_rise(axes, first, first["response"] / largest, "-", place)
            _draw_rise(axes, second, second["response"] / largest, "--", place)

    return PlotBlock(
        _panels(results, "moves", "d / largest d", None, draw),
        "Lines of the distance by the magnitude of each transform, of both kinds of moves.",
        "Mean distance of each metric by magnitude, in shares of its largest one for physical moves; solid: "
        "frames in which camera or light moved; dashed: the same moves of the reference on the image plane. "
        "Where the lines are equal, the cheap move stands for the true one.",
    )


def _ellipse_plot(results: _Results) -> PlotBlock | None:
    """Draw the ellipses of just noticeable illuminants of people and metrics (Figure 6)."""
    people = [("MacAdam", macadam_ellipse(), "-", INK), ("experiment", experimental_ellipse(), "--", INK)]
    shown: dict[str, list[tuple[str, Ellipse, str, str]]] = {}
    for result, moves, _, found in _every(results):
        if found["illuminants"] and (ellipse := found["illuminants"]["ellipse"]):
            own = short_name(model_name(result)), Ellipse(**ellipse), "-", _colour(results.index(result))
            shown.setdefault(moves, [*people]).append(own)
    if not shown:
        return None
    with drawing(3.9 if len(shown) > 1 else 4.6) as figure:
        panels = figure.subplots(1, len(shown), squeeze=False, sharex=True, sharey=True)[0]
        handles: dict[str, Any] = {}
        for axes, (moves, ellipses) in zip(panels, shown.items(), strict=True):
            for name, ellipse, style, colour in ellipses:
                points = ellipse.points().numpy().T
                [handles[name]] = axes.plot(*points, style, color=colour, linewidth=1.5)
            axes.plot(*EQUAL_ENERGY, "+", color=INK)
            axes.set(xlabel="x", title=moves if len(shown) > 1 else "", aspect="equal")
            axes.locator_params(nbins=5)
        panels[0].set_ylabel("y")
        columns = legend_columns(list(handles))
        figure.legend(handles.values(), list(handles), loc="outside upper center", ncols=columns)
        svg = to_svg(figure, "ellipses")
    return PlotBlock(
        svg,
        f"Ellipses about equal energy in CIE xy: {', '.join(handles)}.",
        "Just noticeable illuminants in CIE 1931 xy (Figure 6 of the paper): of people, by MacAdam and by "
        "the paper's experiment, and of each metric with ratings whose thresholds have an ellipse. A "
        "metric is human-like if its ellipse has the size and the direction of those. Cross: equal energy.",
    )


def _sensitivity_plot(result: StatisticResult) -> PlotBlock:
    """Draw the distance of a metric against the energy of each transform (Figure 7)."""
    name, moves = model_name(result), _moves_of(result)[0]
    found = result.details["moves"][moves]
    people = result.details["people"][moves]["sensitivities"]
    transforms = [name for name in HUMAN_ORDER if name in found["sensitivities"]]
    rated = found["thresholds"] or found["illuminants"]
    with drawing(2.9) as figure:
        axes = figure.subplots()
        for transform in transforms:
            colour = _colour(HUMAN_ORDER.index(transform))
            curve = _curve(result, moves, transform)
            positive = curve["rmse"] > 0
            line = curve["rmse"][positive], curve["common"][positive]
            axes.plot(*line, color=colour, linewidth=1.5, label=transform)
            energy = 1 / _score_of(people[transform]) if people.get(transform) else np.nan
            axes.axvline(np.sqrt(energy), color=colour, linewidth=1, linestyle=":")
        axes.axhline(_score_of(found["level"]), color=_BAND, linewidth=1.2)
        axes.set(xlabel="RMSE of the transform", ylabel="D" if rated else "d", xscale="log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_ylim(0, None)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=legend_columns(transforms))
        svg = to_svg(figure, "sensitivity")
    level = "D_T" if rated else "the level of the order, the median of d at the thresholds of people"
    return PlotBlock(
        svg,
        f"Lines of the distance of {name} by the RMSE of each transform.",
        f"{name}: {'D' if rated else 'd'} by the energy of each transform, {moves} moves, logarithmic axis "
        "(Figure 7 of the paper). Dotted: thresholds of people in energy. Horizontal: "
        f"{level}. The transform whose line reaches it at the smallest energy is the one to which the metric "
        "is most sensitive.",
    )


_POINTS = 20  # at most: each rated pair has a level of its own
_CROWD = 10  # answers of a point of such pairs, at least
_ANSWERS_PANEL = 2.6  # inches


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


def _draw_answers(
    axes: Any,
    magnitudes: Float64[ndarray, " answers"],
    correct: Bool[ndarray, " answers"],
    fit: PsychometricFit | None,
) -> None:
    """Draw the shares of correct answers, and a fit that converged with its threshold and interval."""
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


def psychometric_plot(details: Mapping[str, Any]) -> PlotBlock:
    """Draw the shares of correct answers with the fitted psychometric function (Figure 3)."""
    counts = np.array(details["trials"])
    right = zip(details["correct"], counts, strict=True)
    correct = np.concatenate([np.arange(trials) < one for one, trials in right])
    names = ("low", "high", "slope", "guess", "lapse", "deviance")
    numbers = {name: _score_of(details[name]) for name in names}
    threshold, converged = _score_of(details["threshold"]), details["converged"]
    fit = PsychometricFit(threshold, **numbers, converged=converged, note=details["note"])
    with drawing(2.9) as figure:
        axes = figure.subplots()
        _draw_answers(axes, np.repeat(np.array(details["levels"], dtype=float), counts), correct, fit)
        axes.set_xlabel("D")
        svg = to_svg(figure, "psychometric")
    told = f"threshold {number(fit.score)} ({number(fit.low)} to {number(fit.high)})"
    return PlotBlock(
        svg,
        "Shares of correct answers by D.",
        f"Answers of people by the common distance D of the pair, and the fitted psychometric function "
        f"(Figure 3 of the paper): {told}, {len(correct)} answers."
        + ("" if converged else f" The fit failed, and is not used: {fit.note}."),
    )


def draw_answers(answers: "ExperimentAnswers", fits: "Sequence[AnswerFit]", kind: str) -> bytes:
    """Draw a panel for each transform, with the fit of all observers.

    Args:
        answers: from `read_answers`.
        fits: from `fit_answers`.
        kind: format of matplotlib: "svg", "png" or "pdf".
    """
    shown = [fit for fit in fits if fit.observer is None]
    with drawing(_ANSWERS_PANEL * max(1, len(shown))) as figure:
        panels = figure.subplots(len(shown), 1, squeeze=False)[:, 0] if shown else ()
        for axes, one in zip(panels, shown, strict=True):
            _draw_answers(axes, answers.magnitudes[one.rows], answers.correct[one.rows], one.fit)
            if one.published is not None:
                axes.axvline(one.published, color=INK, linestyle=":", label=f"paper: {one.published:g}")
                axes.legend(loc="lower right")
            axes.set_xlabel("D" if one.name == "D_T" else f"{one.name} ({one.unit})")
        buffer = io.BytesIO()
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        figure.savefig(buffer, format=kind, facecolor="white", metadata=dated, dpi=150)
    return buffer.getvalue()


_NEEDS = ("moves", "people", "human", "levels", "psychometric", "transforms")
_READING = (
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
_TABLE_II = (
    "Thresholds ± half the distance of the inverted quartiles of D_T, with 95 % intervals over scenes, "
    "beside those of people; errors of the ellipse of illuminants in CIE xy (Table II of the paper)"
)


def perception_section(results: _Results, pictures: Sequence[Block]) -> Section:
    """Report the thresholds, ellipses and orders of metrics on the same data."""
    rows, first = threshold_rows(results), results[0].details
    blocks: list[Block] = [TableBlock(_TABLE_II, _THRESHOLDS, tuple(rows))] if rows else []
    blocks.append(order_table(results))
    blocks += [note(f"{line}.") for line in notes_of(results)]
    by_first = [(result, result.details["moves"][_moves_of(result)[0]]) for result in results]
    if rated := [result for result, found in by_first if found["thresholds"]]:
        blocks.append(_transduction_plot(rated))
    if len(first["moves"]) > 1 and set(GEOMETRIC_TRANSFORMS) & set(results[0].about.settings["transforms"]):
        blocks.append(_moves_plot(results))
    if ellipses := _ellipse_plot(results):
        blocks.append(ellipses)
    blocks += [_sensitivity_plot(result) for result, found in by_first if found["sensitivities"]]
    if first["psychometric"]:
        blocks.append(psychometric_plot(first["psychometric"]))
    if any(result.details["transduction"] for result in results):
        blocks.append(_transductions(results))
    return Section("perception", "Perceptual distances", (*blocks, *pictures, settings_table(results)))


def _transductions(results: _Results) -> TableBlock:
    """Tabulate the constants of D = a d^b and their origin."""
    rows: _Rows = []
    for result in results:
        one = result.details["transduction"]
        if one is None:
            rows.append((model_name(result), "", "", "", "", "none"))
            continue
        error = "" if one["error"] is None else number(one["error"])
        numbers = number(one["scale"], 4), number(one["exponent"], 4), error
        rows.append((model_name(result), *numbers, str(one["pairs"] or ""), one["note"]))
    head = ("metric", "a", "b", "rms error in D", "pairs", "origin, or end of the fit")
    return TableBlock("Transductions D = a d^b", head, tuple(rows), folded=True)


PERCEPTION_PAGE = Page(section=perception_section, reading=_READING, needs=_NEEDS, lines=perception_lines)
RAID_PAGE = Page(
    section=partial(plain_section, "raid", "Distorted photographs"),
    reading=(
        TextBlock(
            "Agreement with people who judged distorted photographs (RAID): for each distortion, the rank "
            "correlation of the distances of a metric with the responses of people."
        ),
        TextBlock(
            "↑ Higher is better; the maximum is 1. Compare with `level`, the bare number of the level of "
            "distortion, whose correlation is high by itself.",
            term="How to read",
        ),
        TextBlock("thresholds, for which the ten levels are too coarse.", term="Blind to"),
    ),
)
