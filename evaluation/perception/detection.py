"""Detection: levels of ratings, and the magnitudes and illuminants at which a curve reaches one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float64, Real
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.perception.people import (
    Ellipse,
    ellipse_error,
    experimental_ellipse,
    fit_ellipse,
    macadam_ellipse,
)
from candlelight.evaluation.perception.psychometric import fit_psychometric
from candlelight.evaluation.perception.transduction import (
    DETECTION_LEVELS,
    Transduction,
    check_distances,
    invert_curves,
    mean_response,
)
from candlelight.evaluation.perception.transforms import hue_chromaticities
from candlelight.evaluation.run.check_shapes import check_shapes
from candlelight.loaders.errors import InputError


@dataclass(frozen=True)
class DetectionLevels:
    """Lower quartile, threshold and upper quartile of D_T, with their origin.

    Attributes:
        levels: on the common scale.
        note: their origin.
        fit: the fitted psychometric function and the answers at each level, for a plot; empty if published.
    """

    levels: tuple[float, float, float] = DETECTION_LEVELS
    note: str = "D_T: 0.445, quartiles 0.390 and 0.499, published (1500 answers of 5 observers)"
    fit: dict[str, Any] = field(default_factory=dict)


def detection_levels(levels: Real[Tensor, " answers"], correct: Bool[Tensor, " answers"]) -> DetectionLevels:
    """Fit D_T to answers in a forced choice of two; published values replace it if the fit fails.

    See `fit_psychometric`.

    Args:
        levels: common distance D of the shown pair, for each answer.
        correct: whether the answer was right.

    Raises:
        InputError: the lengths differ, or levels that are not finite or all equal.

    Example:
        >>> shown = torch.linspace(0.1, 0.8, 8).repeat_interleave(40)
        >>> right = torch.arange(40).repeat(8) < 20 + 20 * torch.sigmoid(20 * (shown - 0.45))
        >>> found = detection_levels(shown, right)
        >>> [round(level, 2) for level in found.levels]
        [0.4, 0.44, 0.49]
    """
    fit = fit_psychometric(levels, correct.int(), torch.ones_like(correct, dtype=torch.int))
    if fit.converged and not fit.quartiles[0] > 0:
        flat = f"too flat: its lower quartile, {fit.quartiles[0]:.3g}, is not above 0"
        fit = replace(fit, converged=False, note=flat)
    values, places = torch.unique(levels.double(), return_inverse=True)
    trials = torch.bincount(places)
    right = torch.bincount(places, correct.double())
    shown = {
        **{"threshold": fit.score, "low": fit.low, "high": fit.high, "slope": fit.slope, "lapse": fit.lapse},
        **{"guess": fit.guess, "deviance": fit.deviance, "converged": fit.converged, "note": fit.note},
        "levels": values.tolist(),
        "correct": right.int().tolist(),
        "trials": trials.tolist(),
    }
    if not fit.converged:
        note = f"the fit to {len(levels)} answers failed ({fit.note}); {DetectionLevels.note}"
        return DetectionLevels(note=note, fit=shown)
    low, threshold, high = fit.quartiles
    return DetectionLevels(
        fit.quartiles,
        f"D_T: {threshold:.3f}, quartiles {low:.3f} and {high:.3f}, of {len(levels)} answers",
        shown,
    )


@dataclass(frozen=True)
class MeasuredThresholds:
    """Thresholds of people; the published ones where nothing is given.

    Attributes:
        detection: D_T.
        human: thresholds of a user's own observers by transform, in the unit of its magnitudes.
        notes: origin of each threshold, the reason why a fit failed, and the answers that are not used.
    """

    detection: DetectionLevels = field(default_factory=DetectionLevels)
    human: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


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
    state: ThresholdState = "at the start" if mean[0, 0] >= transduction.invert(levels[1]) else "reached"
    if not math.isfinite(score):
        state = "not reached" if math.isnan(score) else "infinite"
    return DetectionThreshold(
        score=score,
        low=low,
        high=high,
        uncertainty=(high - low) / 2,  # inf - inf is nan, too
        state=state,
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


_FEWEST = 5  # points of an ellipse


@dataclass(frozen=True)
class IlluminantThresholds:
    """Thresholds of illuminants, in CIE 1931 xy.

    Attributes:
        score: error to the experimental ellipse of people; nan without an ellipse.
        macadam_error: error to the interpolated ellipse of MacAdam; nan without an ellipse.
        radii: threshold of each hue, the distance from equal energy; nan if it is not reached, inf if the
            metric never moves.
        ellipse: fitted to the reached thresholds; None if there are fewer than 5.
        note: number of hues that are left out, or the reason why there is no ellipse.
    """

    score: float
    macadam_error: float
    radii: Float64[Tensor, " hues"]
    ellipse: Ellipse | None
    note: str


def illuminant_thresholds(
    distances: Real[Tensor, "scenes hues saturations"],
    transduction: Transduction,
    hues: Real[Tensor, " hues"],
    radii: Real[Tensor, " saturations"],
    level: float = DETECTION_LEVELS[1],
) -> IlluminantThresholds:
    """Fit an ellipse to the just noticeable illuminants of a metric, and compare it with those of people.

    For each hue the mean response is transduced and inverted at D_T, as in `detection_threshold`, from a
    distance of 0 at equal energy; an ellipse is fitted to the chromaticities (Alabau-Bosque et al. 2024,
    section II.C and its notebook). Hues that do not reach D_T are left out, and the note counts them.

    Blind to: hues that are left out, which draw the ellipse of an insensitive metric towards its sensitive
    hues; the spread of scenes, for which
    `candlelight.evaluation.run.intervals.resampled_interval` takes this function of resampled
    scenes; and the weaknesses of `ellipse_error` and `fit_ellipse`. With clipped images the chromaticity
    shift is smaller than its nominal radius.

    Args:
        distances: of each scene under equal energy to itself under each illuminant, in the metric's unit.
        transduction: of this metric, with this normalisation of the images.
        hues: dominant wavelengths in nm, negative for complements; the paper has 20, about 18 degrees apart.
        radii: saturations as distances from equal energy in xy, positive and strictly increasing; the paper's
            code has 1 to 8 steps of 0.005, its text 0.0030, 0.0083, ... 0.0400.
        level: D_T on the common scale; the paper's is 0.445.

    Raises:
        InputError: the shapes do not agree, distances that are not finite or negative, radii that are not
            positive or do not increase, unknown hues, or a transduction that failed.

    Example:
        >>> import torch
        >>> hues, radii = torch.tensor([611, 574, 510, 491, 467, -510]), 0.005 * torch.arange(1, 9)
        >>> distances = radii.expand(1, 6, 8)  # equally sensitive to all hues
        >>> found = illuminant_thresholds(distances, Transduction(44.5, 1.0), hues, radii)
        >>> round(found.ellipse.major, 4), round(found.ellipse.minor, 4), found.note
        (0.01, 0.01, '0 of 6 hues left out')
    """
    axes = "scenes hues saturations"
    check_shapes(distances=(distances, axes), hues=(hues, "hues"), radii=(radii, "saturations"))
    if not bool((radii.diff(prepend=radii.new_zeros(1)) > 0).all()):
        raise InputError("`radii` must be positive and increase strictly; leave out equal energy, radius 0")
    curves, steps = pad(mean_response(distances), (1, 0)), pad(radii.double(), (1, 0))
    found = curve_thresholds(curves, steps, transduction, level)
    reached = found.isfinite()
    points = hue_chromaticities(hues, found)
    note = f"{int((~reached).sum())} of {len(found)} hues left out"
    if int(reached.sum()) < _FEWEST:
        return IlluminantThresholds(math.nan, math.nan, found, None, f"{note}, too many for an ellipse")
    try:
        ellipse = fit_ellipse(points[reached])
    except InputError:
        note += ", and the others have no ellipse: their thresholds lie on a line"
        return IlluminantThresholds(math.nan, math.nan, found, None, note)
    errors = (ellipse_error(ellipse, people) for people in (experimental_ellipse(), macadam_ellipse()))
    return IlluminantThresholds(*errors, found, ellipse, note)
