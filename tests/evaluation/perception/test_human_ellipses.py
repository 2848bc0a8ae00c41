import math

import numpy as np
import pytest
import torch

from candlelight.evaluation.perception.people import (
    HUMAN_SATURATIONS,
    ellipse_error,
    experimental_ellipse,
    macadam_ellipse,
)
from candlelight.evaluation.perception.transforms import hue_chromaticities
from candlelight.loaders.illuminants import hue_direction
from tests.refusals import refused

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
    directions = np.array([hue_direction(hue) for hue in HUES])
    angles = np.degrees(np.unwrap(np.arctan2(directions[:, 1], directions[:, 0])))
    np.testing.assert_allclose(angles - angles[0], 18 * np.arange(20), atol=6)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)


# x and y of the spectral locus of the CIE 1931 observer (ISO/CIE 11664-1).
LOCUS = {
    **{465: (0.1355, 0.0399), 470: (0.1241, 0.0578), 480: (0.0913, 0.1327), 490: (0.0454, 0.2950)},
    **{495: (0.0235, 0.4127), 500: (0.0082, 0.5384), 510: (0.0139, 0.7502), 530: (0.1547, 0.8059)},
    **{555: (0.3373, 0.6589), 565: (0.4087, 0.5896), 580: (0.5125, 0.4866), 590: (0.5752, 0.4242)},
    610: (0.6658, 0.3340),
}


@pytest.mark.parametrize("hue", [*LOCUS, *(-hue for hue in LOCUS)])
def test_directions_are_those_of_the_table(hue: int) -> None:
    away = math.copysign(1, hue) * (np.array(LOCUS[abs(hue)]) - 1 / 3)
    assert hue_direction(hue) @ away / np.linalg.norm(away) > math.cos(math.radians(1.5))


def test_chromaticities_lie_at_their_radius() -> None:
    hues, radii = torch.tensor(HUES), torch.linspace(0, 0.04, 20)
    away = hue_chromaticities(hues, radii) - 1 / 3
    torch.testing.assert_close(away.norm(dim=1), radii.double())
    directions = torch.tensor([hue_direction(hue) for hue in HUES], dtype=torch.float64)
    torch.testing.assert_close(away, radii.double()[:, None] * directions)


@pytest.mark.parametrize("hue", [0.0, 439.0, -651.0, math.nan])
def test_hues_beyond_the_table(hue: float) -> None:
    with refused("expected a dominant wavelength of 440 to 650 nm"):
        hue_chromaticities(torch.tensor([574.0, hue]), torch.ones(2))
