"""Section of a report on whether explanations point at the regions on which predictions depend."""

from collections.abc import Sequence

import numpy as np

from candlelight.evaluation.coverage.explained_networks import chance_notes, group_by_network, join_names
from candlelight.evaluation.coverage.measure_regions import ALL_PARTS
from candlelight.evaluation.coverage.method_comparisons import MethodComparison, make_comparison
from candlelight.evaluation.report.blocks import Block, Section, TableBlock, TextBlock, note
from candlelight.evaluation.report.causal_check_plot import (
    by_effect,
    effect_plot,
    region_intervals,
    region_names,
    same_effects,
)
from candlelight.evaluation.report.tables import number, scores_table, settings_table, unbroken, with_interval
from candlelight.evaluation.results.mean_intervals import Score
from candlelight.evaluation.results.notes import notes_of
from candlelight.evaluation.results.result import StatisticResult, model_name
from candlelight.loaders.views import BACKGROUND_REGION

NEEDS = ("regions", "scale")
READING = (
    TextBlock(
        "Each image was rendered again with one region changed: a part in another colour, or another "
        "background. The effect of a region is the change of the prediction; the density of a heatmap in a "
        "region is its mean there, relative to the whole image. Agreement is the rank correlation of the two "
        "over the regions of an image; a hit is an image whose densest region has the largest effect. "
        "figure_ground is the share of images in which the denser one of object and background has the "
        "larger effect; the part of the largest effect stands for the object."
    ),
    TextBlock(
        "Explanations state an effect in several ways, and each has a score of its own. agreement takes the "
        "density; mass_agreement the sum over the region, by which additive explanations add up to the "
        "change of the prediction; signed_agreement and signed_mass_agreement compare mean and sum with the "
        "effect and its sign, for maps with negative values, which speak against the prediction.",
        term="Conventions",
    ),
    TextBlock(
        "↑ Higher is better. Agreement ranges from -1 to 1; a map that knows nothing has 0. The hit rate of "
        "such a map depends on the sizes of the regions: hits_above_chance subtracts that of the same map, "
        "moved to other places. Its figure_ground is 0.5, less if a few points hold most of the map. The sum "
        "over a region grows with its area, and so do many effects: compare mass_agreement with that of "
        "noise. The controls object, the mask of the whole object, and part areas, in which larger parts are "
        "more relevant, know nothing of the network: a method has to exceed them to tell more than these.",
        term="How to read",
    ),
    TextBlock(
        "the place within a region; the size of the effects, of which agreement uses the ranks alone; and "
        "changes that a rendered counterfactual does not make. A new colour that resembles the old one has a "
        "small effect, whatever the classifier looks at.",
        term="Blind to",
    ),
)


def causal_check_section(results: Sequence[StatisticResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of methods on the same images, and the regions for each classifier."""
    caption = "Scores of each method, with 95 % intervals over groups of images"
    blocks: list[Block] = [scores_table(caption, results), *map(note, _notes(results))]
    blocks += [*_networks(results), *_ceilings(results)]
    comparisons = split_classifiers(results)
    for comparison in comparisons:
        if len(comparisons) > 1:
            blocks.append(TextBlock("", comparison.classifier or ", ".join(comparison.methods)))
        blocks += [effect_plot(comparison), _object(comparison), _regions(comparison)]
        blocks.append(_shares(comparison))
    return Section("causal-check", "Causal check", (*blocks, *pictures, settings_table(results)))


def split_classifiers(results: Sequence[StatisticResult]) -> list[MethodComparison]:
    """Group results by the classifier that the methods explain.

    Results tell the hash of its weights. A method with a network of its own, such as prototypes, has none;
    it belongs to the methods whose names begin with the same words.
    """
    known = {_words(result): _sha256(result) for result in results if _sha256(result)}
    groups: dict[str, list[StatisticResult]] = {}
    for result in results:
        groups.setdefault(_sha256(result) or known.get(_words(result), ""), []).append(result)
    return [make_comparison(some) for some in groups.values()]


def _sha256(result: StatisticResult) -> str:
    return str(result.about.model.get("classifier_sha256", ""))


def _words(result: StatisticResult) -> str:
    return model_name(result).rpartition(" ")[0]


def _notes(results: Sequence[StatisticResult]) -> list[str]:
    """Tell which heatmaps and images are missing, and which methods are not better than chance."""
    notes = [*notes_of(results)]
    for result in results:
        if result.failed:
            count = f"{len(result.failed)} heatmaps are not finite or constant"
            notes.append(f"{model_name(result)}: {count}; their agreement is 0, and they hit nothing.")
    scores = {model_name(result): result.scores["agreement"] for result in results}
    networks = {model_name(result): result.details.get("network") for result in results}
    notes += [f"{one}." for one in chance_notes(networks)]
    if unsure := [name for name, score in scores.items() if not score.low > 0]:
        notes.append(f"No agreement is shown, the interval is not above 0: {', '.join(unsure)}.")
    return notes


def _networks(results: Sequence[StatisticResult]) -> list[TableBlock]:
    """Tabulate the accuracy of each network of known accuracy."""
    networks = {model_name(result): result.details.get("network") for result in results}
    rows = tuple(
        (join_names(names), with_interval(_score(one["accuracy"])), number(one["chance"]))
        for one, names in group_by_network(networks)
    )
    caption = (
        "Networks that the methods explain: accuracy on these images, and that of the most frequent class"
    )
    return [TableBlock(caption, ("methods", "accuracy", "chance level"), rows)] if rows else []


def _score(numbers: Sequence[float | None]) -> Score:
    value, low, high = (np.nan if one is None else one for one in numbers)
    return Score(value, low, high)


def _ceilings(results: Sequence[StatisticResult]) -> list[TableBlock]:
    """Tabulate scores beside those of heatmaps of the same resolution that know the effects."""
    known = [result for result in results if "ceiling" in result.details]
    names = list(dict.fromkeys(name for result in known for name in result.scores))
    rows = []
    for result in known:
        ceiling = result.details["ceiling"]
        cells = [
            unbroken(f"{number(result.scores[name].value)} of {number(ceiling[name])}")
            if name in ceiling
            else ""
            for name in names
        ]
        points = unbroken("{} x {}".format(*result.details["resolution"]))
        rows.append((model_name(result), points, *cells))
    caption = (
        "Scores and their ceilings: the ceiling is the score of heatmaps that know the effects, by the same "
        "convention, and have as many points as those of the method"
    )
    return [TableBlock(caption, ("method", "points", *names), tuple(rows))] if rows else []


def _object(comparison: MethodComparison) -> TableBlock:
    """Tabulate the background against the object, which is all parts together."""
    rows = []
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        places = [region_names(result).index(name) for name in (BACKGROUND_REGION, ALL_PARTS)]
        sizes, densities = (region_intervals(result, name)[places, 0] for name in ("effect_size", "density"))
        shares = region_intervals(result, "share")[places, 0]
        rows.append((method, *map(number, (*sizes, *densities)), *map(_percent, shares)))
    head = ("method", "effect: background", "object", "density: background", "object")
    return TableBlock(
        "Background against object: size of the effect, which for the object is that of its most important "
        "part, density, and share of the marked points",
        (*head, "points: background", "object"),
        tuple(rows),
    )


def _regions(comparison: MethodComparison) -> TableBlock:
    """Tabulate effects and densities of the regions, the largest effect first."""
    head = ["region", "images"]
    columns: list[list[str]] = []
    for group in same_effects(comparison):
        of = f", network of {', '.join(comparison.methods[place] for place in group)}" if columns else ""
        head += [f"effect{of}", f"size of the effect{of}"]
        for column in ("effect", "effect_size"):
            means = region_intervals(comparison.results[group[0]], column).tolist()
            columns.append([with_interval(Score(*mean)) for mean in means])
    for method, result in zip(comparison.methods, comparison.results, strict=True):
        head.append(f"density, {method}")
        columns.append([number(mean) for mean in region_intervals(result, "density")[:, 0].tolist()])
    caption = f"Effects on the {comparison.results[0].about.settings['scale']}, and densities, of regions"
    return _table(caption, head, comparison, columns)


def _shares(comparison: MethodComparison) -> TableBlock:
    """Tabulate the shares of the marked points in each region."""
    columns = [
        [_percent(mean) for mean in region_intervals(result, "share")[:, 0].tolist()]
        for result in comparison.results
    ]
    head = ["region", "images", *comparison.methods]
    return _table("Share of the marked points in each region", head, comparison, columns)


def _table(
    caption: str,
    head: Sequence[str],
    comparison: MethodComparison,
    columns: Sequence[Sequence[str]],
) -> TableBlock:
    """Make a table of regions, sorted by the size of their effects on the first network."""
    first = comparison.results[0]
    regions = first.details["regions"]
    rows = tuple(
        (regions[place]["region"], str(regions[place]["images"]), *(column[place] for column in columns))
        for place in by_effect(first)
    )
    return TableBlock(caption, tuple(head), rows, folded=True)


def _percent(share: float) -> str:
    return number(None) if np.isnan(share) else unbroken(f"{100 * share:.3g} %")
