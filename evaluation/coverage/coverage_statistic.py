"""WAIoU and mean IoU of all compared methods as a statistic of resampled images."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.coverage.waiou import WAIoU, weigh_iou
from candlelight.evaluation.run.intervals import group_numbers
from candlelight.loaders.errors import InputError, argument

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
        iou = self._at_best(drawn)
        pairs = zip(self.names, self._score(iou, drawn).tolist(), _mean(iou, drawn).tolist(), strict=True)
        return {
            f"{metric} {name}": value
            for name, *values in pairs
            for metric, value in zip(SCORES, values, strict=True)
        }

    def average_iou(self) -> Float[ndarray, "methods proportions"]:
        """Compute the mean IoU over all images and the parts that they show."""
        return self._average(np.ones((self.iou.shape[2], 1)))[:, :, 0]

    def at_best(self) -> Float[ndarray, "methods images parts"]:
        """Take each image's IoU at the proportion that is best on the images it is chosen on."""
        return self._at_best(np.ones(self.iou.shape[2]))

    def describe(self, method: int, ids: Sequence[str]) -> dict[str, Any]:
        """Collect the details of one method: average IoU and WAIoU by proportion, and by part at the best."""
        average = self.average_iou()[method]
        at_best = self.at_best()
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
        if not shown.shape[1]:
            return np.full(len(iou), 0.0 if self.options.reduce == "sum" else np.nan)
        return shown.sum(1) if self.options.reduce == "sum" else shown.mean(1)

    def _at_best(self, drawn: Float[ndarray, " images"]) -> Float[ndarray, "methods images parts"]:
        """Take the IoUs of `at_best` where images count as often as they are drawn."""
        best = self._average(drawn[:, None] * self._choosing).argmax(1)
        places = best[:, self._folds]
        return np.take_along_axis(self.iou, places[:, None, :, None], 1)[:, 0]

    def _average(
        self, weights: Float[ndarray, "images choices"]
    ) -> Float[ndarray, "methods proportions choices"]:
        """Compute the mean IoU over all images and the parts that they show; 0 if no part is shown."""
        total, shown = self._sums
        return (total @ weights) / np.maximum(shown @ weights, 1)


def _mean(
    iou: Float[ndarray, "methods images parts"], drawn: Float[ndarray, " images"]
) -> Float[ndarray, " methods"]:
    shown = np.isfinite(iou)
    total = np.where(shown, iou, 0).sum(2) @ drawn
    return total / np.maximum(shown.sum(2) @ drawn, 1)


def _extremes(iou: Float[ndarray, "images parts"], ids: Sequence[str]) -> dict[str, list[Any]]:
    """Find the images whose best covered part has the highest and the lowest IoU, each most extreme first."""
    shown = np.flatnonzero(np.isfinite(iou).any(1))
    largest = np.nanmax(iou[shown], axis=1) if len(shown) else np.empty(0)
    order = largest.argsort(kind="stable")
    ranked = [[ids[shown[place]], float(largest[place])] for place in order.tolist()]
    return {"highest": ranked[::-1][:_EXTREMES], "lowest": ranked[:_EXTREMES]}
