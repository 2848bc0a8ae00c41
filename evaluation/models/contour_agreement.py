"""How likely neighbouring gradients have one cause: a logistic model of the contour between them.

M. F. Tappen, W. T. Freeman, E. H. Adelson: Recovering intrinsic images from a single image, PAMI 2005: two
neighbours should agree if the contour through them runs from one to the other. This is a restatement of the
idea; the paper's own compatibility function has other parameters.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize
from scipy.special import expit

# Gradients, in log units per pixel, below which the direction of a contour is noise.
_NOISE = 1e-3
_PENALTY = 1e-4


@dataclass(frozen=True, eq=False)
class ContourAgreement:
    """Agreement of neighbours on the grid of all gradients, [2 height width]: down (0), to the right (1).

    Attributes:
        weights: for neighbours along each axis of the grid, the weights of 1, the log magnitude of the
            gradient, the alignment of the contour with the direction of the neighbour, and their product.
    """

    weights: Float[ndarray, "3 4"]

    def agreements(
        self, log_image: Float[ndarray, "height width"], inside: Bool[ndarray, "2 height width"]
    ) -> list[Float[ndarray, "2 height width"]]:
        """Return probabilities for `propagate_beliefs`: at least 1/2, and 1/2 with a neighbour outside.

        Args:
            log_image: log gray image, extended over the background.
            inside: gradients that exist.
        """
        cues = contour_cues(log_image)
        return [
            np.where(inside & np.roll(inside, 1, axis), expit(np.tensordot(row, cue, 1).clip(0, 8)), 0.5)
            for axis, (row, cue) in enumerate(zip(self.weights, cues, strict=True))
        ]


def contour_cues(log_image: Float[ndarray, "height width"]) -> list[Float[ndarray, "4 2 height width"]]:
    """Compute the four inputs of the logistic model between each gradient and the one before it on each axis.

    The first axis pairs the two gradients of a pixel. They are aligned if the contour is diagonal, since both
    then belong to it.

    Example:
        >>> step = np.repeat(np.repeat([0.0, 1.0], 3)[None], 3, axis=0)
        >>> _, down, right = contour_cues(step)
        >>> down[2, 0, 1, 3].round(2) == 1, right[2, 0, 1, 3].round(2) == 0
        (np.True_, np.True_)
    """
    gradient = np.stack(
        [gaussian_filter(log_image, 1.0, order, mode="nearest") for order in ((1, 0), (0, 1))]
    )
    vertical, horizontal = ((gradient + np.roll(gradient, 1, axis)) / 2 for axis in (1, 2))
    sides = (
        (np.abs(gradient).min(0), gradient),
        (np.abs(vertical[1]), vertical),
        (np.abs(horizontal[0]), horizontal),
    )
    cues = []
    for part, vector in sides:
        magnitude = np.hypot(*vector) + _NOISE
        strength, alignment = np.log(magnitude), part / magnitude
        cue = np.stack([np.ones_like(strength), strength, alignment, strength * alignment])
        cues.append(np.stack([cue, cue], 1))
    return cues


def fit_agreement(
    cues: Float[ndarray, "4 pairs"],
    evidence: Float[ndarray, "2 pairs"],
    equal: Bool[ndarray, " pairs"],
    importance: Float[ndarray, " pairs"],
) -> Float[ndarray, " 4"]:
    """Fit the weights of one axis by maximum likelihood, with each pair taken as isolated.

    For log odds e and f of two neighbours, labels are equal with the log odds
    ``logit(a) + 2 artanh(tanh(e / 2) tanh(f / 2))``, where a is the agreement: the model learns the agreement
    that the evidence does not explain yet.

    Args:
        cues: inputs of the model for each pair.
        evidence: log odds of both gradients of each pair.
        equal: whether their true labels are equal.
        importance: weight of each pair, at least 0.
    """
    product = np.tanh(evidence / 2).prod(0)
    explained = np.log((1 + product).clip(1e-9) / (1 - product).clip(1e-9))
    signs = np.where(equal, 1.0, -1.0)
    shares = importance / max(importance.sum(), np.finfo(float).tiny)

    def loss(weights: ndarray) -> tuple[float, ndarray]:
        margin = signs * (weights @ cues + explained)
        slope = cues @ (shares * signs * expit(-margin))
        value = shares @ np.logaddexp(0, -margin) + _PENALTY / 2 * weights @ weights
        return float(value), _PENALTY * weights - slope

    return minimize(loss, np.zeros(len(cues)), jac=True, method="L-BFGS-B").x
