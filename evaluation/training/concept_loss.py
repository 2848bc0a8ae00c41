"""The concept loss of Concept Distillation: the cosine of a gradient and concept vectors."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice

ConceptMode = Literal["desensitise", "sensitise", "one-sided"]


def concept_loss(
    gradient: Float[Tensor, "batch dim"],
    vectors: Float[Tensor, "vectors dim"],
    mode: ConceptMode = "desensitise",
) -> Float[Tensor, " batch"]:
    """Compute how far the gradient of each image points along concept vectors, whatever its length.

    ``|cos(g, v)|`` to desensitise and ``1 - |cos(g, v)|`` to sensitise (Gupta et al. 2023, Concept
    Distillation, sec. 3), with g the gradient of a loss by the activations of a layer. With several vectors
    the mean over them is taken, so that opposite effects of two vectors do not cancel.

    ``max(0, -cos(g, v))``, "one-sided", is not of the paper. It punishes the one sign that CSM counts: the
    concept lowers the loss. It is there to test that score: a network that learns the other sign gets a good
    score, and is not less sensitive.

    Blind to: the sign, but for "one-sided". Cosines that shrink towards 0 without a change of sign leave CSM
    as it is.

    Args:
        gradient: gradient of the loss of each image by the activations of a layer, flattened. Make it with
            ``create_graph=True`` to train the network through it.
        vectors: concept vectors of the same layer, such as `candlelight.evaluation.concepts.mean_cav`, of any
            length.
        mode: "desensitise", "sensitise" or "one-sided".

    Returns:
        Loss of each image in [0, 1], lower is better, twice differentiable where no cosine is 0. A gradient
        or vector of length 0 has cosine 0 and no derivative; nan stays nan.

    Raises:
        InputError: the shapes do not agree, or ``mode`` is misspelt.

    Example:
        >>> slopes = torch.tensor([[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]])
        >>> concept_loss(slopes, torch.tensor([[5.0, 0.0]]))
        tensor([0.6000, 0.0000, 0.0000])
        >>> concept_loss(slopes, torch.tensor([[5.0, 0.0]]), "sensitise")
        tensor([0.4000, 1.0000, 1.0000])
    """
    check_choice("mode", mode, ConceptMode)
    check_shapes(gradient=(gradient, "batch dim"), vectors=(vectors, "vectors dim"))
    cosines = _unit(gradient) @ _unit(vectors.to(gradient)).T
    if mode == "one-sided":
        return (-cosines).clamp(min=0).mean(1)
    size = cosines.abs().mean(1)
    return size if mode == "desensitise" else 1 - size


def _unit(rows: Tensor) -> Tensor:
    """Scale rows to length 1; a row of zeros stays 0, and its derivative is 0 instead of nan."""
    zero = (rows == 0).all(1, keepdim=True)
    length = torch.linalg.vector_norm(rows.masked_fill(zero, 1), dim=1, keepdim=True)
    return rows.masked_fill(zero, 0) / length
