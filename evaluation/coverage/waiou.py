"""Weighted Average Intersection over Union between explanations and annotated parts, also of resamples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.catalogue.coverage_options import Aggregate, BinariseCompat, CoverageOptions
from candlelight.evaluation.run.intervals import group_numbers
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument


@dataclass(frozen=True)
class WAIoU:
    """Coverage of parts by the methods that were compared.

    Attributes:
        score: [methods], WAIoU over all parts that images show; higher is better.
        parts: [methods, parts], WAIoU of each part (eq. 5); nan for a part that no image shows, 0 for a part
            that no method covers.
        mean_iou: [methods, parts], mean of the IoUs above the threshold (right factor of eq. 4); nan if no
            IoU is above it.
        counts: [methods, parts], number of IoUs above the threshold (left factor of eq. 4).
        labels: [methods, images], part of largest IoU (eq. 6), -1 if the explanation overlaps no part.
    """

    score: Float[Tensor, " methods"]
    parts: Float[Tensor, "methods parts"]
    mean_iou: Float[Tensor, "methods parts"]
    counts: Int[Tensor, "methods parts"]
    labels: Int[Tensor, "methods images"]


def part_iou(
    binary: Bool[Tensor, "images height width"], masks: Bool[Tensor, "images parts height width"]
) -> Float[Tensor, "images parts"]:
    """Compute the intersection over union of each image's explanation with each of its parts.

    ``|B n M_j| / |B u M_j|`` (eq. 3).

    Blind to: the place of an explanation that misses a part; and to size: a large part is easier to cover.

    Args:
        binary: binarised explanations B.
        masks: annotated parts M of the same images.

    Returns:
        IoU in [0, 1], float64, higher is better; nan if the image does not show the part.

    Raises:
        InputError: maps or masks are not boolean, or their shapes do not agree.

    Example:
        >>> masks = torch.tensor([[[[True, True]], [[False, False]]]])
        >>> part_iou(torch.tensor([[[True, False]]]), masks)
        tensor([[0.5000,    nan]], dtype=torch.float64)
    """
    check_shapes(binary=(binary, "images height width"), masks=(masks, "images parts height width"))
    check_bool(binary=binary, masks=masks)
    shared = torch.empty(masks.shape[:2], dtype=torch.int64, device=masks.device)
    for number, part in enumerate(masks.unbind(1)):
        shared[:, number] = count_pixels(part & binary)
    size = count_pixels(masks)
    iou = shared.double() / (count_pixels(binary)[:, None] + size - shared)
    return iou.masked_fill(size == 0, torch.nan)


def count_pixels(maps: Bool[Tensor, "*maps height width"]) -> Int[Tensor, "*maps"]:
    """Count the marked pixels of each map; numpy is several times as fast as a sum in torch."""
    if maps.device.type != "cpu":
        return maps.flatten(-2).sum(-1)
    counts = [np.count_nonzero(one) for one in maps.flatten(0, -3).numpy()]
    return torch.tensor(counts, dtype=torch.int64).reshape(maps.shape[:-2])


def sweep_iou(
    heatmaps: Float[Tensor, "images points"],
    thresholds: Float[Tensor, "images thresholds"],
    masks: Bool[Tensor, "images parts points"],
    compat: BinariseCompat,
) -> Float64[Tensor, "images thresholds parts"]:
    """Compute the `part_iou` of images for the explanations that `binarise` makes at several thresholds.

    Only points that reach the lowest threshold of their image are read, once for all thresholds.

    Args:
        heatmaps: explanation heatmaps, finite.
        thresholds: thresholds of each image, in any order.
        masks: masks of the parts.
        compat: see `binarise`.

    Returns:
        IoU in [0, 1]; nan for an empty mask.

    Example:
        >>> heatmap, mask = torch.arange(4.0)[None], torch.tensor([[[False, False, True, True]]])
        >>> sweep_iou(heatmap, torch.tensor([[1.0, 3.0]]), mask, "exact").round(decimals=2)
        tensor([[[0.6700],
                 [0.5000]]], dtype=torch.float64)
    """
    (images, levels), parts = thresholds.shape, masks.shape[1]
    reached = heatmaps >= thresholds.amin(1, keepdim=True)
    if compat == "exact":
        reached &= heatmaps > heatmaps.amin(1, keepdim=True)
    rows, places = reached.nonzero(as_tuple=True)
    # Number of thresholds that each point reaches; then histograms of it over all points and in each part.
    level = (heatmaps[rows, places][:, None] >= thresholds[rows]).sum(1)
    point, part = masks[rows, :, places].nonzero(as_tuple=True)
    cells = torch.cat([rows * (parts + 1) + parts, rows[point] * (parts + 1) + part])
    counts = torch.bincount(
        cells * (levels + 1) + torch.cat([level, level[point]]), minlength=images * (parts + 1) * (levels + 1)
    ).reshape(images, parts + 1, levels + 1)
    # Points of the last level reach the highest threshold, points of the last two levels the next one, ...
    reaching = counts.flip(2).cumsum(2)[:, :, :levels]
    order = thresholds.argsort(1, descending=True)[:, None].expand_as(reaching)
    found = torch.empty_like(reaching).scatter_(2, order, reaching).transpose(1, 2)
    shared, marked = found[:, :, :-1], found[:, :, -1:]
    size = count_pixels(masks[:, :, None])[:, None]
    iou = shared.double() / (marked + size - shared)
    return iou.masked_fill(size == 0, torch.nan)


def weigh_iou(
    iou: Float[Tensor, "methods images parts"],
    iou_threshold: float = 0.0,
    reduce: Aggregate = "mean",
) -> WAIoU:
    """Compare methods by their IoUs on the same images.

    ``WAIoU_j^Z = sum_p IoU_j^Z[p] / sum_z |IoU_j^z|`` over the IoUs above the threshold (eq. 4, 5): the
    mean IoU of a method, weighted by its share of all methods' explanations that cover part j.

    Blind to: everything except the rank among these methods. The score of a method falls when a method with
    more coverage is added; never compare scores of different comparisons. With one method, WAIoU is its mean
    IoU over the images where it covers the part, so misses do not lower it.

    Args:
        iou: IoUs of each method, from `part_iou`; nan if an image does not show a part.
        iou_threshold: only IoUs above it count, in [0, 1); the paper does not give its value.
        reduce: aggregation of the parts into ``score``, "mean" or "sum"; the paper does not specify it. Parts
            that no image shows are left out.

    Returns:
        WAIoU per method and part, and over all parts; higher is better.

    Raises:
        InputError: the threshold is out of range, ``reduce`` is misspelt, there is no method, IoUs are
            outside [0, 1], or methods have nan at different places.

    Example:
        >>> iou = torch.tensor([[[0.5], [0.25]], [[0.5], [0.0]]], dtype=torch.float64)
        >>> weigh_iou(iou).parts
        tensor([[0.2500],
                [0.1667]], dtype=torch.float64)
    """
    _check_iou(iou)
    check_choice("reduce", reduce, Aggregate)
    if not 0 <= iou_threshold < 1:
        raise InputError(f"`iou_threshold` must be at least 0 and below 1, got {iou_threshold}")
    kept = iou > iou_threshold
    counts = kept.sum(1)
    sums = torch.where(kept, iou, 0).sum(1)
    parts = sums / counts.sum(0).clamp(min=1)
    parts = parts.masked_fill(iou.isnan().all(1).all(0), torch.nan)
    score = parts.nanmean(1) if reduce == "mean" else parts.nansum(1)
    return WAIoU(score, parts, sums / counts, counts, _labels(iou))


def _check_iou(iou: Tensor) -> None:
    check_shapes(iou=(iou, "methods images parts"))
    if not len(iou):
        raise InputError("`iou` needs at least one method, got none")
    unseen = iou.isnan()
    if not bool((unseen | ((iou >= 0) & (iou <= 1))).all()):
        raise InputError("`iou` must lie from 0 to 1, or be nan where an image does not show a part")
    if not bool((unseen == unseen[:1]).all()):
        raise InputError("`iou` must be nan at the same places for all methods; score the same images")


def _labels(iou: Float[Tensor, "methods images parts"]) -> Int[Tensor, "methods images"]:
    """Find the part of largest IoU, the first one of equal IoUs; -1 without any overlap."""
    known = functional.pad(iou.nan_to_num(0), (1, 0))
    return known.argmax(2) - 1


def waiou(
    binary: Bool[Tensor, "methods images height width"],
    masks: Bool[Tensor, "images parts height width"],
    iou_threshold: float = 0.0,
    reduce: Aggregate = "mean",
) -> WAIoU:
    """Compare methods by how well their binary explanations cover annotated parts.

    This is `part_iou` of each method, then `weigh_iou` ("A Protocol for Evaluating Model Interpretation
    Methods from Visual Explanations", eq. 3 to 6); it is blind to the same properties.

    Args:
        binary: binarised explanations of each method for the same images.
        masks: annotated parts of these images.
        iou_threshold: see `weigh_iou`.
        reduce: see `weigh_iou`.

    Returns:
        WAIoU per method and part, and over all parts; higher is better.

    Raises:
        InputError: there is no method, maps or masks are not boolean, their shapes do not agree, the
            threshold is out of range, or ``reduce`` is misspelt.

    Example:
        >>> masks = torch.tensor([[[[True, True, False, False]]]])
        >>> binary = torch.tensor([[[[True, True, False, False]]], [[[True, False, False, False]]]])
        >>> waiou(binary, masks).score
        tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    check_shapes(binary=(binary, "methods images height width"), masks=(masks, "images parts height width"))
    if not len(binary):
        raise InputError("`binary` needs the maps of at least one method, got none")
    return weigh_iou(torch.stack([part_iou(one, masks) for one in binary]), iou_threshold, reduce)


SCORES = ("waiou", "mean_iou")  # the second score does not depend on the other methods
FOLDS = 5
_EXTREMES = 3


class CoverageStatistic:
    """WAIoU of every method over any choice of images.

    Args:
        iou: IoUs, nan if an image does not show a part.
        options: choices that the paper leaves open. ``choose`` decides on which images the best proportion of
            each method is chosen. "others": each fifth of the groups gets the proportion of largest mean IoU
            on the other groups. "same": the scored images themselves, as in the paper (sec. 5.6), which
            raises all scores.
        names: names of the methods.
        groups: group of each image.

    Raises:
        InputError: all images are of one group, so that no others are left to choose a proportion on.
    """

    def __init__(
        self,
        iou: Float[ndarray, "methods proportions images parts"],
        options: CoverageOptions,
        names: Sequence[str],
        groups: Sequence[str],
    ) -> None:
        self.iou, self.options, self.names = iou, options, names
        shown = np.isfinite(iou)
        # A resampled image counts as often as it is drawn, so sums over images are matrix products.
        self._sums = np.where(shown, iou, 0).sum(3), shown.sum(3).astype(np.float64)
        self._folds = group_numbers(groups) % FOLDS
        self._choosing = np.ones((iou.shape[2], FOLDS))
        if options.choose == "others" and iou.shape[1] > 1:
            if not self._folds.any():
                raise InputError(
                    "all images are of one group, so there are no others to choose a proportion on; give one "
                    f"proportion, or choose on the same images ({argument('choose')} same)"
                )
            self._choosing = (self._folds[:, None] != np.arange(FOLDS)).astype(np.float64)

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Compute WAIoU over all parts and mean IoU of each method for drawn images; see `weigh_iou`."""
        drawn = np.bincount(rows, minlength=self.iou.shape[2]).astype(np.float64)
        iou = self.at_best(drawn)
        shown = np.isfinite(iou)
        means = np.where(shown, iou, 0).sum(2) @ drawn / np.maximum(shown.sum(2) @ drawn, 1)
        pairs = zip(self.names, self._score(iou, drawn).tolist(), means.tolist(), strict=True)
        return {
            f"{metric} {name}": value
            for name, *values in pairs
            for metric, value in zip(SCORES, values, strict=True)
        }

    def scores_of(self, name: str) -> dict[str, float]:
        """Compute the scores of one method for all images."""
        found = self(np.arange(self.iou.shape[2]))
        return {metric: found[f"{metric} {name}"] for metric in SCORES}

    def average_iou(
        self, weights: Float[ndarray, "images choices"] | None = None
    ) -> Float[ndarray, "methods proportions choices"]:
        """Compute the mean IoU over images, weighted or not, and the parts that they show; 0 for none."""
        total, shown = self._sums
        weights = np.ones((self.iou.shape[2], 1)) if weights is None else weights
        return (total @ weights) / np.maximum(shown @ weights, 1)

    def at_best(
        self, drawn: Float[ndarray, " images"] | float = 1.0
    ) -> Float[ndarray, "methods images parts"]:
        """Take each image's IoU at the proportion that is best on the drawn images it is chosen on."""
        best = self.average_iou((self._choosing.T * drawn).T).argmax(1)
        return np.take_along_axis(self.iou, best[:, self._folds][:, None, :, None], 1)[:, 0]

    def describe(self, method: int, ids: Sequence[str]) -> dict[str, Any]:
        """Collect the details of one method: average IoU and WAIoU by proportion, and by part at the best."""
        average, at_best = self.average_iou()[method, :, 0], self.at_best()
        weighed = self._weigh(at_best)
        labels = weighed.labels[method]
        return {
            "best_proportion": int(average.argmax()),
            "average_iou": average.tolist(),
            "curve": [float(self._weigh(at).score[method]) for at in np.moveaxis(self.iou, 1, 0)],
            "parts": weighed.parts[method].tolist(),
            "mean_iou": weighed.mean_iou[method].tolist(),
            "counts": weighed.counts[method].tolist(),
            "labels": torch.bincount(labels[labels >= 0], minlength=self.iou.shape[3]).tolist(),
            "unlabelled": int((labels < 0).sum()),
            "extremes": _extremes(at_best[method], ids),
        }

    def _weigh(self, iou: Float[ndarray, "methods images parts"]) -> WAIoU:
        return weigh_iou(torch.from_numpy(iou), self.options.iou_threshold, self.options.reduce)

    def _score(
        self, iou: Float[ndarray, "methods images parts"], drawn: Float[ndarray, " images"]
    ) -> Float[ndarray, " methods"]:
        """Compute WAIoU over all parts, as `weigh_iou`, where images count as often as they are drawn."""
        kept = iou > self.options.iou_threshold
        parts = (drawn @ np.where(kept, iou, 0)) / np.maximum((drawn @ kept).sum(0), 1)
        shown = parts[:, np.isfinite(iou[:, drawn > 0]).any((0, 1))]
        if self.options.reduce == "sum":
            return shown.sum(1)
        return shown.mean(1) if shown.shape[1] else np.full(len(iou), np.nan)


def _extremes(iou: Float[ndarray, "images parts"], ids: Sequence[str]) -> dict[str, list[Any]]:
    """Find the images whose best covered part has the highest and the lowest IoU, each most extreme first."""
    shown = np.flatnonzero(np.isfinite(iou).any(1))
    largest = np.nanmax(iou[shown], axis=1) if len(shown) else np.empty(0)
    order = largest.argsort(kind="stable")
    ranked = [[ids[shown[place]], float(largest[place])] for place in order.tolist()]
    return {"highest": ranked[::-1][:_EXTREMES], "lowest": ranked[:_EXTREMES]}
