"""Human thresholds of geometric transforms, viewing geometry, and the verdict on a metric."""

import math
from typing import Literal

from candlelight.loaders.errors import InputError

# In degrees of visual angle, degrees, and as a factor: the final test in the notebook of Alabau-Bosque et al.
# 2024, which does not say whether they are of the literature or of the paper's own natural images.
HUMAN_THRESHOLDS = {"translation": 0.23, "rotation": 3.6, "scale": 1.026}
# Transforms whose degrees are those of the visual angle, which depends on the screen.
VISUAL_ANGLES = ("translation", "parallax")
# The notebook divides np.linspace(0, 11, 11), not the shifts of 0 to 10 pixels, by the pixels per degree.
NOTEBOOK_SLIP = 1.1

Verdict = Literal["human-like", "more sensitive", "less sensitive", "not reached"]


PAPER_PIXELS_PER_DEGREE = 29.2
"""Of the paper's crops of ImageNet with 256 x 256 pixels, and of the recipe `invariance`."""


def screen_pixels_per_degree(pixel: float, distance: float) -> float:
    """Compute the pixels in a degree of visual angle at the centre of a screen.

    ``1 / (2 atan(pixel / (2 distance)))``.

    Args:
        pixel: width of a pixel of the image on the screen.
        distance: from the eye to the screen, in the same unit.

    Raises:
        InputError: a length that is not positive.

    Example:
        >>> round(screen_pixels_per_degree(pixel=0.25, distance=600), 1)
        41.9
    """
    if not (pixel > 0 and distance > 0):
        raise InputError(f"`pixel` and `distance` must be positive, got {pixel:g} and {distance:g}")
    return 1 / math.degrees(2 * math.atan(pixel / (2 * distance)))


def human_verdict(threshold: float, uncertainty: float, human: float, below: float = math.nan) -> Verdict:
    """Compare a metric's threshold with that of people.

    "human-like" if ``theta_M - u < theta_H < theta_M + u``: the strict test of Alabau-Bosque et al. 2024,
    Table II, as in its notebook. A metric is "more sensitive" than people if its threshold is too small,
    "less sensitive" (more invariant) if it is too large or infinite. If a level of D_T lies beyond the range
    of the magnitudes, the metric is still "less sensitive" if it stays below the lower quartile of D_T at the
    threshold of people; otherwise the verdict is "not reached".

    Blind to: how far off a threshold is, and how uncertain that of people is. A metric with a large u is
    human-like more easily. The verdict holds for the viewing geometry of the magnitudes, the images, and the
    ratings of the transduction.

    Args:
        threshold: theta_M, as `DetectionThreshold.score`; inf and nan as there.
        uncertainty: u, as `DetectionThreshold.uncertainty`.
        human: theta_H in the same unit, as in `HUMAN_THRESHOLDS`.
        below: magnitude up to which the metric stays below the lower quartile of D_T:
            `DetectionThreshold.low`, or the end of the range; nan if not known.

    Raises:
        InputError: a human threshold that is not finite.

    Example:
        >>> human_verdict(0.142, 0.065, HUMAN_THRESHOLDS["rotation"])
        'more sensitive'
    """
    if not math.isfinite(human):
        raise InputError(f"`human` must be finite, got {human:g}; HUMAN_THRESHOLDS has those of the paper")
    if threshold == math.inf:
        return "less sensitive"
    if math.isnan(threshold) or not math.isfinite(uncertainty):
        return "less sensitive" if human <= below else "not reached"
    if threshold - uncertainty < human < threshold + uncertainty:
        return "human-like"
    return "more sensitive" if threshold < human else "less sensitive"
