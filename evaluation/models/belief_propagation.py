"""Sum-product belief propagation for two labels on a grid of any number of axes.

J. Pearl: Probabilistic reasoning in intelligent systems, 1988; on grids, whose loops it ignores, it is the
"loopy" approximation of J. S. Yedidia, W. T. Freeman, Y. Weiss: Understanding belief propagation and its
generalizations, 2003.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def propagate_beliefs(
    evidence: Float[ndarray, "*grid"],
    agreements: Sequence[Float[ndarray, "..."]],
    sweeps: int = 40,
    damping: float = 0.5,
) -> Float[ndarray, "*grid"]:
    """Compute the marginal log odds of each node of a grid of two labels.

    The model is ``P(x) ~ prod_i exp(e_i x_i) prod_ij psi(x_i, x_j)`` for labels x in {0, 1}, with ``psi = a``
    for equal labels of neighbours and ``1 - a`` for others. Messages are log odds: a node of log odds h, all
    but its neighbour's message, sends ``2 artanh((2a - 1) tanh(h / 2))``. All messages change together.

    Args:
        evidence: log odds ``e`` of label 1 at each node without its neighbours.
        agreements: for each axis, the agreement ``a``, in (0, 1), of each node and the one before it on that
            axis; the first along the axis is not read. 1/2 separates the nodes.
        sweeps: number of times that all messages are sent. A sweep moves evidence by one node.
        damping: share of the previous message that is kept, in [0, 1); it calms oscillations and slows down.

    Returns:
        Log odds of label 1 at each node: exact on a chain after enough sweeps, too certain where loops count
        evidence twice.

    Example:
        >>> agreements = [np.full((1, 3), 0.5), np.full((1, 3), 0.9)]
        >>> propagate_beliefs(np.array([[0.0, 2.0, 0.0]]), agreements).round(2).tolist()
        [[1.42, 2.0, 1.42]]
    """
    axes = range(evidence.ndim)
    # The first node along an axis has no neighbour before it: only edges have messages.
    edges = [tuple(slice(1, None) if axis == along else slice(None) for axis in axes) for along in axes]
    before = [tuple(slice(None, -1) if axis == along else slice(None) for axis in axes) for along in axes]
    factors = [2 * agreement[edge] - 1 for agreement, edge in zip(agreements, edges, strict=True)]
    forward = [np.zeros_like(factor) for factor in factors]
    backward = [np.zeros_like(factor) for factor in factors]
    belief = evidence.copy()
    for _ in range(sweeps):
        for axis in axes:
            from_before = _message(belief[before[axis]] - backward[axis], factors[axis])
            from_after = _message(belief[edges[axis]] - forward[axis], factors[axis])
            forward[axis] += (1 - damping) * (from_before - forward[axis])
            backward[axis] += (1 - damping) * (from_after - backward[axis])
        belief = evidence.copy()
        for axis in axes:
            belief[edges[axis]] += forward[axis]
            belief[before[axis]] += backward[axis]
    return belief


def _message(
    log_odds: Float[ndarray, "*edges"], factor: Float[ndarray, "*edges"]
) -> Float[ndarray, "*edges"]:
    product = factor * np.tanh(log_odds / 2)
    return np.log((1 + product) / (1 - product))
