"""Section of a report on explanations against rendered interventions."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import CausalCheckOptions
from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.coverage.causal_effects import causal_effects, region_density
from candlelight.evaluation.coverage.coverage_pictures import heat_pixels, page_pixels
from candlelight.evaluation.coverage.coverage_report import method_colours, network_notes, score_lines
from candlelight.evaluation.coverage.measure_regions import (
    ALL_PARTS,
    RegionMasks,
    changed_images,
    classify_changes,
    merged_heatmaps,
    shown_regions,
)
from candlelight.evaluation.coverage.method_comparison import (
    MethodComparison,
    first_users,
    group_by_network,
    join_names,
    make_comparison,
)
from candlelight.evaluation.coverage.score_causal_check import METRIC, Checked
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import (
    Block,
    Picture,
    PicturesBlock,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    class_name,
    note,
    number,
    png_picture,
    scores_table,
    settings_table,
    split_method_names,
    unbroken,
    with_interval,
)
from candlelight.evaluation.report.drawing import INK, drawing, label_rows, to_svg
from candlelight.evaluation.report.tiles import evenly_spaced_rows, outline, scale_mask_for_page
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.intervals import Score
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.result import StatisticResult, model_name, notes_of
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages
from candlelight.evaluation.views.image_tensors import decode, encode, resize_images
from candlelight.loaders.looking.layer_pixels import Pixels

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


_IMAGES = 3
_BATCH = 16
_HOW = (
    "After each image comes its counterfactual that changes the prediction most; double lines enclose the "
    "changed region. The colours of a heatmap range from dark blue, its minimum, to yellow, its maximum. A "
    "map that follows the prediction is bright inside the lines: its density there has rank 1."
)


class _Strongest(NamedTuple):
    """The counterfactual that changes a prediction most, and a caption for it."""

    region: str
    image: Float[Tensor, "3 height width"]
    caption: str


class _Shown(NamedTuple):
    """An image of the page: its id, itself with its counterfactuals, and all that is made of it."""

    name: str
    item: CounterfactualImages
    masks: RegionMasks
    options: CausalCheckOptions
    linear: Float[Tensor, "1 3 height width"]
    pixels: Pixels


def causal_check_pictures(
    run: Run[CausalCheckOptions], results: Mapping[str, StatisticResult]
) -> dict[str, list[Block]]:
    """Show a few images with the counterfactual that changes the prediction most, and all heatmaps.

    Methods that explain different networks have rows of pictures of their own.

    Args:
        run: a scored run of `CAUSAL_CHECK`; methods and classifiers run on the shown images again.
        results: its results.

    Returns:
        Blocks for the section of each size of the images: for each classifier a text, and blocks of pictures.

    Raises:
        InputError: a method or a classifier raised an exception.
    """
    del results
    by_size: dict[Any, list[Block]] = {}
    for one in run.kept["checked"]:
        by_size.setdefault(one.run.options.size, []).extend(_pictures_of(one))
    keys = (METRIC, *(f"{METRIC}-{number}" for number in range(2, len(by_size) + 1)))
    return dict(zip(keys, by_size.values(), strict=True))


def _pictures_of(checked: Checked) -> list[Block]:
    methods = checked.run.models
    common, short = split_method_names(list(methods))
    names = dict(zip(methods, short, strict=True))
    users: dict[str, list[str]] = {}
    for method, user in first_users(checked.networks).items():
        users.setdefault(user, []).append(method)
    networks = identify_models({user: checked.networks[user] for user in users}, [], "srgb", None)
    blocks: list[Block] = [TextBlock(_HOW, f"Heatmaps on {common}" if common else "", quiet=True)]
    for row in evenly_spaced_rows(len(checked.run.data), _IMAGES):
        shown = _read(checked.run, row)
        for user, explained in users.items():
            found = _strongest(networks[user], shown, checked.classes)
            pictures = [png_picture(shown.pixels, f"Image {shown.name}.", "image")]
            pictures += [_counterfactual(found, shown)] if found else []
            pictures += [_heatmap(names[method], methods[method], shown, found) for method in explained]
            of = f", network of {', '.join(names[one] for one in explained)}" if len(users) > 1 else ""
            blocks.append(PicturesBlock(tuple(pictures), f"{shown.name}{of}"))
    return blocks


def _read(run: Run[CausalCheckOptions], row: int) -> _Shown:
    item, size = on_device(run.data[row], run.device), run.options.size
    linear = resize_images(decode(item.image)[None], size)
    masks = shown_regions(item, size)
    return _Shown(run.data.ids[row], item, masks, run.options, linear, page_pixels(encode(linear[0])))


def _strongest(classifier: NamedModel, shown: _Shown, classes: Sequence[str] | None) -> _Strongest | None:
    """Find the counterfactual of largest effect; None if no region has one with a finite effect."""
    changed = changed_images(shown.item, shown.masks, shown.options.pixels)
    logits = classify_changes(classifier, shown.item, changed, shown.options.size, _BATCH)
    effects = causal_effects(logits[:1], logits[None, 1:], shown.options.scale)[0].abs()
    if not bool(effects.isfinite().any()):
        return None
    place = int(effects.nan_to_num(-1).argmax())
    region = [region for region, images in changed.items() for _ in images][place]
    predicted = int(logits[0].argmax())
    before, after = logits.softmax(1)[[0, place + 1], predicted].tolist()
    change = unbroken(f"{number(before)} to {number(after)}")
    caption = f"{region} changed: {class_name(classes, predicted)} {change}"
    return _Strongest(region, torch.cat(list(changed.values()))[place], caption)


def _counterfactual(found: _Strongest, shown: _Shown) -> Picture:
    drawn = page_pixels(encode(resize_images(decode(found.image)[None], shown.options.size)[0]))
    outline(drawn, scale_mask_for_page(shown.masks[found.region].cpu()))
    alt = f"Counterfactual of {shown.name}, with the border of its changed region: {found.region}."
    return png_picture(drawn, alt, found.caption)


def _heatmap(name: str, method: NamedModel, shown: _Shown, found: _Strongest | None) -> Picture:
    """Explain an image, and draw the heatmap with the border of the changed region."""
    explained = merged_heatmaps(method, [shown.name], shown.linear, [shown.masks], shown.options.k)
    heatmap = explained.resized(*shown.linear.shape[2:]).heatmap
    drawn = heat_pixels(heatmap[0], shown.pixels)
    caption = name
    if found:
        outline(drawn, scale_mask_for_page(shown.masks[found.region].cpu()))
        densities = region_density(heatmap, torch.stack(list(shown.masks.values()))[None])[0]
        density = densities[list(shown.masks).index(found.region)]
        rank = unbroken(f"rank {1 + int((densities > density).sum())} of {len(densities)}")
        dead = bool(density.isnan())
        caption = f"{name}: failed" if dead else f"{name}: density {number(float(density))}, {rank}"
    alt = f"Heatmap of {name} on {shown.name}, with the border of the changed region."
    return png_picture(drawn, alt, caption)


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
    blocks += [*_networks(results), *_oracles(results)]
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
    notes += [f"{one}." for one in network_notes(results)]
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


def _oracles(results: Sequence[StatisticResult]) -> list[TableBlock]:
    """Tabulate the scores of heatmaps that know the effects, at the resolution of each method."""
    known = [result for result in results if "oracle" in result.details]
    names = list(dict.fromkeys(name for result in known for name in result.scores))
    rows = []
    for result in known:
        oracle = result.details["oracle"]
        points = unbroken("{} x {}".format(*result.details["resolution"]))
        cells = (number(oracle[name]) if name in oracle else "" for name in names)
        rows.append((model_name(result), points, *cells))
    caption = (
        "Scores of the oracle: heatmaps that know the effects, state them by the convention of the score, "
        "and have as many points as those of the method"
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


def causal_check_lines(results: Sequence[StatisticResult]) -> list[str]:
    """Write the scores of the methods of each classifier, their differences, and notes on the networks."""
    lines: list[str] = []
    for comparison in split_classifiers(results):
        lines += score_lines(comparison.results)
        lines += [f"note: {note}" for note in network_notes(comparison.results)]
    return lines


CAUSAL_CHECK_PAGE = Page(
    section=causal_check_section,
    reading=READING,
    needs=NEEDS,
    pictures=causal_check_pictures,
    lines=causal_check_lines,
)
