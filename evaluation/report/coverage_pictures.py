"""Images with their parts, and the heatmaps of each method with the points that it marks."""

from collections.abc import Mapping

import matplotlib
import numpy as np
from torch import Tensor

from evaluation.coverage.heatmaps import Explanations, binarise, explanation_heatmap, set_threshold
from evaluation.coverage.masks import resize_images, resize_mask
from evaluation.coverage.protocol import Method
from evaluation.models.specs import NamedModel
from evaluation.outputs import checked_heatmaps
from evaluation.predictions import Heatmaps
from evaluation.report.blocks import Block, Picture, Pictures, Text, png_picture
from evaluation.report.tiles import encoded_pixels, fit, fit_mask, outline, spread_rows
from evaluation.result import StatisticResult
from evaluation.sources import ask, decode, encode, sources
from loaders.looking.show import PALETTE, Pixels
from loaders.views import Parts

IMAGES = 4
HEAT = 0.7  # share of a heatmap's colour in a pixel, the rest is the image in gray
_WHITE = np.full(3, 255, np.uint8)
_HOW = (
    "Heatmaps from dark blue, the least of the image, to yellow, the most. White lines enclose the points of "
    "highest intensity in each image, as many as the method marks at its best share. The score takes that "
    "share of the points of all images that have the same strongest maps, so it marks more points in some "
    "images and fewer in others."
)


def coverage_pictures(
    results: Mapping[str, StatisticResult],
    methods: Mapping[str, Method],
    data: Parts,
    *,
    size: tuple[int, int] | None = None,
    device: str = "cpu",
) -> list[Block]:
    """Show a few images: outlines of their parts, and each method's heatmap and marked points.

    Args:
        results: of `score_coverage`, by method.
        methods: as they were scored; they are run on these few images again.
        data: as it was scored.
        size: as it was scored.
        device: torch device of the methods.

    Returns:
        A text, and pictures of each image.

    Raises:
        InputError: a method raised an exception.
    """
    settings = next(iter(results.values())).about.settings
    asked = sources(methods, [data], "srgb", settings["missing"])
    blocks: list[Block] = [Text(_HOW, quiet=True)]
    for row in spread_rows(len(data), IMAGES):
        item, name = data[row], data.ids[row]
        linear = resize_images(decode(item.image)[None], size)
        pixels = fit(encoded_pixels(encode(linear[0])))
        masks = {part: resize_mask(mask, size) for part, mask in item.masks.items()}
        pictures = [_parts(pixels, masks, settings["parts"], name)]
        for method, source in asked.items():
            explained, failed = _explain(source, name, linear, settings["k"], device)
            share = settings["proportions"][results[method].details["best_proportion"]]
            caption = f"{method}: {'failed' if failed else f'{100 * share:.3g} % marked'}"
            alt = f"Heatmap of {method} on {name}, and the points that it marks."
            pictures.append(png_picture(_overlay(explained, share, pixels), alt, caption))
        blocks.append(Pictures(tuple(pictures), name))
    return blocks


def _parts(pixels: Pixels, masks: Mapping[str, Tensor], names: list[str], image: str) -> Picture:
    drawn = pixels.copy()
    shown = [name for name in names if name in masks and bool(masks[name].any())]
    for name in shown:
        outline(drawn, fit_mask(masks[name]), PALETTE[names.index(name) % len(PALETTE)])
    caption = f"outlined: {', '.join(shown) or 'no part'}"
    return png_picture(drawn, f"Image {image} with outlines of its parts: {', '.join(shown)}.", caption)


def _explain(source: NamedModel, name: str, linear: Tensor, k: int, device: str) -> tuple[Explanations, bool]:
    """Explanation of one image at its resolution, and whether it failed."""
    if isinstance(source.model, Heatmaps):
        maps, failed = source.model.read_batch([name])
    else:
        maps, failed = ask(source, linear, device, checked_heatmaps)
    height, width = linear.shape[2:]
    return explanation_heatmap(maps, k).resized(height, width), bool(failed.any())


def _overlay(explained: Explanations, share: float, pixels: Pixels) -> Pixels:
    """Heatmap in colour over the gray image, and the border of the marked points."""
    marked = binarise(explained.heatmap, set_threshold(explained, share, "image"))[0]
    heat = explained.heatmap[0] - explained.heatmap.min()
    colours = matplotlib.colormaps["viridis"]((heat / heat.max().clamp(min=1e-20)).numpy())[..., :3]
    coloured = fit(np.rint(255 * colours).astype(np.uint8))
    drawn = np.rint(HEAT * coloured + (1 - HEAT) * pixels.mean(axis=2, keepdims=True)).astype(np.uint8)
    outline(drawn, fit_mask(marked), _WHITE)
    return drawn
