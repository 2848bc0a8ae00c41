"""Section of a report on explanations against rendered interventions."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.coverage.coverage_pictures import causal_check_pictures
from candlelight.evaluation.coverage.coverage_report import (
    cross_table,
    join_names,
    method_colours,
    network_notes,
    networks_of,
    score_lines,
)
from candlelight.evaluation.coverage.coverage_tables import MethodComparison, make_comparison
from candlelight.evaluation.coverage.score_causal_check import ALL_PARTS
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    scores_table,
    settings_table,
    unbroken,
    with_interval,
)
from candlelight.evaluation.report.drawing import INK, drawing, label_rows, to_svg
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.result import StatisticResult, model_name, notes_of
from candlelight.evaluation.views import BACKGROUND_REGION

_Results = Sequence[StatisticResult]
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
        for group in _same_effects(comparison)
        for start in range(0, len(group), _METHODS)
    ]
    orders = [_shown_regions(comparison.results[line[0]]) for line in lines]
    colours = dict(zip(comparison.results, method_colours(list(comparison.results)), strict=True))
    with drawing(sum(0.75 + 0.19 * len(order) for order in orders)) as figure:
        grid = figure.subplots(
            len(lines), 1 + _METHODS, squeeze=False, height_ratios=[2 + len(order) for order in orders]
        )
        for panels, line, order in zip(grid, lines, orders, strict=True):
            first = comparison.results[line[0]]
            _draw_bars(panels[0], first, "effect_size", order, _GRAY)
            panels[0].set_title(f"effect on the\n{first.about.settings['scale']}", fontsize=_SMALL)
            label_rows(panels[0], [first.details["regions"][place]["region"] for place in order])
            for axes, method in zip(panels[1:], line, strict=False):
                result = comparison.results[method]
                _draw_bars(axes, result, "density", order, colours[method])
                axes.axvline(1, color=INK, linewidth=0.8, linestyle="--")
                axes.set_yticks([])
                axes.set_ylim(panels[0].get_ylim())
                name = _title(method)
                axes.set_title(f"{name}\n{number(result.scores['agreement'].value)}", fontsize=_SMALL)
            for axes in panels[1 + len(line) :]:
                axes.set_axis_off()
        svg = to_svg(figure, "effects")
    of = f" of {comparison.classifier}" if comparison.classifier else ""
    return PlotBlock(
        svg,
        f"Bars of the size of the effect and of the density of each method, by region{of}.",
        f"Regions{of}, largest effect first: size of the effect (gray) and density of each method's heatmap, "
        "means over images with 95 % intervals; long intervals are cut. A map follows the prediction if its "
        "bars shrink like the gray ones. Below each method: its agreement. Dashed: density of the whole "
        f"image. The open bar is the background. Of many parts, the {_MOST_PARTS} of largest effect are "
        "shown.",
    )


def _title(method: str) -> str:
    """Cut a long name after a word; a single long word, such as a class of captum, anywhere."""
    name = method.removeprefix("captum:")
    short = textwrap.shorten(name, _TITLE, placeholder="…")
    return f"{name[: _TITLE - 1]}…" if short == "…" else short


def _draw_bars(axes: Any, result: StatisticResult, column: str, order: list[int], colour: str) -> None:
    """Draw the mean of each region with its interval; a nan leaves a gap."""
    means, regions = _numbers(result, column)[order], result.details["regions"]
    places = np.arange(len(order))
    faces = ["none" if regions[place]["region"] == BACKGROUND_REGION else colour for place in order]
    axes.barh(places, means[:, 0], 0.7, color=faces, edgecolor=colour, linewidth=1.2)
    ends = np.nan_to_num(np.stack([means[:, 0] - means[:, 1], means[:, 2] - means[:, 0]])).clip(min=0)
    axes.errorbar(means[:, 0], places, xerr=ends, fmt="none", ecolor=INK, elinewidth=0.8, alpha=0.6)
    # A long interval of one region must not squeeze the bars of the others.
    axes.set_xlim(0, 1.35 * float(np.nanmax([*means[:, 0], 0])) or 1)
    axes.tick_params(labelsize=_SMALL)


def _numbers(result: StatisticResult, column: str) -> Float64[ndarray, "regions 3"]:
    """Return mean, low and high end of a number of each region; None, the JSON form of nan, becomes nan."""
    return np.array([one[column] for one in result.details["regions"]], dtype=np.float64).reshape(-1, 3)


def _by_effect(result: StatisticResult) -> list[int]:
    """Sort the regions by the size of their effect, the largest first; all parts together are the last."""
    sizes = np.nan_to_num(_numbers(result, "effect_size")[:, 0], nan=-1)
    order = np.argsort(-sizes, kind="stable").tolist()
    return sorted(order, key=lambda place: result.details["regions"][place]["region"] == ALL_PARTS)


def _shown_regions(result: StatisticResult) -> list[int]:
    """Choose the regions of the plot: the parts of largest effect, and the background."""
    names = [one["region"] for one in result.details["regions"]]
    order = [place for place in _by_effect(result) if names[place] != ALL_PARTS]
    parts = [place for place in order if names[place] != BACKGROUND_REGION][:_MOST_PARTS]
    return [place for place in order if names[place] == BACKGROUND_REGION or place in parts]


def _same_effects(comparison: MethodComparison) -> list[list[str]]:
    """Group methods with equal effects, which explain the same network."""
    groups: dict[str, list[str]] = {}
    for method, result in comparison.results.items():
        groups.setdefault(repr(_numbers(result, "effect").tolist()), []).append(method)
    return list(groups.values())


def causal_check_section(results: _Results, pictures: Sequence[Block]) -> Section:
    """Report the scores of methods on the same images, and the regions for each classifier."""
    caption = "Scores of each method, with 95 % intervals over groups of images"
    blocks: list[Block] = [scores_table(caption, results), *map(note, _notes(results))]
    blocks += [*_network_table(results), *_oracle_table(results)]
    comparisons = split_classifiers(results)
    for comparison in comparisons:
        if len(comparisons) > 1:
            blocks.append(TextBlock("", comparison.classifier or ", ".join(comparison.results)))
        blocks += [effect_plot(comparison), *_region_table(comparison)]
    return Section("causal-check", "Causal check", (*blocks, *pictures, settings_table(results)))


def split_classifiers(results: _Results) -> list[MethodComparison]:
    """Group results by the classifier that the methods explain.

    Results tell the hash of its weights. A method with a network of its own, such as prototypes, has none;
    it belongs to the methods whose names begin with the same words.
    """
    of = [
        (result.about.model.get("classifier_sha256"), model_name(result).rpartition(" ")[0])
        for result in results
    ]
    known = {words: weights for weights, words in of if weights}
    groups: dict[str, list[StatisticResult]] = {}
    for result, (weights, words) in zip(results, of, strict=True):
        groups.setdefault(weights or known.get(words, ""), []).append(result)
    return [make_comparison(some) for some in groups.values()]


def _notes(results: _Results) -> list[str]:
    """Tell which heatmaps and images are missing, and which methods are not better than chance."""
    notes = [*notes_of(results)]
    for result in results:
        if result.failed:
            count = f"{len(result.failed)} heatmaps are not finite or constant"
            notes.append(f"{model_name(result)}: {count}; their agreement is 0, and they hit nothing.")
    notes += [f"{one}." for one in network_notes(results)]
    if unsure := [model_name(one) for one in results if not one.scores["agreement"].low > 0]:
        notes.append(f"No agreement is shown, the interval is not above 0: {', '.join(unsure)}.")
    return notes


def _network_table(results: _Results) -> list[TableBlock]:
    """Tabulate the accuracy of each network of known accuracy."""
    cells = []
    for network, names in networks_of(results):
        value, low, high = (np.nan if one is None else one for one in network["accuracy"])
        methods = join_names(names)
        cells.append((methods, "accuracy", with_interval(Score(value, low, high))))
        cells.append((methods, "chance level", number(network["chance"])))
    caption = (
        "Networks that the methods explain: accuracy on these images, and that of the most frequent class"
    )
    return cross_table(caption, cells, corner="methods")


def _oracle_table(results: _Results) -> list[TableBlock]:
    """Tabulate the scores of heatmaps that know the effects, at the resolution of each method."""
    cells = []
    for result in results:
        if oracle := result.details.get("oracle"):
            points = unbroken("{} x {}".format(*result.details["resolution"]))
            cells.append((model_name(result), "points", points))
            cells += [(model_name(result), name, number(value)) for name, value in oracle.items()]
    caption = (
        "Scores of the oracle: heatmaps that know the effects, state them by the convention of the score, "
        "and have as many points as those of the method"
    )
    return cross_table(caption, cells)


def _region_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate the effects on each network, and densities and shares of each method, by region."""
    first = next(iter(comparison.results.values()))
    columns = {"images": [str(one["images"]) for one in first.details["regions"]]}
    for group in _same_effects(comparison):
        of = f", network of {', '.join(group)}" if len(columns) > 1 else ""
        for title, column in (("effect", "effect"), ("size of the effect", "effect_size")):
            means = _numbers(comparison.results[group[0]], column).tolist()
            columns[title + of] = [with_interval(Score(*mean)) for mean in means]
    for method, result in comparison.results.items():
        pairs = zip(_numbers(result, "density")[:, 0], _numbers(result, "share")[:, 0], strict=True)
        columns[f"density, {method}"] = [
            number(density) + ("" if np.isnan(share) else unbroken(f" ({100 * share:.3g} %)"))
            for density, share in pairs
        ]
    cells = (
        (first.details["regions"][place]["region"], title, column[place])
        for place in _by_effect(first)
        for title, column in columns.items()
    )
    caption = (
        f"Effects on the {first.about.settings['scale']}, densities of heatmaps, and in brackets shares of "
        f"the marked points, by region; {ALL_PARTS} have the effect of the most important one"
    )
    return cross_table(caption, cells, corner="region", folded=len(first.details["regions"]) > _MOST_PARTS)


def causal_check_lines(results: _Results) -> list[str]:
    """Write the scores of the methods of each classifier, their differences, and notes on the networks."""
    lines: list[str] = []
    for comparison in split_classifiers(results):
        own = list(comparison.results.values())
        lines += [*score_lines(own), *(f"note: {text}" for text in network_notes(own))]
    return lines


CAUSAL_CHECK_PAGE = Page(
    section=causal_check_section,
    reading=(
        TextBlock(
            "Each image was rendered again with one region changed: a part in another colour, or another "
            "background. The effect of a region is the change of the prediction; the density of a heatmap in "
            "a region is its mean there, relative to the whole image. Agreement is the rank correlation of "
            "the two over the regions of an image, mass_agreement that with the sum over the region; the "
            "signed scores compare mean and sum with the effect and its sign. A hit is an image whose "
            "densest region has the largest effect. figure_ground is the share of images in which the denser "
            "one of object, for which its part of the largest effect stands, and background has the larger "
            "effect."
        ),
        TextBlock(
            "↑ Higher is better. Agreement ranges from -1 to 1; a map that knows nothing has 0. The hit rate "
            "of such a map depends on the sizes of the regions: hits_above_chance subtracts that of the same "
            "map, moved to other places. Its figure_ground is 0.5, or less. Sums grow with the area, as many "
            "effects do: compare mass_agreement with that of noise. The controls object and part areas know "
            "nothing of the network: a method has to exceed them to tell more than these.",
            term="How to read",
        ),
        TextBlock(
            "the place within a region; the size of the effects, of which agreement uses the ranks alone; "
            "and changes that a rendered counterfactual does not make. A new colour that resembles the old "
            "one has a small effect, whatever the classifier looks at.",
            term="Blind to",
        ),
    ),
    needs=("regions", "scale"),
    pictures=causal_check_pictures,
    lines=causal_check_lines,
)
