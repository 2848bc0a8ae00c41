"""Thresholds of people: of geometric transforms, and the ellipses of colours that they overlook."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64, Real
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.perception.transforms import hue_chromaticities
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError
from candlelight.loaders.illuminants import EQUAL_ENERGY, XY_PER_STEP

# In degrees of visual angle, degrees, and as a factor: the final test in the notebook of Alabau-Bosque et al.
# 2024, which does not say whether they are of the literature or of the paper's own natural images.
HUMAN_THRESHOLDS = {"translation": 0.23, "rotation": 3.6, "scale": 1.026}
# Transforms from the one to which people are most sensitive: Alabau-Bosque et al. 2024, section II.D, of
# thresholds in energy. Illuminants are along the short (red-green) and long (yellow-blue) axis of the human
# ellipse.
HUMAN_ORDER = ("scale", "translation", "rotation", "RG", "YB")
# Hues of the axes that the paper orders with the geometric transforms.
COLOUR_AXES = {"RG": (510, -510), "YB": (574, 467)}
# Transforms whose degrees are those of the visual angle, which depends on the screen.
VISUAL_ANGLES = ("translation", "parallax")
# The notebook divides np.linspace(0, 11, 11), not the shifts of 0 to 10 pixels, by the pixels per degree.
NOTEBOOK_SLIP = 1.1

Verdict = Literal["human-like", "more sensitive", "less sensitive", "not reached"]


def screen_pixels_per_degree(pixel: float, distance: float) -> float:
    """Compute the pixels in a degree of visual angle at the centre of a screen.

    ``1 / (2 atan(pixel / (2 distance)))``.

    Args:
        pixel: width of a pixel of the image on the screen, above 0.
        distance: from the eye to the screen, in the same unit, above 0.

    Example:
        >>> round(screen_pixels_per_degree(pixel=0.25, distance=600), 1)
        41.9
    """
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


ELLIPSE_POINTS = 100  # the paper's
_FLAT_LIMIT = 1e-7  # ratio of the axes of an ellipse that rounding cannot tell from a line


@dataclass(frozen=True)
class Ellipse:
    """An ellipse.

    Attributes:
        x: of the centre.
        y: of the centre.
        major: semi-major axis.
        minor: semi-minor axis.
        angle: degrees from the x axis to the major axis, counterclockwise, brought to [0, 180).

    Raises:
        InputError: axes that are not positive and in order.

    Example:
        >>> Ellipse(x=1.0, y=0.0, major=2.0, minor=1.0, angle=270.0).angle
        90.0
    """

    x: float
    y: float
    major: float
    minor: float
    angle: float

    def __post_init__(self) -> None:
        if not 0 < self.minor <= self.major < math.inf:
            raise InputError(
                f"expected semi-axes 0 < minor <= major, got {self.minor:g} and {self.major:g}; swap them"
            )
        object.__setattr__(self, "angle", self.angle % 180)

    def points(self, count: int = ELLIPSE_POINTS) -> Float64[Tensor, "count 2"]:
        """Return points for equally spaced t from 0 to 2 pi, both ends included; the first is at `angle`.

        Example:
            >>> Ellipse(0.0, 0.0, 2.0, 1.0, 0.0).points(5).round().abs().tolist()
            [[2.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [2.0, 0.0]]
        """
        t = torch.linspace(0, 2 * math.pi, count, dtype=torch.float64)
        along, across = self.major * t.cos(), self.minor * t.sin()
        cosine, sine = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        return torch.stack(
            [self.x + along * cosine - across * sine, self.y + along * sine + across * cosine], 1
        )


def ellipse_error(ellipse: Ellipse, human: Ellipse) -> float:
    """Compute the root mean square distance of points with equal t on two ellipses.

    ``sqrt(mean_t |p(t) - p_H(t)|^2)`` with 100 points: the error of illuminants in Alabau-Bosque et al. 2024,
    Table II, as in its notebook.

    Blind to: the shape alone. Points are compared by t, not with the nearest point, and t starts on the major
    axis, at an angle in [0, 180). Two nearly equal ellipses at 1 and 179 degrees, or two nearly equal circles
    whose angles differ by chance, have a large error, as in the paper.

    Args:
        ellipse: of the metric.
        human: of people, in the same plane.

    Returns:
        Distance in the unit of the axes, >= 0, 0 for identical ellipses.

    Example:
        >>> ellipse_error(Ellipse(0.0, 0.0, 2.0, 1.0, 30.0), Ellipse(3.0, 4.0, 2.0, 1.0, 30.0))
        5.0
    """
    return float((ellipse.points() - human.points()).square().sum(1).mean().sqrt())


def fit_ellipse(points: Real[Tensor, "points 2"]) -> Ellipse:
    """Fit an ellipse to points, by direct least squares of the algebraic distance.

    R. Halir, J. Flusser: Numerically stable direct least squares fitting of ellipses, WSCG 1998, the method
    of Alabau-Bosque et al. 2024; here of points that are centred and scaled first. The result is an ellipse
    for any points, also for those of a parabola or a hyperbola.

    Blind to: the quality of the fit. Algebraic distances count points at the sharp ends more, and make
    ellipses through noisy arcs too small.

    Args:
        points: x and y, at least 5 points.

    Raises:
        InputError: fewer than 5 points, points that are not finite, or points on a line.

    Example:
        >>> found = fit_ellipse(Ellipse(0.3, 0.3, 0.02, 0.01, 50.0).points())
        >>> round(found.major, 6), round(found.minor, 6), round(found.angle, 4)
        (0.02, 0.01, 50.0)
    """
    check_shapes(points=(points, "points 2"))
    if len(points) < 5 or not bool(points.isfinite().all()):
        raise InputError(
            f"`points` needs at least 5 finite points for an ellipse, got {len(points)}; leave out nan"
        )
    values = points.double().numpy(force=True)
    middle = values.mean(0)
    size = float(np.abs(values - middle).max())
    conic = _direct_fit((values - middle) / size) if size > 0 else None
    found = None if conic is None else _geometry(conic)
    if found is None:
        raise InputError("`points` must not lie on a line; no ellipse goes through them")
    centre, axes, angle = found
    x, y = (size * centre + middle).tolist()
    return Ellipse(x, y, size * axes[0], size * axes[1], angle)


def _direct_fit(points: Float64[ndarray, "points 2"]) -> Float64[ndarray, "6"] | None:
    """Solve for the conic ``a x^2 + b xy + c y^2 + d x + e y + f = 0`` with 4ac - b^2 > 0: section 3."""
    x, y = points.T
    squares = np.stack([x * x, x * y, y * y], 1)
    linear = np.stack([x, y, np.ones_like(x)], 1)
    cross = squares.T @ linear
    widths = np.linalg.svd(points, compute_uv=False)
    if widths[1] <= _FLAT_LIMIT * widths[0]:
        return None
    lower = -np.linalg.solve(linear.T @ linear, cross.T)  # from (a, b, c) to (d, e, f)
    reduced = squares.T @ squares + cross @ lower
    vectors = np.linalg.eig(np.stack([reduced[2] / 2, -reduced[1], reduced[0] / 2])).eigenvectors
    upper = vectors.real.T
    is_ellipse = 4 * upper[:, 0] * upper[:, 2] - upper[:, 1] ** 2
    best = upper[is_ellipse.argmax()]
    return np.concatenate([best, lower @ best]) if is_ellipse.max() > 0 else None


def _geometry(
    conic: Float64[ndarray, "6"],
) -> tuple[Float64[ndarray, "2"], tuple[float, float], float] | None:
    """Return centre, semi-axes and angle of a conic that is an ellipse."""
    a, b, c, *line, f = conic if conic[0] > 0 else -conic
    form = np.array([[a, b / 2], [b / 2, c]])
    centre = np.linalg.solve(-2 * form, line)
    radius = -(f + np.dot(line, centre) / 2)
    curvatures, directions = np.linalg.eigh(form)
    if not (radius > 0 and curvatures[0] > _FLAT_LIMIT**2 * curvatures[1]):
        return None
    major, minor = np.sqrt(radius / curvatures).tolist()
    x, y = directions[:, 0]
    return centre, (major, minor), math.degrees(math.atan2(y, x))


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


def all_human_thresholds() -> dict[str, float]:
    """Return the thresholds of people by transform; along the colour axes in steps of saturation.

    Parallax has that of translation: a camera that moves shifts the picture by the same angle.

    Example:
        >>> all_human_thresholds()["RG"]
        1.383
    """
    steps = {
        axis: sum(HUMAN_SATURATIONS[hue] for hue in hues) / len(hues) for axis, hues in COLOUR_AXES.items()
    }
    return {**HUMAN_THRESHOLDS, "parallax x": HUMAN_THRESHOLDS["translation"], **steps}


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
