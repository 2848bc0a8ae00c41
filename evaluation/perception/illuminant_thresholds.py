"""A metric's thresholds of illuminants in all hues, as an ellipse, against the ellipses of people."""

import math
from dataclasses import dataclass

from jaxtyping import Float64, Real
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.perception.detection_threshold import curve_thresholds
from candlelight.evaluation.perception.ellipses import Ellipse, ellipse_error, fit_ellipse
from candlelight.evaluation.perception.hue_chromaticity import hue_chromaticities
from candlelight.evaluation.perception.human_ellipses import experimental_ellipse, macadam_ellipse
from candlelight.evaluation.perception.published_transductions import DETECTION_LEVELS
from candlelight.evaluation.perception.response_curves import mean_response
from candlelight.evaluation.perception.transduction import Transduction
from candlelight.loaders.errors import InputError

# Hues of the axes that the paper orders with the geometric transforms.
COLOUR_AXES = {"RG": (510, -510), "YB": (574, 467)}
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
    `candlelight.evaluation.results.resampled_intervals.resampled_interval` takes this function of resampled
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
    ellipse = None
    if int(reached.sum()) < _FEWEST:
        note += ", too many for an ellipse"
    else:
        try:
            ellipse = fit_ellipse(points[reached])
        except InputError:
            note += ", and the others have no ellipse: their thresholds lie on a line"
    return IlluminantThresholds(
        score=math.nan if ellipse is None else ellipse_error(ellipse, experimental_ellipse()),
        macadam_error=math.nan if ellipse is None else ellipse_error(ellipse, macadam_ellipse()),
        radii=found,
        ellipse=ellipse,
        note=note,
    )
