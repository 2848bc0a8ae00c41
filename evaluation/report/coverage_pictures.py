"""Pictures for the coverage section: images with their parts, and heatmaps with their marked points."""

from collections.abc import Mapping

import matplotlib
import numpy as np
from torch import Tensor

from evaluation.coverage.binarise_heatmaps import Explanations, binarise, set_threshold
from evaluation.coverage.masks import resize_images, resize_mask
from evaluation.coverage.score_coverage import Method, compute_explanations
from evaluation.report.blocks import Block, Picture, PicturesBlock, TextBlock, png_picture
from evaluation.report.tables import unbroken
from evaluation.report.tiles import (
    encoded_pixels,
    evenly_spaced_rows,
    outline,
    scale_for_page,
    scale_mask_for_page,
)
from evaluation.results.result import StatisticResult
from evaluation.running.named_models import decode, encode, identify_models
from loaders.looking.layer_pixels import Pixels
from loaders.views import Parts

_IMAGES = 3
_HEATMAP_SHARE = 0.7  # share of the heatmap's colour in a pixel; the rest is the gray image
_HOW = (
    "The colours of a heatmap range from dark blue, its minimum in the image, to yellow, its maximum. Double "
    "lines enclose the points of highest intensity in the image, at the method's best share of points. The "
    "score applies this share to the points of all images with the same strongest maps, so it marks more "
    "points in some images and fewer in others."
)


def coverage_pictures(
    results: Mapping[str, StatisticResult],
    methods: Mapping[str, Method],
    data: Parts,
    *,
    size: tuple[int, int] | None = None,
    device: str = "cpu",
) -> list[Block]:
    """Show a few images with outlines of their parts, and each method's heatmap with its marked points.

    Args:
        results: results of `score_coverage` by method.
        methods: the scored methods, which run on these few images again.
        data: the scored images.
        size: the size that `score_coverage` used.
        device: torch device of the methods.

    Returns:
        A text, and a block of pictures for each image.

    Raises:
        InputError: a method raised an exception.
    """
    settings = next(iter(results.values())).about.settings
    named_models = identify_models(methods, [data], "srgb", settings["missing"])
    blocks: list[Block] = [TextBlock(_HOW, quiet=True)]
    for row in evenly_spaced_rows(len(data), _IMAGES):
        item, name = data[row], data.ids[row]
        linear = resize_images(decode(item.image)[None], size)
        pixels = scale_for_page(encoded_pixels(encode(linear[0])))
        masks = {part: resize_mask(mask, size) for part, mask in item.masks.items()}
        pictures = [_parts(pixels, masks, settings["parts"], name)]
        for method, named in named_models.items():
            explained, failed = compute_explanations(named, [name], linear, device, settings["k"])
            share = settings["proportions"][results[method].details["best_proportion"]]
            marked = "failed" if bool(failed.any()) else unbroken(f"{100 * share:.3g} % marked")
            alt = f"Heatmap of {method} on {name}, with its marked points."
            shown = _overlay(explained.resized(*linear.shape[2:]), share, pixels)
            pictures.append(png_picture(shown, alt, f"{method}: {marked}"))
        blocks.append(PicturesBlock(tuple(pictures), name))
    return blocks


def _parts(pixels: Pixels, masks: Mapping[str, Tensor], names: list[str], image: str) -> Picture:
    drawn = pixels.copy()
    shown = [name for name in names if name in masks and bool(masks[name].any())]
    for name in shown:
        outline(drawn, scale_mask_for_page(masks[name]))
    caption = f"outlined: {', '.join(shown) or 'no part'}"
    return png_picture(drawn, f"Image {image} with outlines of its parts: {', '.join(shown)}.", caption)


def _overlay(explained: Explanations, share: float, pixels: Pixels) -> Pixels:
    """Draw the heatmap in colour over the gray image, with the border of the marked points."""
    marked = binarise(explained.heatmap, set_threshold(explained, share, "image"))[0]
    heat = explained.heatmap[0] - explained.heatmap.min()
    colours = matplotlib.colormaps["viridis"]((heat / heat.max().clamp(min=1e-20)).numpy())[..., :3]
    coloured = scale_for_page(np.rint(255 * colours).astype(np.uint8))
    drawn = np.rint(
        _HEATMAP_SHARE * coloured + (1 - _HEATMAP_SHARE) * pixels.mean(axis=2, keepdims=True)
    ).astype(np.uint8)
    outline(drawn, scale_mask_for_page(marked))
    return drawn
