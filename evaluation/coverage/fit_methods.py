"""Fit explanation methods by name.

The comparisons that they take part in, and the networks that they explain.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.grad_cam import GradCAM
from candlelight.evaluation.coverage.prototypes import PrototypeMethod, PrototypeTraining
from candlelight.evaluation.coverage.thresholds import resize_images
from candlelight.evaluation.coverage.topic_completeness import ReconstructionTraining
from candlelight.evaluation.coverage.topics import TopicMethod, TopicSearch
from candlelight.evaluation.coverage.vebi import VEBI
from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Fingerprint, check_srgb_image, weights_sha256
from candlelight.evaluation.run.hidden_layers import split_network
from candlelight.evaluation.run.intervals import mean_interval
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.named_models import decode, encode
from candlelight.evaluation.run.result import StatisticResult, model_name
from candlelight.evaluation.run.steps import FinishedSteps, model_key
from candlelight.evaluation.views import Images
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument

MethodName = Literal["vebi", "topics", "prototypes", "grad-cam"]
METHOD_NAMES: tuple[MethodName, ...] = get_args(MethodName)
_LARGEST = 2**33  # bytes of all training images


@dataclass(frozen=True)
class MethodSettings:
    """Settings of the methods that learn.

    Attributes:
        seed: seed of topics and prototypes.
        bound: see `VEBI`.
        topics: number of topics, see `TopicSearch`.
        per_class: prototypes of each class.
        epochs: epochs of the prototype network, see `PrototypeTraining`.
    """

    seed: int = 0
    bound: float = 10.0
    topics: int = 10
    per_class: int = 10
    epochs: int = 30


def make_method(
    name: MethodName, network: nn.Module, layer: str, settings: MethodSettings, device: str = "cpu"
) -> ExplanationMethod:
    """Make an explanation method of a classifier; it has learned nothing yet.

    Args:
        name: name of the method.
        network: a classifier that gives logits [images, classes].
        layer: layer whose maps the concepts explain; the prototype network starts with all layers up to it.
        settings: settings of the methods that learn.
        device: torch device of the network.

    Raises:
        InputError: there is no such method, or the network cannot be split at the layer: a `Backbone` only
            at its ``explained_layer``.

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> make_method("topics", network, "0", MethodSettings()).name
        'topics'
    """
    check_choice("name", name, MethodName)
    if name == "vebi":
        return VEBI(network, layer, settings.bound)
    if name == "grad-cam":
        return GradCAM(network, layer)
    if isinstance(network, Backbone):
        if layer != network.explained_layer:
            raise InputError(
                f"expected the layer `{network.explained_layer}` of a classifier of `candlelight "
                f"train classifier`, got `{layer}`; omit --explained-layer, or choose vebi or grad-cam"
            )
        features, head = network.steps()
    else:
        features, head = split_network(network, layer)
    if name == "topics":
        how = ReconstructionTraining(settings.seed)
        return TopicMethod(features, head, TopicSearch(settings.topics), how, device)
    training = PrototypeTraining(settings.seed, settings.per_class, epochs=settings.epochs)
    return PrototypeMethod(features, training, device)


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """Images on which methods learn concepts of a classifier.

    Attributes:
        images: sRGB-encoded in [0, 1].
        labels: class of each image.
        sha256: hash of both, and of the ids.
    """

    images: Float[Tensor, "train 3 height width"]
    labels: Int[Tensor, " train"]
    sha256: str


def read_training_images(
    data: Images, rows: Sequence[int], labels: Sequence[int], size: tuple[int, int] | None
) -> TrainingImages:
    """Read images into memory, resized as `score_coverage` does.

    Args:
        data: the images.
        rows: their row numbers.
        labels: class of each of these rows.
        size: height and width; None does not resize.

    Raises:
        InputError: there are no rows, images have several sizes, or do not fit in 8 GiB.
    """
    if not rows:
        raise InputError("expected images to learn concepts from, got none")
    fingerprint = Fingerprint()
    images: Tensor | None = None
    for place, row in enumerate(rows):
        image = check_srgb_image(data[row])
        image = encode(resize_images(decode(image)[None], size))[0] if size else image
        fingerprint.add(data.ids[row], image)
        if images is None:
            if (count := len(rows) * image.numel() * 4) > _LARGEST:
                raise InputError(
                    f"{len(rows)} images of {image.shape[1]} x {image.shape[2]} need {count / 2**30:.1f} "
                    f"GiB; choose fewer of them ({argument('fit_limit', 'rows')}), or a smaller "
                    f"{argument('size')}"
                )
            images = torch.empty(len(rows), *image.shape)
        if image.shape != images.shape[1:]:
            raise InputError(
                f"images have several sizes, {list(images.shape[2:])} and {list(image.shape[1:])}; give one "
                f"{argument('size')} to resize them to"
            )
        images[place] = image
    assert images is not None
    fingerprint.add("labels", np.array(labels))
    return TrainingImages(images, torch.tensor(labels), fingerprint.hexdigest())


def fit_method(
    name: MethodName,
    classifier: NamedModel,
    layer: str,
    training: TrainingImages,
    settings: MethodSettings,
    steps: FinishedSteps,
    device: str = "cpu",
) -> NamedModel:
    """Fit an explanation method to a classifier; a method that was fitted before is read from the steps.

    Args:
        name: see `make_method`.
        classifier: the classifier, which passes `check_classifier`.
        layer: see `make_method`.
        training: images and classes to learn from.
        settings: see `make_method`.
        steps: keeps the fitted method.
        device: torch device of the classifier.

    Returns:
        The fitted method, named after the classifier and itself.

    Raises:
        InputError: the method cannot be made or fitted; the message names it.
    """
    network, fitted_name = classifier.model, f"{classifier.identity.name} {name}"
    facts: dict[str, Any] = {"method": name, "layer": layer, "fitted": training.sha256, **asdict(settings)}

    def fit() -> dict[str, Tensor]:
        with model_errors(fitted_name, training.images):
            state = method.fit(training.images, training.labels).state()
        return {key: values.detach().cpu() for key, values in state.items()}

    key = model_key(classifier, device, **facts)
    try:
        method = make_method(name, network, layer, settings, device)
        state = fit() if name == "grad-cam" else steps.get_or_compute(key, fit)
    except InputError as error:
        raise InputError(f"`{fitted_name}`: {error}") from error
    fingerprint = Fingerprint()
    for fact, value in {**facts, "weights": weights_sha256(network), **state}.items():
        fingerprint.add(fact, value)
    identity = replace(
        classifier.identity,
        name=fitted_name,
        sha256=fingerprint.hexdigest() if key else None,
    )
    return NamedModel(identity, method.restore(state), classifier.colour_space)


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
