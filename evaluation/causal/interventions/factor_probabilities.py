"""Probabilities that a classifier of several factors gives to the classes of images."""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

ClassifierOutput = Literal["logits", "probabilities"]
FactorClassifier = Callable[
    [Float[Tensor, "batch channels height width"]], Sequence[Float[Tensor, "batch _"]]
]

_SUM_TOLERANCE = 1e-3  # also of probabilities in half precision


def factor_probabilities(
    classifier: FactorClassifier,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
    output: ClassifierOutput = "logits",
) -> Float[Tensor, "batch factors"]:
    """Compute the probability that a classifier gives to one class of each factor.

    Args:
        classifier: gives, for images, a tensor [batch, classes] for each factor.
        images: images in the colour space of the classifier.
        factors: class of each factor, from 0.
        output: whether the classifier gives "logits", of which the softmax is taken, or "probabilities".

    Returns:
        Probabilities in [0, 1], float64.

    Raises:
        InputError: the classifier does not give a finite tensor for each factor, a class is no integer or
            does not exist, probabilities do not add up to 1, or ``output`` is misspelt.

    Example:
        >>> def classify(images):  # two classes of one factor
        ...     return [torch.stack([images.mean((1, 2, 3)), 1 - images.mean((1, 2, 3))], dim=1)]
        >>> images = torch.full((1, 3, 2, 2), 0.25)
        >>> factor_probabilities(classify, images, torch.tensor([[1]]), "probabilities")
        tensor([[0.7500]], dtype=torch.float64)
    """
    check_choice("output", output, ClassifierOutput)
    columns = []
    for number, values in enumerate(classify_factors(classifier, images, factors)):
        probabilities = values.double()
        if output == "logits":
            probabilities = probabilities.softmax(1)
        elif not bool(
            (probabilities >= 0).all() and ((probabilities.sum(1) - 1).abs() < _SUM_TOLERANCE).all()
        ):
            raise InputError(
                f"probabilities of factor {number} must be at least 0 and add up to 1, got values from "
                f"{float(values.min()):g} to {float(values.max()):g}; are they logits? Then give `output` "
                '"logits"'
            )
        columns.append(probabilities.gather(1, factors[:, number : number + 1].long()))
    return torch.cat(columns, dim=1)


def classify_factors(
    classifier: FactorClassifier,
    images: Float[Tensor, "batch channels height width"],
    factors: Int[Tensor, "batch factors"],
) -> list[Float[Tensor, "batch _"]]:
    """Run a classifier of several factors, and check that its output fits the classes of the images.

    Raises:
        InputError: the classifier does not give a finite tensor for each factor, or a class is no integer or
            does not exist.

    Example:
        >>> images = torch.zeros(1, 2, 4, 4)
        >>> classify_factors(lambda images: [images.mean((2, 3))], images, torch.tensor([[2]]))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: classes of factor 0 must lie in 0..1, as the classifier has \
2, got 2 to 2
    """
    check_shapes(images=(images, "batch _ _ _"), factors=(factors, "batch factors"))
    check_class_indices(factors)
    found = list(classifier(images))
    if len(found) != factors.shape[1]:
        raise InputError(
            f"expected a classifier with an output for each of the {factors.shape[1]} factors, got "
            f"{len(found)}"
        )
    for number, values in enumerate(found):
        check_shapes(images=(images, "batch _ _ _"), classifier=(values, "batch classes"))
        if not bool(values.isfinite().all()):
            raise InputError(f"the classifier gives nan or inf for factor {number}; check its weights")
        low, high = factors[:, number].aminmax() if len(factors) else (0, 0)
        if not 0 <= int(low) <= int(high) < values.shape[1]:
            raise InputError(
                f"classes of factor {number} must lie in 0..{values.shape[1] - 1}, as the classifier has "
                f"{values.shape[1]}, got {int(low)} to {int(high)}"
            )
    return found


def check_class_indices(factors: Tensor) -> None:
    """Refuse factors that are no integers.

    Raises:
        InputError: the factors are floats.

    Example:
        >>> check_class_indices(torch.ones(2, 1))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `factors` must be class indices, got floats; cast indices \
with .long()
    """
    if factors.is_floating_point():
        raise InputError("`factors` must be class indices, got floats; cast indices with .long()")
