"""Pictures for the coverage section: images with their parts, and heatmaps with their marked points.

Figures 3, 4 and 6 of the WAIoU paper.
"""

from collections.abc import Mapping
from typing import NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.coverage.binarise_heatmaps import Explanations, binarise, set_threshold
from candlelight.evaluation.coverage.explanations import merge_explanation
from candlelight.evaluation.coverage.masks import resize_images, resize_mask
from candlelight.evaluation.coverage.method_comparisons import best_share, make_comparison
from candlelight.evaluation.coverage.read_explanations import explain_images
from candlelight.evaluation.coverage.score_coverage import Method
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.report.blocks import Block, Picture, PicturesBlock, TextBlock, png_picture
from candlelight.evaluation.report.tables import number, unbroken
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
from candlelight.loaders.views import Parts

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
    results: Mapping[str, StatisticResult],
    methods: Mapping[str, Method],
    data: Parts,
    *,
    size: tuple[int, int] | None = None,
    device: str = "cpu",
) -> list[Block]:
    """Show heatmaps with their marked points: of all methods on a few images, and of the extremes of each.

    The first blocks are Figures 3 and 4 of the paper, a row for each image; the others are Figure 6, the
    images that each method covers best and worst, if the results have the detail ``extremes``.

    Args:
        results: results of one call of `score_coverage`, by method.
        methods: the scored methods, which run on the shown images again.
        data: the scored images.
        size: the size that `score_coverage` used.
        device: torch device of the methods.

    Returns:
        A text, a block of pictures for each image, and blocks of extremes for each method.

    Raises:
        InputError: a method raised an exception.
    """
    settings = next(iter(results.values())).about.settings
    named_models = identify_models(methods, [data], "srgb", settings["missing"])
    comparison = make_comparison([results[method] for method in named_models])
    pairs = list(zip(comparison.methods, comparison.results, named_models.values(), strict=True))
    heading = f"Heatmaps on {comparison.classifier}" if comparison.classifier else ""
    blocks: list[Block] = [TextBlock(_HOW, heading, quiet=True)]
    for row in evenly_spaced_rows(len(data), _IMAGES):
        shown = _read(data, row, size)
        pictures = [_parts(shown, settings["parts"])]
        for method, result, named in pairs:
            share = unbroken(f"{100 * best_share(result)[0]:.3g} % marked")
            pictures.append(_heatmap(method, result, named, shown, device, f"{method}: {share}"))
        blocks.append(PicturesBlock(tuple(pictures), shown.name))
    rows = {name: row for row, name in enumerate(data.ids)}
    for method, result, named in pairs:
        for end, images in result.details.get("extremes", {}).items():
            pictures = []
            for name, value in images:
                shown = _read(data, rows[name], size)
                caption = f"{name}: IoU {number(value)}"
                pictures.append(_heatmap(method, result, named, shown, device, caption))
            if pictures:
                blocks.append(
                    PicturesBlock(
                        tuple(pictures), f"{method}: images with the {end} IoU (of the score's points)"
                    )
                )
    return blocks


def _read(data: Parts, row: int, size: tuple[int, int] | None) -> _Shown:
    item = data[row]
    linear = resize_images(decode(item.image)[None], size)
    masks = {part: resize_mask(mask, size) for part, mask in item.masks.items()}
    return _Shown(data.ids[row], linear, scale_for_page(encoded_pixels(encode(linear[0]))), masks)


def _parts(image: _Shown, names: list[str]) -> Picture:
    drawn = image.pixels.copy()
    shown = [name for name in names if name in image.masks and bool(image.masks[name].any())]
    for name in shown:
        outline(drawn, scale_mask_for_page(image.masks[name]))
    caption = f"outlined: {', '.join(shown) or 'no part'}"
    alt = f"Image {image.name} with outlines of its parts: {', '.join(shown)}."
    return png_picture(drawn, alt, caption)


def _heatmap(
    method: str, result: StatisticResult, named: NamedModel, image: _Shown, device: str, caption: str
) -> Picture:
    """Explain one image, and draw the heatmap with the points marked at the method's best share."""
    settings = result.about.settings
    explanation = explain_images(named, [image.name], image.linear, device, [image.masks])
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
    colours = matplotlib.colormaps["viridis"]((heat / heat.max().clamp(min=1e-20)).numpy())[..., :3]
    coloured = scale_for_page(np.rint(255 * colours).astype(np.uint8))
    gray = pixels.mean(axis=2, keepdims=True)
    return np.rint(_HEATMAP_SHARE * coloured + (1 - _HEATMAP_SHARE) * gray).astype(np.uint8)


def _overlay(explained: Explanations, share: float, pixels: Pixels) -> Pixels:
    """Draw the heatmap in colour over the gray image, with the border of the marked points."""
    marked = binarise(explained.heatmap, set_threshold(explained, share, "image"))[0]
    drawn = heat_pixels(explained.heatmap[0], pixels)
    outline(drawn, scale_mask_for_page(marked))
    return drawn
