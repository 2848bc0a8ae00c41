"""Distances on the common scale: transductions, response curves, and their thresholds at D_T."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64, Real
from numpy import ndarray
from scipy.optimize import least_squares
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.perception.distances import pair_distances
from candlelight.evaluation.perception.people import (
    Ellipse,
    ellipse_error,
    experimental_ellipse,
    fit_ellipse,
    macadam_ellipse,
)
from candlelight.evaluation.perception.psychometric import DETECTION_LEVELS
from candlelight.evaluation.perception.transforms import hue_chromaticities
from candlelight.evaluation.run.batches import Batch, read_batches
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.run.steps import FinishedSteps, Step, batch_key, join_steps, model_key
from candlelight.evaluation.views import RatedPair, View
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

ROUNDING = 1e-6  # distances from minus this to 0 count as 0: 1 - SSIM of identical images may be negative


def mean_response(distances: Real[Tensor, "scenes *hues magnitudes"]) -> Float64[Tensor, "*hues magnitudes"]:
    """Average the distances of a metric over scenes: its response to a family of transforms.

    ``d_M(theta) = 1 / S sum_s d_M(i_s, T_theta(i_s))``: Alabau-Bosque et al. 2024, Invariance of deep image
    quality metrics to affine transformations (arXiv 2407.17927), eq. 1. The curve of one scene is its row.
    For translations the paper averages over both axes too.

    Blind to: the spread of the scenes. A few scenes that move a lot look like all scenes that move a little;
    `detection_threshold` gives the threshold of each scene, and an interval over scenes.

    Args:
        distances: distance of each scene to itself at each magnitude of the transform, in any unit, >= 0 and
            0 for identical images. Further axes, such as the hues of illuminants, are kept.

    Returns:
        Mean distances, in the metric's unit.

    Raises:
        InputError: no scenes, or distances that are not finite or are negative, beyond rounding (1e-6).

    Example:
        >>> mean_response(torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 6.0]]))
        tensor([0., 2., 4.], dtype=torch.float64)
    """
    check_shapes(distances=(distances, "scenes *hues magnitudes"))
    return check_distances(distances).mean(0)


def check_distances(distances: Real[Tensor, "*shape"], name: str = "distances") -> Float64[Tensor, "*shape"]:
    """Refuse values that are no distances; return them in float64, without negative rounding errors.

    Args:
        distances: distances, 0 for identical images.
        name: of the argument in the message.

    Raises:
        InputError: no values, or values that are not finite or are negative, beyond rounding (1e-6).

    Example:
        >>> check_distances(torch.tensor([[-1.0, 0.9]]))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `distances` must be at least 0, got -1; pass a distance, 0 \
for identical images (1 - SSIM, not SSIM)
    """
    if not distances.numel():
        raise InputError(f"`{name}` needs at least one value, got shape {list(distances.shape)}")
    values = distances.double()
    if not bool(values.isfinite().all()):
        raise InputError(f"`{name}` must be finite, got nan or inf; leave out scenes where the metric fails")
    if bool((values < -ROUNDING).any()):
        raise InputError(
            f"`{name}` must be at least 0, got {float(values.min()):g}; pass a distance, 0 for identical "
            "images (1 - SSIM, not SSIM)"
        )
    return values.clamp(min=0)


def check_magnitudes(magnitudes: Real[Tensor, " magnitudes"]) -> Float64[Tensor, " magnitudes"]:
    """Refuse magnitudes that do not increase; return them in float64.

    Args:
        magnitudes: of a transform.

    Raises:
        InputError: no magnitudes, or magnitudes that do not increase strictly, nan among them.

    Example:
        >>> check_magnitudes(torch.tensor([1.0, 0.5]))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `magnitudes` must increase strictly from the identity, as 0, \
1, 2; sort
    """
    steps = magnitudes.double()
    if not len(steps) or not bool((steps.diff() > 0).all()):
        raise InputError("`magnitudes` must increase strictly from the identity, as 0, 1, 2; sort")
    return steps


def invert_curves(
    curves: Real[Tensor, "*curves magnitudes"], magnitudes: Real[Tensor, " magnitudes"], level: float
) -> Float64[Tensor, "*curves"]:
    """Find the smallest magnitude at which each curve reaches a level, by linear interpolation.

    ``theta = g^-1(level)`` for a rising curve g, between Alabau-Bosque et al. 2024, eq. 2 and 4 (theta_M =
    g_M^-1(D_T)). A curve that falls again has several such magnitudes, of which this is the first.

    Blind to: the shape of a curve between two magnitudes, where it counts as a straight line.

    Args:
        curves: values in any unit.
        magnitudes: of the transform, strictly increasing, in any unit.
        level: in the unit of the curves.

    Returns:
        Magnitudes; the first one for a curve that starts at the level or above, nan for a curve that does not
        reach the level.

    Raises:
        InputError: the shapes do not agree, there are no magnitudes, or they do not increase.

    Example:
        >>> curves = torch.tensor([[0.0, 1.0, 4.0], [3.0, 4.0, 5.0], [0.0, 1.0, 1.0]])
        >>> invert_curves(curves, torch.tensor([0.0, 10.0, 20.0]), 2.5)
        tensor([15.,  0., nan], dtype=torch.float64)
    """
    check_shapes(curves=(curves, "*curves magnitudes"), magnitudes=(magnitudes, "magnitudes"))
    steps = check_magnitudes(magnitudes)
    values = curves.double()
    reached = values >= level
    after = reached.int().argmax(-1, keepdim=True)
    before = (after - 1).clamp(min=0)
    low, high = values.gather(-1, before), values.gather(-1, after)
    # A rise of 1 where the curve starts at the level: both magnitudes are the first there.
    share = (level - low) / torch.where(after > 0, high - low, 1.0)
    found = steps[before].lerp(steps[after], share)  # within both, in spite of rounding
    return torch.where(reached.any(-1), found.squeeze(-1), torch.nan)


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


_DATA = "sRGB images of TID2013 in [0, 1], D = (10 - MOS) / 10"
_CONSTANTS = {
    "RMSE": (1.2398322071369559, 0.2645684248720596, "root mean square error over pixels and channels"),
    "SSIM": (0.795, 0.144, "1 - SSIM, the authors' implementation"),
    "LPIPS": (0.720, 0.121, "LPIPS, the authors' implementation (illuminants deviate from the paper's)"),
    "DISTS": (0.890, 0.171, "DISTS, the authors' implementation"),
    "PerceptNet": (2.35, 0.343, "PerceptNet, the authors' weights"),
    "PIM": (0.394, 0.105, "PIM, the authors' implementation"),
}
PUBLISHED_TRANSDUCTIONS = {
    name: Transduction(scale, exponent, note=f"{metric}; {_DATA}")
    for name, (scale, exponent, metric) in _CONSTANTS.items()
}


def published_transduction(metric: str) -> Transduction:
    """Return the published transduction of a metric.

    It holds for that metric, implementation and normalisation alone (`Transduction.note`): another SSIM, or
    LPIPS with another network, needs a fit on rated pairs by `fit_transduction`.

    Args:
        metric: "RMSE", "SSIM", "LPIPS", "DISTS", "PerceptNet" or "PIM".

    Raises:
        InputError: the paper has no such metric.

    Example:
        >>> round(published_transduction("RMSE").invert(0.445), 4)
        0.0208
    """
    check_choice("metric", metric, tuple(PUBLISHED_TRANSDUCTIONS))
    return PUBLISHED_TRANSDUCTIONS[metric]


_VERSION = 1  # of the numbers of a finished step


def fit_rated_pairs(
    named_distances: Mapping[str, NamedModel],
    pairs: View[RatedPair],
    *,
    device: str = "cpu",
    batch_size: int = 16,
    steps: FinishedSteps | None = None,
    fingerprint: Fingerprint | None = None,
) -> dict[str, Transduction]:
    """Fit the transduction of each metric to rated pairs, such as those of TID2013.

    See `fit_transduction`; the common distance of a pair is `normalised_dmos` of its score. Pairs on which a
    metric is undefined are left out, and its note counts them.

    Args:
        named_distances: by name, from `open_distance` on ``device``.
        pairs: from `open_data("pairs", ...)`.
        device: torch device on which images are compared.
        batch_size: maximal number of pairs that are compared at once.
        steps: keeps finished batches, so that an interrupted run resumes; None keeps nothing.
        fingerprint: is extended by every pair, if given.

    Returns:
        By metric. A fit that failed is among them: ``converged`` is False, and ``note`` says why.

    Raises:
        InputError: there are no pairs, a metric fails, or a score lies outside [0, 10].
    """
    kept, whole = steps or FinishedSteps(), fingerprint or Fingerprint()
    settings = {"metric": "rated pairs", "version": _VERSION}
    keys = {name: model_key(named, device, **settings) for name, named in named_distances.items()}
    parts: list[dict[str, Step]] = []
    scores: list[float] = []
    for batch in read_batches(pairs, batch_size, lambda pair: pair.reference, whole, "rated pairs"):
        scores += [pair.score for pair in batch.items]
        parts.append({})
        for name, named in named_distances.items():
            compute = partial(_compare, named, batch, device)
            parts[-1][name] = kept.get_or_compute(batch_key(keys[name], batch, whole), compute)
    ratings = normalised_dmos(torch.tensor(scores, dtype=torch.float64))
    return {name: _fit(some["distances"], ratings) for name, some in join_steps(parts).items()}


def _compare(named: NamedModel, batch: Batch[RatedPair], device: str) -> dict[str, Tensor]:
    distorted = batch.stack(lambda pair: pair.distorted).to(device)
    references = batch.stack(lambda pair: pair.reference).to(device)
    return {"distances": pair_distances(named, distorted, references)}


def _fit(distances: Float64[Tensor, " pairs"], ratings: Float64[Tensor, " pairs"]) -> Transduction:
    defined = ~distances.isnan()
    try:
        found = fit_transduction(distances[defined], ratings[defined])
    except InputError as error:
        return Transduction(0.0, 0.0, pairs=int(defined.sum()), converged=False, note=f"no fit: {error}")
    left_out = int((~defined).sum())
    return replace(found, note=f"{found.note}; {left_out} undefined pairs left out") if left_out else found


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
    error, macadam_error = (
        ellipse_error(ellipse, people) for people in (experimental_ellipse(), macadam_ellipse())
    )
    return IlluminantThresholds(error, macadam_error, found, ellipse, note)
