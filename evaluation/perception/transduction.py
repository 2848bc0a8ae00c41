"""Transduction: the distances of a metric on the common scale of subjective ratings."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Real
from numpy import ndarray
from scipy.optimize import least_squares
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.perception.response_curves import check_distances
from candlelight.loaders.errors import InputError

BEST_SCORE = 10.0  # of the paper's scale for TID2013, whose mean opinion scores end at 9
_START = (1.0, 0.5)  # scale and exponent; the paper's
_FLATTEST = 0.01  # exponent; PIM has the smallest of the published ones, 0.105
_SMALLEST = 1e-6  # scale
_EVALUATIONS = 1000


@dataclass(frozen=True)
class Transduction:
    """The common distance D of a metric's distance d: ``D = a d^b``.

    Attributes:
        scale: a, >= 0.
        exponent: b, >= 0.
        error: root mean square of the fit's residuals in D; nan for published constants.
        pairs: number of rated pairs of the fit; 0 for published constants.
        converged: False if the fit must not be used; `note` says why.
        note: end of the fit; for published constants the metric and the normalisation that they hold for.

    Example:
        >>> import torch
        >>> Transduction(scale=2.0, exponent=0.5)(torch.tensor([0.0, 0.25]))
        tensor([0., 1.], dtype=torch.float64)
    """

    scale: float
    exponent: float
    error: float = float("nan")
    pairs: int = 0
    converged: bool = True
    note: str = ""

    def __call__(self, distances: Real[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
        """Convert distances of the metric, >= 0, to the common scale: Alabau-Bosque et al. 2024, eq. 2."""
        return self.scale * distances.double() ** self.exponent

    def invert(self, level: float) -> float:
        """Return the metric's distance at a level of the common scale.

        Raises:
            InputError: the fit did not converge, or does not rise, so that levels have no distance.

        Example:
            >>> Transduction(scale=2.0, exponent=0.5).invert(1.0)
            0.25
        """
        if not (self.converged and self.scale > 0 and self.exponent > 0):
            raise InputError(
                f"expected a transduction that converged and rises, got D = {self.scale:g} "
                f"d^{self.exponent:g} ({self.note or 'no note'}); fit it on distances that follow the ratings"
            )
        return (level / self.scale) ** (1 / self.exponent)


def normalised_dmos(scores: Real[Tensor, "*pairs"]) -> Float64[Tensor, "*pairs"]:
    """Turn mean opinion scores of TID2013 into the paper's common distance, ``D = (10 - MOS) / 10``.

    The paper's text says that D is normalised to [0, 1]; its notebooks use this formula, without the smallest
    and largest score, and its threshold of 0.44 holds for this formula.

    Args:
        scores: mean opinion scores from 0 to 10, higher is better (TID2013 has 0 to 9).

    Returns:
        Distances in [0, 1], 0 for a copy that nobody tells from the original.

    Raises:
        InputError: scores out of range or not finite.

    Example:
        >>> import torch
        >>> normalised_dmos(torch.tensor([9.0, 5.5, 0.0]))
        tensor([0.1000, 0.4500, 1.0000], dtype=torch.float64)
    """
    if not bool(((scores >= 0) & (scores <= BEST_SCORE)).all()):
        raise InputError(
            f"`scores` must lie from 0 to 10, got {float(scores.min()):g} to {float(scores.max()):g}; bring "
            "other scales to D in [0, 1] yourself"
        )
    return (BEST_SCORE - scores.double()) / BEST_SCORE


def fit_transduction(distances: Real[Tensor, " pairs"], ratings: Real[Tensor, " pairs"]) -> Transduction:
    """Fit ``D = a d^b`` to rated pairs by least squares.

    Alabau-Bosque et al. 2024, eq. 2, with the paper's algorithm and start (dogbox from a = 1, b = 1/2; here
    of distances that are divided by their maximum) and with a, b >= 0, so that the curve never falls.

    Blind to: the kind of distortion and the reference image, whose ratings one curve averages; ties and
    outliers of the ratings. The constants hold for this metric, with this normalisation of the images, and
    for these ratings alone. Check `converged`: a fit that failed is returned, and says so.

    Args:
        distances: of the pairs by the metric, in its own unit, >= 0 and 0 for identical images.
        ratings: common distance D of the pairs in [0, 1], see `normalised_dmos`.

    Returns:
        Constants for distances in the metric's unit.

    Raises:
        InputError: the lengths differ, distances that are not finite, negative or all equal, or ratings that
            do not lie in [0, 1].

    Example:
        >>> import torch
        >>> distances = torch.tensor([0.01, 0.04, 0.09, 0.25])
        >>> found = fit_transduction(distances, 1.5 * distances.sqrt())
        >>> round(found.scale, 4), round(found.exponent, 4), found.converged
        (1.5, 0.5, True)
    """
    check_shapes(distances=(distances, "pairs"), ratings=(ratings, "pairs"))
    values = check_distances(distances).numpy(force=True)
    wanted = ratings.double().numpy(force=True)
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise InputError(
            f"`ratings` must lie from 0 to 1, got {wanted.min():g} to {wanted.max():g}; normalised_dmos "
            "converts opinion scores"
        )
    if values.min() == values.max():
        raise InputError(f"`distances` must differ to fit two constants, got {values[0]:g} for all pairs")
    largest = values.max()
    shares = values / largest
    fit = least_squares(
        lambda constants: constants[0] * shares ** constants[1] - wanted,
        _START,
        lambda constants: _slopes(constants, shares),
        bounds=((0, 0), (np.inf, np.inf)),
        method="dogbox",
        max_nfev=_EVALUATIONS,
    )
    scale, exponent = (float(constant) for constant in fit.x)
    note = f"least squares: {fit.message}"
    rises = scale > _SMALLEST and exponent > _FLATTEST
    if fit.success and not rises:
        note = "scale or exponent at its bound, 0: the distances do not rise with the ratings"
    return Transduction(
        scale=float(scale / largest**exponent),
        exponent=exponent,
        error=float(np.sqrt(np.square(fit.fun).mean())),
        pairs=len(values),
        converged=bool(fit.success and rises),
        note=note,
    )


def _slopes(constants: Float64[ndarray, "2"], shares: Float64[ndarray, " pairs"]) -> ndarray:
    """Derivatives of ``a d^b`` by a and by b; the latter is 0 at d = 0."""
    power = shares ** constants[1]
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return np.stack([power, constants[0] * power * logs], axis=1)
