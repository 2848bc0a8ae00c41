"""Composition, reversibility and effectiveness of counterfactual images (Monteiro et al. 2023)."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.causal.interventions.factor_probabilities import (
    FactorClassifier,
    check_class_indices,
    classify_factors,
)
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.loaders.errors import InputError

CounterfactualModel = Callable[
    [
        Float[Tensor, "batch channels height width"],
        Int[Tensor, "batch factors"],
        Int[Tensor, "batch factors"],
    ],
    Float[Tensor, "batch channels height width"],
]


def effectiveness(
    classifier: FactorClassifier,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
) -> Float[Tensor, "batch factors"]:
    """Tell whether counterfactual images show the factors that they were made for.

    1 if the classifier's most probable class of factor i is the class of the intervention, else 0
    (Monteiro et al. 2023, ICLR, arXiv 2303.01274, with the zero-one distance, for categorical factors). The
    mean over images of a changed factor tells whether the intervention succeeded; that of the other factors,
    whether they stayed as they were.

    Blind to: everything but the classes: the identity of the object, the rest of the image, and an image
    that only the classifier takes for one of its class. Rendered counterfactuals are the control: their
    effectiveness is the accuracy of the classifier.

    Args:
        classifier: gives, for images, a tensor [batch, classes] for each factor, such as `FactorHeads`;
            logits or probabilities. It runs in evaluation mode and without gradients.
        images: counterfactual images, in the colour space of the classifier.
        factors: class of each factor after the intervention, from 0.

    Returns:
        1 or 0 for each image and factor, float32; higher is better. 0 for an image with nan or infinity.

    Raises:
        InputError: the shapes do not agree, the classifier does not give a finite tensor for each factor, or
            a class is no integer or does not exist.

    Example:
        >>> def classify(images):  # two classes of one factor
        ...     return [torch.stack([1 - images.mean((1, 2, 3)), images.mean((1, 2, 3))], dim=1)]
        >>> effectiveness(classify, torch.full((1, 3, 2, 2), 0.9), torch.tensor([[1]]))
        tensor([[1.]])
    """
    check_shapes(images=(images, "batch channels height width"), factors=(factors, "batch factors"))
    check_class_indices(factors)
    failed = ~images.isfinite().all(3).all(2).all(1)
    with evaluation_mode(classifier), torch.no_grad():
        found = classify_factors(classifier, images.masked_fill(failed[:, None, None, None], 0), factors)
    predicted = torch.stack([values.argmax(1) for values in found], dim=1)
    return ((predicted == factors) & ~failed[:, None]).float()


def composition(
    counterfactual: CounterfactualModel,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
    cycles: int = 1,
) -> Float[Tensor, " batch"]:
    """Measure how much interventions that change nothing change the image.

    ``d(x, x_m)`` with ``x_0 = x`` and ``x_{j + 1} = f(x_j, pa, pa)``: f makes the counterfactual of an image
    with factors pa whose factors would have been pa as well, and d is the mean absolute difference over
    pixels and channels (Monteiro et al. 2023). For an autoencoder and one cycle this is its reconstruction
    error.

    Blind to: interventions that do nothing, for which it is 0. Read it beside `effectiveness`.

    Args:
        counterfactual: gives counterfactual images of images, their factors and the factors after the
            intervention. A `torch.nn.Module` runs in evaluation mode. It runs without gradients.
        images: factual images in [0, 1].
        factors: class of each factor in the images.
        cycles: number m of interventions in a row, at least 1; the paper uses 1 and 10.

    Returns:
        Errors in the dtype of the images, lower is better; nan if a counterfactual image has a nan.

    Raises:
        InputError: the shapes do not agree, counterfactual images do not have the shape of the images, or
            ``cycles`` is below 1.

    Example:
        >>> def darker(images, factors, changed):
        ...     return images / 2
        >>> composition(darker, torch.ones(1, 3, 2, 2), torch.tensor([[0]]), cycles=2)
        tensor([0.7500])
    """
    return _cycle_error(counterfactual, images, [(factors, factors)], cycles)


def reversibility(
    counterfactual: CounterfactualModel,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
    changed: Int[Tensor, "batch factors"],
    cycles: int = 1,
) -> Float[Tensor, " batch"]:
    """Measure how far interventions there and back lead away from the image.

    ``d(x, x_m)`` with ``x_0 = x`` and ``x_{j + 1} = f(f(x_j, pa, pa*), pa*, pa)``: f makes the counterfactual
    of an image with factors pa whose factors would have been pa*, and back; d is the mean absolute difference
    over pixels and channels (Monteiro et al. 2023).

    Blind to: interventions that do nothing, for which it is 0. Read it beside `effectiveness`.

    Args:
        counterfactual: see `composition`.
        images: factual images in [0, 1].
        factors: class of each factor in the images.
        changed: class of each factor after the intervention.
        cycles: number m of cycles there and back, at least 1.

    Returns:
        Errors in the dtype of the images, lower is better; nan if a counterfactual image has a nan.

    Raises:
        InputError: see `composition`.

    Example:
        >>> def brighten(images, factors, changed):  # by the class, but values end at 1
        ...     return (images + (changed - factors)[:, :, None, None] / 8).clamp(max=1)
        >>> images = torch.tensor([0.5, 0.75]).reshape(2, 1, 1, 1)
        >>> reversibility(brighten, images, torch.tensor([[0], [0]]), torch.tensor([[4], [4]]))
        tensor([0.0000, 0.2500])
    """
    check_shapes(factors=(factors, "batch factors"), changed=(changed, "batch factors"))
    return _cycle_error(counterfactual, images, [(factors, changed), (changed, factors)], cycles)


def _cycle_error(
    counterfactual: CounterfactualModel, images: Tensor, cycle: Sequence[tuple[Tensor, Tensor]], cycles: int
) -> Float[Tensor, " batch"]:
    """Return the error after cycles of interventions, each from some factors to others."""
    if cycles < 1:
        raise InputError(f"`cycles` must be at least 1, got {cycles}")
    shape = (images, "batch channels height width")
    check_shapes(images=shape, factors=(cycle[0][0], "batch factors"))
    found = images
    with evaluation_mode(counterfactual), torch.no_grad():
        for before, after in [*cycle] * cycles:
            found = counterfactual(found, before, after)
            check_shapes(images=shape, counterfactual=(found, shape[1]))
    return (found - images).abs().mean((1, 2, 3))
