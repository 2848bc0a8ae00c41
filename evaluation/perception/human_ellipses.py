"""Ellipses of just noticeable illuminants about equal energy, of people, in CIE 1931 xy."""

from functools import cache

import torch

from candlelight.evaluation.perception.ellipses import Ellipse, fit_ellipse
from candlelight.evaluation.perception.hue_chromaticity import hue_chromaticities
from candlelight.loaders.illuminants import EQUAL_ENERGY, XY_PER_STEP

# The three ellipses of D. L. MacAdam (Visual sensitivities to color differences in daylight, JOSA 32(5),
# 1942) nearest to equal energy: standard deviations of colour matches, numbers 13, 14 and 20 of his list.
NEAREST_MACADAM = (
    Ellipse(0.305, 0.323, 2.3e-3, 0.9e-3, 58.0),
    Ellipse(0.385, 0.393, 3.8e-3, 1.6e-3, 65.5),
    Ellipse(0.344, 0.284, 2.3e-3, 0.9e-3, 60.0),
)
# The paper draws and averages them five times as large, measured on its figure.
MACADAM_SCALE = 5.0
# Saturations at the threshold of the paper's observers, in steps of XY_PER_STEP, by dominant wavelength. The
# paper's code has 0.0049958.
HUMAN_SATURATIONS = {
    **{611: 1.955, 582: 2.644, 574: 2.779, 565: 2.644, 554: 1.955, 510: 1.383},
    # The opposite hues, mirrored by the paper.
    **{491: 1.955, 481: 2.644, 467: 2.779, -565: 2.644, -554: 1.955, -510: 1.383},
}


@cache
def macadam_ellipse() -> Ellipse:
    """Interpolate MacAdam's ellipse at equal energy.

    The mean of axes and angles of the three nearest ellipses, five times as large as the standard deviations
    of matches (Alabau-Bosque et al. 2024, by its figure): 0.0140 and 0.0057 at 61.2 degrees.

    Blind to: the distances of the three from equal energy, which the paper does not weight, and to the
    observer: MacAdam's was one person, with matches of plain fields, not of pictures.

    Example:
        >>> found = macadam_ellipse()
        >>> round(found.major, 4), round(found.minor, 4), round(found.angle, 1)
        (0.014, 0.0057, 61.2)
    """
    major, minor, angle = (
        sum(getattr(one, name) for one in NEAREST_MACADAM) / len(NEAREST_MACADAM)
        for name in ("major", "minor", "angle")
    )
    return Ellipse(*EQUAL_ENERGY, MACADAM_SCALE * major, MACADAM_SCALE * minor, angle)


@cache
def experimental_ellipse() -> Ellipse:
    """Fit the ellipse of the thresholds that the paper's observers had with natural images.

    Thresholds of six hues, mirrored on the opposite hues, by `fit_ellipse` (Alabau-Bosque et al. 2024, its
    notebook, which gives 0.0145 and 0.0076 at 50.3 degrees; this fit differs by 1 % and 0.3 degrees, as its
    directions are those of another observer, `candlelight.loaders.illuminants.observer`). Radii are 0.0139
    along yellow-blue (574 and 467 nm) and 0.0069 along red-green (510 nm and its complement).

    Blind to: differences between a hue and its opposite, which were not measured.

    Example:
        >>> found = experimental_ellipse()
        >>> round(found.major, 4), round(found.minor, 4), round(found.angle)
        (0.0144, 0.0075, 50)
    """
    hues = torch.tensor(list(HUMAN_SATURATIONS), dtype=torch.float64)
    radii = XY_PER_STEP * torch.tensor(list(HUMAN_SATURATIONS.values()), dtype=torch.float64)
    return fit_ellipse(hue_chromaticities(hues, radii))
