"""Options that choose explanation methods, and the fitting of the methods to classifiers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evaluation.commands.evaluate_options import open_secondary
from loaders.errors import InputError

if TYPE_CHECKING:
    from evaluation.coverage.fit_methods import TrainingImages
    from evaluation.models.backbones import TrainedClassifier
    from evaluation.models.model_spec import NamedModel
    from evaluation.running.finished_steps import FinishedSteps
    from loaders.views import Factors

_Command = TypeVar("_Command", bound=Callable[..., Any])
_METHODS = ("vebi", "topics", "prototypes", "grad-cam")


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
        """Refuse options of methods where no method is chosen.

        Raises:
            InputError: an option without ``--method``.
        """
        given = {"--fit": self.fit, "--fit-limit": self.fit_limit, "--label": self.label}
        given |= {"--explained-layer": self.explained_layer}
        for option, value in given.items():
            if value is not None and not self.method:
                raise InputError(f"{option} {value}: needs a --method")


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
            "--label", help="Factor whose value is the class.  [default: that of the classifier's file]"
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
            "LAYOUT:PATH[:SPLIT]; of these, the ones that the classifier was trained on, if any.  [default: "
            "DATA]",
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
        record: content of its file; None for other networks.
        label: factor of the classes.
        size: height and width to which images are resized; None for their own size.
        training: images from which the methods have learned.
        learned_ids: their ids.
        methods: fitted methods by name.
    """

    named: "NamedModel"
    record: "TrainedClassifier | None"
    label: str
    size: tuple[int, int] | None
    training: "TrainingImages"
    learned_ids: frozenset[str]
    methods: "dict[str, NamedModel]"

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes; None if only their numbers are known."""
        return tuple(self.record.classes) if self.record else None

    def class_numbers(self, view: "Factors") -> list[int]:
        """Number the classes of all rows of a view as the classifier does."""
        return _class_numbers(self.named, self.record, self.label, view)


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
        specs: classifiers, see `evaluation.models.open_models`.
        options: the chosen methods and their settings.
        factors: images of DATA, for methods without ``--fit``; None if they have no training images.
        size: option ``--size``; None for the size of the classifier's training.
        steps: keeps fitted methods.
        device: torch device.

    Raises:
        InputError: a model is no classifier, its classes do not fit the factor, or there are no images to
            learn from.
    """
    from evaluation.models import open_models

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
    from evaluation.coverage.fit_methods import METHOD_NAMES, MethodSettings, fit_method, read_training_images
    from evaluation.models.backbones import is_classifier, load_classifier
    from evaluation.models.model_spec import split_spec

    path, name = split_spec(spec)[1], named.identity.name
    record = load_classifier(path) if is_classifier(path) else None
    trained = record.training if record else None
    layer = options.explained_layer or getattr(named.model, "explained_layer", None)
    if layer is None:
        raise InputError(
            f"`{name}`: name the layer to explain, usually the last convolution (--explained-layer)"
        )
    label = options.label or (trained.label if trained else None)
    if label is None:
        raise InputError(f"`{name}`: name the factor whose value is the class (--label)")
    size = size or (trained.size if trained else None)
    view, rows = _training_rows(name, data, options, factors, trained.training_ids if trained else None)
    numbers = _class_numbers(named, record, label, view)
    training = read_training_images(view, rows, [numbers[row] for row in rows], size)
    settings = MethodSettings(options.seed, options.bound, options.topics, options.prototypes, options.epochs)
    wanted = METHOD_NAMES if "all" in options.method else tuple(dict.fromkeys(options.method))
    fitted = [fit_method(one, named, layer, training, settings, steps, device) for one in wanted]
    methods = {method.identity.name: method for method in fitted}
    learned = frozenset(view.ids[row] for row in rows)
    return FittedClassifier(named, record, label, size, training, learned, methods)


def _training_rows(
    name: str,
    data: str,
    options: ExplanationOptions,
    factors: "Factors | None",
    trained_ids: Sequence[str] | None,
) -> tuple["Factors", list[int]]:
    """Choose the images from which methods learn."""
    from loaders.views import open_factors

    view: Factors | None = factors
    if options.fit is not None:
        view = open_secondary(open_factors, data, options.fit)
    known = set(trained_ids or ())
    rows = [row for row, one in enumerate(view.ids) if one in known] if view else []
    if view is None or (not rows and options.fit is None):
        raise InputError(
            f"`{name}` was trained on no image of DATA; name images to learn concepts from (--fit)"
        )
    rows = rows or list(range(len(view)))
    if options.fit_limit is not None and options.fit_limit < len(rows):
        rows = [rows[place * len(rows) // options.fit_limit] for place in range(options.fit_limit)]
    return view, rows


def _class_numbers(
    named: "NamedModel", record: "TrainedClassifier | None", label: str, view: "Factors"
) -> list[int]:
    from evaluation.training import factor_labels

    numbers, values = factor_labels(view, label)
    classes = values if record is None else record.classes
    if unknown := sorted(set(values) - set(classes)):
        raise InputError(
            f"--label {label}: `{named.identity.name}` has no class `{unknown[0]}`; its classes are "
            f"{', '.join(classes)}"
        )
    return [classes.index(values[number]) for number in numbers]
