"""Explainers for comparison: ideal and random ones, areas, and masks of objects."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Shaped
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage.explanations import MaskControl, PartMasks
from candlelight.evaluation.coverage.heatmap_streams import (
    ExplanationStream,
    MaskStream,
    row_chunks,
    stream_iou,
)
from candlelight.evaluation.coverage.thresholds import Explanations
from candlelight.evaluation.coverage.waiou import CoverageStatistic
from candlelight.evaluation.views.check_shapes import check_shapes


def object_mask(masks: PartMasks) -> Float[Tensor, "1 height width"]:
    """Unite the masks of all parts: one map, which covers each part and tells none from the others."""
    return exact_parts(masks).amax(0, keepdim=True)


def exact_parts(masks: PartMasks) -> Float[Tensor, "maps height width"]:
    """Return the mask of each part as a map of its own, of which the k largest are merged."""
    return torch.stack(list(masks.values())).float()


def part_areas(masks: PartMasks) -> Float[Tensor, "1 height width"]:
    """Give each part the share of the image that it covers: the larger the part, the more relevant.

    Example:
        >>> part_areas({"head": torch.tensor([[True, False, False, False]])})
        tensor([[[0.2500, 0.0000, 0.0000, 0.0000]]])
    """
    parts = exact_parts(masks)
    return (parts * parts.mean((1, 2), keepdim=True)).sum(0, keepdim=True)


MASK_CONTROLS: Mapping[str, MaskControl] = {
    "object": MaskControl(object_mask),
    "exact parts": MaskControl(exact_parts),
    "part areas": MaskControl(part_areas),
}


def uniform_noise(
    images: Float[Tensor, "batch 3 height width"], seed: int = 0
) -> Float[Tensor, "batch 1 height width"]:
    """Draw a heatmap of independent uniform values for each image.

    The values depend on the seed and on the image, rounded to 8 bits, and on nothing else: neither the order
    of the images nor the batch size changes them. Equal images have equal heatmaps. The hash of the image and
    the draws are made on the CPU, so that all devices agree.

    If each of the N pixels is marked with probability p, the part covers a share a of the image, and X and Y
    pixels are marked inside and outside of the part, then IoU = X / (aN + Y). X and Y are independent, so::

        E(sum of X) / E(sum of unions) = p a / (p + a - p a)
        E(IoU) = that, times 1 + (1 - a) p (1 - p) / (N (p + a - p a)^2) + smaller terms

    Args:
        images: sRGB-encoded in [0, 1].
        seed: another seed draws other heatmaps.

    Returns:
        One map for each image, in [0, 1), float32, on the device of the images.

    Raises:
        InputError: the images have other dimensions.

    Example:
        >>> images = torch.rand(5, 3, 4, 6)
        >>> bool((uniform_noise(images)[3:] == uniform_noise(images[3:])).all())
        True
    """
    check_shapes(images=(images, "batch 3 height width"))
    maps = torch.empty(len(images), 1, *images.shape[2:])
    for one, pixels in zip(maps, (images * 255).round().to(torch.uint8).cpu().numpy(), strict=True):
        content = int.from_bytes(hashlib.sha256(pixels.tobytes()).digest(), "big")
        drawn = np.random.default_rng([seed, content]).random(one.shape, np.float32)
        one.copy_(torch.from_numpy(drawn))
    return maps.to(images.device)


def centre_blob(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 1 height width"]:
    """Make a heatmap that falls from the middle of the image to its corners, the same for every image.

    The value is ``1 - (x^2 + y^2) / 2`` for x and y from -1 to 1, so the marked region is an ellipse with
    the aspect ratio of the image. Objects that stand in the middle are covered by it.

    Args:
        images: sRGB-encoded in [0, 1].

    Returns:
        One map for each image, in (0, 1], on the device of the images.

    Raises:
        InputError: the images have other dimensions.

    Example:
        >>> centre_blob(torch.zeros(1, 3, 1, 4))
        tensor([[[[0.7188, 0.9688, 0.9688, 0.7188]]]])
    """
    check_shapes(images=(images, "batch 3 height width"))
    rows, columns = (
        (2 * torch.arange(count, device=images.device) + 1) / count - 1 for count in images.shape[2:]
    )
    blob = 1 - (rows[:, None].square() + columns.square()) / 2
    return blob.expand(len(images), 1, -1, -1)


def constant_map(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 1 height width"]:
    """Make a heatmap of ones: a trap for the protocol, because it must score 0.

    Every point reaches every threshold, so a rule that marks tied points would mark the whole image; see
    `candlelight.evaluation.coverage.binarise`.

    Args:
        images: sRGB-encoded in [0, 1].

    Returns:
        One map for each image, on the device of the images.

    Raises:
        InputError: the images have other dimensions.

    Example:
        >>> constant_map(torch.zeros(1, 3, 1, 2))
        tensor([[[[1., 1.]]]])
    """
    check_shapes(images=(images, "batch 3 height width"))
    return torch.ones_like(images[:, :1])


CONTROLS: Mapping[str, Callable[[Float[Tensor, "batch 3 height width"]], Tensor]] = {
    "noise": uniform_noise,
    "centre": centre_blob,
    "constant": constant_map,
}
for _control in CONTROLS.values():
    vars(_control)["colour_space"] = "srgb"


@dataclass(frozen=True)
class IdealCoverage:
    """Coverage of each part by its own mask.

    Attributes:
        mean_iou: [parts], mean of the IoUs over the images that show the part; nan if no image shows it.
        best_proportion: [parts], number of the proportion that is best on all images, the first one of equal
            means.
        iou: [images, parts], IoU at the proportion that was chosen for the image; nan if the image does not
            show the part.
    """

    mean_iou: Float64[Tensor, " parts"]
    best_proportion: Int[Tensor, " parts"]
    iou: Float64[Tensor, "images parts"]


def ideal_coverage(
    masks: MaskStream,
    parts: Sequence[str],
    resolution: tuple[int, int],
    options: CoverageOptions,
    groups: Sequence[str],
) -> IdealCoverage:
    """Score, for each part, an explainer whose heatmap is the mask of the part at a method's resolution.

    The mask is averaged over the area of each cell of the heatmap; from there on the heatmaps are resized,
    thresholded and scored like those of `score_coverage`. All heatmaps of a part, of the images that show it,
    are one set. Each part has its own best proportion. At the resolution of the masks the score is 1.

    Blind to: better heatmaps. No proof says that the averaged mask is the best heatmap of its resolution. A
    part that fills an image has a constant heatmap there, which is dead and has IoU 0. One explainer with one
    heatmap for each image cannot reach the score of all parts at once.

    Args:
        masks: masks of the parts.
        parts: names of the parts.
        resolution: rows and columns of the method's maps.
        options: proportions, pooling, and the other options of thresholds; with ``choose`` "others" each
            fifth of the groups gets the proportion that is best on the other groups.
        groups: group of each image.

    Returns:
        Mean IoU of each part, higher is better, and the IoUs of all images, on the CPU.

    Raises:
        InputError: there are no masks, the resolution is not positive, or all images are of one group.

    Example:
        >>> masks = MaskStream()
        >>> masks.append({"head": torch.tensor([[True, True, True, False]])})
        >>> options = CoverageOptions(proportions=(0.25, 0.5), choose="same")
        >>> ideal_coverage(masks, ["head"], (1, 2), options, ["a"]).mean_iou
        tensor([0.6667], dtype=torch.float64)
    """
    at = masks.shape if options.threshold_at == "mask" else None
    iou = np.empty((len(masks.annotated), len(parts)))
    best = np.zeros(len(parts), np.int64)
    for number, part in enumerate(parts):
        stream = _mask_heatmaps(masks, part, resolution)
        thresholds = stream.thresholds(options.proportions, options.pooling, at)
        found = stream_iou([stream], [thresholds], masks, [part], options.compat)
        statistic = CoverageStatistic(found, options, [part], groups)
        best[number] = statistic.average_iou()[0].argmax()
        iou[:, number] = statistic.at_best()[0, :, 0]
    scores = torch.from_numpy(iou)
    return IdealCoverage(scores.nanmean(0), torch.from_numpy(best), scores)


def _mask_heatmaps(masks: MaskStream, part: str, resolution: tuple[int, int]) -> ExplanationStream:
    """Average the masks of a part over the cells of a heatmap; images without the part are a set of zeros."""
    stream = ExplanationStream(f"mask of {part}")
    for rows in row_chunks(range(len(masks.annotated)), masks.shape[0] * masks.shape[1]):
        # In float64, so that cells with the same share of the part are equal in float32.
        maps = area_averages(masks.read(rows, [part]).reshape(-1, *masks.shape), resolution).float()
        stream.append(Explanations(maps, (maps.amax((1, 2)) > 0).long()[:, None]))
    return stream


def area_averages(
    heatmaps: Shaped[Tensor, "*batch height width"], resolution: tuple[int, int]
) -> Float64[Tensor, "*batch rows columns"]:
    """Average heatmaps over the area of each cell of another resolution.

    Args:
        heatmaps: values of pixels: numbers or flags.
        resolution: number of rows and columns of the cells, which need not divide those of the heatmap.

    Example:
        >>> area_averages(torch.tensor([[0.0, 3.0, 6.0]]), (1, 2))
        tensor([[1., 5.]], dtype=torch.float64)
    """
    values, device = heatmaps.double(), heatmaps.device
    rows, columns = (
        _area_weights(*sizes, device) for sizes in zip(values.shape[-2:], resolution, strict=True)
    )
    return rows @ values @ columns.T


def _area_weights(points: int, cells: int, device: torch.device) -> Float64[Tensor, "cells points"]:
    """Compute the share of each cell that each point covers, if both divide one length evenly."""
    edges = torch.arange(cells + 1, dtype=torch.float64, device=device)[:, None] * points / cells
    start = torch.arange(points, device=device)
    covered = torch.minimum(edges[1:], start + 1) - torch.maximum(edges[:-1], start)
    return covered.clamp(min=0) * cells / points
