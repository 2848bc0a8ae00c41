"""Results of methods that were compared in one call, and the networks that they explain."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from candlelight.evaluation.report.blocks import split_method_names
from candlelight.evaluation.run.intervals import mean_interval
from candlelight.evaluation.run.result import StatisticResult, model_name


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


def make_comparison(results: Sequence[StatisticResult]) -> MethodComparison:
    """Make the comparison of the results of one comparison."""
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


def first_users(networks: Mapping[str, Any]) -> dict[str, str]:
    """Name, for each method, the first method that explains the same network.

    Args:
        networks: the network of each method.

    Example:
        >>> first_users({"vebi": len, "prototypes": max, "grad-cam": len})
        {'vebi': 'vebi', 'prototypes': 'prototypes', 'grad-cam': 'vebi'}
    """
    first: dict[tuple[int, str], str] = {}
    users = {}
    for name, network in networks.items():
        # Each look-up of a bound method makes another object.
        key = id(getattr(network, "__self__", network)), getattr(network, "__name__", "")
        users[name] = first.setdefault(key, name)
    return users


def describe_network(
    user: str, predicted: Sequence[int], labels: Sequence[int] | None, groups: Sequence[str]
) -> dict[str, Any]:
    """Describe the network that a method explains, for the details of a result.

    Args:
        user: the first method that explains it, from `first_users`.
        predicted: class that the network predicts for each image; -1 if its logits are not finite.
        labels: true class of each image; None if it is not known.
        groups: group of each image.

    Returns:
        ``of``, the first method; and, if labels are known, ``accuracy`` with its 95 % interval over groups
        and ``chance``, the accuracy of always predicting the most frequent class; None for both ends of the
        interval of one group, and for the chance level of images of one class, which tells nothing.

    Example:
        >>> describe_network("vebi", [0, 1, 1, 0], [0, 1, 1, 1], "abcd")["accuracy"]
        [0.75, 0.0, 1.0]
    """
    if labels is None:
        return {"of": user}
    right = [float(one == other) for one, other in zip(predicted, labels, strict=True)]
    score = mean_interval(right, groups).within(0, 1)
    counts = Counter(labels)
    chance = max(counts.values()) / len(labels) if len(counts) > 1 else None
    interval = (None if math.isnan(end) else end for end in (score.low, score.high))
    return {"of": user, "accuracy": [score.value, *interval], "chance": chance}


def group_by_network(
    networks: Mapping[str, Mapping[str, Any] | None],
) -> list[tuple[dict[str, Any], list[str]]]:
    """List the networks of known accuracy with the methods that explain them.

    Args:
        networks: detail ``network`` of each method, from `describe_network`; None if there is none.

    Example:
        >>> one, other = ({"of": name, "accuracy": [0.5, 0.4, 0.6], "chance": 0.2} for name in ("a", "b"))
        >>> [names for _, names in group_by_network({"a": one, "b": other, "c": one, "d": None})]
        [['a', 'c'], ['b']]
    """
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, network in networks.items():
        if network and "accuracy" in network:
            found.setdefault(network["of"], (dict(network), []))[1].append(name)
    return list(found.values())


def chance_notes(networks: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Name the networks whose accuracy is not shown to be above chance, and what follows.

    Args:
        networks: see `group_by_network`.

    Example:
        >>> network = {"of": "vebi", "accuracy": [0.25, 0.125, 0.375], "chance": 0.25}
        >>> for note in chance_notes({"vebi": network}):
        ...     print(note)
        accuracy 0.25 (95 % interval 0.125 to 0.375; chance 0.25): the network that vebi explains is not \
shown to be better than always predicting the most frequent class, so that no score here tells whether a \
method explains a working classifier: give a trained one
    """
    return [
        f"accuracy {_text(network)}: the network that {join_names(names)} "
        f"explain{'s' if len(names) == 1 else ''} is not shown to be better than always predicting the most "
        "frequent class, so that no score here tells whether a method explains a working classifier: give a "
        "trained one"
        for network, names in group_by_network(networks)
        if network["chance"] is not None and not _above_chance(network)
    ]


def _above_chance(network: Mapping[str, Any]) -> bool:
    low = network["accuracy"][1]
    return low is not None and low > network["chance"]


def _text(network: Mapping[str, Any]) -> str:
    value, low, high = network["accuracy"]
    interval = "" if low is None else f"95 % interval {low:.3g} to {high:.3g}; "
    return f"{value:.3g} ({interval}chance {network['chance']:.3g})"


def join_names(names: Sequence[str]) -> str:
    """Join names of methods, and write the words that they begin with only once.

    Example:
        >>> join_names(["kinds vebi", "kinds topics"])
        'kinds vebi, topics'
    """
    classifier, methods = split_method_names(names)
    return " ".join(filter(None, (classifier, ", ".join(methods))))
