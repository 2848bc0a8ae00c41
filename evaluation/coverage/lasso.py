"""Non-negative least squares with a bound on the sum of the weights, for many targets at once."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

_STEPS = 20_000
_CHECKED = 25  # steps between two tests of convergence, each of which waits for the device
_TOLERANCE = 1e-12  # largest change in a step, as a share of the largest weight


class NonNegativeLasso(NamedTuple):
    """Solution of `nonnegative_lasso`.

    Attributes:
        weights: w of each target, float64; features that do not help have weight 0.
        gap: upper bound of how far half the squared error of each target lies above its minimum (duality
            gap); about 0 after convergence.
    """

    weights: Float[Tensor, "targets features"]
    gap: Float[Tensor, " targets"]


def nonnegative_lasso(
    gram: Float[Tensor, "features features"], products: Float[Tensor, "targets features"], bound: float
) -> NonNegativeLasso:
    """Fit each target by few features with non-negative weights.

    ``w* = argmin |X w - y|^2 subject to sum(w) <= bound, w >= 0``, the lasso in its constrained form
    (Tibshirani 1996), by accelerated projected gradients (FISTA, Beck and Teboulle 2009) with restarts for
    each target (O'Donoghue and Candes 2015). The number of samples does not matter: only ``X^T X`` and
    ``X^T y`` are needed.

    Blind to: which of several equal features is meant; they share the weight equally. Other solvers choose
    one of them.

    Args:
        gram: ``X^T X`` of the features X, [samples, features].
        products: ``X^T y`` of each target y.
        bound: bound of the sum of the weights of a target, finite and above 0.

    Returns:
        Weights, and a bound of their error.

    Raises:
        InputError: shapes do not agree, values are not finite, or the bound is out of range.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> target = torch.tensor([[3.0, 1.0]])
        >>> nonnegative_lasso(features.T @ features, target @ features, bound=3.0).weights
        tensor([[2.5000, 0.5000]], dtype=torch.float64)
    """
    check_shapes(gram=(gram, "features features"), products=(products, "targets features"))
    if not 0 < bound < math.inf:
        raise InputError(f"`bound` must be finite and above 0, got {bound}")
    if not bool(gram.isfinite().all() & products.isfinite().all()):
        raise InputError("`gram` and `products` must be finite, got nan or inf; check the features")
    gram, products = gram.double(), products.double()
    weights = _descend(gram, products, bound)
    gradient = weights @ gram - products
    gap = (gradient * weights).sum(1) - bound * gradient.amin(1).clamp(max=0)
    return NonNegativeLasso(weights, gap)


def project_bounded(
    points: Float[Tensor, "points features"], bound: float
) -> Float[Tensor, "points features"]:
    """Project each point onto the nearest point with non-negative entries whose sum is at most ``bound``.

    Negative entries become 0. If the sum is still too large, the same amount is taken from all entries, down
    to 0; sorting gives the amount (Duchi et al. 2008).

    Args:
        points: any finite points.
        bound: bound of the sum, above 0.

    Example:
        >>> project_bounded(torch.tensor([[3.0, 1.0, -1.0], [0.5, 0.25, -1.0]]), 2.0)
        tensor([[2.0000, 0.0000, 0.0000],
                [0.5000, 0.2500, 0.0000]])
    """
    positive = points.clamp(min=0)
    ordered = points.sort(1, descending=True).values
    number = torch.arange(1, points.shape[1] + 1, device=points.device, dtype=points.dtype)
    excess = (ordered.cumsum(1) - bound) / number
    kept = (ordered > excess).sum(1, keepdim=True)
    amount = excess.gather(1, (kept - 1).clamp(min=0))
    outside = positive.sum(1, keepdim=True) > bound
    return torch.where(outside, (points - amount).clamp(min=0), positive)


def _descend(
    gram: Float[Tensor, "features features"], products: Float[Tensor, "targets features"], bound: float
) -> Float[Tensor, "targets features"]:
    weights = torch.zeros_like(products)
    largest = torch.linalg.eigvalsh(gram)[-1]
    if not bool(largest > 0):
        return weights  # all features are 0, so no weight lowers the error
    ahead, momentum = weights, weights.new_ones(len(weights), 1)
    for step in range(_STEPS):
        moved = project_bounded(ahead - (ahead @ gram - products) / largest, bound)
        if step % _CHECKED == 0:
            change = (moved - ahead).abs().amax(1)
            if bool((change <= _TOLERANCE * moved.amax(1)).all()):
                return moved
        # The momentum of a target restarts when it leads uphill.
        uphill = ((ahead - moved) * (moved - weights)).sum(1, keepdim=True) > 0
        following = (1 + (1 + 4 * momentum.square()).sqrt()) / 2
        ahead = torch.where(uphill, moved, moved + (momentum - 1) / following * (moved - weights))
        momentum = torch.where(uphill, 1, following)
        weights = moved
    return weights
