"""Pictures of heatmaps, topics and prototypes for a report on coverage."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage.explain_images import explain_images
from candlelight.evaluation.coverage.explanations import merge_explanation
from candlelight.evaluation.coverage.fit_methods import TrainingImages
from candlelight.evaluation.coverage.method_comparison import best_share, make_comparison
from candlelight.evaluation.coverage.prototypes import PrototypeMethod, PrototypeNetwork
from candlelight.evaluation.coverage.score_coverage import METRIC, Compared
from candlelight.evaluation.coverage.thresholds import (
    Explanations,
    binarise,
    resize_heatmap,
    resize_mask,
    set_threshold,
)
from candlelight.evaluation.coverage.topics import TopicMethod
from candlelight.evaluation.coverage.vebi import VEBI
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
from candlelight.evaluation.run.result import StatisticResult
from candlelight.evaluation.views.image_tensors import decode, encode, resize_images
from candlelight.loaders.looking.layer_pixels import Pixels

_IMAGES = 3
_HEATMAP_SHARE = 0.5  # share of the heatmap's colour in a pixel; the rest is the gray image
_HOW = (
    "The colours of a heatmap range from dark blue, its minimum in the image, to yellow, its maximum. Double "
    "lines enclose the points of highest intensity in the image, at the method's best share of points. The "
    "score applies this share to the points of all images with the same strongest maps, so it marks more "
    "points in some images and fewer in others."
)


class _Shown(NamedTuple):
    """An image of the page: its id, its scene-linear values, its pixels and the masks of its parts."""

    name: str
    linear: Float[Tensor, "1 3 height width"]
    pixels: Pixels
    masks: dict[str, Tensor]


def coverage_pictures(
    run: Run[CoverageOptions], results: Mapping[str, StatisticResult]
) -> dict[str, list[Block]]:
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
    for place, one in enumerate(run.kept["compared"], start=1):
        blocks = _heatmap_blocks(one)
        if one.fitted is not None:
            blocks += learned_concepts(one.fitted.methods, one.fitted.training, one.fitted.source.classes)
        sections[METRIC if place == 1 else f"{METRIC}-{place}"] = blocks
    return sections


def _heatmap_blocks(compared: Compared) -> list[Block]:
    data, methods = compared.run.data, compared.run.models
    settings = next(iter(compared.results.values())).about.settings
    comparison = make_comparison(list(compared.results.values()))
    pairs = list(zip(comparison.methods, comparison.results, methods.values(), strict=True))
    heading = f"Heatmaps on {comparison.classifier}" if comparison.classifier else ""
    blocks: list[Block] = [TextBlock(_HOW, heading, quiet=True)]
    for row in evenly_spaced_rows(len(data), _IMAGES):
        shown = _read(compared.run, row)
        pictures = [_parts(shown, settings["parts"])]
        for method, result, named in pairs:
            share = unbroken(f"{100 * best_share(result)[0]:.3g} % marked")
            pictures.append(_heatmap(method, result, named, shown, f"{method}: {share}"))
        blocks.append(PicturesBlock(tuple(pictures), shown.name))
    rows = {name: row for row, name in enumerate(data.ids)}
    for method, result, named in pairs:
        for end, images in result.details["extremes"].items():
            pictures = [
                _heatmap(
                    method, result, named, _read(compared.run, rows[name]), f"{name}: IoU {number(value)}"
                )
                for name, value in images
            ]
            if pictures:
                caption = f"{method}: images with the {end} IoU (of the score's points)"
                blocks.append(PicturesBlock(tuple(pictures), caption))
    return blocks


def _read(run: Run[CoverageOptions], row: int) -> _Shown:
    item, size = on_device(run.data[row], run.device), run.options.size
    linear = resize_images(decode(item.image)[None], size)
    masks = {part: resize_mask(mask, size) for part, mask in item.masks.items()}
    return _Shown(run.data.ids[row], linear, page_pixels(encode(linear[0])), masks)


def page_pixels(image: Float[Tensor, "3 rows columns"]) -> Pixels:
    """Make the pixels of an sRGB-encoded image, as large as on the page."""
    return scale_for_page(encoded_pixels(image.cpu()))


def _parts(image: _Shown, names: list[str]) -> Picture:
    drawn = image.pixels.copy()
    shown = [name for name in names if name in image.masks and bool(image.masks[name].any())]
    for name in shown:
        outline(drawn, scale_mask_for_page(image.masks[name].cpu()))
    caption = f"outlined: {', '.join(shown) or 'no part'}"
    alt = f"Image {image.name} with outlines of its parts: {', '.join(shown)}."
    return png_picture(drawn, alt, caption)


def _heatmap(method: str, result: StatisticResult, named: NamedModel, image: _Shown, caption: str) -> Picture:
    """Explain one image, and draw the heatmap with the points marked at the method's best share."""
    settings = result.about.settings
    explanation = explain_images(named, [image.name], image.linear, [image.masks])
    explained = merge_explanation(explanation, settings["k"], settings["rank"])
    drawn = _overlay(explained.resized(*image.linear.shape[2:]), best_share(result)[0], image.pixels)
    alt = f"Heatmap of {method} on {image.name}, with its marked points."
    return png_picture(drawn, alt, f"{method}: failed" if bool((explanation.concepts < 0).all()) else caption)


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


def _overlay(explained: Explanations, share: float, pixels: Pixels) -> Pixels:
    """Draw the heatmap in colour over the gray image, with the border of the marked points."""
    marked = binarise(explained.heatmap, set_threshold(explained, share, "image"))[0]
    drawn = heat_pixels(explained.heatmap[0], pixels)
    outline(drawn, scale_mask_for_page(marked.cpu()))
    return drawn


_TOPICS = 20


def topic_pictures(
    method: TopicMethod,
    images: Float[Tensor, "train 3 height width"],
    labels: Int[Tensor, " train"],
    classes: Sequence[str] | None = None,
) -> list[PicturesBlock]:
    """Show the training images with the highest response to each topic, and their topic maps.

    The response is that of `TopicMethod.explain`, the sum of the map.

    Args:
        method: the method, after `TopicMethod.fit`.
        images: training images, sRGB-encoded in [0, 1].
        labels: their classes.
        classes: names of the classes.

    Returns:
        A block for each topic, or for 20 of them at equal distances.

    Raises:
        InputError: the method is not fitted.

    Example:
        >>> from candlelight.evaluation.coverage.topic_completeness import ReconstructionTraining
        >>> from candlelight.evaluation.coverage.topics import TopicSearch
        >>> how = ReconstructionTraining(0, hidden=8, epochs=1)
        >>> method = TopicMethod(lambda images: images, lambda maps: maps.mean((2, 3)), TopicSearch(1), how)
        >>> method = method.restore({"topics": torch.tensor([[1.0, 0.0, 0.0]])})
        >>> images = torch.linspace(0, 1, 4)[:, None, None, None].expand(-1, 3, 2, 2)
        >>> [block] = topic_pictures(method, images, torch.tensor([0, 1, 0, 1]), ["cup", "jug"])
        >>> [picture.caption for picture in block.pictures]
        ['jug: response 4.00', 'cup: response 2.67', 'jug: response 1.33']
    """
    batches = torch.split(images, method.how.batch_size)
    scores = torch.cat([method.explain(some.to(method.device)).scores.cpu() for some in batches])
    highest = scores.topk(min(_IMAGES, len(images)), dim=0).indices
    blocks = []
    for topic in evenly_spaced_rows(scores.shape[1], _TOPICS):
        rows = highest[:, topic]
        maps = method.explain(images[rows].to(method.device)).maps[:, topic].cpu()
        pictures = []
        for row, heatmap in zip(
            rows.tolist(), resize_heatmap(maps, images.shape[2], images.shape[3]), strict=True
        ):
            name = class_name(classes, int(labels[row]))
            drawn = heat_pixels(heatmap, page_pixels(images[row]))
            alt = f"Map of topic {topic} on training image {row}, of {name}."
            caption = f"{name}: response {number(float(scores[row, topic]))}"
            pictures.append(png_picture(drawn, alt, caption))
        blocks.append(PicturesBlock(tuple(pictures), f"topic {topic}"))
    return blocks


_CLASSES = 20
_PROTOTYPES = 4  # of each class


def prototype_pictures(
    method: PrototypeMethod,
    images: Float[Tensor, "train 3 height width"],
    classes: Sequence[str] | None = None,
) -> list[PicturesBlock]:
    """Show a few prototypes of each class: the training image, with the border of the pushed patch.

    A patch is one point of the feature map, drawn as its cell of the image: the height of the image divided
    by that of the map. Prototypes of the same patch are shown once; of the others, those of largest weight
    for their class.

    Blind to: the receptive field. A point of the map depends on more of the image than its cell.

    Args:
        method: the method, after `PrototypeMethod.fit` on these images.
        images: its training images, sRGB-encoded in [0, 1].
        classes: names of the classes.

    Returns:
        A block for each class, or for 20 of them at equal distances.

    Raises:
        InputError: the method is not fitted.

    Example:
        >>> from torch import nn
        >>> from candlelight.evaluation.coverage.prototypes import PrototypeTraining
        >>> images = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        >>> how = PrototypeTraining(0, per_class=1, dim=4, warm_epochs=1, epochs=1)
        >>> method = PrototypeMethod(nn.MaxPool2d(2), how).fit(images, torch.tensor([0, 1, 0, 1]))
        >>> [block.caption for block in prototype_pictures(method, images, ["cup", "jug"])]
        ['cup, prototypes: 1, different patches: 1', 'jug, prototypes: 1, different patches: 1']
    """
    state, network = method.state(), method.network
    assert network is not None  # `state` has told
    with torch.no_grad(), evaluation_mode(network):
        maps = network.backbone(images[:1].to(network.prototypes.device))
    grid = maps.shape[2], maps.shape[3]
    places = torch.stack([state[f"patches.{name}"] for name in ("images", "rows", "columns")], 1).tolist()
    blocks = []
    for label in evenly_spaced_rows(network.classes, _CLASSES):
        name = class_name(classes, label)
        patches = _patches(network, label, places)
        pictures = []
        for (image, row, column), (prototype, weight) in list(patches.items())[:_PROTOTYPES]:
            drawn = page_pixels(images[image])
            outline(drawn, _cell(drawn.shape[:2], grid, row, column))
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


def _cell(
    shape: tuple[int, ...], grid: tuple[int, int], row: int, column: int
) -> Bool[ndarray, "height width"]:
    """Mark the pixels of a cell of a grid over an image.

    Example:
        >>> _cell((2, 4), (1, 2), 0, 1).astype(int)
        array([[0, 0, 1, 1],
               [0, 0, 1, 1]])
    """
    mask = np.zeros(shape, dtype=bool)
    rows, columns = (
        slice(place * side // count, (place + 1) * side // count)
        for place, side, count in zip((row, column), shape, grid, strict=True)
    )
    mask[rows, columns] = True
    return mask


_MOST_ROWS = 20  # of a table that is not folded
_FILTERS = 8  # numbers of filters of each class
_PROTOTYPE_TEXT = (
    "Each prototype of the network is equal to a patch of a training image. Double lines enclose the cell of "
    "the feature map; the patch depends on more of the image. Prototypes of largest weight for their class, "
    "without repeated patches."
)
_TOPIC_TEXT = (
    "Training images with the highest response to each topic, and the map of the topic, from dark blue, its "
    "minimum in the image, to yellow, its maximum."
)


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
        model = method.model
        if isinstance(model, PrototypeMethod):
            blocks.append(TextBlock(_PROTOTYPE_TEXT, f"Concepts of {name}", quiet=True))
            blocks += prototype_pictures(model, training.images, classes)
        elif isinstance(model, TopicMethod):
            blocks.append(TextBlock(_TOPIC_TEXT, f"Concepts of {name}", quiet=True))
            blocks += topic_pictures(model, training.images, training.labels, classes)
        elif isinstance(model, VEBI):
            blocks.append(TextBlock("", f"Concepts of {name}"))
            blocks.append(filter_table(model, classes))
    return blocks


def filter_table(method: VEBI, classes: Sequence[str] | None = None) -> TableBlock:
    """Tabulate how many filters VEBI has chosen for each class, and the filters of largest weight.

    Raises:
        InputError: the method is not fitted.

    Example:
        >>> import torch
        >>> method = VEBI(torch.nn.Identity(), "").restore({"weights": torch.tensor([[0.0, 1.0, 2.0]])})
        >>> filter_table(method, ["cup"]).rows
        (('cup', '2', '2, 1'),)
    """
    counts = method.chosen.sum(1).tolist()
    order = method.state()["weights"].argsort(dim=1, descending=True, stable=True).tolist()
    rows = tuple(
        (class_name(classes, label), str(count), ", ".join(map(str, numbers[: min(count, _FILTERS)])))
        for label, (count, numbers) in enumerate(zip(counts, order, strict=True))
    )
    caption = f"Filters that are concepts of each class, of {method.chosen.shape[1]}"
    return TableBlock(caption, ("class", "filters", "of largest weight"), rows, folded=len(rows) > _MOST_ROWS)
