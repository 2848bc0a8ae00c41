"""Images on which explanations are compared, and the classifiers whose concepts the methods learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.catalogue.coverage_options import (
    CausalCheckOptions,
    CoverageOptions,
    ExplanationOptions,
)
from candlelight.evaluation.coverage.fit_methods import (
    METHOD_NAMES,
    TrainingImages,
    fit_method,
    read_training_images,
)
from candlelight.evaluation.coverage.grad_cam import check_logits
from candlelight.evaluation.models.classifiers import TrainedOn
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.predictions import Heatmaps
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.training.training_rows import factor_labels, label_values
from candlelight.evaluation.views import LAYOUTS, DataIdentity, Factors, open_data, open_secondary, parse_data
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.errors import InputError, argument


@dataclass(frozen=True, eq=False)
class ConceptSource:
    """A classifier, and the images on which methods learn its concepts.

    Attributes:
        name: name of the classifier.
        layer: layer whose maps the concepts explain.
        label: factor of the classes.
        classes: values of the factor, in the order of the logits.
        size: height and width to which images are resized; None for their own size.
        view: the images.
        rows: their row numbers.
        labels: class of each of these rows.
        seen_ids: ids of the images of DATA among them, and among those on which the classifier was trained.
    """

    name: str
    layer: str
    label: str
    classes: tuple[str, ...]
    size: tuple[int, int] | None
    view: Factors
    rows: Sequence[int]
    labels: Sequence[int]
    seen_ids: frozenset[str]

    def numbers(self, view: Factors) -> list[int]:
        """Number the classes of all rows of a view as the classifier does.

        Raises:
            InputError: the factor has a value that is no class.
        """
        return _class_numbers(self.name, self.classes, self.label, view)

    def known_numbers(self, values: Sequence[str] | None) -> list[int] | None:
        """Number values of the factor as the classifier does; None if not all are known classes of it."""
        if values is None or not set(values) <= set(self.classes):
            return None
        return [self.classes.index(value) for value in values]


@dataclass(frozen=True, eq=False)
class ExplainedImages:
    """Images on which explanations are compared, and what is known of the networks that they explain.

    Attributes:
        view: images with masks: of `open_data("parts", ...)`, or "counterfactuals" for the causal check.
        classifiers: the network that each method explains, by the name of the method, or the network that all
            explain; for the causal check.
        labels: class of each image, for the accuracy of the networks; None if it is not known.
        sources: classifiers whose concepts methods learn; none if the models are the explanations.
        factors: factors of the same images; None if nothing is learned.
        left_out: number of images of DATA that are not among them, because something has learned from them.
    """

    view: Any
    classifiers: Any = None
    labels: Sequence[int] | None = None
    sources: tuple[ConceptSource, ...] = ()
    factors: Factors | None = None
    left_out: int = 0

    @property
    def views(self) -> list[Any]:
        """The view whose ids result files have."""
        return [self.view]


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A classifier with explanation methods that have learned its concepts.

    Attributes:
        named: the classifier.
        source: the classes, and where the concepts come from.
        training: images from which the methods have learned.
        methods: fitted methods by name.
    """

    named: NamedModel
    source: ConceptSource
    training: TrainingImages
    methods: dict[str, NamedModel]


def open_parts(
    choice: Mapping[str, Any], options: CoverageOptions, models: Mapping[str, Any]
) -> ExplainedImages:
    """Open images with masks; with ``method`` those that no classifier and no method has learned from.

    Raises:
        InputError: the data lack masks, no images are left to score, or a model is no classifier.
    """
    data = choice["data"]
    if isinstance(data, ExplainedImages) or (is_view(data) and not options.method):
        given = {name: value for name, value in choice.items() if name != "data" and value is not None}
        given |= {} if options.by is None else {"by": options.by}
        if given or (options.method and not data.sources):
            needed = next(iter(given), "method")
            raise InputError(f"{argument(needed)}: expected data by name, as PATH or LAYOUT:PATH, got a view")
        return data if isinstance(data, ExplainedImages) else ExplainedImages(data)
    public = isinstance(data, str) and parse_data(data).layout in LAYOUTS
    by = options.by or ("part" if options.method or public else "type")
    if not options.method:
        return ExplainedImages(open_data("parts", **choice, by=by))
    factors = open_data("factors", **choice)
    sources = open_concept_sources(data, options, models, factors)
    seen = frozenset[str]().union(*(one.seen_ids for one in sources))
    kept = [factors.named.numbers[row] for row, name in enumerate(factors.ids) if name not in seen]
    if not kept:
        raise InputError(
            "all images of DATA were learned from, so that none is left to score; hold some out when the "
            "classifier is trained (--validation), or name another --split or --rows"
        )
    scored = {**choice, "rows": kept, "limit": None}
    view, shown = open_data("parts", **scored, by=by), open_data("factors", **scored)
    return ExplainedImages(view, sources=sources, factors=shown, left_out=len(factors) - len(kept))


def open_counterfactuals(
    choice: Mapping[str, Any], options: CausalCheckOptions, models: Mapping[str, Any]
) -> ExplainedImages:
    """Open images with their counterfactuals.

    Raises:
        InputError: the data have no counterfactuals, there is nothing to learn from, or a model is no
            classifier.
    """
    data = choice["data"]
    if isinstance(data, ExplainedImages):
        return data
    if not options.method or options.fit is None:
        raise InputError(
            f"give a {argument('method')}, and the images on which methods learn concepts ({argument('fit')})"
        )
    view = open_data("counterfactuals", **choice)
    return ExplainedImages(view, sources=open_concept_sources(data, options, models, None))


def open_concept_sources(
    data: Any, options: ExplanationOptions, models: Mapping[str, Any], factors: Factors | None
) -> tuple[ConceptSource, ...]:
    """Choose the images on which methods learn the concepts of each classifier.

    Args:
        data: the argument DATA.
        options: the methods, and the images on which they learn.
        models: classifiers by name; result files among them are left out.
        factors: images of DATA; None if methods cannot learn from them.

    Raises:
        InputError: a model is no classifier, its classes do not fit the factor, or there are no images to
            learn from.
    """
    networks = {name: getattr(one, "model", one) for name, one in models.items()}
    networks = {name: one for name, one in networks.items() if not isinstance(one, Heatmaps)}
    if not networks:
        raise InputError(f"{argument('method')}: needs a {argument('models')}, the classifier to explain")
    return tuple(_open_concept_source(name, one, data, options, factors) for name, one in networks.items())


def _open_concept_source(
    name: str, network: Any, data: Any, options: ExplanationOptions, factors: Factors | None
) -> ConceptSource:
    if not isinstance(network, nn.Module):
        raise InputError(f"{argument('method')}: `{name}` is no network; give a classifier")
    trained = getattr(network, "trained_on", None)
    layer = options.explained_layer or getattr(network, "explained_layer", None)
    if layer is None:
        option = argument("explained_layer")
        raise InputError(f"`{name}`: name the layer to explain, usually the last convolution ({option})")
    label = options.label or (trained.label if trained else None)
    if label is None:
        raise InputError(f"`{name}`: name the factor whose value is the class ({argument('label')})")
    view, rows = _training_rows(name, data, options, factors, trained)
    classes = getattr(network, "class_names", None)
    classes = classes or order_classes(name, network, factor_labels(view, label)[1])
    numbers = _class_numbers(name, classes, label, view)
    labels = [numbers[row] for row in rows]
    if set(options.method) != {"grad-cam"}:
        _check_classes_shown(name, classes, labels)
    seen = _trained_ids(trained, factors) if factors else frozenset[str]()
    if factors and is_same_data(view.identity, factors.identity):
        seen |= {view.ids[row] for row in rows}
    size = options.size or (trained.size if trained else None)
    return ConceptSource(name, layer, label, tuple(classes), size, view, rows, labels, seen)


def fit_classifier(
    source: ConceptSource,
    named: NamedModel,
    options: ExplanationOptions,
    steps: FinishedSteps,
    device: str = "cpu",
) -> FittedClassifier:
    """Fit the chosen methods to a classifier; a method that was fitted before is read from the steps.

    Args:
        source: the images on which the methods learn.
        named: the classifier.
        options: the methods and their settings.
        steps: keeps fitted methods.
        device: torch device of the classifier.

    Raises:
        InputError: the model does not give logits of the classes, or a method cannot be fitted.
    """
    training = read_training_images(source.view, source.rows, source.labels, source.size)
    check_classifier(named, training.images, source.classes, device)
    chosen = METHOD_NAMES if "all" in options.method else dict.fromkeys(options.method)
    wanted = [one for one in chosen if one != "all"]
    fitted = [fit_method(one, named, source.layer, training, options, steps, device) for one in wanted]
    return FittedClassifier(named, source, training, {one.identity.name: one for one in fitted})


def fitted_runs(run: Run[Any]) -> "list[tuple[FittedClassifier | None, Run[Any]]]":
    """Fit the methods of each classifier, and give each a run on the images in their size.

    Returns:
        Pairs of a classifier and a run with its methods; one without a classifier if nothing is learned.
    """
    data: ExplainedImages = run.data
    if not data.sources:
        return [(None, replace(run, data=data.view, fingerprint=Fingerprint()))]
    found: list[tuple[FittedClassifier | None, Run[Any]]] = []
    for source in data.sources:
        fitted = fit_classifier(source, run.models[source.name], run.options, run.steps, run.device)
        own: dict[str, Any] = {"data": data.view, "models": fitted.methods, "fingerprint": Fingerprint()}
        found.append((fitted, replace(run, options=replace(run.options, size=source.size), **own)))
    return found


def _class_numbers(name: str, classes: Sequence[str], label: str, view: Factors) -> list[int]:
    values = label_values(view, label)
    if unknown := sorted(set(values) - set(classes)):
        raise InputError(
            f"{argument('label')} {label}: `{name}` has no class `{unknown[0]}`; its classes are "
            f"{', '.join(classes)}"
        )
    return [classes.index(value) for value in values]


def _training_rows(
    name: str, data: Any, options: ExplanationOptions, factors: Factors | None, trained: TrainedOn | None
) -> tuple[Factors, list[int]]:
    """Choose the images of ``fit``, or else of DATA, on which the classifier was trained.

    If it was trained on none of them, all images of ``fit`` are chosen.
    """
    view, option = factors, argument("fit")
    if options.fit is not None:
        try:
            view = open_secondary("factors", data, options.fit)
        except InputError as error:
            raise InputError(f"{option} {options.fit}: {error}") from error
    known = _trained_ids(trained, view) if view else frozenset()
    rows = [row for row, one in enumerate(view.ids) if one in known] if view else []
    if view is None or (not rows and options.fit is None):
        raise InputError(
            f"`{name}` is not known to have learned images of DATA; name images to learn from ({option})"
        )
    rows = rows or list(range(len(view)))
    if options.fit_limit is not None and options.fit_limit < len(rows):
        rows = [rows[place * len(rows) // options.fit_limit] for place in range(options.fit_limit)]
    return view, rows


def _check_classes_shown(name: str, classes: Sequence[str], labels: Sequence[int]) -> None:
    """Refuse training images that do not show every class, for which methods would have no concept."""
    if lacking := [one for number, one in enumerate(classes) if number not in set(labels)]:
        options = ", ".join(argument(one) for one in ("fit", "fit_limit", "rows", "limit"))
        raise InputError(
            f"`{name}`: expected images of its {len(classes)} classes to learn concepts from, none shows "
            f"`{lacking[0]}`; choose more images ({options})"
        )


def _trained_ids(trained: TrainedOn | None, view: Factors) -> frozenset[str]:
    """Return the ids of a classifier's training images, if the view is of the same data."""
    if trained is None or not is_same_data(trained.data, view.identity):
        return frozenset()
    return frozenset(trained.training_ids)


def is_same_data(one: DataIdentity, other: DataIdentity) -> bool:
    """Tell whether equal ids of two views name the same image: other data may have the same ids by chance.

    Splits and packs of the same data share their ids.

    Example:
        >>> rendered = DataIdentity("parts", "frames", "parts", recipe="5d41")
        >>> is_same_data(rendered, DataIdentity("parts", "frames", "parts", "test", recipe="5d41"))
        True
        >>> is_same_data(rendered, DataIdentity("parts", "frames", "parts", recipe="7d79"))  # another seed
        False
    """
    return (one.layout, one.set_name, one.recipe) == (other.layout, other.set_name, other.recipe)


_TRIED = 16  # number of images on which a network is tried


def order_classes(name: str, network: nn.Module, values: Sequence[str]) -> tuple[str, ...]:
    """Order the values of a factor as the logits of a classifier.

    Args:
        name: the classifier.
        network: its network; a transformers model names its classes in its configuration.
        values: values that are the classes.

    Returns:
        The names in the order of the logits; the values as they are, if the network names no classes.

    Raises:
        InputError: the network names other classes.

    Example:
        >>> order_classes("mine", nn.Flatten(), ["bird", "fish"])
        ('bird', 'fish')
    """
    known = getattr(getattr(network, "config", None), "id2label", None) or {}
    names = tuple(str(known[number]) for number in sorted(known))
    # Transformers fills in LABEL_0, LABEL_1, ... where the names are not known.
    if not names or all(one == f"LABEL_{number}" for number, one in enumerate(names)):
        return tuple(values)
    if set(names) != set(values):
        raise InputError(
            f"`{name}` has the classes {_list(names)}, the images {_list(values)}; "
            f"choose another factor ({argument('label')}), or images of all classes ({argument('fit')})"
        )
    return names


def check_classifier(
    classifier: NamedModel,
    images: Float[Tensor, "images 3 height width"],
    classes: Sequence[str],
    device: str = "cpu",
) -> None:
    """Refuse a model that is no classifier of the classes, or whose logits do not depend on the images.

    The model runs once, on a few of the images.

    Args:
        classifier: the model, on ``device``.
        images: sRGB-encoded in [0, 1].
        classes: names of the classes.
        device: torch device.

    Raises:
        InputError: the model takes other images or raised an exception, or its logits are not finite, not one
            for each class, or the same for all images.

    Example:
        >>> from candlelight.evaluation.models import open_model
        >>> flat = open_model("mine=torch.nn:Flatten", default_space="srgb")
        >>> check_classifier(flat, torch.rand(2, 3, 1, 1), ["bird", "fish"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `mine` gives 3 logits, but the images have 2 classes: bird, \
fish; give images of all its classes (`fit`), or another factor (`label`)
    """
    name = classifier.identity.name
    if classifier.colour_space != "srgb":
        raise InputError(
            f"{argument('method')}: `{name}` takes {classifier.colour_space} images; wrap it in a network of "
            "sRGB images"
        )
    some = images[:: max(1, len(images) // _TRIED)][:_TRIED].to(device)
    with evaluation_mode(classifier.model), torch.no_grad(), model_errors(name, some):
        output = classifier.model(some)
    try:
        logits = check_logits(output, len(some))
    except InputError as error:
        raise InputError(f"`{name}`: {error}; give a classifier") from None
    if logits.shape[1] != len(classes):
        raise InputError(
            f"`{name}` gives {logits.shape[1]} logits, but the images have {len(classes)} classes: "
            f"{_list(classes)}; give images of all its classes ({argument('fit')}), or another factor "
            f"({argument('label')})"
        )
    if not bool(logits.isfinite().all()):
        raise InputError(f"`{name}` gives logits that are not finite, expected numbers; check its weights")
    if len(some) > 1 and bool((logits == logits[:1]).all()):
        raise InputError(
            f"`{name}` gives the same logits for all images, expected a trained classifier; train it again"
        )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
