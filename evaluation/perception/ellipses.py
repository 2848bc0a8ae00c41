"""Ellipses in a plane: their points, their direct least-squares fit, and the distance of two ellipses."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Real
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

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
