"""Options that choose explanation methods, and the fitting of the methods to classifiers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from candlelight.evaluation.commands.training_choice import (
    check_classes_shown,
    is_same_data,
    trained_ids,
    training_rows,
)
from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from candlelight.evaluation.coverage.fit_methods import TrainingImages
    from candlelight.evaluation.models.model_spec import NamedModel
    from candlelight.evaluation.run.steps import FinishedSteps
    from candlelight.evaluation.views import Factors

_Command = TypeVar("_Command", bound=Callable[..., Any])
_METHODS = ("vebi", "topics", "prototypes", "grad-cam")
# Options, and the methods that read them; () for all methods.
_READ_BY: dict[str, tuple[str, ...]] = {
    "fit": (),
    "fit_limit": (),
    "label": (),
    "explained_layer": (),
    "bound": ("vebi",),
    "topics": ("topics",),
    "prototypes": ("prototypes",),
    "epochs": ("prototypes",),
    "seed": ("topics", "prototypes"),
}


@dataclass(frozen=True)
class ExplanationOptions:
    """Values of the options of `explanation_options`."""

    method: tuple[Any, ...]
    fit: str | None
    fit_limit: int | None
    label: str | None
    explained_layer: str | None
    bound: float
    topics: int
    prototypes: int
    epochs: int
    seed: int

    def check_unused(self) -> None:
        """Refuse options on the command line that no chosen method reads.

        Raises:
            InputError: an option without a ``--method`` that reads it.
        """
        context = click.get_current_context()
        for name, methods in _READ_BY.items():
            if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
                continue
            if not self.method or not {"all", *(methods or _METHODS)}.intersection(self.method):
                option = f"--{name.replace('_', '-')} {getattr(self, name)}"
                needed = f"--method {' or '.join(methods)}" if methods else "a --method"
                raise InputError(f"{option}: needs {needed}")


def explanation_options(command: _Command) -> _Command:
    """Add the options for explanation methods; the command gets them as one `ExplanationOptions`."""

    def run(**given: Any) -> Any:
        names = ExplanationOptions.__dataclass_fields__
        chosen = {name: given.pop(name) for name in names}
        return command(explanations=ExplanationOptions(**chosen), **given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    vars(run).update(vars(command))
    for option in (
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of topics and prototypes."),
        click.option(
            "--epochs",
            type=click.IntRange(1),
            default=30,
            show_default=True,
            help="Prototypes: epochs of training.",
        ),
        click.option(
            "--prototypes",
            type=click.IntRange(1),
            default=10,
            show_default=True,
            help="Prototypes: their number for each class.",
        ),
        click.option(
            "--topics", type=click.IntRange(1), default=10, show_default=True, help="Topics: their number."
        ),
        click.option(
            "--bound",
            type=click.FloatRange(0, min_open=True),
            default=10.0,
            show_default=True,
            help="VEBI: bound of the sum of the weights of a class.",
        ),
        click.option(
            "--explained-layer",
            help="Layer whose maps the methods explain.  [default: the last convolution, of classifiers of "
            "`candlelight train classifier`]",
        ),
        click.option(
            "--label",
            help="Factor whose value is the class; a network that names no classes has them in the order of "
            "the factor's values.  [default: that of the classifier's file]",
        ),
        click.option(
            "--fit-limit",
            type=click.IntRange(2),
            help="Learn concepts on N of the images, evenly spaced.",
        ),
        click.option(
            "--fit",
            metavar="SOURCE",
            help="Images on which methods learn concepts: SET (of DATA), PATH[:SET[:SPLIT]] or "
            "LAYOUT:PATH[:SPLIT]; of these, the ones that the classifier was trained on, if any.  "
            "[default of evaluate coverage: DATA]",
        ),
        click.option(
            "--method",
            multiple=True,
            type=click.Choice([*_METHODS, "all"]),
            help="Explain each --model, a classifier, by this method; repeatable.",
        ),
    ):
        run = option(run)
    return run  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A classifier with explanation methods that have learned its concepts.

    Attributes:
        named: the classifier.
        label: factor of the classes.
        classes: values of the factor, in the order of the logits.
        size: height and width to which images are resized; None for their own size.
        training: images from which the methods have learned.
        seen_ids: ids of the images of DATA among them, and among those on which the classifier was trained.
        methods: fitted methods by name.
    """

    named: "NamedModel"
    label: str
    classes: tuple[str, ...]
    size: tuple[int, int] | None
    training: "TrainingImages"
    seen_ids: frozenset[str]
    methods: "dict[str, NamedModel]"

    def class_numbers(self, view: "Factors") -> list[int]:
        """Number the classes of all rows of a view as the classifier does."""
        return _class_numbers(self.named, self.classes, self.label, view)

    def known_class_numbers(self, values: Sequence[str] | None) -> list[int] | None:
        """Number values of the factor as the classifier does; None if not all are known classes of it."""
        if values is None or not set(values) <= set(self.classes):
            return None
        return [self.classes.index(value) for value in values]


def fit_classifiers(
    data: str,
    specs: Sequence[str],
    options: ExplanationOptions,
    factors: "Factors | None",
    size: tuple[int, int] | None,
    steps: "FinishedSteps",
    device: str,
) -> list[FittedClassifier]:
    """Open classifiers, and fit the chosen methods to each.

    Args:
        data: the argument DATA.
        specs: classifiers, see `candlelight.evaluation.models.open_models`.
        options: the chosen methods and their settings.
        factors: images of DATA, for methods without ``--fit``; None if they have no training images.
        size: option ``--size``; None for the size of the classifier's training.
        steps: keeps fitted methods.
        device: torch device.

    Raises:
        InputError: a model is no classifier, its classes do not fit the factor, or there are no images to
            learn from.
    """
    from candlelight.evaluation.models import open_models

    if not specs:
        raise InputError("--method: needs a --model, the classifier to explain")
    opened = open_models(specs, device, "srgb").values()
    return [
        _fit(spec, named, data, options, factors, size, steps, device)
        for spec, named in zip(specs, opened, strict=True)
    ]


def _fit(
    spec: str,
    named: "NamedModel",
    data: str,
    options: ExplanationOptions,
    factors: "Factors | None",
    size: tuple[int, int] | None,
    steps: "FinishedSteps",
    device: str,
) -> FittedClassifier:
    from torch import nn

    from candlelight.evaluation.coverage.fit_methods import (
        METHOD_NAMES,
        MethodSettings,
        fit_method,
        read_training_images,
    )
    from candlelight.evaluation.coverage.score_causal_check import check_classifier, order_classes
    from candlelight.evaluation.models.classifiers import is_classifier, load_classifier
    from candlelight.evaluation.models.model_spec import split_spec
    from candlelight.evaluation.training.training_rows import factor_labels

    path, name = split_spec(spec)[1], named.identity.name
    record = load_classifier(path) if is_classifier(path) else None
    trained = record.training if record else None
    if not isinstance(named.model, nn.Module):
        raise InputError(f"--method: `{name}` is no network; give a classifier")
    layer = options.explained_layer or getattr(named.model, "explained_layer", None)
    if layer is None:
        raise InputError(
            f"`{name}`: name the layer to explain, usually the last convolution (--explained-layer)"
        )
    label = options.label or (trained.label if trained else None)
    if label is None:
        raise InputError(f"`{name}`: name the factor whose value is the class (--label)")
    size = size or (trained.size if trained else None)
    view, rows = training_rows(name, data, options, factors, trained)
    wanted = METHOD_NAMES if "all" in options.method else tuple(dict.fromkeys(options.method))
    classes = record.classes if record else order_classes(named, factor_labels(view, label)[1])
    numbers = _class_numbers(named, classes, label, view)
    labels = [numbers[row] for row in rows]
    if set(wanted) != {"grad-cam"}:
        check_classes_shown(name, classes, labels)
    training = read_training_images(view, rows, labels, size)
    check_classifier(named, training.images, classes, device)
    settings = MethodSettings(options.seed, options.bound, options.topics, options.prototypes, options.epochs)
    fitted = [fit_method(one, named, layer, training, settings, steps, device) for one in wanted]
    methods = {method.identity.name: method for method in fitted}
    seen = trained_ids(trained, factors) if factors else frozenset()
    if factors and is_same_data(view.identity, factors.identity):
        seen |= {view.ids[row] for row in rows}
    return FittedClassifier(named, label, classes, size, training, seen, methods)


def _class_numbers(named: "NamedModel", classes: Sequence[str], label: str, view: "Factors") -> list[int]:
    from candlelight.evaluation.training.training_rows import label_values

    values = label_values(view, label)
    if unknown := sorted(set(values) - set(classes)):
        raise InputError(
            f"--label {label}: `{named.identity.name}` has no class `{unknown[0]}`; its classes are "
            f"{', '.join(classes)}"
        )
    return [classes.index(value) for value in values]
