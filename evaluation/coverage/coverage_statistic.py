"""WAIoU and mean IoU of all compared methods as a statistic of resampled images."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from evaluation.coverage.waiou import weigh_iou

SCORES = ("waiou", "mean_iou")  # the second score does not depend on the other methods


class CoverageStatistic:
    """WAIoU of every method over any choice of images; each method uses its best proportion on these images.

    Args:
        iou: IoUs, nan if an image does not show a part.
        iou_threshold: see `weigh_iou`.
        reduce: see `weigh_iou`.
        names: names of the methods.
    """

    def __init__(
        self,
        iou: Float[ndarray, "methods proportions images parts"],
        iou_threshold: float,
        reduce: Literal["mean", "sum"],
        names: Sequence[str],
    ) -> None:
        self.iou, self.iou_threshold, self.reduce, self.names = iou, iou_threshold, reduce, names
        shown = np.isfinite(iou)
        # A resampled image counts as often as it is drawn, so sums over images are matrix products.
        self._sums = np.where(shown, iou, 0).sum(3), shown.sum(3).astype(np.float64)

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Compute WAIoU over all parts and mean IoU of each method for drawn images; see `weigh_iou`."""
        drawn = np.bincount(rows, minlength=self.iou.shape[2]).astype(np.float64)
        average = self._average(drawn)
        scores = self._score(self._best(average), drawn)
        pairs = zip(self.names, scores.tolist(), average.max(1).tolist(), strict=True)
        return {
            f"{metric} {name}": value
            for name, *values in pairs
            for metric, value in zip(SCORES, values, strict=True)
        }

    def describe(self, method: int) -> dict[str, Any]:
        """Collect the details of one method: average IoU and WAIoU by proportion, and by part at the best."""
        average = self._average(np.ones(self.iou.shape[2]))
        weighed = weigh_iou(torch.from_numpy(self._best(average)), self.iou_threshold, self.reduce)
        curve = [
            float(weigh_iou(torch.from_numpy(at), self.iou_threshold, self.reduce).score[method])
            for at in np.moveaxis(self.iou, 1, 0)
        ]
        return {
            "best_proportion": int(average[method].argmax()),
            "average_iou": average[method].tolist(),
            "curve": curve,
            "parts": weighed.parts[method].tolist(),
            "mean_iou": weighed.mean_iou[method].tolist(),
            "counts": weighed.counts[method].tolist(),
        }

    def _score(
        self, iou: Float[ndarray, "methods images parts"], drawn: Float[ndarray, " images"]
    ) -> Float[ndarray, " methods"]:
        """Compute WAIoU over all parts, as `weigh_iou`, where images count as often as they are drawn."""
        kept = iou > self.iou_threshold
        parts = (drawn @ np.where(kept, iou, 0)) / np.maximum((drawn @ kept).sum(0), 1)
        shown = parts[:, np.isfinite(iou[:, drawn > 0]).any((0, 1))]
        if not shown.shape[1]:
            return np.full(len(iou), 0.0 if self.reduce == "sum" else np.nan)
        return shown.sum(1) if self.reduce == "sum" else shown.mean(1)

    def _best(self, average: Float[ndarray, "methods proportions"]) -> Float[ndarray, "methods images parts"]:
        return self.iou[np.arange(len(self.iou)), average.argmax(1)]

    def _average(self, drawn: Float[ndarray, " images"]) -> Float[ndarray, "methods proportions"]:
        """Compute the mean IoU over all images and the parts that they show; 0 if no part is shown."""
        total, shown = self._sums
        return (total @ drawn) / np.maximum(shown @ drawn, 1)
