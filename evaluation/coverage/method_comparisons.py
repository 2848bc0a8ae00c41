"""The comparisons in a list of coverage results: the methods of one call of `score_coverage`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from candlelight.evaluation.results.result import StatisticResult, model_name


@dataclass(frozen=True)
class MethodComparison:
    """Results of methods that were compared in one call.

    Attributes:
        results: a result for each method.
        classifier: first words that the names of all methods share, such as ``birds`` of ``birds vebi`` and
            ``birds topics``; empty if they share none, or for a single method.
        methods: names of the methods without the classifier.
    """

    results: tuple[StatisticResult, ...]
    classifier: str
    methods: tuple[str, ...]

    @property
    def parts(self) -> list[str]:
        """Names of the parts."""
        return list(self.results[0].about.settings["parts"])

    @property
    def proportions(self) -> list[float]:
        """Shares of marked points that were tried."""
        return list(self.results[0].about.settings["proportions"])

    @property
    def data(self) -> str:
        """Name of the data, its set and its split."""
        data = self.results[0].about.data
        return ", ".join(str(data[name]) for name in ("name", "set_name", "split") if data.get(name))

    @property
    def whole_names(self) -> dict[str, str]:
        """Names of the methods by their names in the results."""
        return dict(zip(map(model_name, self.results), self.methods, strict=True))

    def shared_detail(self, name: str) -> Any:
        """Return a detail of the whole comparison, which only one of its results has; None if none has it."""
        found = [result.details[name] for result in self.results if result.details.get(name)]
        return found[0] if found else None


def split_method_names(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Split the names of compared methods into the words that they share and the names of the methods.

    Args:
        names: the names; each keeps at least its last word, and a single name is not split.

    Example:
        >>> split_method_names(["all birds vebi", "all birds topics"])
        ('all birds', ('vebi', 'topics'))
    """
    words = [name.split(" ") for name in names]
    shared = 0
    if len(names) > 1:
        starts = zip(*(some[:-1] for some in words), strict=False)
        shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, starts))
    return " ".join(words[0][:shared]), tuple(" ".join(some[shared:]) for some in words)


def make_comparison(results: Sequence[StatisticResult]) -> MethodComparison:
    """Make the comparison of the results of one call of `score_coverage`."""
    return MethodComparison(tuple(results), *split_method_names([model_name(result) for result in results]))


def split_comparisons(results: Sequence[StatisticResult]) -> list[MethodComparison]:
    """Find the comparisons in results of several calls, which differ in data or settings."""
    calls: dict[str, list[StatisticResult]] = {}
    for result in results:
        calls.setdefault(repr((result.about.data, result.about.settings)), []).append(result)
    return [make_comparison(some) for some in calls.values()]


def iou_by_pooling(result: StatisticResult) -> dict[str, list[float | None]]:
    """Return average IoU by share of marked points, for each way to pool points that was computed."""
    pooling = result.about.settings.get("pooling", "set")
    found: dict[str, list[float | None]] = result.details.get("by_pooling") or {
        pooling: result.details["average_iou"]
    }
    return found


def best_share(result: StatisticResult) -> tuple[float, float | None]:
    """Return the share of marked points with the largest average IoU, and this IoU."""
    best = result.details["best_proportion"]
    return result.about.settings["proportions"][best], result.details["average_iou"][best]


def write_order(order: Sequence[str], differs: Sequence[bool]) -> str:
    """Write an order of methods, best first, with > between two that differ and ~ where none is shown.

    Example:
        >>> write_order(["topics", "vebi", "grad-cam"], [False, True])
        'topics ~ vebi > grad-cam'
    """
    return order[0] + "".join(
        f" {'>' if differ else '~'} {name}" for name, differ in zip(order[1:], differs, strict=True)
    )
