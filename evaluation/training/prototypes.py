"""Prototypes: centres of the activations of a layer, whose distance is a loss that any layer has."""

import torch
from jaxtyping import Float
from sklearn.cluster import KMeans
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError


def fit_prototypes(
    activations: Float[Tensor, "images dim"],
    count: int = 7,
    *,
    seed: int,
    previous: Float[Tensor, "count dim"] | None = None,
    momentum: float = 0.3,
) -> Float[Tensor, "count dim"]:
    """Compute prototypes: the centres of a K-means clustering of activations.

    Concept Distillation (Gupta et al. 2023) has 7 prototypes, and moves them with an exponential average
    while the network changes: ``(1 - momentum) * previous + momentum * centre``. The clustering starts at the
    previous prototypes, so that each moves towards the centre of its own cluster.

    Args:
        activations: one flattened row per image.
        count: number of prototypes K, from 1 to the number of images.
        seed: seed of the first clustering.
        previous: prototypes to move; None makes new ones.
        momentum: weight of the new centres, in (0, 1]; the authors' 0.3 by default.

    Returns:
        The prototypes, with the dtype and on the device of ``activations``, without a gradient.

    Raises:
        InputError: the count or the weight is out of range, activations are not finite, or shapes disagree.

    Example:
        >>> fit_prototypes(torch.tensor([[0.0], [2.0], [10.0], [10.0]]), 2, seed=0).sort(0).values
        tensor([[ 1.],
                [10.]])
    """
    check_shapes(activations=(activations, "images dim"))
    if previous is not None:
        check_shapes(activations=(activations, "images dim"), previous=(previous, "count dim"))
        count = len(previous)
    if not 1 <= count <= len(activations):
        raise InputError(f"expected 1 prototype to {len(activations)}, the number of images, got {count}")
    if not 0 < momentum <= 1:
        raise InputError(f"`momentum` must lie above 0 and at most at 1, got {momentum}")
    if not bool(activations.isfinite().all()):
        raise InputError("activations must be finite, got nan or inf; check the model on these images")
    rows = activations.detach().double().cpu().numpy()
    if previous is None:
        clustering = KMeans(count, n_init=4, random_state=seed)
    else:
        clustering = KMeans(count, init=previous.detach().double().cpu().numpy(), n_init=1)
    centres = torch.from_numpy(clustering.fit(rows).cluster_centers_).to(activations)
    return centres if previous is None else torch.lerp(previous, centres, momentum)


def prototype_loss(
    activations: Float[Tensor, "batch dim"], prototypes: Float[Tensor, "count dim"]
) -> Float[Tensor, " batch"]:
    """Compute the mean squared distance of each image from the prototypes.

    ``mean over k and features of (f - p_k)^2``, the loss L_p of Concept Distillation (Gupta et al. 2023). It
    takes the place of the network's own loss, so that any layer can be probed.

    Blind to: the places of the prototypes, but for their mean. The loss is the squared distance from their
    mean plus a constant, so its gradient ``2 (f - mean) / dim`` is the same for all prototypes with one mean.

    Args:
        activations: one flattened row per image.
        prototypes: from `fit_prototypes`.

    Returns:
        Loss of each image, >= 0, twice differentiable.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> prototype_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
        tensor([1.5000])
    """
    check_shapes(activations=(activations, "batch dim"), prototypes=(prototypes, "count dim"))
    return (activations[:, None] - prototypes).square().mean((1, 2))
