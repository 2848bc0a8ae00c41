"""Fit explanation methods to classifiers for ``candlelight evaluate coverage --method``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evaluation.commands.explanation_options import (
    ExplanationOptions,
    FittedClassifier,
    fit_classifiers,
)
from loaders.errors import InputError

if TYPE_CHECKING:
    from evaluation.coverage.fit_methods import TrainingImages
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
        fitted: the classifier and its methods; None for heatmaps of other origin.
    """

    view: "Parts"
    methods: dict[str, Any]
    size: tuple[int, int] | None
    labels: list[int] | None = None
    topic_accuracy: dict[str, float] = field(default_factory=dict)
    completeness: dict[str, float] = field(default_factory=dict)
    fitted: FittedClassifier | None = None

    def described(self, results: Mapping[str, "StatisticResult"]) -> dict[str, "StatisticResult"]:
        """Add completeness, and the accuracy behind topics, to the details of the results."""
        found = dict(results)
        for name, value in self.completeness.items():
            accuracy = {"explained": self.topic_accuracy[name]}
            details = {**found[name].details, "accuracy": accuracy, "completeness": value}
            found[name] = replace(found[name], details=details)
        return found


def compare_methods(
    data: str,
    specs: Sequence[str],
    options: ExplanationOptions,
    steps: "FinishedSteps",
    *,
    by: str,
    size: tuple[int, int] | None,
    device: str,
    choice: Mapping[str, Any],
) -> list[CoverageComparison]:
    """Fit methods to each classifier, and open the images that no method has learned from.

    Args:
        data: the argument DATA.
        specs: see `fit_classifiers`, as the following two arguments.
        options: the chosen methods and their settings.
        steps: keeps fitted methods.
        by: option ``--by``.
        size: option ``--size``.
        device: torch device.
        choice: options of `evaluation.commands.evaluate_options.data_options`.

    Returns:
        A comparison for each classifier, on the same images.

    Raises:
        InputError: no images are left to score, or as `fit_classifiers`.
    """
    from loaders.views import open_factors, open_parts

    factors = open_factors(data, **choice)
    fitted = fit_classifiers(data, specs, options, factors, size, steps, device)
    learned = frozenset[str]().union(*(one.learned_ids for one in fitted))
    kept = [factors.named.numbers[row] for row, name in enumerate(factors.ids) if name not in learned]
    if not kept:
        raise InputError(
            "all images of DATA were learned from, so that none is left to score; hold some out when the "
            "classifier is trained (--validation), or name another --split or --rows"
        )
    scored = {**choice, "rows": kept, "limit": None}
    view, shown = open_parts(data, by=by, **scored), open_factors(data, **scored)
    return [_compare(one, view, shown, steps, device) for one in fitted]


def _compare(
    one: FittedClassifier, view: "Parts", shown: "Factors", steps: "FinishedSteps", device: str
) -> CoverageComparison:
    comparison = CoverageComparison(view, dict(one.methods), one.size, one.class_numbers(shown), fitted=one)
    for method in one.methods.values():
        if hasattr(method.model, "topics"):
            _add_completeness(comparison, method, one.training, shown, steps, device)
    return comparison


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
