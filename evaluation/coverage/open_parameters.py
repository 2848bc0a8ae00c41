"""Parameters that the WAIoU paper leaves open, with our defaults, and other values to try."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from candlelight.evaluation.coverage.explanations import Rank
from candlelight.evaluation.coverage.thresholds import BinariseCompat, Pooling, check_pooling
from candlelight.evaluation.coverage.waiou import Aggregate
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

PROPORTIONS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1)
ChoiceOn = Literal["others", "same"]
_TRIED: dict[str, tuple[Any, ...]] = {
    "k": (1, 3, 5),
    "rank": ("sum", "score"),
    "choose": ("others", "same"),
    "pooling": ("set", "image"),
    "threshold_at": ("mask", "map"),
    "compat": ("exact", "waiou2023"),
    "iou_threshold": (0.0, 0.05),
}


@dataclass(frozen=True)
class OpenParameters:
    """How explanations are merged, binarised and weighed.

    Attributes:
        k: number of merged maps, see `merge_explanation`; the paper does not give its value.
        rank: see `merge_explanation`.
        proportions: shares of points to try, see `set_threshold`. The paper's text has 0.01 % to 0.1 %, its
            Table 2 0.01 to 0.1.
        choose: images on which the best proportion of each method is chosen. "others": each fifth of the
            groups gets the proportion of largest mean IoU on the other groups. "same": the scored images
            themselves, as in the paper (sec. 5.6), which raises all scores.
        pooling: see `set_threshold`.
        threshold_at: "mask" computes thresholds on heatmaps of the size of the masks, so that exactly the
            chosen share is marked; "map" computes them at the heatmaps' own resolution.
        compat: see `binarise`.
        iou_threshold: see `weigh_iou`.
        reduce: see `weigh_iou`.

    Raises:
        InputError: a value is out of range or misspelt.

    Example:
        >>> OpenParameters(k=0)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `k` must be at least 1, got 0
    """

    k: int = 1
    rank: Rank = "sum"
    proportions: tuple[float, ...] = PROPORTIONS
    choose: ChoiceOn = "others"
    pooling: Pooling = "set"
    threshold_at: Literal["mask", "map"] = "mask"
    compat: BinariseCompat = "exact"
    iou_threshold: float = 0.0
    reduce: Aggregate = "mean"

    def __post_init__(self) -> None:
        """Refuse values that are out of range or misspelt."""
        object.__setattr__(self, "proportions", tuple(self.proportions))
        if self.k < 1:
            raise InputError(f"`k` must be at least 1, got {self.k}")
        if not self.proportions:
            raise InputError("expected at least one proportion, got none")
        for proportion in self.proportions:
            check_pooling(proportion, self.pooling)
        if not 0 <= self.iou_threshold < 1:
            raise InputError(f"`iou_threshold` must be at least 0 and below 1, got {self.iou_threshold}")
        check_choice("rank", self.rank, Rank)
        check_choice("choose", self.choose, ChoiceOn)
        check_choice("threshold_at", self.threshold_at, ("mask", "map"))
        check_choice("compat", self.compat, BinariseCompat)
        check_choice("reduce", self.reduce, Aggregate)

    def alternatives(self) -> dict[str, "OpenParameters"]:
        """Change one parameter at a time, to see how the order of methods depends on it.

        The aggregation of the parts is left out: sum and mean give one order.

        Example:
            >>> list(OpenParameters().alternatives())[:3]
            ['k = 3', 'k = 5', 'rank = score']
        """
        found = {
            f"{name} = {value}": replace(self, **{name: value})
            for name, values in _TRIED.items()
            for value in values
            if value != getattr(self, name)
        }
        percent = tuple(share / 100 for share in self.proportions)
        return found | {"proportions / 100": replace(self, proportions=percent)}
