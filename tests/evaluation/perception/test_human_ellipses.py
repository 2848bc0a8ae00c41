import math

import numpy as np
import pytest
import torch

from evaluation.perception.ellipses import ellipse_error
from evaluation.perception.hue_chromaticity import hue_chromaticities, hue_directions
from evaluation.perception.human_ellipses import HUMAN_SATURATIONS, experimental_ellipse, macadam_ellipse
from loaders.errors import InputError

HUES = (
    *(611, 591, 582, 574, 565, 554, 533, 510, 501, 495),
    *(491, 486, 481, 467, -565, -554, -533, -510, -501, -495),
)  # the paper's; hue n + 10 lies opposite to hue n, within 4 degrees


def test_macadam_as_documented() -> None:
    found = macadam_ellipse()
    assert (found.x, found.y) == pytest.approx((1 / 3, 1 / 3))
    assert (found.major, found.minor) == pytest.approx((0.0140, 0.0057), abs=5e-5)
    assert found.angle == pytest.approx(61.2, abs=0.05)


def test_people_of_the_experiment_as_documented() -> None:
    found = experimental_ellipse()
    assert (found.x, found.y) == pytest.approx((0.3334, 0.3333), abs=1e-4)
    assert (found.major, found.minor) == pytest.approx((0.0145, 0.0076), rel=0.01)
    assert found.angle == pytest.approx(50.3, abs=0.5)


def test_the_two_are_alike() -> None:
    assert 0 < ellipse_error(macadam_ellipse(), experimental_ellipse()) < 0.003


def test_saturations_are_mirrored_on_the_opposite_hues() -> None:
    assert len(HUMAN_SATURATIONS) == 12
    for place, hue in enumerate(HUES[:10]):
        opposite = HUES[place + 10]
        assert HUMAN_SATURATIONS.get(hue) == HUMAN_SATURATIONS.get(opposite)
    assert 0.005 * HUMAN_SATURATIONS[574] == pytest.approx(0.0139, abs=5e-5)
    assert 0.005 * HUMAN_SATURATIONS[510] == pytest.approx(0.0069, abs=5e-5)


def test_hues_are_about_18_degrees_apart() -> None:
    directions = hue_directions(torch.tensor(HUES)).numpy()
    angles = np.degrees(np.unwrap(np.arctan2(directions[:, 1], directions[:, 0])))
    np.testing.assert_allclose(angles - angles[0], 18 * np.arange(20), atol=6)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)


def _observer(wave: float) -> np.ndarray:
    """Colour matching functions, as the multi-lobe fit of Wyman, Sloan and Shirley 2013."""

    def lobe(height: float, peak: float, below: float, above: float) -> float:
        return height * math.exp(-0.5 * ((wave - peak) * (below if wave < peak else above)) ** 2)

    x = lobe(0.362, 442, 0.0624, 0.0374) + lobe(1.056, 599.8, 0.0264, 0.0323)
    y = lobe(0.821, 568.8, 0.0213, 0.0247) + lobe(0.286, 530.9, 0.0613, 0.0322)
    z = lobe(1.217, 437, 0.0845, 0.0278) + lobe(0.681, 459, 0.0385, 0.0725)
    return np.array([x + lobe(-0.065, 501.1, 0.0490, 0.0382), y, z])


@pytest.mark.parametrize("hue", HUES)
def test_directions_are_those_of_another_observer(hue: int) -> None:
    xyz = _observer(abs(hue))
    away = math.copysign(1, hue) * (xyz[:2] / xyz.sum() - 1 / 3)
    found = hue_directions(torch.tensor([hue]))[0].numpy()
    assert found @ away / np.linalg.norm(away) > math.cos(math.radians(1.5))


def test_chromaticities_lie_at_their_radius() -> None:
    hues, radii = torch.tensor(HUES), torch.linspace(0, 0.04, 20)
    away = hue_chromaticities(hues, radii) - 1 / 3
    torch.testing.assert_close(away.norm(dim=1), radii.double())
    torch.testing.assert_close(away, radii.double()[:, None] * hue_directions(hues))


@pytest.mark.parametrize("hue", [0.0, 459.0, -616.0, math.nan])
def test_hues_beyond_the_table(hue: float) -> None:
    with pytest.raises(InputError, match="`hues` must be dominant wavelengths from 460 to 615 nm"):
        hue_directions(torch.tensor([574.0, hue]))
