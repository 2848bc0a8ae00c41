"""Pictures for the section of the causal check: images, counterfactuals that change predictions, heatmaps."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.coverage.causal_effects import causal_effects, region_density
from candlelight.evaluation.coverage.masks import resize_images
from candlelight.evaluation.coverage.measure_regions import (
    RegionMasks,
    changed_images,
    classify_changes,
    merged_heatmaps,
    shown_regions,
)
from candlelight.evaluation.coverage.method_comparisons import split_method_names
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import Block, Picture, PicturesBlock, TextBlock, png_picture
from candlelight.evaluation.report.coverage_pictures import heat_pixels
from candlelight.evaluation.report.tables import class_name, number, unbroken
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    outline,
    scale_for_page,
    scale_mask_for_page,
)
from candlelight.evaluation.results.result import StatisticResult
from candlelight.evaluation.running.named_models import decode, encode, identify_models
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.views import CounterfactualImages, View

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


class _Checked(NamedTuple):
    """An image of the page: its id, itself with its counterfactuals, and all that is made of it."""

    name: str
    item: CounterfactualImages
    masks: RegionMasks
    size: tuple[int, int] | None
    linear: Float[Tensor, "1 3 height width"]
    pixels: Pixels


def causal_check_pictures(
    results: Mapping[str, StatisticResult],
    methods: Mapping[str, Any],
    classifier: Any,
    data: View[CounterfactualImages],
    *,
    classes: Sequence[str] | None = None,
    device: str = "cpu",
) -> list[Block]:
    """Show a few images with the counterfactual that changes the prediction most, and all heatmaps.

    Args:
        results: results of one call of `score_causal_check`, by method.
        methods: its methods, which run on the shown images again.
        classifier: its classifier or classifiers. Methods that explain different classifiers have
            rows of pictures of their own.
        data: its images.
        classes: names of the classes.
        device: torch device of methods and classifiers.

    Returns:
        A text, and for each image a block of pictures for each classifier.

    Raises:
        InputError: a method or a classifier raised an exception.
    """
    settings = next(iter(results.values())).about.settings
    named = identify_models(methods, [data], "srgb", None)
    common, short = split_method_names(list(methods))
    names = dict(zip(methods, short, strict=True))
    users: dict[Any, list[str]] = {}
    for method in methods:
        network = classifier[method] if isinstance(classifier, Mapping) else classifier
        users.setdefault(network, []).append(method)
    networks = identify_models({some[0]: network for network, some in users.items()}, [data], "srgb", None)
    blocks: list[Block] = [TextBlock(_HOW, f"Heatmaps on {common}" if common else "", quiet=True)]
    for row in evenly_spaced_rows(len(data), _IMAGES):
        shown = _read(data, row, settings["size"])
        for explained in users.values():
            found = _strongest(networks[explained[0]], shown, settings, classes, device)
            pictures = [png_picture(shown.pixels, f"Image {shown.name}.", "image")]
            pictures += [_counterfactual(found, shown)] if found else []
            pictures += [
                _heatmap(names[method], named[method], shown, found, settings["k"], device)
                for method in explained
            ]
            of = f", network of {', '.join(names[one] for one in explained)}" if len(users) > 1 else ""
            blocks.append(PicturesBlock(tuple(pictures), f"{shown.name}{of}"))
    return blocks


def _read(data: View[CounterfactualImages], row: int, sides: Sequence[int] | None) -> _Checked:
    item = data[row]
    size = (sides[0], sides[1]) if sides else None
    linear = resize_images(decode(item.image)[None], size)
    pixels = scale_for_page(encoded_pixels(encode(linear[0])))
    return _Checked(data.ids[row], item, shown_regions(item, size), size, linear, pixels)


def _strongest(
    classifier: NamedModel,
    shown: _Checked,
    settings: Mapping[str, Any],
    classes: Sequence[str] | None,
    device: str,
) -> _Strongest | None:
    """Find the counterfactual of largest effect; None if no region has one with a finite effect."""
    changed = changed_images(shown.item, shown.masks, settings["pixels"])
    logits = classify_changes(classifier, shown.item, changed, shown.size, _BATCH, device)
    effects = causal_effects(logits[:1], logits[None, 1:], settings["scale"])[0].abs()
    if not bool(effects.isfinite().any()):
        return None
    place = int(effects.nan_to_num(-1).argmax())
    region = [region for region, images in changed.items() for _ in images][place]
    predicted = int(logits[0].argmax())
    before, after = logits.softmax(1)[[0, place + 1], predicted].tolist()
    change = unbroken(f"{number(before)} to {number(after)}")
    caption = f"{region} changed: {class_name(classes, predicted)} {change}"
    return _Strongest(region, torch.cat(list(changed.values()))[place], caption)


def _counterfactual(found: _Strongest, shown: _Checked) -> Picture:
    linear = resize_images(decode(found.image)[None], shown.size)
    drawn = scale_for_page(encoded_pixels(encode(linear[0])))
    outline(drawn, scale_mask_for_page(shown.masks[found.region]))
    alt = f"Counterfactual of {shown.name}, with the border of its changed region: {found.region}."
    return png_picture(drawn, alt, found.caption)


def _heatmap(
    name: str, method: NamedModel, shown: _Checked, found: _Strongest | None, k: int, device: str
) -> Picture:
    """Explain an image, and draw the heatmap with the border of the changed region."""
    explained = merged_heatmaps(method, [shown.name], shown.linear, [shown.masks], k, device)
    heatmap = explained.resized(*shown.linear.shape[2:]).heatmap
    drawn = heat_pixels(heatmap[0], shown.pixels)
    caption = name
    if found:
        outline(drawn, scale_mask_for_page(shown.masks[found.region]))
        densities = region_density(heatmap, torch.stack(list(shown.masks.values()))[None])[0]
        density = densities[list(shown.masks).index(found.region)]
        rank = unbroken(f"rank {1 + int((densities > density).sum())} of {len(densities)}")
        dead = bool(density.isnan())
        caption = f"{name}: failed" if dead else f"{name}: density {number(float(density))}, {rank}"
    alt = f"Heatmap of {name} on {shown.name}, with the border of the changed region."
    return png_picture(drawn, alt, caption)
