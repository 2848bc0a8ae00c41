"""Fit explanation methods to classifiers for ``candlelight evaluate coverage --method``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evaluation.commands.evaluate_options import open_secondary
from loaders.errors import InputError

if TYPE_CHECKING:
    from evaluation.coverage.fit_methods import MethodName, MethodSettings, TrainingImages
    from evaluation.models.backbones import TrainedClassifier
    from evaluation.models.model_spec import NamedModel
    from evaluation.results.result import StatisticResult
    from evaluation.running.finished_steps import FinishedSteps
    from loaders.views import Factors, Parts


@dataclass
class CoverageComparison:
    """Methods that are compared with each other on the same images.

    Attributes:
        view: images with masks.
        methods: methods by name.
        size: height and width to which images are resized.
        labels: class of each image; None if it is not known.
        topic_accuracy: accuracy of the classifier behind its topics, by name of the method.
        completeness: completeness of the topics, by name of the method.
    """

    view: "Parts"
    methods: dict[str, Any]
    size: tuple[int, int] | None
    labels: list[int] | None = None
    topic_accuracy: dict[str, float] = field(default_factory=dict)
    completeness: dict[str, float] = field(default_factory=dict)

    def described(self, results: Mapping[str, "StatisticResult"]) -> dict[str, "StatisticResult"]:
        """Add completeness, and the accuracy behind topics, to the details of the results."""
        found = dict(results)
        for name, value in self.completeness.items():
            accuracy = {"explained": self.topic_accuracy[name]}
            details = {**found[name].details, "accuracy": accuracy, "completeness": value}
            found[name] = replace(found[name], details=details)
        return found


@dataclass(frozen=True)
class _Explained:
    """A classifier, and the images on which its methods learn.

    Attributes:
        named: the classifier.
        record: its file's content; None for other networks.
        layer: layer whose maps are explained.
        label: factor of the classes.
        fitting: images on which methods learn.
        rows: their row numbers.
    """

    named: "NamedModel"
    record: "TrainedClassifier | None"
    layer: str
    label: str
    fitting: "Factors"
    rows: list[int]


def explain_classifiers(
    data: str,
    specs: Sequence[str],
    names: Sequence["MethodName"],
    settings: "MethodSettings",
    steps: "FinishedSteps",
    *,
    fit: str | None,
    fit_limit: int | None,
    label: str | None,
    layer: str | None,
    by: str,
    size: tuple[int, int] | None,
    device: str,
    choice: Mapping[str, Any],
) -> list[CoverageComparison]:
    """Fit methods to each classifier, and open the images that no method has learned from.

    Args:
        data: the argument DATA.
        specs: classifiers, see `evaluation.models.open_models`.
        names: methods.
        settings: settings of the methods.
        steps: keeps fitted methods.
        fit: option ``--fit``.
        fit_limit: option ``--fit-limit``.
        label: option ``--label``.
        layer: option ``--explained-layer``.
        by: option ``--by``.
        size: option ``--size``.
        device: torch device.
        choice: options of `evaluation.commands.evaluate_options.data_options`.

    Returns:
        A comparison for each classifier, on the same images.

    Raises:
        InputError: a model is no classifier, its classes do not fit the factor, or no images are left to
            learn from or to score.
    """
    from evaluation.models import open_models
    from loaders.views import open_factors, open_parts

    if not specs:
        raise InputError("--method: needs a --model, the classifier to explain")
    factors = open_factors(data, **choice)
    explained = [
        _explained(spec, named, data, factors, fit, fit_limit, label, layer)
        for spec, named in zip(specs, open_models(specs, device, "srgb").values(), strict=True)
    ]
    learned = {one.fitting.ids[row] for one in explained for row in one.rows}
    kept = [row for row, name in enumerate(factors.ids) if name not in learned]
    if not kept:
        raise InputError(
            "all images of DATA were learned from, so that none is left to score; hold some out when the "
            "classifier is trained (--validation), or name another --split or --rows"
        )
    scored = {
        **choice,
        "rows": [factors.named.numbers[row] for row in kept],
        "limit": None,
    }
    view = open_parts(data, by=by, **scored)
    shown = open_factors(data, **scored)
    return [_compare(one, names, settings, steps, view, shown, size, device) for one in explained]


def _explained(
    spec: str,
    named: "NamedModel",
    data: str,
    factors: "Factors",
    fit: str | None,
    fit_limit: int | None,
    label: str | None,
    layer: str | None,
) -> _Explained:
    from evaluation.models.backbones import is_classifier, load_classifier
    from evaluation.models.model_spec import split_spec
    from loaders.views import open_factors

    path, name = split_spec(spec)[1], named.identity.name
    record = load_classifier(path) if is_classifier(path) else None
    training = record.training if record else None
    layer = layer or getattr(named.model, "explained_layer", None)
    if layer is None:
        raise InputError(
            f"`{name}`: name the layer to explain, usually the last convolution (--explained-layer)"
        )
    label = label or (training.label if training else None)
    if label is None:
        raise InputError(f"`{name}`: name the factor whose value is the class (--label)")
    if fit is not None:
        fitting: Factors = open_secondary(open_factors, data, fit)
        rows = list(range(len(fitting)))
    elif training is None:
        raise InputError(f"`{name}`: its training images are not known; name images to learn from (--fit)")
    else:
        known, fitting = set(training.training_ids), factors
        rows = [row for row, one in enumerate(factors.ids) if one in known]
        if not rows:
            raise InputError(
                f"`{name}` was trained on no image of DATA; name images to learn from (--fit), such as "
                f"{training.data.name}"
            )
    if fit_limit is not None and fit_limit < len(rows):
        rows = [rows[place * len(rows) // fit_limit] for place in range(fit_limit)]
    return _Explained(named, record, layer, label, fitting, rows)


def _compare(
    one: _Explained,
    names: Sequence["MethodName"],
    settings: "MethodSettings",
    steps: "FinishedSteps",
    view: "Parts",
    shown: "Factors",
    size: tuple[int, int] | None,
    device: str,
) -> CoverageComparison:
    from evaluation.coverage.fit_methods import fit_method, read_training_images

    if size is None and one.record and one.record.training:
        size = one.record.training.size
    numbers = _class_numbers(one, one.fitting)
    training = read_training_images(one.fitting, one.rows, [numbers[row] for row in one.rows], size)
    comparison = CoverageComparison(view, {}, size, _class_numbers(one, shown))
    for name in names:
        method = fit_method(name, one.named, one.layer, training, settings, steps, device)
        comparison.methods[method.identity.name] = method
        if name == "topics":
            _add_completeness(comparison, method, training, shown, steps, device)
    return comparison


def _class_numbers(one: _Explained, view: "Factors") -> list[int]:
    """Number the classes of all rows as the classifier does."""
    from evaluation.training import factor_labels

    numbers, values = factor_labels(view, one.label)
    classes = values if one.record is None else one.record.classes
    if unknown := sorted(set(values) - set(classes)):
        raise InputError(
            f"--label {one.label}: `{one.named.identity.name}` has no class `{unknown[0]}`; its classes are "
            f"{', '.join(classes)}"
        )
    return [classes.index(values[number]) for number in numbers]


def _add_completeness(
    comparison: CoverageComparison,
    method: "NamedModel",
    training: "TrainingImages",
    shown: "Factors",
    steps: "FinishedSteps",
    device: str,
) -> None:
    """Measure completeness of topics on the scored images, and the accuracy behind them."""
    import torch

    from evaluation.coverage.fit_methods import read_training_images
    from evaluation.coverage.topic_completeness import classifier_accuracy, completeness
    from evaluation.running.finished_steps import model_key
    from evaluation.running.hidden_layers import evaluation_mode

    test = read_training_images(shown, range(len(shown)), comparison.labels or [], comparison.size)

    def measure() -> dict[str, torch.Tensor]:
        topics = method.model
        train, tested = (topics.layer(some.images, some.labels) for some in (training, test))
        with evaluation_mode(topics.head):
            found = completeness(topics.state()["topics"], topics.head, train, tested, topics.how)
            chance = 1 / topics.head(tested.activations[:1]).shape[1]
            whole = classifier_accuracy(topics.head, tested)
        return {"measured": torch.tensor([found, chance + found * (whole - chance)], dtype=torch.float64)}

    name = method.identity.name
    measured = steps.get_or_compute(model_key(method, device, tested=test.sha256), measure)["measured"]
    comparison.completeness[name], comparison.topic_accuracy[name] = measured.tolist()


def coverage_lines(comparisons: Sequence[Sequence["StatisticResult"]]) -> list[str]:
    """Write the scores of each comparison, its paired differences, its controls and its open parameters."""
    from evaluation.results.compare import compare
    from evaluation.results.result import table

    lines: list[str] = []
    for results in comparisons:
        lines += [table(results), *(str(compare(results[0], other)) for other in results[1:])]
        details = results[0].details
        for name, scores in details.get("controls", {}).items():
            lines.append(
                f"control {name}: mean_iou {scores['mean_iou']:.4g}, alone WAIoU {scores['waiou']:.4g}"
            )
        if len(results) > 1 and "sensitivity" in details:
            lines.append(
                "order by WAIoU with other values of one parameter, Kendall's tau with the order above:"
            )
            lines += [
                f"  {one['setting']:24} {_tau(one['agreement'])}  {' > '.join(one['order'])}"
                for one in details["sensitivity"]
            ]
    return lines


def _tau(agreement: float | None) -> str:
    return "    -" if agreement is None else f"{agreement:5.2f}"
