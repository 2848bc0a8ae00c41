"""Ellipses: their fit and error, those of people, and those of the thresholds of illuminants."""

import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.perception.detection import (
    Transduction,
    illuminant_thresholds,
    published_transduction,
)
from candlelight.evaluation.perception.people import (
    HUMAN_SATURATIONS,
    Ellipse,
    ellipse_error,
    experimental_ellipse,
    fit_ellipse,
    macadam_ellipse,
)
from candlelight.evaluation.perception.transforms import PAPER_HUES
from candlelight.loaders.illuminants import hue_direction
from tests.refusals import refused

MACADAM = Ellipse(1 / 3, 1 / 3, 0.0140, 0.0057, 61.2)


@pytest.mark.parametrize(
    ("wanted", "points"),
    [
        (Ellipse(-0.5, 1.2, 370.0, 120.0, 34.0), slice(0, 100, 20)),  # the least number, five points
        *((Ellipse(0.3, 0.4, 0.02, 0.005, angle), slice(10, 60)) for angle in (0.0, 90.0, 135.0, 179.99)),
        (Ellipse(1.0, 2.0, 0.003, 0.003, 0.0), slice(0, 90, 10)),  # a circle
    ],
)
def test_known_ellipses_come_back(wanted: Ellipse, points: slice) -> None:
    found = fit_ellipse(wanted.points()[points])
    for name in ("x", "y", "major", "minor"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-6, abs=1e-6 * wanted.major)
    if wanted.minor < wanted.major:
        assert math.cos(math.radians(2 * (found.angle - wanted.angle))) == pytest.approx(1, abs=1e-6)


def test_no_other_ellipse_has_a_smaller_algebraic_error() -> None:
    # The conics of all other ellipses, brought to 4ac - b^2 = 1, lose at least as much.
    rng = np.random.default_rng(1)
    x, y = points = (MACADAM.points(30)[:-1].numpy() - 1 / 3 + rng.normal(0, 1e-3, (29, 2))).T / 0.014

    def loss(ellipse: Ellipse) -> float:
        angle = math.radians(ellipse.angle)
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        form = turn.T @ np.diag([ellipse.major**-2, ellipse.minor**-2]) @ turn
        form /= math.sqrt(4 * np.linalg.det(form))
        away = np.stack([x - ellipse.x, y - ellipse.y])
        level = ellipse.major * ellipse.minor / 2
        return float(np.square(np.einsum("in,ij,jn->n", away, form, away) - level).sum())

    best = fit_ellipse(torch.from_numpy(points.T.copy()))
    least = loss(best)
    for _ in range(100):
        x_off, y_off, major, minor, turn = rng.normal(0, 0.02, 5)
        other = Ellipse(
            best.x + x_off, best.y + y_off, best.major + major, best.minor + minor, best.angle + 30 * turn
        )
        assert loss(other) >= least


@pytest.mark.parametrize("copies", [1, 3])
def test_points_of_a_hyperbola_have_an_ellipse(copies: int) -> None:
    t = torch.linspace(-1, 1, 9, dtype=torch.float64)
    found = fit_ellipse(torch.stack([t.cosh(), t.sinh()], 1).repeat(copies, 1))
    assert 0 < found.minor <= found.major


def test_error_equals_a_loop() -> None:
    def points(one: Ellipse) -> list[complex]:
        turn = complex(math.cos(math.radians(one.angle)), math.sin(math.radians(one.angle)))
        ts = np.linspace(0, 2 * math.pi, 100)
        return [
            complex(one.x, one.y) + turn * complex(one.major * math.cos(t), one.minor * math.sin(t))
            for t in ts
        ]

    other = Ellipse(0.33, 0.34, 0.02, 0.01, 10.0)
    squares = [abs(p - q) ** 2 for p, q in zip(points(other), points(MACADAM), strict=True)]
    assert ellipse_error(other, MACADAM) == pytest.approx(math.sqrt(sum(squares) / 100))


def test_errors_in_closed_form() -> None:
    assert ellipse_error(MACADAM, Ellipse(1 / 3, 1 / 3, 0.0140, 0.0057, 241.2)) == pytest.approx(0, abs=1e-15)
    shifted = Ellipse(1 / 3 + 0.003, 1 / 3 + 0.004, 0.0140, 0.0057, 61.2)
    assert ellipse_error(shifted, MACADAM) == pytest.approx(0.005)
    # Documented, as in the paper: angles of 1 and 179 degrees are opposite starts of t.
    assert ellipse_error(Ellipse(0.0, 0.0, 2.0, 1.9, 1.0), Ellipse(0.0, 0.0, 2.0, 1.9, 179.0)) > 3


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (torch.rand(4, 2), "at least 5 finite points for an ellipse, got 4"),
        (torch.arange(12.0).reshape(6, 2), "must not lie on a line"),
        (torch.zeros(6, 3), r"`points` \[points, 2\], got \[6, 3\]"),
    ],
)
def test_refused_points(points: torch.Tensor, message: str) -> None:
    with refused(message):
        fit_ellipse(points)


@pytest.mark.parametrize(("major", "minor"), [(1.0, 2.0), (1.0, 0.0), (math.nan, 1.0), (math.inf, 1.0)])
def test_refused_axes(major: float, minor: float) -> None:
    with refused("expected semi-axes 0 < minor <= major, got"):
        Ellipse(0.0, 0.0, major, minor, 0.0)


def test_ellipses_of_people_as_documented() -> None:
    macadam, measured = macadam_ellipse(), experimental_ellipse()
    assert (macadam.x, macadam.y) == pytest.approx((1 / 3, 1 / 3))
    assert (macadam.major, macadam.minor) == pytest.approx((0.0140, 0.0057), abs=5e-5)
    assert macadam.angle == pytest.approx(61.2, abs=0.05)
    assert (measured.x, measured.y) == pytest.approx((0.3334, 0.3333), abs=1e-4)
    assert (measured.major, measured.minor) == pytest.approx((0.0145, 0.0076), rel=0.01)
    assert measured.angle == pytest.approx(50.3, abs=0.5)


def test_saturations_are_mirrored_on_the_opposite_hues() -> None:
    opposite = {611: 491, 591: 486, 582: 481, 574: 467, 565: -565, 554: -554, 533: -533, 510: -510}
    opposite |= {501: -501, 495: -495}  # within 4 degrees
    assert len(HUMAN_SATURATIONS) == 12
    for hue, other in opposite.items():
        assert HUMAN_SATURATIONS.get(hue) == HUMAN_SATURATIONS.get(other)
    assert 0.005 * HUMAN_SATURATIONS[574] == pytest.approx(0.0139, abs=5e-5)
    assert 0.005 * HUMAN_SATURATIONS[510] == pytest.approx(0.0069, abs=5e-5)


# ---------------------------------------------------------------------------------- thresholds of illuminants

HUES = torch.tensor(PAPER_HUES)
RADII = 0.005 * torch.arange(1, 9, dtype=torch.float64)
LINEAR = Transduction(1.0, 1.0)


def _radius(ellipse, direction: np.ndarray) -> float:
    """Return the distance of an ellipse from its centre in a direction."""
    angle = math.radians(ellipse.angle)
    along = direction @ [math.cos(angle), math.sin(angle)]
    across = direction @ [-math.sin(angle), math.cos(angle)]
    return 1 / math.hypot(along / ellipse.major, across / ellipse.minor)


def test_a_metric_with_the_thresholds_of_macadam() -> None:
    directions = np.array([hue_direction(hue) for hue in HUES.tolist()])
    thresholds = torch.tensor([_radius(macadam_ellipse(), one) for one in directions]).double()
    distances = 0.445 * RADII / thresholds[:, None]
    found = illuminant_thresholds(distances[None], LINEAR, HUES, RADII)
    torch.testing.assert_close(found.radii, thresholds)
    assert found.macadam_error == pytest.approx(0, abs=1e-9)
    assert found.score == pytest.approx(ellipse_error(macadam_ellipse(), experimental_ellipse()), rel=1e-6)
    assert 0 < found.score < 0.003
    assert found.note == "0 of 20 hues left out"


def test_equals_a_slow_restatement() -> None:
    rng = np.random.default_rng(0)
    powers = rng.uniform(0.5, 1.5, (1, 20, 1))
    distances = rng.uniform(0.1, 1, (3, 20, 1)) * np.linspace(0.01, 0.2, 8) ** powers
    rmse = published_transduction("RMSE")
    found = illuminant_thresholds(torch.from_numpy(distances), rmse, HUES, RADII)
    for hue in range(20):
        curve = [0.0, *distances[:, hue].mean(0)]
        wanted = np.interp((0.445 / rmse.scale) ** (1 / rmse.exponent), curve, [0.0, *RADII.tolist()])
        assert float(found.radii[hue]) == pytest.approx(wanted)


def test_hues_that_are_not_reached_are_left_out() -> None:
    distances = (40 * RADII).repeat(20, 1)
    distances[3] *= 0.1
    distances[7] = 0
    found = illuminant_thresholds(distances[None], LINEAR, HUES, RADII)
    assert found.note == "2 of 20 hues left out"
    assert math.isnan(found.radii[3])
    assert found.radii[7] == math.inf
    assert found.ellipse is not None
    assert found.ellipse.major == pytest.approx(0.445 / 40)


@pytest.mark.parametrize(
    ("hues", "slopes", "note"),
    [
        (HUES, torch.zeros(20), "20 of 20 hues left out, too many for an ellipse"),
        (
            torch.tensor([574.0, -574.0]).repeat(3),
            torch.linspace(40, 80, 6),
            "0 of 6 hues left out, and the others have no ellipse: their thresholds lie on a line",
        ),
    ],
    ids=["blind to illuminants", "hues on a line"],
)
def test_metrics_without_an_ellipse(hues, slopes, note) -> None:
    found = illuminant_thresholds((slopes[:, None] * RADII)[None], LINEAR, hues, RADII)
    assert found.ellipse is None
    assert math.isnan(found.score)
    assert math.isnan(found.macadam_error)
    assert found.note.startswith(note)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"radii": RADII - RADII[0]}, "`radii` must be positive and increase strictly; leave out equal"),
        ({"radii": RADII.flip(0)}, "`radii` must be positive and increase"),
        ({"radii": RADII[:3]}, r"`radii` \[saturations\], got \[1, 20, 8\], \[20\], \[3\]"),
        ({"hues": HUES[:5]}, r"`hues` \[hues\], `radii`"),
        ({"hues": HUES + 200}, "expected a dominant wavelength"),
    ],
)
def test_refused_arguments(changed: dict[str, object], message: str) -> None:
    given = {"distances": (40 * RADII).expand(1, 20, 8), "transduction": LINEAR, "hues": HUES, "radii": RADII}
    with refused(message):
        illuminant_thresholds(**{**given, **changed})
