"""Fit explanation methods to classifiers for ``candlelight evaluate coverage --method``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from candlelight.evaluation.commands.explanation_options import (
    ExplanationOptions,
    FittedClassifier,
    fit_classifiers,
)
from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from candlelight.evaluation.coverage.fit_methods import TrainingImages
    from candlelight.evaluation.models.model_spec import NamedModel
    from candlelight.evaluation.run.result import StatisticResult
    from candlelight.evaluation.run.steps import FinishedSteps
    from candlelight.evaluation.views import Factors, Parts


@dataclass
class CoverageComparison:
    """Methods that are compared with each other on the same images.

    Attributes:
        view: images with masks.
        methods: methods by name.
        size: height and width to which images are resized.
        labels: class of each image; None if it is not known.
        topics: completeness of topics and accuracies, by name of the method; see `described`.
        fitted: the classifier and its methods; None for heatmaps of other origin.
        learned: number of images that are left out, because a classifier or a method has learned from them.
    """

    view: "Parts"
    methods: dict[str, Any]
    size: tuple[int, int] | None
    labels: list[int] | None = None
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    fitted: FittedClassifier | None = None
    learned: int = 0

    def described(self, results: Mapping[str, "StatisticResult"]) -> dict[str, "StatisticResult"]:
        """Add to the details how many images are scored, completeness, and accuracies."""
        found = dict(results)
        if self.learned:
            name, first = next(iter(results.items()))
            note = (
                f"{len(self.view)} of {len(self.view) + self.learned} images of DATA are scored: "
                "a classifier or a method has learned from the others"
            )
            found[name] = replace(
                first, details={**first.details, "notes": [*first.details.get("notes", ()), note]}
            )
        for name, measured in self.topics.items():
            found[name] = replace(found[name], details={**found[name].details, **measured})
        return found


def open_comparisons(
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
    """Fit methods to each classifier, and open the images that neither it nor a method has learned from.

    Args:
        data: the argument DATA.
        specs: see `fit_classifiers`, as the following two arguments.
        options: the chosen methods and their settings.
        steps: keeps fitted methods.
        by: option ``--by``.
        size: option ``--size``.
        device: torch device.
        choice: options of `candlelight.evaluation.commands.evaluate_options.data_options`.

    Returns:
        A comparison for each classifier, on the same images.

    Raises:
        InputError: no images are left to score, or as `fit_classifiers`.
    """
    from candlelight.evaluation.views import open_data

    factors = open_data("factors", data, **choice)
    fitted = fit_classifiers(data, specs, options, factors, size, steps, device)
    seen = frozenset[str]().union(*(one.seen_ids for one in fitted))
    kept = [factors.named.numbers[row] for row, name in enumerate(factors.ids) if name not in seen]
    if not kept:
        raise InputError(
            "all images of DATA were learned from, so that none is left to score; hold some out when the "
            "classifier is trained (--validation), or name another --split or --rows"
        )
    scored = {**choice, "rows": kept, "limit": None}
    view, shown = open_data("parts", data, by=by, **scored), open_data("factors", data, **scored)
    learned = len(factors) - len(kept)
    return [replace(_compare(one, view, shown, steps, device), learned=learned) for one in fitted]


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
    """Measure completeness of topics on the scored images, the accuracy behind them and without them."""
    import torch

    from candlelight.evaluation.coverage.fit_methods import read_training_images
    from candlelight.evaluation.coverage.topic_completeness import classifier_accuracy, completeness
    from candlelight.evaluation.run.hidden_layers import evaluation_mode
    from candlelight.evaluation.run.model_outputs import model_errors
    from candlelight.evaluation.run.steps import model_key

    test = read_training_images(shown, range(len(shown)), comparison.labels or [], comparison.size)

    def measure() -> dict[str, torch.Tensor]:
        topics = method.model
        with evaluation_mode(topics.head), model_errors(name, test.images):
            train, tested = (topics.layer(some.images, some.labels) for some in (training, test))
            found = completeness(topics.state()["topics"], topics.head, train, tested, topics.how)
            chance = 1 / topics.head(tested.activations[:1]).shape[1]
            whole = classifier_accuracy(topics.head, tested)
            behind = chance + found * (whole - chance)
        return {"measured": torch.tensor([found, behind, whole], dtype=torch.float64)}

    name = method.identity.name
    measured = steps.get_or_compute(model_key(method, device, tested=test.sha256), measure)["measured"]
    # Completeness is not defined for a classifier that is not better than chance.
    found, behind, whole = (None if math.isnan(value) else value for value in measured.tolist())
    accuracy = {"classifier": whole, "explained": behind}
    comparison.topics[name] = {"completeness": found, "accuracy": accuracy}


def coverage_lines(comparisons: Sequence[Sequence["StatisticResult"]]) -> list[str]:
    """Write the scores of each comparison, its paired differences, its controls and its open parameters."""
    from candlelight.evaluation.coverage.control_explainers import mask_control_note
    from candlelight.evaluation.coverage.fit_methods import chance_notes, write_order
    from candlelight.evaluation.run.compare import compare
    from candlelight.evaluation.run.result import model_name, table

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
                "order by WAIoU with other values of one parameter (~ where no difference is shown), and "
                "Kendall's tau with the order above:"
            )
            lines += [
                f"  {one['setting']:24} {_tau(one['agreement'])}  {write_order(one['order'], one['differs'])}"
                for one in details["sensitivity"]
            ]
        networks = {model_name(result): result.details.get("network") for result in results}
        notes = mask_control_note(details.get("mask_controls")), *chance_notes(networks)
        lines += [f"note: {note}" for note in notes if note]
    return lines


def _tau(agreement: float | None) -> str:
    return "    -" if agreement is None else f"{agreement:5.2f}"
