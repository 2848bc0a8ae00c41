"""Regression by a mixture of linear experts, each of which is responsible near its prototype.

M. F. Tappen, E. H. Adelson, W. T. Freeman: Estimating intrinsic component images using non-linear regression,
CVPR 2006 (ExpertBoost). This is a restatement of the description: no code of the paper is public.
"""

from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from jaxtyping import Float
from numpy import ndarray

# Inputs that are tried as the next prototype; the best one is kept.
_CANDIDATES = 5
# Ridge penalty relative to the mean square of the inputs.
_PENALTY = 1e-3
# Width of the weights relative to the root mean square norm of the inputs.
_WIDTH = 0.25


@dataclass(frozen=True, eq=False)
class LocalExperts:
    """Weighted mean of linear functions: ``sum_k w_k(x) c_k x``, ``w_k ~ exp(-|x - p_k|^2 / (2 width^2))``.

    The weights of an input sum to 1. The linear functions have no constant: an input of zeros gives 0.

    Attributes:
        prototypes: centre p of each expert.
        coefficients: linear function c of each expert.
        width: standard deviation of the weights.
    """

    prototypes: Float[ndarray, "experts dimensions"]
    coefficients: Float[ndarray, "experts dimensions"]
    width: float

    def predict(self, inputs: Float[ndarray, "samples dimensions"]) -> Float[ndarray, " samples"]:
        """Return the prediction for each input.

        Example:
            >>> experts = LocalExperts(np.array([[0.0], [4.0]]), np.array([[1.0], [0.0]]), width=0.5)
            >>> experts.predict(np.array([[1.0], [2.0], [3.0]])).round(3).tolist()
            [1.0, 1.0, 0.0]
        """
        weights = _responsibilities(inputs, self.prototypes, self.width)
        return np.einsum("se,se->s", weights, inputs @ self.coefficients.T)


def grow_experts(
    inputs: Float[ndarray, "samples dimensions"],
    targets: Float[ndarray, " samples"],
    experts: int,
    rng: np.random.Generator,
) -> LocalExperts:
    """Fit experts one after the other by least squares.

    The first expert is at 0. Each further prototype is the best of a few inputs, drawn in proportion to their
    squared errors so far; its linear function is fitted while the others stay. The width is the root mean
    square norm of the inputs.

    Args:
        inputs: inputs, of mean about 0.
        targets: value to predict for each input.
        experts: number of experts; fewer are grown if there is no error left.
        rng: stream for the candidates.

    Example:
        >>> inputs = np.linspace(-2, 2, 400)[:, None]
        >>> rng = np.random.default_rng(0)
        >>> linear, local = (grow_experts(inputs, inputs[:, 0].clip(-1, 1), n, rng) for n in (1, 6))
        >>> errors = [np.abs(e.predict(inputs) - inputs[:, 0].clip(-1, 1)).mean() for e in (linear, local)]
        >>> bool(errors[1] < errors[0] / 2)
        True
    """
    energy = max((inputs**2).mean(), 1e-12)
    width, penalty = _WIDTH * np.sqrt(energy * inputs.shape[1]), _PENALTY * energy * len(inputs)
    model = LocalExperts(np.zeros((1, inputs.shape[1])), _ridge(inputs, targets, penalty)[None], float(width))
    for _ in range(experts - 1):
        errors = (targets - model.predict(inputs)) ** 2
        if not errors.any():
            break
        candidates = rng.choice(len(inputs), _CANDIDATES, p=errors / errors.sum())
        grown = [_add_expert(model, prototype, inputs, targets, penalty) for prototype in inputs[candidates]]
        model, _ = min(grown, key=itemgetter(1))
    return model


def _add_expert(
    model: LocalExperts,
    prototype: Float[ndarray, " dimensions"],
    inputs: Float[ndarray, "samples dimensions"],
    targets: Float[ndarray, " samples"],
    penalty: float,
) -> tuple[LocalExperts, float]:
    """Return the model with one expert more, and its sum of squared errors."""
    prototypes = np.concatenate([model.prototypes, prototype[None]])
    weights = _responsibilities(inputs, prototypes, model.width)
    rest = targets - np.einsum("se,se->s", weights[:, :-1], inputs @ model.coefficients.T)
    local = weights[:, -1:] * inputs
    added = _ridge(local, rest, penalty)
    grown = LocalExperts(prototypes, np.concatenate([model.coefficients, added[None]]), model.width)
    return grown, float(np.square(rest - local @ added).sum())


def _responsibilities(
    inputs: Float[ndarray, "samples dimensions"],
    prototypes: Float[ndarray, "experts dimensions"],
    width: float,
) -> Float[ndarray, "samples experts"]:
    # |x|^2 is the same for all experts of an input and cancels.
    exponents = (2 * inputs @ prototypes.T - (prototypes**2).sum(1)) / (2 * width**2)
    # Far from all prototypes, the nearest one answers, instead of 0 / 0.
    weights = np.exp(exponents - exponents.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def _ridge(
    inputs: Float[ndarray, "samples dimensions"], targets: Float[ndarray, " samples"], penalty: float
) -> Float[ndarray, " dimensions"]:
    return np.linalg.solve(inputs.T @ inputs + penalty * np.eye(inputs.shape[1]), inputs.T @ targets)
