"""Pictures for reports on coverage and on the causal check: heatmaps, counterfactuals, learned concepts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.coverage.causal_effects import causal_effects, region_density
from candlelight.evaluation.coverage.coverage_tables import best_share, make_comparison
from candlelight.evaluation.coverage.explained_images import TrainingImages, first_users
from candlelight.evaluation.coverage.explanations import explain_images, merge_explanation
from candlelight.evaluation.coverage.filter_methods import VEBI
from candlelight.evaluation.coverage.prototypes import PrototypeMethod, PrototypeNetwork
from candlelight.evaluation.coverage.score_causal_check import changed_images, classify_changes
from candlelight.evaluation.coverage.thresholds import binarise, resize_heatmap, resize_mask, set_threshold
from candlelight.evaluation.coverage.topics import TopicMethod
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import (
    Block,
    Picture,
    PicturesBlock,
    TableBlock,
    TextBlock,
    class_name,
    number,
    png_picture,
    split_method_names,
    unbroken,
)
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    outline,
    scale_for_page,
    scale_mask_for_page,
)
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.result import StatisticResult
from candlelight.evaluation.views.image_tensors import decode, encode, resize_images
from candlelight.loaders.looking.layer_pixels import Pixels

_IMAGES = 3
_HEATMAP_SHARE = 0.5  # share of the heatmap's colour in a pixel; the rest is the gray image
_COLOURS = "The colours of a heatmap range from dark blue, its minimum in the image, to yellow, its maximum."
_MARKED = (
    f"{_COLOURS} Double lines enclose the points of highest intensity in the image, at the method's best "
    "share of points. The score applies this share to the points of all images with the same strongest maps, "
    "so it marks more points in some images and fewer in others."
)
_CHANGED = (
    "After each image comes its counterfactual that changes the prediction most; double lines enclose the "
    f"changed region. {_COLOURS} A map that follows the prediction is bright inside the lines: its density "
    "there has rank 1."
)


class _Shown(NamedTuple):
    """An image of the page: its row, its scene-linear values, its pixels and the masks of what it shows."""

    name: str
    item: Any
    linear: Float[Tensor, "1 3 height width"]
    pixels: Pixels
    masks: dict[str, Tensor]


def _read(run: Run[Any], row: int) -> _Shown:
    item, size = on_device(run.data[row], run.device), run.options.size
    linear = resize_images(decode(item.image)[None], size)
    masks = {part: resize_mask(mask, size) for part, mask in item.masks.items()}
    shown = {part: mask for part, mask in masks.items() if bool(mask.any())}
    return _Shown(run.data.ids[row], item, linear, _page_pixels(encode(linear[0])), shown)


def _page_pixels(image: Float[Tensor, "3 rows columns"]) -> Pixels:
    return scale_for_page(encoded_pixels(image.cpu()))


def _outlined(pixels: Pixels, *masks: Tensor) -> Pixels:
    drawn = pixels.copy()
    for mask in masks:
        outline(drawn, scale_mask_for_page(mask.cpu()))
    return drawn


def heat_pixels(heatmap: Float[Tensor, "rows columns"], pixels: Pixels) -> Pixels:
    """Draw a heatmap in colour over the gray image: dark blue is its minimum, yellow its maximum.

    Args:
        heatmap: finite values at the resolution of the image.
        pixels: the image, as `scale_for_page` returns it.

    Example:
        >>> import torch
        >>> gray = scale_for_page(np.full((1, 2, 3), 128, np.uint8))
        >>> heat_pixels(torch.tensor([[0.0, 1.0]]), gray)[0, [0, -1]]
        array([[ 98,  64, 106],
               [190, 180,  82]], dtype=uint8)
    """
    heat = heatmap - heatmap.min()
    colours = matplotlib.colormaps["viridis"]((heat / heat.max().clamp(min=1e-20)).cpu().numpy())[..., :3]
    coloured = scale_for_page(np.rint(255 * colours).astype(np.uint8))
    gray = pixels.mean(axis=2, keepdims=True)
    return np.rint(_HEATMAP_SHARE * coloured + (1 - _HEATMAP_SHARE) * gray).astype(np.uint8)


def coverage_pictures(run: Run[Any], results: Mapping[str, StatisticResult]) -> dict[str, list[Block]]:
    """Show heatmaps with their marked points: of all methods on a few images, and of the extremes of each.

    The first blocks are Figures 3 and 4 of the paper, a row for each image; the next are Figure 6, the images
    that each method covers best and worst; the last are the concepts that fitted methods have learned.

    Args:
        run: a scored run of `COVERAGE`; the methods run on the shown images again.
        results: its results.

    Returns:
        Blocks for the section of each comparison: a text, and blocks of pictures.

    Raises:
        InputError: a method raised an exception.
    """
    del results
    sections = {}
    for place, (own, found, fitted) in enumerate(run.kept["compared"], start=1):
        blocks = _marked_heatmaps(own, list(found.values()))
        if fitted is not None and fitted.training is not None:
            blocks += learned_concepts(fitted.methods, fitted.training, fitted.source.classes)
        sections[run.evaluation.name + (f"-{place}" if place > 1 else "")] = blocks
    return sections


def _marked_heatmaps(run: Run[Any], results: Sequence[StatisticResult]) -> list[Block]:
    comparison = make_comparison(results)
    heading = f"Heatmaps on {comparison.classifier}" if comparison.classifier else ""
    blocks: list[Block] = [TextBlock(_MARKED, heading, quiet=True)]
    methods = list(zip(comparison.results.items(), run.models.values(), strict=True))
    for row in evenly_spaced_rows(len(run.data), _IMAGES):
        shown = _read(run, row)
        parts = [name for name in comparison.parts if name in shown.masks]
        named, drawn = ", ".join(parts), _outlined(shown.pixels, *(shown.masks[name] for name in parts))
        alt = f"Image {shown.name} with outlines of its parts: {named}."
        pictures = [png_picture(drawn, alt, f"outlined: {named or 'no part'}")]
        for (method, result), model in methods:
            share = unbroken(f"{100 * best_share(result)[0]:.3g} % marked")
            pictures.append(_marked_heatmap(method, result, model, shown, f"{method}: {share}"))
        blocks.append(PicturesBlock(tuple(pictures), shown.name))
    rows = {name: row for row, name in enumerate(run.data.ids)}
    for (method, result), model in methods:
        for end, images in result.details["extremes"].items():
            pictures = [
                _marked_heatmap(method, result, model, _read(run, rows[name]), f"{name}: IoU {number(value)}")
                for name, value in images
            ]
            caption = f"{method}: images with the {end} IoU (of the score's points)"
            blocks += [PicturesBlock(tuple(pictures), caption)] if pictures else []
    return blocks


def _marked_heatmap(
    method: str, result: StatisticResult, named: NamedModel, image: _Shown, caption: str
) -> Picture:
    """Explain one image, and draw the heatmap with the points marked at the method's best share."""
    settings = result.about.settings
    explanation = explain_images(named, [image.name], image.linear, [image.masks])
    explained = merge_explanation(explanation, settings["k"], settings["rank"])
    explained = explained.resized(*image.linear.shape[2:])
    marked = binarise(explained.heatmap, set_threshold(explained, best_share(result)[0], "image"))[0]
    drawn = _outlined(heat_pixels(explained.heatmap[0], image.pixels), marked)
    alt = f"Heatmap of {method} on {image.name}, with its marked points."
    return png_picture(drawn, alt, f"{method}: failed" if bool((explanation.concepts < 0).all()) else caption)


def causal_check_pictures(run: Run[Any], results: Mapping[str, StatisticResult]) -> dict[str, list[Block]]:
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
    for own, networks, classes in run.kept["checked"]:
        by_size.setdefault(own.options.size, []).extend(_changed_heatmaps(own, networks, classes))
    return {
        run.evaluation.name + (f"-{place}" if place > 1 else ""): blocks
        for place, blocks in enumerate(by_size.values(), start=1)
    }


def _changed_heatmaps(
    run: Run[Any], networks: Mapping[str, Any], classes: Sequence[str] | None
) -> list[Block]:
    common, short = split_method_names(list(run.models))
    names = dict(zip(run.models, short, strict=True))
    explaining: dict[str, list[str]] = {}
    for method, user in first_users(networks).items():
        explaining.setdefault(user, []).append(method)
    named = identify_models({user: networks[user] for user in explaining}, [], "srgb", None)
    blocks: list[Block] = [TextBlock(_CHANGED, f"Heatmaps on {common}" if common else "", quiet=True)]
    for row in evenly_spaced_rows(len(run.data), _IMAGES):
        shown = _read(run, row)
        for user, methods in explaining.items():
            region, pictures = _strongest_change(named[user], shown, run, classes)
            pictures = [png_picture(shown.pixels, f"Image {shown.name}.", "image"), *pictures]
            pictures += [_changed_heatmap(names[one], run, run.models[one], shown, region) for one in methods]
            of = f", network of {', '.join(names[one] for one in methods)}" if len(explaining) > 1 else ""
            blocks.append(PicturesBlock(tuple(pictures), f"{shown.name}{of}"))
    return blocks


def _strongest_change(
    classifier: NamedModel, shown: _Shown, run: Run[Any], classes: Sequence[str] | None
) -> tuple[str | None, list[Picture]]:
    """Find the region of the counterfactual of largest effect, and draw it; None without a finite effect."""
    changed = changed_images(shown.item, shown.masks, run.options.pixels)
    logits = classify_changes(classifier, shown.item, changed, run.options.size, run.batch_size)
    effects = causal_effects(logits[:1], logits[None, 1:], run.options.scale)[0].abs()
    if not bool(effects.isfinite().any()):
        return None, []
    place = int(effects.nan_to_num(-1).argmax())
    region = [region for region, images in changed.items() for _ in images][place]
    predicted = int(logits[0].argmax())
    before, after = logits.softmax(1)[[0, place + 1], predicted].tolist()
    image = resize_images(decode(torch.cat(list(changed.values()))[place])[None], run.options.size)[0]
    drawn = _outlined(_page_pixels(encode(image)), shown.masks[region])
    alt = f"Counterfactual of {shown.name}, with the border of its changed region: {region}."
    change = unbroken(f"{number(before)} to {number(after)}")
    caption = f"{region} changed: {class_name(classes, predicted)} {change}"
    return region, [png_picture(drawn, alt, caption)]


def _changed_heatmap(
    name: str, run: Run[Any], method: NamedModel, shown: _Shown, region: str | None
) -> Picture:
    """Explain an image, and draw the heatmap with the border of the changed region."""
    explanation = explain_images(method, [shown.name], shown.linear, [shown.masks])
    heatmap = merge_explanation(explanation, run.options.k).resized(*shown.linear.shape[2:]).heatmap
    drawn, caption = heat_pixels(heatmap[0], shown.pixels), name
    if region is not None:
        drawn = _outlined(drawn, shown.masks[region])
        densities = region_density(heatmap, torch.stack(list(shown.masks.values()))[None])[0]
        density = densities[list(shown.masks).index(region)]
        rank = unbroken(f"rank {1 + int((densities > density).sum())} of {len(densities)}")
        caption = f"{name}: density {number(float(density))}, {rank}"
        caption = f"{name}: failed" if bool(density.isnan()) else caption
    alt = f"Heatmap of {name} on {shown.name}, with the border of the changed region."
    return png_picture(drawn, alt, caption)


_BLOCKS = 20  # most topics, or classes with prototypes
_PROTOTYPES = 4  # of each class
_FILTERS = 8  # numbers of filters of each class
_PROTOTYPE_TEXT = (
    "Each prototype of the network is equal to a patch of a training image. Double lines enclose the cell of "
    "the feature map; the patch depends on more of the image. Prototypes of largest weight for their class, "
    "without repeated patches."
)
_TOPIC_TEXT = f"Training images with the highest response to each topic, and the map of the topic. {_COLOURS}"


def learned_concepts(
    methods: Mapping[str, NamedModel], training: TrainingImages, classes: Sequence[str] | None = None
) -> list[Block]:
    """Show the concepts of fitted methods: prototypes, topics, and the number of filters of each class.

    Args:
        methods: fitted methods of one classifier by name; Grad-CAM has no concepts and is left out.
        training: images that they were fitted to.
        classes: names of the classes.
    """
    blocks: list[Block] = []
    for name, method in zip(split_method_names(list(methods))[1], methods.values(), strict=True):
        model, heading = method.model, f"Concepts of {name}"
        if isinstance(model, PrototypeMethod):
            blocks.append(TextBlock(_PROTOTYPE_TEXT, heading, quiet=True))
            blocks += _prototype_pictures(model, training, classes)
        elif isinstance(model, TopicMethod):
            blocks.append(TextBlock(_TOPIC_TEXT, heading, quiet=True))
            blocks += _topic_pictures(model, training, classes)
        elif isinstance(model, VEBI):
            blocks += [TextBlock("", heading), _filter_table(model, classes)]
    return blocks


def _topic_pictures(
    method: TopicMethod, training: TrainingImages, classes: Sequence[str] | None
) -> list[PicturesBlock]:
    """Show the training images with the highest response, the sum of the map, to each topic."""
    images = training.images
    batches = torch.split(images, method.how.batch_size)
    scores = torch.cat([method.explain(some.to(method.device)).scores.cpu() for some in batches])
    highest = scores.topk(min(_IMAGES, len(images)), dim=0).indices
    blocks = []
    for topic in evenly_spaced_rows(scores.shape[1], _BLOCKS):
        rows = highest[:, topic]
        maps = method.explain(images[rows].to(method.device)).maps[:, topic].cpu()
        pictures = []
        for row, heatmap in zip(rows.tolist(), resize_heatmap(maps, *images.shape[2:]), strict=True):
            name = class_name(classes, int(training.labels[row]))
            drawn = heat_pixels(heatmap, _page_pixels(images[row]))
            alt = f"Map of topic {topic} on training image {row}, of {name}."
            caption = f"{name}: response {number(float(scores[row, topic]))}"
            pictures.append(png_picture(drawn, alt, caption))
        blocks.append(PicturesBlock(tuple(pictures), f"topic {topic}"))
    return blocks


def _prototype_pictures(
    method: PrototypeMethod, training: TrainingImages, classes: Sequence[str] | None
) -> list[PicturesBlock]:
    """Show prototypes of largest weight of each class: the training image, with the border of the patch.

    A patch is one point of the feature map, drawn as its cell of the image. Prototypes of the same patch are
    shown once.
    """
    state, network = method.state(), method.network
    assert network is not None  # `state` has told
    with torch.no_grad(), evaluation_mode(network):
        grid = network.backbone(training.images[:1].to(network.prototypes.device)).shape[2:]
    places = torch.stack([state[f"patches.{name}"] for name in ("images", "rows", "columns")], 1).tolist()
    blocks = []
    for label in evenly_spaced_rows(network.classes, _BLOCKS):
        name, patches, pictures = class_name(classes, label), _patches(network, label, places), []
        for (image, row, column), (prototype, weight) in list(patches.items())[:_PROTOTYPES]:
            drawn = _page_pixels(training.images[image])
            cell = np.zeros(drawn.shape[:2], dtype=bool)
            rows, columns = (
                slice(place * side // count, (place + 1) * side // count)
                for place, side, count in zip((row, column), drawn.shape[:2], grid, strict=True)
            )
            cell[rows, columns] = True
            outline(drawn, cell)
            alt = f"Training image {image} of {name}, with the border of the patch of prototype {prototype}."
            pictures.append(png_picture(drawn, alt, f"prototype {prototype}: weight {number(weight)}"))
        caption = f"{name}, prototypes: {network.per_class}, different patches: {len(patches)}"
        blocks.append(PicturesBlock(tuple(pictures), caption))
    return blocks


def _patches(
    network: PrototypeNetwork, label: int, places: Sequence[Sequence[int]]
) -> dict[tuple[int, ...], tuple[int, float]]:
    """Return the different patches of a class, each with its first prototype and weight, largest first."""
    first = label * network.per_class
    weights = network.last.weight[label, first : first + network.per_class].tolist()
    found: dict[tuple[int, ...], tuple[int, float]] = {}
    for place in sorted(range(network.per_class), key=lambda place: -weights[place]):
        found.setdefault(tuple(places[first + place]), (first + place, weights[place]))
    return found


def _filter_table(method: VEBI, classes: Sequence[str] | None) -> TableBlock:
    """Tabulate how many filters VEBI has chosen for each class, and the filters of largest weight."""
    counts = method.chosen.sum(1).tolist()
    order = method.state()["weights"].argsort(dim=1, descending=True, stable=True).tolist()
    rows = tuple(
        (class_name(classes, label), str(count), ", ".join(map(str, numbers[: min(count, _FILTERS)])))
        for label, (count, numbers) in enumerate(zip(counts, order, strict=True))
    )
    caption = f"Filters that are concepts of each class, of {method.chosen.shape[1]}"
    return TableBlock(caption, ("class", "filters", "of largest weight"), rows, folded=len(rows) > _BLOCKS)
