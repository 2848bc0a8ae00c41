import numpy as np
import pytest
import torch

from candlelight.evaluation.perception import PAPER_HUES, PAPER_SATURATIONS, shift_illuminant
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from candlelight.loaders.illuminants import EQUAL_ENERGY, XY_PER_STEP, hue_direction, illuminant
from candlelight.loaders.primaries import D65, REC709, xyz_matrix
from tests.refusals import refused


def chromaticity(encoded: torch.Tensor) -> np.ndarray:
    """Compute CIE 1931 xy of sRGB-encoded pixels, [..., 3]."""
    xyz = srgb_to_linear(encoded.double().numpy()) @ xyz_matrix(REC709).T
    return xyz[..., :2] / xyz.sum(-1, keepdims=True)


def equal_energy_grays() -> torch.Tensor:
    """Draw four grays of the chromaticity of equal energy, [1, 3, 1, 4], float64."""
    linear = np.array(illuminant(611, 0)) * np.array([0.02, 0.1, 0.3, 0.4])[:, None]
    return torch.from_numpy(linear_to_srgb(linear).T[None, :, None])


@pytest.mark.parametrize("hue", PAPER_HUES)
def test_gray_moves_along_its_hue_by_the_steps_and_keeps_its_luminance(hue):
    assert len(PAPER_HUES) == 20
    grays = equal_energy_grays()
    before = chromaticity(grays.movedim(1, -1))
    directions = []
    for steps in PAPER_SATURATIONS:
        shifted, clipped = shift_illuminant(grays, hue, steps, EQUAL_ENERGY)
        moved = chromaticity(shifted.movedim(1, -1)) - before
        np.testing.assert_allclose(np.hypot(moved[..., 0], moved[..., 1]), XY_PER_STEP * steps, atol=5e-5)
        directions.append(moved[0, 0, 0] / np.hypot(*moved[0, 0, 0]))
        luminances = [
            np.array([0.2126, 0.7152, 0.0722]) @ srgb_to_linear(one[0, :, 0].numpy())
            for one in (grays, shifted)
        ]
        np.testing.assert_allclose(*luminances, rtol=1e-3)
        assert clipped.tolist() == [0]
    np.testing.assert_allclose(directions, [directions[-1]] * 8, atol=5e-3)


@pytest.mark.parametrize("hue", PAPER_HUES)
def test_gray_of_photographs_moves_by_the_nominal_radius(hue):
    gray = torch.full((1, 3, 1, 1), 0.5, dtype=torch.float64)
    for steps in (0.25, *PAPER_SATURATIONS):
        [[[found]]] = chromaticity(shift_illuminant(gray, hue, steps).images.movedim(1, -1))
        wanted = np.array(D65) + XY_PER_STEP * steps * np.array(hue_direction(hue))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_complements_move_the_other_way():
    grays = equal_energy_grays()
    one, other = (
        chromaticity(shift_illuminant(grays, hue, 4, EQUAL_ENERGY).images.movedim(1, -1))
        for hue in (510, -510)
    )
    np.testing.assert_allclose((one + other) / 2, chromaticity(grays.movedim(1, -1)), atol=5e-5)


def test_saturation_0_is_the_identity():
    images = torch.rand(2, 3, 4, 5)
    for hue in (611, -565):
        shifted, clipped = shift_illuminant(images, hue, 0)
        assert torch.equal(shifted, images)
        assert clipped.tolist() == [0, 0]


def test_equals_frames_of_one_trace():
    """A frame is the sRGB curve of a trace times the illuminant's colour, as the recipe renders it."""
    trace = torch.rand(1, 4, 5, 3).double().numpy() * 0.5
    frames = [
        torch.from_numpy(linear_to_srgb(trace * np.array(illuminant(-533, s)))).movedim(3, 1) for s in (0, 6)
    ]
    found = shift_illuminant(frames[0], -533, 6, EQUAL_ENERGY).images
    torch.testing.assert_close(found, frames[1], atol=1e-6, rtol=0)


def test_pixels_that_are_cut_are_counted_in_each_image():
    light, dark = torch.full((3, 2, 2), 0.98), torch.full((3, 2, 2), 0.2)
    half = torch.stack([light, dark], 2).flatten(2)
    shifted, clipped = shift_illuminant(
        torch.stack(
            [light.repeat(1, 2, 1), dark.repeat(1, 2, 1), half.reshape(3, 4, 2), torch.ones(3, 4, 2)]
        ),
        611,
        8,
    )
    assert clipped.tolist() == pytest.approx([1, 0, 1 / 2, 0])  # the last one was over-exposed before
    assert float(shifted.max()) <= 1
    assert float(shifted[0, 0].min()) == pytest.approx(1)  # red was cut, green and blue fell
    assert float(shifted[0, 1:].max()) < 0.95


def test_black_stays_black():
    shifted, clipped = shift_illuminant(torch.zeros(1, 3, 2, 2), 467, 8)
    assert torch.equal(shifted, torch.zeros(1, 3, 2, 2))
    assert clipped.tolist() == [0]


@pytest.mark.parametrize(
    ("hue", "saturation", "message"),
    [
        (100, 1, "expected a dominant wavelength of 440 to 650 nm"),
        (100, 0, "expected a dominant wavelength of 440 to 650 nm"),
        (611, 9, "expected a saturation of 0 to 8 steps, got 9"),
        (611, -1, "expected a saturation of 0 to 8 steps, got -1"),
    ],
)
def test_messages(hue, saturation, message):
    with refused(message):
        shift_illuminant(torch.zeros(1, 3, 2, 2), hue, saturation)


def test_8_bit_values_are_refused():
    with refused("divide 8-bit values by 255"):
        shift_illuminant(torch.full((1, 3, 2, 2), 128.0), 611, 1)
