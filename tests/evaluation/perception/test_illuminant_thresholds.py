import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.perception.detection import (
    Transduction,
    illuminant_thresholds,
    published_transduction,
)
from candlelight.evaluation.perception.people import ellipse_error, experimental_ellipse, macadam_ellipse
from candlelight.evaluation.perception.transforms import PAPER_HUES
from candlelight.loaders.illuminants import hue_direction
from tests.refusals import refused

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
