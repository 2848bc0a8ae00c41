import math

import numpy as np
import pytest
import torch

from evaluation.perception.ellipses import ellipse_error
from evaluation.perception.hue_chromaticity import (
    ILLUMINANT_HUES,
    ILLUMINANT_RADII,
    hue_chromaticities,
    hue_directions,
)
from evaluation.perception.human_ellipses import HUMAN_SATURATIONS, experimental_ellipse, macadam_ellipse
from generators.scenes.colorimetry import illuminant
from loaders.errors import InputError
from loaders.primaries import REC709, xyz_matrix


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
    for place, hue in enumerate(ILLUMINANT_HUES[:10]):
        opposite = ILLUMINANT_HUES[place + 10]
        assert HUMAN_SATURATIONS.get(hue) == HUMAN_SATURATIONS.get(opposite)
    assert 0.005 * HUMAN_SATURATIONS[574] == pytest.approx(0.0139, abs=5e-5)
    assert 0.005 * HUMAN_SATURATIONS[510] == pytest.approx(0.0069, abs=5e-5)


def test_hues_are_about_18_degrees_apart() -> None:
    directions = hue_directions(torch.tensor(ILLUMINANT_HUES)).numpy()
    angles = np.degrees(np.unwrap(np.arctan2(directions[:, 1], directions[:, 0])))
    np.testing.assert_allclose(angles - angles[0], 18 * np.arange(20), atol=6)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)


def test_radii_are_steps_of_about_0_005() -> None:
    assert ILLUMINANT_RADII == pytest.approx([0.005 * step for step in range(1, 9)], rel=1e-3)


@pytest.mark.parametrize("hue", ILLUMINANT_HUES)
def test_directions_are_those_of_rendered_illuminants(hue: int) -> None:
    xyz = xyz_matrix(REC709) @ np.array(illuminant(hue, 8))
    away = xyz[:2] / xyz.sum() - 1 / 3
    found = hue_directions(torch.tensor([hue]))[0].numpy()
    # The recipe's observer is a fit, within 1.3 degrees of the tables.
    assert found @ away / np.linalg.norm(away) > math.cos(math.radians(2))


def test_chromaticities_lie_at_their_radius() -> None:
    hues, radii = torch.tensor(ILLUMINANT_HUES), torch.linspace(0, 0.04, 20)
    away = hue_chromaticities(hues, radii) - 1 / 3
    torch.testing.assert_close(away.norm(dim=1), radii.double())
    torch.testing.assert_close(away, radii.double()[:, None] * hue_directions(hues))


@pytest.mark.parametrize("hue", [0.0, 459.0, -616.0, math.nan])
def test_hues_beyond_the_table(hue: float) -> None:
    with pytest.raises(InputError, match="`hues` must be dominant wavelengths from 460 to 615 nm"):
        hue_directions(torch.tensor([574.0, hue]))
