"""Images on which explanations are compared, and the classifiers whose concepts the methods learn."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from candlelight.evaluation.catalogue.coverage_options import (
    CoverageOptions,
    ExplanationOptions,
    MethodName,
    chosen_methods,
    learning_methods,
)
from candlelight.evaluation.coverage.explainers import AttributionMethod, Explainer, module_of, open_explainer
from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.filter_methods import VEBI, GradCAM, check_logits
from candlelight.evaluation.coverage.prototypes import PrototypeMethod, PrototypeTraining
from candlelight.evaluation.coverage.topic_completeness import ReconstructionTraining
from candlelight.evaluation.coverage.topics import TopicMethod, TopicSearch
from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.classifiers import TrainedOn
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.fingerprints import Fingerprint, weights_sha256
from candlelight.evaluation.run.hidden_layers import evaluation_mode, split_network
from candlelight.evaluation.run.intervals import mean_interval
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.predictions import Heatmaps
from candlelight.evaluation.run.result import Provenance
from candlelight.evaluation.run.steps import FinishedSteps, model_key
from candlelight.evaluation.training.training_rows import factor_labels, label_values
from candlelight.evaluation.views import (
    LAYOUTS,
    DataIdentity,
    Factors,
    Images,
    View,
    open_data,
    open_secondary,
    parse_data,
)
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode, encode, resize_images
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.errors import InputError, argument, within


@dataclass(frozen=True, eq=False)
class ConceptSource:
    """A classifier, and the images on which methods learn its concepts.

    Attributes:
        name: name of the classifier.
        layer: layer whose maps the concepts explain; None if no method needs one.
        label: factor of the classes; None if it is not known, and nothing is learned.
        classes: values of the factor, in the order of the logits; none if they are not known.
        size: height and width to which images are resized; None for their own size.
        view: the images; None if nothing is learned.
        rows: their row numbers.
        labels: class of each of these rows.
        seen_ids: ids of the images of DATA among them, and among those on which the classifier was trained.
    """

    name: str
    layer: str | None
    label: str | None
    classes: tuple[str, ...]
    size: tuple[int, int] | None
    view: Factors | None
    rows: Sequence[int]
    labels: Sequence[int]
    seen_ids: frozenset[str]

    def numbers(self, view: Factors) -> list[int] | None:
        """Number the classes of all rows of a view as the classifier does; None if no factor is known.

        Raises:
            InputError: the factor has a value that is no class.
        """
        return _class_numbers(self.name, self.classes, self.label, view) if self.label else None


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


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A classifier with explanation methods that have learned its concepts.

    Attributes:
        named: the classifier.
        source: the classes, and where the concepts come from.
        training: images from which the methods have learned; None if nothing was learned.
        methods: fitted methods by name.
    """

    named: NamedModel
    source: ConceptSource
    training: TrainingImages | None
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
        _refuse_choice({**choice, "by": options.by}, options, data)
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


def _refuse_choice(choice: Mapping[str, Any], options: ExplanationOptions, data: Any) -> None:
    """Refuse what chooses among images, or makes methods, where images and methods are given."""
    given = [name for name, value in choice.items() if name != "data" and value is not None]
    if given or (options.method and not getattr(data, "sources", ())):
        needed = [*given, "method"][0]
        raise InputError(f"{argument(needed)}: expected data by name, as PATH or LAYOUT:PATH, got a view")


def open_counterfactuals(
    choice: Mapping[str, Any], options: ExplanationOptions, models: Mapping[str, Any]
) -> ExplainedImages:
    """Open images with their counterfactuals.

    Raises:
        InputError: the data have no counterfactuals, there is nothing to learn from, or a model is no
            classifier.
    """
    data = choice["data"]
    if isinstance(data, ExplainedImages):
        _refuse_choice(choice, options, data)
        return data
    if explainers := [
        name for name, one in models.items() if isinstance(getattr(one, "model", one), Explainer)
    ]:
        raise InputError(
            f"`{explainers[0]}` is an explainer, whose images are `ExplainedImages(view, network)`; or give "
            f"the classifier, and methods by name ({argument('method')})"
        )
    if not options.method and not any(
        isinstance(getattr(one, "model", one), Heatmaps) for one in models.values()
    ):
        raise InputError(f"give a {argument('method')}, or heatmaps of another program ({argument('files')})")
    if (learning := learning_methods(options.method)) and options.fit is None:
        names = " and ".join(learning)
        raise InputError(f"name the images from which {names} learn ({argument('fit')})")
    view = open_data("counterfactuals", **choice)
    return ExplainedImages(view, sources=open_concept_sources(data, options, models, None))


def open_concept_sources(
    data: Any, options: ExplanationOptions, models: Mapping[str, Any], factors: Factors | None
) -> tuple[ConceptSource, ...]:
    """Choose the images on which methods learn the concepts of each classifier, if one of them learns.

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
        what = argument("method" if options.method else "files")
        raise InputError(f"{what}: needs a {argument('models')}, the classifier to explain")
    return tuple(_open_concept_source(name, one, data, options, factors) for name, one in networks.items())


def _open_concept_source(
    name: str, network: Any, data: Any, options: ExplanationOptions, factors: Factors | None
) -> ConceptSource:
    if not isinstance(network, nn.Module):
        raise InputError(f"{argument('method')}: `{name}` is no network; give a classifier")
    trained: TrainedOn | None = getattr(network, "trained_on", None)
    layer = options.explained_layer or getattr(network, "explained_layer", None)
    for method in chosen_methods(options.method):
        with within(f"`{name}`"):
            if method in get_args(MethodName):
                module_of(network, layer)
            else:  # its text is wrong before anything learns
                open_explainer(method, network, layer, options.seed)
    label = options.label or (trained.label if trained else None)
    size = options.size or (trained.size if trained else None)
    seen = _trained_ids(trained, factors) if factors else frozenset[str]()
    classes = getattr(network, "class_names", None)
    if not learning_methods(options.method) and options.fit is None and options.fit_limit is None:
        if classes is None and options.label:
            if factors is None:
                option = argument("fit")
                raise InputError(f"`{name}` names no classes; name images of all of them ({option})")
            classes = order_classes(name, network, factor_labels(factors, options.label)[1])
        return ConceptSource(name, layer, label, tuple(classes or ()), size, None, (), (), seen)
    if label is None:
        raise InputError(f"`{name}`: name the factor whose value is the class ({argument('label')})")
    view, rows = _training_rows(name, data, options, factors, trained)
    classes = classes or order_classes(name, network, factor_labels(view, label)[1])
    numbers = _class_numbers(name, classes, label, view)
    labels = [numbers[row] for row in rows]
    lacking = [one for number, one in enumerate(classes) if number not in set(labels)]
    if lacking and learning_methods(options.method):  # they would have no concept of the class
        raise InputError(
            f"`{name}`: expected images of its {len(classes)} classes to learn concepts from, none shows "
            f"`{lacking[0]}`; choose more images "
            f"({', '.join(argument(one) for one in ('fit', 'fit_limit', 'rows', 'limit'))})"
        )
    if factors and is_same_data(view.identity, factors.identity):
        seen |= {view.ids[row] for row in rows}
    return ConceptSource(name, layer, label, tuple(classes), size, view, rows, labels, seen)


def fit_classifier(
    source: ConceptSource,
    named: NamedModel,
    options: ExplanationOptions,
    steps: FinishedSteps,
    device: str = "cpu",
    scored: View[Any] | None = None,
) -> FittedClassifier:
    """Fit the chosen methods to a classifier; a method that was fitted before is read from the steps.

    Args:
        source: the images on which the methods learn.
        named: the classifier.
        options: the methods and their settings.
        steps: keeps fitted methods.
        device: torch device of the classifier.
        scored: images on which the classifier is tried if nothing is learned.

    Raises:
        InputError: the model does not give logits of the classes, or a method cannot be fitted.
    """
    training = None
    if source.view is not None:
        training = read_training_images(source.view, source.rows, source.labels, source.size)
        check_classifier(named, training.images, source.classes, device)
    elif scored is not None:
        check_classifier(named, _tried_images(scored, source.size), source.classes or None, device)
    chosen = chosen_methods(options.method)
    fitted = [fit_method(one, named, source.layer, training, options, steps, device) for one in chosen]
    methods = {one.identity.name: one for one in fitted}
    if len(methods) < len(fitted):
        raise InputError(
            f"{argument('method')}: two methods have one name; rename a file: {', '.join(chosen)}"
        )
    return FittedClassifier(named, source, training, methods)


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
        classifier = run.models[source.name]
        fitted = fit_classifier(source, classifier, run.options, run.steps, run.device, data.view)
        options = replace(run.options, size=source.size)
        own = replace(run, data=data.view, models=fitted.methods, options=options, fingerprint=Fingerprint())
        found.append((fitted, own))
    return found


def explained_networks(
    fitted: FittedClassifier | None, run: Run[Any], whole: Run[Any], controls: Mapping[str, Any]
) -> tuple[dict[str, NamedModel], dict[str, Any], Sequence[int] | None]:
    """Collect the methods that explain one classifier, or the user's own.

    Args:
        fitted: the classifier, or None.
        run: its run, from `fitted_runs`.
        whole: the run of all classifiers, whose models may be heatmaps of other programs.
        controls: further explanations by name, of a classifier.

    Returns:
        The methods by name, the network that each explains, and the class of each image if it is known.

    Raises:
        InputError: a method has no network, or two have one name.
    """
    data: ExplainedImages = whole.data
    methods, given, labels = run.models, data.classifiers, data.labels
    if fitted:
        name, network, classes = fitted.source.name, fitted.named.model, fitted.source.classes
        files = {f"{name} {key}": one for key, one in whole.models.items() if isinstance(one.model, Heatmaps)}
        added = {f"{name} {key}": one for key, one in controls.items()}
        if twice := sorted(files.keys() & (methods.keys() | added.keys())):
            raise InputError(
                f"a method or a control and a file have the name `{twice[0]}`; give another name"
            )
        more = files | added
        methods = methods | (identify_models(more, [], "srgb", None) if more else {})
        # A prototype network explains its own predictions.
        given = {key: getattr(one.model, "classifier", network) for key, one in methods.items()}
        values = fitted.source.label and data.view.factor_values(fitted.source.label)
        labels = [classes.index(one) for one in values or () if one in classes]
        labels = labels if values and len(labels) == len(values) else None
        if labels is None and run.options.label and fitted.training is None:
            raise InputError(
                f"{argument('label')} {run.options.label}: expected a factor of DATA whose values are "
                f"classes of `{name}`: {_list(classes)}"
            )
    elif labels is not None:
        labels = _checked_labels(labels, len(data.view))
    networks = {name: given.get(name) if isinstance(given, Mapping) else given for name in methods}
    if lacking := [name for name, one in networks.items() if one is None]:
        raise InputError(f"`classifiers` must name the network of each method, got none for `{min(lacking)}`")
    return methods, networks, labels


def _checked_labels(labels: Sequence[int], count: int) -> list[int]:
    numbers = np.asarray(labels)
    if numbers.shape != (count,) or (count and numbers.dtype.kind not in "iu") or (numbers < 0).any():
        got = f"{numbers.dtype} {list(numbers.shape)}"
        raise InputError(f"`labels`: expected the number of a class for each of {count} images, got {got}")
    return [*map(int, numbers)]


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
    if all(one == f"LABEL_{number}" for number, one in enumerate(names)):
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
    classes: Sequence[str] | None,
    device: str = "cpu",
) -> None:
    """Refuse a model that is no classifier of the classes, or whose logits do not depend on the images.

    The model runs once, on a few of the images.

    Args:
        classifier: the model, on ``device``.
        images: sRGB-encoded in [0, 1].
        classes: names of the classes; None if they are not known.
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
        wrong = f"takes {classifier.colour_space} images; wrap it in a network of sRGB images"
        raise InputError(f"{argument('method')}: `{name}` {wrong}")
    some = images[:: max(1, len(images) // _TRIED)][:_TRIED].to(device)
    with evaluation_mode(classifier.model), torch.no_grad(), model_errors(name, some):
        output = classifier.model(some)
    try:
        logits = check_logits(output, len(some))
    except InputError as error:
        raise InputError(f"`{name}`: {error}; give a classifier") from None
    wrong = ""
    if classes is not None and logits.shape[1] != len(classes):
        wrong = (
            f"{logits.shape[1]} logits, but the images have {len(classes)} classes: {_list(classes)}; give "
            f"images of all its classes ({argument('fit')}), or another factor ({argument('label')})"
        )
    elif not bool(logits.isfinite().all()):
        wrong = "logits that are not finite, expected numbers; check its weights"
    elif len(some) > 1 and bool((logits == logits[:1]).all()):
        wrong = "the same logits for all images, expected a trained classifier; train it again"
    if wrong:
        raise InputError(f"`{name}` gives {wrong}")


def _tried_images(view: View[Any], size: tuple[int, int] | None) -> Float[Tensor, "images 3 height width"]:
    """Read a few images of one size, evenly spaced."""
    rows = [place * len(view) // _TRIED for place in range(min(_TRIED, len(view)))]
    images = [check_srgb_image(view[row].image) for row in dict.fromkeys(rows)]
    if size:
        return torch.cat([encode(resize_images(decode(image)[None], size)) for image in images])
    return torch.stack([image for image in images if image.shape == images[0].shape])


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


_LARGEST = 2**33  # bytes of all training images


def make_method(
    name: str, network: nn.Module, layer: str | None, options: ExplanationOptions, device: str = "cpu"
) -> ExplanationMethod:
    """Make an explanation method of a classifier; it has learned nothing yet.

    Args:
        name: text of the method, see `candlelight.evaluation.coverage.explainers.open_explainer`.
        network: a classifier that gives logits [images, classes].
        layer: layer whose maps the concepts explain; the prototype network starts with all layers up to it.
            None for methods that need none.
        options: settings of the methods that learn: number of topics and prototypes, bound of VEBI, seed.
        device: torch device of the network.

    Raises:
        InputError: there is no such method, or the network cannot be split at the layer: a `Backbone` only
            at its ``explained_layer``.

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> make_method("topics", network, "0", ExplanationOptions()).name
        'topics'
    """
    if name not in get_args(MethodName):
        return AttributionMethod(open_explainer(name, network, layer, options.seed), network)
    if layer is None or name == "grad-cam":
        module_of(network, layer)
    layer = str(layer)
    if name == "vebi":
        return VEBI(network, layer, options.bound)
    if name == "grad-cam":
        return GradCAM(network, layer)
    if isinstance(network, Backbone):
        if layer != network.explained_layer:
            raise InputError(
                f"expected the layer `{network.explained_layer}` of a classifier of `candlelight "
                f"train classifier`, got `{layer}`; omit {argument('explained_layer')}, or choose vebi or "
                "grad-cam"
            )
        features, head = network.steps()
    else:
        features, head = split_network(network, layer)
    if name == "topics":
        how = ReconstructionTraining(options.seed)
        return TopicMethod(features, head, TopicSearch(options.topics), how, device)
    training = PrototypeTraining(options.seed, options.prototypes, epochs=options.epochs)
    return PrototypeMethod(features, training, device)


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
        InputError: images have several sizes, or do not fit in 8 GiB.
    """
    fingerprint, images = Fingerprint(), torch.empty(0)
    for place, row in enumerate(rows):
        image = check_srgb_image(data[row])
        image = encode(resize_images(decode(image)[None], size))[0] if size else image
        fingerprint.add(data.ids[row], image)
        if place == 0:
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
    fingerprint.add("labels", np.array(labels))
    return TrainingImages(images, torch.tensor(labels), fingerprint.hexdigest())


def fit_method(
    name: str,
    classifier: NamedModel,
    layer: str | None,
    training: TrainingImages | None,
    options: ExplanationOptions,
    steps: FinishedSteps,
    device: str = "cpu",
) -> NamedModel:
    """Fit an explanation method to a classifier; a method that was fitted before is read from the steps.

    Args:
        name: see `make_method`.
        classifier: the classifier, which passes `check_classifier`.
        layer: see `make_method`.
        training: images and classes to learn from; None for methods that do not learn.
        options: see `make_method`.
        steps: keeps the fitted method.
        device: torch device of the classifier.

    Returns:
        The fitted method, named after the classifier and itself.

    Raises:
        InputError: the method cannot be made or fitted; the message names it.
    """
    network, fitted_name = classifier.model, f"{classifier.identity.name} {name}"
    facts: dict[str, Any] = {"method": name, "layer": layer, "fitted": training and training.sha256}
    facts |= {"seed": options.seed, "bound": options.bound, "topics": options.topics}
    facts |= {"per_class": options.prototypes, "epochs": options.epochs}

    def fit() -> dict[str, Tensor]:
        assert training is not None  # `open_concept_sources` chooses images for methods that learn
        with model_errors(fitted_name, training.images):
            state = method.fit(training.images, training.labels).state()
        return {key: values.detach() for key, values in state.items()}

    key, state = model_key(classifier, device, **facts), dict[str, Tensor]()
    try:
        method = make_method(name, network, layer, options, device)
        if learning_methods([name]):
            state = steps.get_or_compute(key, fit)
    except InputError as error:
        raise InputError(f"`{fitted_name}`: {error}") from error
    if isinstance(method, AttributionMethod):
        facts |= method.explainer.facts
        fitted_name = f"{classifier.identity.name} {method.name}"
    fingerprint = Fingerprint()
    for fact, value in {**facts, "weights": weights_sha256(network), **state}.items():
        fingerprint.add(fact, value)
    sha256 = fingerprint.hexdigest() if key else None
    identity = replace(classifier.identity, name=fitted_name, sha256=sha256)
    return NamedModel(identity, method.restore(state), classifier.colour_space)


def explainer_provenance(run: Run[Any], name: str, **settings: object) -> Provenance:
    """Describe the origin of a method's result, with that of the explainer, such as the hash of its file.

    Args:
        run: see `Run.provenance`, as for the other arguments.
        name: the method.
        settings: further settings.
    """
    about = run.provenance(name, **settings)
    explainer = getattr(run.scored[name].model, "explainer", None)
    return replace(about, model=about.model | dict(getattr(explainer, "facts", {})))


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
