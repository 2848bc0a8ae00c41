"""Human thresholds of geometric transforms, viewing geometry, and the verdict on a metric."""

import math
from dataclasses import dataclass
from typing import Literal

from loaders.errors import InputError

# In degrees of visual angle, degrees, and as a factor: the final test in the notebook of Alabau-Bosque et al.
# 2024, which does not say whether they are of the literature or of the paper's own natural images.
HUMAN_THRESHOLDS = {"translation": 0.23, "rotation": 3.6, "scale": 1.026}
# Transforms whose degrees are those of the visual angle, which depends on the screen.
VISUAL_ANGLES = ("translation", "parallax")
# The notebook divides np.linspace(0, 11, 11), not the shifts of 0 to 10 pixels, by the pixels per degree.
NOTEBOOK_SLIP = 1.1

Verdict = Literal["human-like", "more sensitive", "less sensitive", "not reached"]


@dataclass(frozen=True)
class ViewingGeometry:
    """How large a pixel appears to the viewer.

    Attributes:
        pixels_per_degree: pixels in a degree of visual angle, at the centre of the screen.

    Raises:
        InputError: a number that is not positive and finite.

    Example:
        >>> round(ViewingGeometry(29.2).degrees(10), 3)
        0.342
    """

    pixels_per_degree: float

    def __post_init__(self) -> None:
        if not 0 < self.pixels_per_degree < math.inf:
            raise InputError(
                f"`pixels_per_degree` must be positive and finite, got {self.pixels_per_degree:g}; the "
                "paper's is 29.2"
            )

    @classmethod
    def of_screen(cls, pixel: float, distance: float) -> "ViewingGeometry":
        """Compute the pixels per degree of a screen: ``1 / (2 atan(pixel / (2 distance)))``.

        Args:
            pixel: width of a pixel of the image on the screen.
            distance: from the eye to the screen, in the same unit.

        Raises:
            InputError: a length that is not positive.

        Example:
            >>> round(ViewingGeometry.of_screen(pixel=0.25, distance=600).pixels_per_degree, 1)
            41.9
        """
        if not (pixel > 0 and distance > 0):
            raise InputError(f"`pixel` and `distance` must be positive, got {pixel:g} and {distance:g}")
        return cls(1 / math.degrees(2 * math.atan(pixel / (2 * distance))))

    def degrees(self, pixels: float) -> float:
        """Convert a shift in pixels to degrees of visual angle."""
        return pixels / self.pixels_per_degree

    def pixels(self, degrees: float) -> float:
        """Convert degrees of visual angle to pixels.

        Example:
            >>> ViewingGeometry(29.2).pixels(0.5)
            14.6
        """
        return degrees * self.pixels_per_degree


PAPER_VIEWING = ViewingGeometry(29.2)
"""Viewing of the paper's crops of ImageNet with 256 x 256 pixels, and of the recipe `invariance`."""


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
