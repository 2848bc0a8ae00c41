"""The magnitude of a transform at which a metric says that people see it, in physical units."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64, Real
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.perception.published_transductions import DETECTION_LEVELS
from candlelight.evaluation.perception.response_curves import check_distances, invert_curves
from candlelight.evaluation.perception.transduction import Transduction
from candlelight.loaders.errors import InputError

# A metric "never moves" if its distances change by less than this share of its distance at the threshold.
STILL = 1e-4

ThresholdState = Literal["reached", "not reached", "infinite", "at the start"]


@dataclass(frozen=True)
class DetectionThreshold:
    """A metric's threshold theta_M for one family of transforms, in the unit of the magnitudes.

    Attributes:
        score: the threshold of the mean curve: nan if it is "not reached" in the range of the magnitudes, inf
            if the metric never moves.
        low: where the mean curve reaches the lower level of D_T; nan or inf likewise.
        high: where it reaches the upper level.
        uncertainty: u = (high - low) / 2; nan if a level is not reached.
        state: "reached", "not reached", "infinite" (the metric never moves) or "at the start" (the curve
            starts above D_T, so the threshold is at or below the first magnitude).
        scenes: threshold of each scene's own curve; nan or inf likewise.
    """

    score: float
    low: float
    high: float
    uncertainty: float
    state: ThresholdState
    scenes: Float64[Tensor, " scenes"]


def detection_threshold(
    distances: Real[Tensor, "scenes magnitudes"],
    magnitudes: Real[Tensor, " magnitudes"],
    transduction: Transduction,
    levels: tuple[float, float, float] = DETECTION_LEVELS,
) -> DetectionThreshold:
    """Invert a metric's transduced response at the human detection threshold D_T.

    ``theta_M = g_M^-1(D_T)`` with ``g_M(theta) = a d_M(theta)^b`` of the mean response d_M (Alabau-Bosque et
    al. 2024, eq. 1 to 3). The uncertainty is half the distance between the inverted quartiles of D_T. See
    `curve_thresholds` for the rule between two magnitudes.

    Blind to: everything that `mean_response` and `invert_curves` are blind to; the errors of a and b, which
    `uncertainty` leaves out; and other paths between two images than the tested family. The curve of a metric
    that is not 0 for identical images, such as renders with different noise, may start above D_T.

    Args:
        distances: of each scene to itself at each magnitude, in the metric's unit, >= 0.
        magnitudes: of the transform, strictly increasing from the identity (0 degrees, scale 1). Scales below
            1 are another family; the paper leaves them out.
        transduction: of this metric, with this normalisation of the images.
        levels: lower quartile, threshold and upper quartile on the common scale; the paper's are 0.390, 0.445
            and 0.499. `PsychometricFit.quartiles` gives them for data of one's own.

    Raises:
        InputError: the shapes do not agree, distances that are not finite or negative, magnitudes that do not
            increase, levels that do not, or a transduction that failed.

    Example:
        >>> magnitudes = torch.tensor([0.0, 1.0])
        >>> distances = torch.stack([0.5 * magnitudes, 1.5 * magnitudes])
        >>> found = detection_threshold(distances, magnitudes, Transduction(scale=1.0, exponent=0.5))
        >>> round(found.score, 3), round(found.uncertainty, 3), found.scenes.round(decimals=3).tolist()
        (0.198, 0.048, [0.396, 0.132])
    """
    check_shapes(distances=(distances, "scenes magnitudes"), magnitudes=(magnitudes, "magnitudes"))
    if not 0 < levels[0] <= levels[1] <= levels[2]:
        raise InputError(
            f"`levels` must be positive and in order, lower quartile, threshold, upper quartile, got {levels}"
        )
    values = check_distances(distances)
    mean = values.mean(0, keepdim=True)
    low, score, high = (curve_thresholds(mean, magnitudes, transduction, level).item() for level in levels)
    return DetectionThreshold(
        score=score,
        low=low,
        high=high,
        uncertainty=(high - low) / 2,  # inf - inf is nan, too
        state=_state(score, mean[0, 0].item(), transduction.invert(levels[1])),
        scenes=curve_thresholds(values, magnitudes, transduction, levels[1]),
    )


def curve_thresholds(
    distances: Float64[Tensor, "*curves magnitudes"],
    magnitudes: Real[Tensor, " magnitudes"],
    transduction: Transduction,
    level: float,
) -> Float64[Tensor, "*curves"]:
    """Return the magnitude at which each transduced curve reaches a level of the common scale.

    Each curve d is inverted at ``(level / a)^(1 / b)``, the distance at the level: between two magnitudes d
    is linear. So the threshold of a metric that is linear in the magnitude is exact on any grid. The notebook
    of Alabau-Bosque et al. 2024 interpolates ``D = a d^b`` instead, which is vertical at d = 0: thresholds
    within the first step come out too large.

    Args:
        distances: curves in the metric's unit, >= 0.
        magnitudes: strictly increasing.
        transduction: of this metric.
        level: on the common scale.

    Returns:
        Magnitudes; nan for a curve that does not reach the level, inf for a curve that never moves: it
        changes by less than 1e-4 of the distance at the level.

    Raises:
        InputError: the shapes do not agree, magnitudes that do not increase, or a transduction that failed.

    Example:
        >>> curves = torch.tensor([[0.0, 1.0], [0.0, 0.1], [0.0, 0.0]]).double()
        >>> curve_thresholds(curves, torch.tensor([0.0, 1.0]), Transduction(1.0, 1.0), 0.25)
        tensor([0.2500,    nan,    inf], dtype=torch.float64)
    """
    distance = transduction.invert(level)
    found = invert_curves(distances, magnitudes, distance)
    never = found.isnan() & (distances.amax(-1) - distances.amin(-1) < STILL * distance)
    return found.masked_fill(never, torch.inf)


def _state(score: float, start: float, level: float) -> ThresholdState:
    if score == torch.inf:
        return "infinite"
    if math.isnan(score):
        return "not reached"
    return "at the start" if start >= level else "reached"
