"""Explanation methods by name, and the images on which they learn the concepts of a classifier."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from candlelight.evaluation.catalogue.coverage_options import ExplanationOptions, MethodName
from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.grad_cam import GradCAM
from candlelight.evaluation.coverage.prototypes import PrototypeMethod, PrototypeTraining
from candlelight.evaluation.coverage.topic_completeness import ReconstructionTraining
from candlelight.evaluation.coverage.topics import TopicMethod, TopicSearch
from candlelight.evaluation.coverage.vebi import VEBI
from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.fingerprints import Fingerprint, weights_sha256
from candlelight.evaluation.run.hidden_layers import split_network
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.steps import FinishedSteps, model_key
from candlelight.evaluation.views import Images
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode, encode, resize_images
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument

METHOD_NAMES: tuple[MethodName, ...] = get_args(MethodName)
_LARGEST = 2**33  # bytes of all training images


def make_method(
    name: MethodName, network: nn.Module, layer: str, options: ExplanationOptions, device: str = "cpu"
) -> ExplanationMethod:
    """Make an explanation method of a classifier; it has learned nothing yet.

    Args:
        name: name of the method.
        network: a classifier that gives logits [images, classes].
        layer: layer whose maps the concepts explain; the prototype network starts with all layers up to it.
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
    check_choice("name", name, MethodName)
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
    options: ExplanationOptions,
    steps: FinishedSteps,
    device: str = "cpu",
) -> NamedModel:
    """Fit an explanation method to a classifier; a method that was fitted before is read from the steps.

    Args:
        name: see `make_method`.
        classifier: the classifier, which passes `check_classifier`.
        layer: see `make_method`.
        training: images and classes to learn from.
        options: see `make_method`.
        steps: keeps the fitted method.
        device: torch device of the classifier.

    Returns:
        The fitted method, named after the classifier and itself.

    Raises:
        InputError: the method cannot be made or fitted; the message names it.
    """
    network, fitted_name = classifier.model, f"{classifier.identity.name} {name}"
    facts: dict[str, Any] = {"method": name, "layer": layer, "fitted": training.sha256}
    facts |= {"seed": options.seed, "bound": options.bound, "topics": options.topics}
    facts |= {"per_class": options.prototypes, "epochs": options.epochs}

    def fit() -> dict[str, Tensor]:
        with model_errors(fitted_name, training.images):
            state = method.fit(training.images, training.labels).state()
        return {key: values.detach() for key, values in state.items()}

    key = model_key(classifier, device, **facts)
    try:
        method = make_method(name, network, layer, options, device)
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
