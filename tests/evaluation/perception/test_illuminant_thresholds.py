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
    COLOUR_AXES,
    ellipse_error,
    experimental_ellipse,
    macadam_ellipse,
)
from candlelight.loaders.illuminants import hue_direction
from tests.refusals import refused

HUES = torch.tensor(
    [
        *(611, 591, 582, 574, 565, 554, 533, 510, 501, 495),
        *(491, 486, 481, 467, -565, -554, -533, -510, -501, -495),
    ]
)
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
    assert found.note == "0 of 20 hues left out"


def test_scenes_are_averaged_before_inversion() -> None:
    distances = torch.stack([20 * RADII, 60 * RADII]).repeat_interleave(20, 0).reshape(2, 20, 8)
    found = illuminant_thresholds(distances, LINEAR, HUES, RADII)
    torch.testing.assert_close(found.radii, torch.full((20,), 0.445 / 40, dtype=torch.float64))


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


def test_a_metric_that_is_blind_to_illuminants() -> None:
    found = illuminant_thresholds(torch.zeros(2, 20, 8), LINEAR, HUES, RADII)
    assert found.radii.isinf().all()
    assert found.ellipse is None
    assert math.isnan(found.score)
    assert math.isnan(found.macadam_error)
    assert found.note == "20 of 20 hues left out, too many for an ellipse"


def test_hues_on_a_line() -> None:
    hues = torch.tensor([574.0, -574.0]).repeat(3)
    distances = torch.linspace(1, 2, 6)[:, None] * 40 * RADII
    found = illuminant_thresholds(distances[None], LINEAR, hues, RADII)
    assert found.ellipse is None
    assert found.note.endswith("and the others have no ellipse: their thresholds lie on a line")


def test_axes_are_among_the_hues() -> None:
    assert all(hue in HUES.tolist() for axis in COLOUR_AXES.values() for hue in axis)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"radii": RADII - RADII[0]}, "`radii` must be positive and increase strictly; leave out equal"),
        ({"radii": RADII.flip(0)}, "`radii` must be positive and increase"),
        ({"radii": RADII[:3]}, r"`radii` \[saturations\], got \[1, 20, 8\], \[20\], \[3\]"),
        ({"hues": HUES[:5]}, r"`hues` \[hues\], `radii`"),
        ({"hues": HUES + 200}, "expected a dominant wavelength"),
        ({"distances": torch.full((1, 20, 8), math.nan)}, "`distances` must be finite"),
        ({"transduction": Transduction(0.0, 1.0)}, "expected a transduction that converged and rises"),
    ],
)
def test_refused_arguments(changed: dict[str, object], message: str) -> None:
    given = {
        **{"distances": (40 * RADII).expand(1, 20, 8), "transduction": LINEAR},
        **{"hues": HUES, "radii": RADII, **changed},
    }
    with refused(message):
        illuminant_thresholds(**given)
