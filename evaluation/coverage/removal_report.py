"""Page of explanations that are scored by images without parts."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.coverage.coverage_pictures import heat_pixels
from candlelight.evaluation.coverage.coverage_report import cross_table, method_colours, network_notes
from candlelight.evaluation.coverage.score_removal import (
    BETTER,
    GAMES,
    USUAL,
    KnownImage,
    explain_targets,
    open_images,
)
from candlelight.evaluation.report.blocks import (
    Block,
    PicturesBlock,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    png_picture,
    scores_table,
    settings_table,
    split_method_names,
)
from candlelight.evaluation.report.drawing import (
    COLOURS,
    INK,
    draw_bars,
    drawing,
    label_rows,
    short_name,
    to_svg,
)
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    outline,
    scale_for_page,
    scale_mask_for_page,
)
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.intervals import LEAST_GROUPS, mean_interval
from candlelight.evaluation.run.result import (
    MeanResult,
    Result,
    model_name,
    notes_of,
    score_grid,
)
from candlelight.evaluation.views.image_tensors import encode

_IMAGES = 4  # in pictures
_PANELS = 3  # beside each other
_TITLE = 20  # characters in the width of a panel
_NEEDING_CLASSES = "controlled", "target_sensitivity"
_VERDICT = "single_deletion_above_moved"
_TABLES = {
    "FunnyBirds: three groups, and their mean": (
        "explainability", "completeness", "single_deletion", "target_sensitivity", "controlled",
        "preservation", "deletion", "distractibility",
    ),
    "Ranks of parts, and the same less the rank score of areas, and of the same map at other places": (
        "single_deletion", "single_deletion_above_areas", "single_deletion_above_moved", "shapley",
        "shapley_above_areas", "shapley_above_moved", "recolouring", "recolouring_above_areas",
        "recolouring_above_moved",
    ),
    "Sums of effects, and small changes of the light": ("infidelity", "max_sensitivity"),
    "Areas under curves of rendered parts, beside gray and blurred pixels": tuple(
        f"{game}_{kind}_area" for kind in ("deletion", "insertion") for game in GAMES
    ),
    "Usual scores, which need no counterfactuals": USUAL,
}  # fmt: skip
_MAIN = (
    *("explainability", "completeness", "single_deletion", "single_deletion_above_moved"),
    *("target_sensitivity", "shapley_above_moved", "infidelity"),
)


def _only(results: Sequence[MeanResult], names: Collection[str]) -> list[MeanResult]:
    """Keep some columns of results, of those that any result defines."""
    known = [name for name in names if name not in _undefined(results)]
    return [replace(one, columns={name: one.columns[name] for name in known}) for one in results]


def _undefined(results: Sequence[MeanResult]) -> list[str]:
    """Name the columns that are undefined for all images and methods."""
    return [name for name in BETTER if all(np.isnan(one.columns[name]).all() for one in results)]


def _methods(results: Sequence[MeanResult]) -> list[MeanResult]:
    """Leave out the controls."""
    return [one for one in results if one.about.model["source"] != "control"]


def removal_section(results: Sequence[MeanResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of methods in four tables, what the classifiers depend on, and curves."""
    blocks: list[Block] = [
        scores_table(f"{caption}, with 95 % intervals", _only(results, names))
        for caption, names in _TABLES.items()
        if not {*names} <= {*_undefined(results)}
    ]
    blocks += [note(text) for text in (*notes_of(results), *_notes(results))]
    for group in _by_classifier(results):
        blocks += [*_network_tables(group), effects_plot(group), part_curves_plot(group)]
    return Section("removal", "Removed parts", (*blocks, *pictures, settings_table(results)))


def _by_classifier(results: Sequence[MeanResult]) -> list[list[MeanResult]]:
    groups: dict[Any, list[MeanResult]] = {}
    for one in results:
        same = one.details["network"]["of"], one.about.model.get("classifier_sha256")
        groups.setdefault(same, []).append(one)
    return list(groups.values())


def _notes(results: Sequence[MeanResult]) -> list[str]:
    methods = _methods(results) or [*results]
    notes = network_notes(methods)
    for one in results:
        if one.failed:
            count = f"{len(one.failed)} of {len(one.ids)} maps are missing or not finite"
            notes.append(f"{model_name(one)}: {count}, and count as the worst.")
    undefined = _undefined(results)
    others = [name for name in undefined if name not in _NEEDING_CLASSES and "_above_" not in name]
    if others:
        notes.append(
            f"Undefined for all images, without their counterfactuals (docs/removal.md): {', '.join(others)}."
        )
    if missing := [name for name in _NEEDING_CLASSES if name in undefined]:
        notes.append(
            f"Undefined for all images: {', '.join(missing)}. Explainability is the mean of the rest. These "
            "scores need images of several classes that share parts."
        )
    pairs = [(model_name(one), _difference(one)) for one in methods]
    apart = [name for name, score in pairs if score.low > 0 or score.high < 0]
    if apart and len(set(results[0].groups)) >= LEAST_GROUPS:
        notes.append(f"single_deletion and recolouring differ (95 %): {', '.join(apart)}.")
    return notes


def _difference(result: MeanResult) -> Any:
    one, other = (np.array(result.columns[name], float) for name in ("single_deletion", "recolouring"))
    return mean_interval((one - other).tolist(), result.groups)


def _network_tables(results: Sequence[MeanResult]) -> list[TableBlock]:
    """Tabulate accuracy by number of absent parts, and what the effects of a classifier are made of."""
    details = results[0].details
    name = details["network"]["of"]
    accuracy = [(f"{count} absent", number(value)) for count, value in details.get("accuracy_by_absent", ())]
    accuracy += [("other scenes", number(details.get("accuracy_in_other_scenes")))] if accuracy else []
    chance = details["network"].get("chance")
    accuracy += [("chance level", number(chance))] if chance is not None else []
    shares = {
        "background independence": details["background_independence"],
        "share of shadow and bounce": details["light"],
        "share of interactions": details["interaction"],
    }
    cells = [(name, key, number(value)) for key, value in shares.items()]
    rows = [(name, column, cell) for column, cell in accuracy]
    return [
        *cross_table(
            "Accuracy of the explained classifier by number of absent parts", rows, corner="classifier"
        ),
        *cross_table(
            "Effects of the classifier: share of other objects without effect, and shares of the effects of "
            "parts that lie outside their pixels, and that pairs of parts have beyond the sum of both",
            cells,
            corner="classifier",
        ),
        *_slot_table(results),
    ]


def _slot_table(results: Sequence[MeanResult]) -> list[TableBlock]:
    columns = {"rendered": "removed", "gray": "gray", "blurred": "blurred", "shapley": "Shapley value"}
    columns |= {"recolouring": "recoloured", "within": "its pixels alone"}
    cells = [
        (slot["slot"], title, number(slot[key]))
        for slot in results[0].details["slots"]
        for key, title in columns.items()
    ]
    caption = (
        "Mean drop of the logit by part: rendered without it, with its pixels gray or blurred, recoloured, "
        "and with the rendered pixels in its place while its shadow stays"
    )
    found = {(one, other): number(value) for one, other, value in results[0].details["interactions"]}
    slots = sorted({one for one, _ in found})
    pairs = [(one, other, found.get((one, other), "")) for one, other in itertools.product(slots, slots)]
    joint = (
        "Interaction of two parts: sum of the effects of taking away each alone, less that of taking away "
        "both; positive for parts that need each other, negative for parts that stand in for each other"
    )
    return [
        *cross_table(caption, cells, corner="part"),
        *cross_table(joint, pairs, corner="part", folded=True),
    ]


def effects_plot(results: Sequence[MeanResult]) -> PlotBlock:
    """Draw bars of the true effect of each part beside the effect that each method claims."""
    slots = [one["slot"] for one in results[0].details["slots"]]
    truth = np.array([one["effect"] for one in results[0].details["slots"]], float)
    claimed = {model_name(one): [slot["importance"] for slot in one.details["slots"]] for one in results}
    names = ["true effect", *claimed]
    panels = math.ceil(len(claimed) / _PANELS)
    colours = method_colours(list(claimed))
    with drawing(panels * (0.9 + 0.24 * len(slots))) as figure:
        grid = figure.subplots(panels, _PANELS, squeeze=False).flatten()
        for axes, (name, values), colour in zip(grid, claimed.items(), colours, strict=False):
            pair = np.array([truth, np.array(values, float)]).T
            draw_bars(axes, pair, ["true effect", "claimed"], colours=("#c4c8ce", colour))
            axes.get_legend().remove()
            axes.set_xlim(min(0.0, float(np.nanmin(pair, initial=0))), 1.05)
            axes.axvline(0, color=INK, linewidth=0.6)
            axes.set_title(_title(results, name), fontsize=9)
            label_rows(axes, slots)
            axes.tick_params(labelsize=9)
        for axes in grid[len(claimed) :]:
            axes.set_axis_off()
        svg = to_svg(figure, "removal effects")
    return PlotBlock(
        svg,
        f"Bars of true and claimed effects by part, for {len(names) - 1} methods.",
        "Parts: true effect on the logit (gray) and importance that each method claims (colour), as shares "
        "of the largest one of an image, means over images. A method is right where both bars are equally "
        "long.",
    )


def _title(results: Sequence[MeanResult], name: str) -> str:
    """Name a method in the plots of one classifier, without the classifier."""
    return short_name(name.removeprefix(f"{results[0].details['network']['of']} "), _TITLE)


def part_curves_plot(results: Sequence[MeanResult]) -> PlotBlock:
    """Draw the probability along each method's order of parts: rendered, gray and blurred."""
    panels = math.ceil(len(results) / _PANELS)
    with drawing(0.5 + 1.5 * panels) as figure:
        grid = figure.subplots(panels, _PANELS, squeeze=False, sharex=True, sharey=True).flatten()
        for axes, result in zip(grid, results, strict=False):
            for game, colour in zip(GAMES, COLOURS, strict=False):
                for kind, style in (("deletion", "-"), ("insertion", ":")):
                    curve = np.array(result.details["curves"][game][kind], float)
                    label = game if kind == "deletion" else None
                    axes.plot(range(len(curve)), curve, style, color=colour, label=label, linewidth=1.4)
            axes.set_title(_title(results, model_name(result)), fontsize=9)
            axes.set_ylim(0, 1.02)
            axes.tick_params(labelsize=9)
        for axes in grid[len(results) :]:
            axes.set_axis_off()
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(GAMES))
        svg = to_svg(figure, "removal curves")
    return PlotBlock(
        svg,
        f"Curves of the probability along the order of parts, for {len(results)} methods.",
        "Probability of the explained class while parts are taken away (lines) or put in (dotted), the "
        "most important first: rendered without them, or with their pixels gray or blurred. A good order "
        "lets lines fall, and dotted lines rise, early. The gap between the lines is the artefact of "
        "erased pixels, which only rendering shows.",
    )


_SHOWN = (
    "Each image, the image without the part of largest effect, with the drop of its logit, and the map of "
    "each method; double lines enclose that part. A map that follows the prediction is bright inside the "
    "lines."
)


def removal_pictures(run: Run[Any], results: Mapping[str, Result]) -> list[Block]:
    """Show images, the image without the part of largest effect, and the maps of all methods.

    Args:
        run: a scored run of `REMOVAL`; the methods run on the shown images again.
        results: the results by method.
    """
    blocks: list[Block] = [TextBlock(_SHOWN, quiet=True)]
    for own, known, _ in run.kept["removal"]:
        blocks += [_image_block(own, known[row]) for row in evenly_spaced_rows(len(known), _IMAGES)]
    return blocks


def _image_block(run: Run[Any], row: KnownImage) -> PicturesBlock:
    images = open_images(run, row.place)
    drops = row.truth.rendered.drops()[:, row.target].nan_to_num(-math.inf)
    part = int(drops.argmax())
    without = row.truth.rendered.row({*range(len(row.parts))} - {part})
    shown = [scale_for_page(encoded_pixels(encode(one).cpu())) for one in images.sets[[0, without]]]
    mask = scale_mask_for_page(images.masks[part].cpu())
    pictures = [
        png_picture(shown[0], f"Image {row.id}.", "image"),
        png_picture(
            shown[1],
            f"{row.id} without {row.parts[part]}.",
            f"without {row.parts[part]}: -{number(float(drops[part]))}",
        ),
    ]
    for name, named in zip(split_method_names(list(run.models))[1], run.models.values(), strict=True):
        heatmap = explain_targets(named, row, images)[0]
        if bool(heatmap.isfinite().all()):
            drawn = heat_pixels(heatmap, shown[0])
            outline(drawn, mask)
            pictures.append(png_picture(drawn, f"Map of {name} on {row.id}.", name))
    return PicturesBlock(tuple(pictures), row.id)


def removal_lines(results: Sequence[MeanResult]) -> list[str]:
    """Write the main scores, comparisons of the first method, the accuracy of the classifier, and notes."""
    notes = [f"note: {text}" for text in _notes(results)]
    lines = score_grid(_only(results, _MAIN))
    for group in _by_classifier(results):
        first, *others = _methods(group) or group[:1]
        lines += [str(compare(first, other, _VERDICT)) for other in others]
        if accuracy := first.details.get("accuracy_by_absent"):
            shares = ", ".join(f"{count}: {number(value)}" for count, value in accuracy)
            lines.append(f"accuracy of {first.details['network']['of']} by number of absent parts: {shares}")
    return [*lines, *notes]


REMOVAL_PAGE = Page(
    section=removal_section,
    reading=(
        TextBlock(
            "Each image was rendered again with parts of the object absent: what was behind them is seen, "
            "and their shadow is gone. The effect of a part is the drop of the logit of the predicted "
            "class; the importance of a part is the sum of the map over its pixels. Single deletion is the "
            "rank correlation of both, from 0 to 1; Shapley values average the effect over the order in "
            "which parts come; recolouring takes another colour in place of removal."
        ),
        TextBlock(
            "Completeness: a part is called important above a share of the positive importance. Does the "
            "prediction stay with these parts alone (preservation), change without them (deletion), do they "
            "hold a set of parts that tells the class (controlled), and are parts and objects without "
            "effect left out (distractibility)? Target sensitivity asks whether explanations of two other "
            "classes point at the parts that each shares with the image. Explainability is the mean of "
            "completeness, single deletion and target sensitivity, of those that are defined: the three "
            "groups of FunnyBirds (Hesse, Schaub-Meyer and Roth 2023).",
            term="Groups",
        ),
        TextBlock(
            "A score whose name ends in above_areas or above_moved has a chance level taken off: the score "
            "of the areas of the parts, or that of the same map at 15 other places. A method tells "
            "something of the parts if its interval there lies above 0.",
            term="Chance",
        ),
        TextBlock(
            "pixel_deletion_area and pixel_insertion_area turn pixels gray, or put them into a blurred "
            "image, in the order of the map; pointing asks whether the map is largest on the object; "
            "randomised is the rank correlation with the map after the output layer got random weights. "
            "None of them looks at an image that was rendered without parts.",
            term="Usual scores",
        ),
        TextBlock(
            "The true effects reach 1 in single deletion and target sensitivity, Shapley values in shapley "
            "and mostly the best infidelity (0), the smallest sufficient set in preservation. Noise has "
            "about 0 above moved maps, and in single deletion more than 0.5 where large parts matter more. "
            "Maps that are the same for all classes have no target sensitivity.",
            term="Controls",
        ),
        TextBlock(
            "where in a part a map is large; parts that are never taken away, such as the body; and whether "
            "the classifier is a good one. To a classifier that was trained without absent parts, these "
            "images are out of distribution: look at its accuracy by number of absent parts.",
            term="Blind to",
        ),
    ),
    needs=tuple(BETTER),
    pictures=removal_pictures,
    lines=removal_lines,
)
