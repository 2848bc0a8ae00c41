"""Plots of a report on perception, and of the answers of an experiment."""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from matplotlib.ticker import LogLocator
from numpy import ndarray

from candlelight.evaluation.perception.people import (
    HUMAN_ORDER,
    Ellipse,
    experimental_ellipse,
    macadam_ellipse,
)
from candlelight.evaluation.perception.psychometric import FORCED_CHOICE, PsychometricFit, psychometric
from candlelight.evaluation.perception.transform_families import (
    GEOMETRIC_TRANSFORMS,
    transform_unit,
    unchanged_magnitude,
)
from candlelight.evaluation.report.blocks import PlotBlock, number
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, legend_columns, short_name, to_svg
from candlelight.evaluation.run.result import StatisticResult, model_name
from candlelight.loaders.illuminants import EQUAL_ENERGY

if TYPE_CHECKING:
    from candlelight.evaluation.perception.experiment import AnswerFit, ExperimentAnswers

UNITS = {name: transform_unit(name) for name in GEOMETRIC_TRANSFORMS}


def moves_of(result: StatisticResult) -> list[str]:
    """List the kinds of moves of a result, the first of which plots show."""
    return list(result.details["moves"])


def score_of(value: Any) -> float:
    """Read a number from its JSON form: None is nan."""
    return math.nan if value is None else float(value)


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


_ANSWERS_PANEL = 2.6  # inches


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
        for axes, fit in zip(panels, shown, strict=True):
            _draw_answer_panel(axes, answers, fit)
        buffer = io.BytesIO()
        dated = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
        figure.savefig(buffer, format=kind, facecolor="white", metadata=dated, dpi=150)
    return buffer.getvalue()


def _draw_answer_panel(axes: Any, answers: "ExperimentAnswers", one: "AnswerFit") -> None:
    draw_psychometric(axes, answers.magnitudes[one.rows], answers.correct[one.rows], one.fit)
    if one.published is not None:
        axes.axvline(one.published, color=INK, linestyle=":", label=f"paper: {one.published:g}")
        axes.legend(loc="lower right")
    axes.set_xlabel("D" if one.name == "D_T" else f"{one.name} ({one.unit})")
