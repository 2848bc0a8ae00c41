from importlib.resources import files

import numpy as np
import pytest
import torch
import yaml

from candlelight.evaluation.perception import (
    PAPER_HUES,
    PAPER_SATURATIONS,
    TransformFamily,
    paper_families,
    rotate_images,
    scale_images,
    shift_illuminant,
    spread_hues,
    translate_images,
)
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from candlelight.loaders.illuminants import EQUAL_ENERGY, XY_PER_STEP, hue_direction, illuminant
from candlelight.loaders.primaries import D65, REC709, xyz_matrix
from tests.refusals import refused

IMAGES = torch.rand(2, 3, 8, 9, generator=torch.Generator().manual_seed(0))
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])

# ----------------------------------------------------------------------------------------------- illuminants


@pytest.mark.parametrize("hue", PAPER_HUES)
def test_gray_moves_along_its_hue_by_the_steps_and_keeps_its_luminance(hue):
    gray = torch.full((1, 3, 1, 1), 0.5, dtype=torch.float64)
    for steps in (0.25, *PAPER_SATURATIONS):
        shifted, clipped = shift_illuminant(gray, hue, steps)
        linear = srgb_to_linear(shifted.flatten().numpy())
        xyz = xyz_matrix(REC709) @ linear
        wanted = np.array(D65) + XY_PER_STEP * steps * np.array(hue_direction(hue))
        np.testing.assert_allclose(xyz[:2] / xyz.sum(), wanted, rtol=0, atol=1e-6)
        assert LUMINANCE @ linear == pytest.approx(srgb_to_linear(np.array(0.5)), rel=1e-3)
        assert clipped.tolist() == [0]


def test_saturation_0_is_the_identity_and_black_stays_black():
    shifted, clipped = shift_illuminant(IMAGES, -565, 0)
    assert torch.equal(shifted, IMAGES)
    assert clipped.tolist() == [0, 0]
    assert torch.equal(shift_illuminant(0 * IMAGES, 467, 8).images, 0 * IMAGES)


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
    images = torch.stack([light, dark, torch.cat([light[:, :1], dark[:, :1]], 1), torch.ones(3, 2, 2)])
    shifted, clipped = shift_illuminant(images, 611, 8)
    assert clipped.tolist() == [1, 0, 1 / 2, 0]  # the last one was over-exposed before
    assert float(shifted.max()) <= 1
    assert float(shifted[0, 0].min()) == pytest.approx(1)  # red was cut, green and blue fell
    assert float(shifted[0, 1:].max()) < 0.95


@pytest.mark.parametrize(
    ("level", "hue", "saturation", "message"),
    [
        (0, 611, 9, "expected a saturation of 0 to 8 steps, got 9"),
        (128, 611, 1, "divide 8-bit values by 255"),
    ],
)
def test_refused_illuminants(level, hue, saturation, message):
    with refused(message):
        shift_illuminant(torch.full((1, 3, 2, 2), float(level)), hue, saturation)


# -------------------------------------------------------------------------------------------------- families


@pytest.mark.parametrize("kernel", ["cubic", "linear"])
@pytest.mark.parametrize(
    ("name", "unit", "magnitude", "wanted"),
    [
        ("translation x", "degrees", 0.31, lambda kernel: translate_images(IMAGES, right=3.1, kernel=kernel)),
        ("translation y", "degrees", 0.31, lambda kernel: translate_images(IMAGES, down=3.1, kernel=kernel)),
        ("rotation", "degrees", 3.6, lambda kernel: rotate_images(IMAGES, 3.6, kernel)),
        ("scale", "factor", 1.2, lambda kernel: scale_images(IMAGES, 1.2, kernel)),
        ("illuminant -565", "steps", 2.5, lambda _: shift_illuminant(IMAGES, -565, 2.5).images),
    ],
)
def test_each_name_is_its_transform(name, unit, magnitude, wanted, kernel):
    family = TransformFamily(name, (magnitude,), pixels_per_degree=10, kernel=kernel)
    assert family.unit == unit
    torch.testing.assert_close(family.transform(IMAGES, magnitude).images, wanted(kernel))
    assert torch.equal(family.prepare(IMAGES), IMAGES)


def test_over_exposed_pixels_of_illuminants_are_reported_beyond_those_of_the_image():
    image = torch.full((1, 3, 2, 2), 0.5)
    image[..., 0, 0], image[..., 0, 1] = 1, 0.99  # over-exposed before, and only if red grows
    assert TransformFamily("illuminant 611", (8,)).transform(image, 8).clipped.tolist() == [0.25]


def test_the_paper_s_magnitudes():
    families = {family.name: family for family in paper_families()}
    assert len(families) == 24
    assert families["translation y"].magnitudes == tuple(pixels / 29.2 for pixels in range(11))
    assert families["rotation"].magnitudes == tuple(round(0.1 * step, 1) for step in range(110))
    recipe = yaml.safe_load((files("candlelight.generators") / "recipes" / "invariance.yaml").read_text())
    assert list(families["scale"].magnitudes) == recipe["sets"]["scale"]["factors"]["scale"]["values"]
    lights = [family for name, family in families.items() if name.startswith("illuminant")]
    assert [light.magnitudes for light in lights] == [tuple(range(9))] * 20
    # Ten pixels are exact: nothing is interpolated.
    moved = families["translation x"].transform(IMAGES, 10 / 29.2).images
    assert torch.equal(moved, translate_images(IMAGES, right=10))


def test_shifts_are_whole_pixels_up_to_the_angle_of_the_paper():
    dense, coarse = (paper_families(pixels_per_degree=one, hues=5) for one in (58.4, 1.0))
    assert dense[0].magnitudes == pytest.approx([pixels / 58.4 for pixels in range(21)])
    assert coarse[0].magnitudes == (0, 1)
    assert [family.name for family in dense[4:]] == [f"illuminant {hue}" for hue in spread_hues(5)]
    assert paper_families(kernel="linear")[2].kernel == "linear"


def test_hues_are_spread_and_hold_the_colour_axes():
    assert {510, -510, 574, 467} < set(spread_hues(10)) < set(spread_hues(20))
    assert {510, 574} < set(spread_hues(5)) < set(spread_hues(10))
    with refused("divisor of 20, such as 10 or 5, got 7"):
        spread_hues(7)


def test_digits_lie_on_black_canvases():
    digits = torch.rand(1, 3, 28, 28)
    families = {family.name: family for family in paper_families("mnist")}
    sides = {name: family.prepare(digits).shape[-1] for name, family in families.items()}
    assert sides["translation x"] == sides["translation y"] == 56
    assert (sides["scale"], sides["rotation"], sides["illuminant 611"]) == (128, 28, 28)
    shift = families["translation x"]
    reference = shift.prepare(digits)
    assert torch.equal(shift.transform(reference, 10 / 29.2).images, reference.roll(10, 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TransformFamily("shear", (0,)),
            "`name` must be one of: translation x, translation y, rotat",
        ),
        (lambda: TransformFamily("rotatoin", (0,)), "did you mean `rotation`"),
        (
            lambda: TransformFamily("illuminant red", (0,)),
            "expected illuminant HUE with HUE in nm, got illum",
        ),
        (lambda: TransformFamily("scale", (1, 0)), "`factor` must be above 0, got 0"),
        (lambda: TransformFamily("rotation", ()), "`rotation`: expected at least one magnitude, all finite"),
        (lambda: TransformFamily("rotation", (1,), 0), "`pixels_per_degree` must be above 0, got 0"),
        (lambda: paper_families("cifar"), "`base` must be one of: photographs, mnist; got cifar"),
        *(
            (
                lambda number=number: paper_families(pixels_per_degree=number),
                rf"`pixels_per_degree` must be above 0 and at most 3000, got {number:g}".replace("+", r"\+"),
            )
            for number in (0.0, float("nan"), 1e9)
        ),
    ],
)
def test_messages(make, message):
    with refused(message):
        make()
