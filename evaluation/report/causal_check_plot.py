"""Plot of the causal check: effects of regions beside the density of heatmaps in them."""

import textwrap
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.coverage.measure_regions import ALL_PARTS
from candlelight.evaluation.coverage.method_comparisons import MethodComparison
from candlelight.evaluation.report.blocks import PlotBlock
from candlelight.evaluation.report.coverage_plots import method_colours
from candlelight.evaluation.report.drawing import INK, drawing, label_rows, to_svg
from candlelight.evaluation.report.tables import number
from candlelight.evaluation.results.result import StatisticResult
from candlelight.loaders.views import BACKGROUND_REGION

_MOST_PARTS = 12
_METHODS = 3  # beside each other
_SMALL = 9  # size of the text
_TITLE = 15  # characters in the width of a panel
_GRAY = "#8a8f98"


def effect_plot(comparison: MethodComparison) -> PlotBlock:
    """Draw the size of the effects as bars, sorted, and beside them the density of each method's heatmaps.

    Methods that explain a network of their own, such as prototypes, stand beside the effects on that one.
    """
    lines = [
        group[start : start + _METHODS]
        for group in same_effects(comparison)
        for start in range(0, len(group), _METHODS)
    ]
    orders = [_order(comparison.results[line[0]]) for line in lines]
    colours = method_colours(comparison.methods)
    with drawing(sum(0.75 + 0.19 * len(order) for order in orders)) as figure:
        grid = figure.subplots(
            len(lines), 1 + _METHODS, squeeze=False, height_ratios=[2 + len(order) for order in orders]
        )
        for panels, line, order in zip(grid, lines, orders, strict=True):
            first = comparison.results[line[0]]
            _draw_bars(panels[0], first, "effect_size", order, _GRAY)
            panels[0].set_title(f"effect on the\n{first.about.settings['scale']}", fontsize=_SMALL)
            label_rows(panels[0], [region_names(first)[place] for place in order])
            for axes, place in zip(panels[1:], line, strict=False):
                result = comparison.results[place]
                _draw_bars(axes, result, "density", order, colours[place])
                axes.axvline(1, color=INK, linewidth=0.8, linestyle="--")
                axes.set_yticks([])
                axes.set_ylim(panels[0].get_ylim())
                name = textwrap.shorten(comparison.methods[place], _TITLE, placeholder="…")
                axes.set_title(f"{name}\n{number(result.scores['agreement'].value)}", fontsize=_SMALL)
            for axes in panels[1 + len(line) :]:
                axes.set_axis_off()
        svg = to_svg(figure, "effects")
    of = f" of {comparison.classifier}" if comparison.classifier else ""
    told = "; ".join(_alt(*pair) for pair in zip(comparison.methods, comparison.results, strict=True))
    return PlotBlock(
        svg,
        f"Bars of the size of the effect and of the density of each method, by region{of}. {told}.",
        f"Regions{of}, largest effect first: size of the effect (gray) and density of each method's heatmap, "
        "means over images with 95 % intervals; long intervals are cut. A map follows the prediction if its "
        "bars shrink like the gray ones. Below each method: its agreement. Dashed: density of the whole "
        f"image. The open bar is the background. Of many parts, the {_MOST_PARTS} of largest effect are "
        "shown.",
    )


def region_intervals(result: StatisticResult, column: str) -> Float64[ndarray, "regions 3"]:
    """Return mean, low and high end of a number of each region; None, the JSON form of nan, becomes nan."""
    return np.array([one[column] for one in result.details["regions"]], dtype=np.float64).reshape(-1, 3)


def region_names(result: StatisticResult) -> list[str]:
    """Return the names of the regions, in the order of `region_intervals`."""
    return [one["region"] for one in result.details["regions"]]


def by_effect(result: StatisticResult) -> list[int]:
    """Sort the regions by the size of their effect, the largest first; all parts together are left out."""
    sizes = np.nan_to_num(region_intervals(result, "effect_size")[:, 0], nan=-1)
    names = region_names(result)
    return [place for place in np.argsort(-sizes, kind="stable").tolist() if names[place] != ALL_PARTS]


def same_effects(comparison: MethodComparison) -> list[list[int]]:
    """Group the places of methods with equal effects, which explain the same network."""
    groups: dict[str, list[int]] = {}
    for place, result in enumerate(comparison.results):
        groups.setdefault(repr(region_intervals(result, "effect").tolist()), []).append(place)
    return list(groups.values())


def _order(result: StatisticResult) -> list[int]:
    """Choose the shown regions: the parts of largest effect, and the background."""
    names, order = region_names(result), by_effect(result)
    parts = [place for place in order if names[place] != BACKGROUND_REGION][:_MOST_PARTS]
    return [place for place in order if names[place] == BACKGROUND_REGION or place in parts]


def _draw_bars(axes: Any, result: StatisticResult, column: str, order: list[int], colour: str) -> None:
    """Draw the mean of each region with its interval; a nan leaves a gap."""
    means, names = region_intervals(result, column)[order], region_names(result)
    places = np.arange(len(order))
    faces = ["none" if names[place] == BACKGROUND_REGION else colour for place in order]
    axes.barh(places, means[:, 0], 0.7, color=faces, edgecolor=colour, linewidth=1.2)
    ends = np.nan_to_num(np.stack([means[:, 0] - means[:, 1], means[:, 2] - means[:, 0]])).clip(min=0)
    axes.errorbar(means[:, 0], places, xerr=ends, fmt="none", ecolor=INK, elinewidth=0.8, alpha=0.6)
    # A long interval of one region must not squeeze the bars of the others.
    axes.set_xlim(0, 1.35 * float(np.nanmax([*means[:, 0], 0])) or 1)
    axes.tick_params(labelsize=_SMALL)
    axes.grid(axis="x", color=INK, alpha=0.15, linewidth=0.6)


def _alt(method: str, result: StatisticResult) -> str:
    order, names = by_effect(result), region_names(result)
    densities = np.nan_to_num(region_intervals(result, "density")[order, 0], nan=-1)
    return f"{method}: largest effect {names[order[0]]}, densest {names[order[int(densities.argmax())]]}"
