from importlib.resources import files

import pytest
import torch
import yaml

from candlelight.evaluation.perception import (
    TransformFamily,
    paper_families,
    rotate_images,
    scale_images,
    shift_illuminant,
    translate_images,
)
from tests.refusals import refused

IMAGES = torch.rand(2, 3, 8, 9, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "unit", "magnitude", "wanted"),
    [
        ("translation x", "degrees", 0.3, lambda images: translate_images(images, right=3)),
        ("translation y", "degrees", 0.3, lambda images: translate_images(images, down=3)),
        ("rotation", "degrees", 3.6, lambda images: rotate_images(images, 3.6)),
        ("scale", "factor", 1.2, lambda images: scale_images(images, 1.2)),
        ("illuminant -565", "steps", 2.5, lambda images: shift_illuminant(images, -565, 2.5).images),
    ],
)
def test_each_name_is_its_transform(name, unit, magnitude, wanted):
    family = TransformFamily(name, (magnitude,), pixels_per_degree=10)
    assert family.unit == unit
    torch.testing.assert_close(family.transform(IMAGES, magnitude).images, wanted(IMAGES))
    assert torch.equal(family.prepare(IMAGES), IMAGES)


def test_the_kernel_is_passed_on():
    for name in ("translation x", "translation y", "rotation", "scale"):
        cubic, linear = (
            TransformFamily(name, (1.01,), 10.1, kernel=kernel).transform(IMAGES, 1.01).images
            for kernel in ("cubic", "linear")
        )
        assert not torch.allclose(cubic, linear)


def test_over_exposed_pixels_of_illuminants_are_reported_beyond_those_of_the_image():
    image = torch.full((1, 3, 2, 2), 0.5)
    image[..., 0, 0], image[..., 0, 1] = 1, 0.99  # over-exposed before, and only if red grows
    assert TransformFamily("illuminant 611", (8,)).transform(image, 8).clipped.tolist() == [0.25]


def test_the_paper_s_magnitudes():
    families = {family.name: family for family in paper_families()}
    assert len(families) == 24
    assert families["translation y"].magnitudes == tuple(pixels / 29.2 for pixels in range(11))
    assert families["rotation"].magnitudes == tuple(round(0.1 * step, 1) for step in range(110))
    lights = [family for name, family in families.items() if name.startswith("illuminant")]
    assert [light.magnitudes for light in lights] == [tuple(range(9))] * 20
    # Ten pixels are exact: nothing is interpolated.
    moved = families["translation x"].transform(IMAGES, 10 / 29.2).images
    assert torch.equal(moved, translate_images(IMAGES, right=10))


def test_factors_of_scale_are_those_of_the_recipe():
    recipe = yaml.safe_load((files("candlelight.generators") / "recipes" / "invariance.yaml").read_text())
    wanted = recipe["sets"]["scale"]["factors"]["scale"]["values"]
    assert list(paper_families()[3].magnitudes) == wanted


def test_digits_lie_on_black_canvases():
    digits = torch.rand(1, 3, 28, 28)
    sides = {family.name: family.prepare(digits).shape[-1] for family in paper_families("mnist")}
    assert sides["translation x"] == sides["translation y"] == 56
    assert (sides["scale"], sides["rotation"], sides["illuminant 611"]) == (128, 28, 28)
    shift = paper_families("mnist")[0]
    reference = shift.prepare(digits)
    moved = shift.transform(reference, 10 / 29.2).images
    assert torch.equal(moved, reference.roll(10, 3))


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
        (lambda: TransformFamily("illuminant 611", (9,)), "expected a saturation of 0 to 8 steps, got 9"),
        (lambda: TransformFamily("scale", (1, 0)), "`factor` must be above 0, got 0"),
        (
            lambda: TransformFamily("rotation", ()),
            "`rotation`: expected at least one magnitude, all finite, got no",
        ),
        (lambda: TransformFamily("rotation", (1,), 0), "`pixels_per_degree` must be above 0, got 0"),
        (lambda: paper_families("cifar"), "`base` must be one of: photographs, mnist; got cifar"),
    ],
)
def test_messages(make, message):
    with refused(message):
        make()
