import math

import pytest
import torch
from torch import Tensor

from candlelight.evaluation.perception import (
    image_plane_family,
    measure_distances,
    open_distance,
    rotate_images,
    shift_illuminant,
    translate_images,
)
from candlelight.evaluation.views import MovedImages
from candlelight.loaders.illuminants import EQUAL_ENERGY
from tests.refusals import refused

IMAGE = torch.rand(3, 12, 16, generator=torch.Generator().manual_seed(0))


def frames(transform: str, magnitudes: tuple[float, ...], pixels_per_degree: float = 10.0) -> MovedImages:
    """Make moved images that are all gray."""
    numbers = torch.tensor(magnitudes, dtype=torch.float64)
    gray = torch.full((len(magnitudes), 3, 12, 16), 0.5)
    return MovedImages(IMAGE, gray, transform, "unit", numbers, 0 * numbers, pixels_per_degree)


def moved(transform: str, magnitudes: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Transform the reference by the last magnitude; return it with its clipped share."""
    return image_plane_family(frames(transform, magnitudes)).transform(IMAGE[None], magnitudes[-1])


def test_references_are_transformed_by_the_magnitudes_of_the_frames():
    for transform in ("translation x", "parallax x"):
        assert torch.equal(moved(transform, (0, 0.3))[0], translate_images(IMAGE[None], right=3))
    assert torch.equal(moved("translation y", (0, 0.3))[0], translate_images(IMAGE[None], down=3))
    assert torch.equal(moved("rotation", (0, 2, 4))[0], rotate_images(IMAGE[None], 4))
    relit, clipped = moved("illuminant 611", (0, 8))
    wanted = shift_illuminant(IMAGE[None], 611, 8, EQUAL_ENERGY)
    assert torch.equal(relit, wanted.images)
    assert torch.equal(clipped, wanted.clipped)


@pytest.mark.parametrize("batch_size", [1, 2, 16])
@pytest.mark.parametrize("name", ["parallax x", "rotation", "illuminant 611"])
def test_distances_have_the_form_of_those_of_the_frames(memory_view, name, batch_size):
    metrics = {"rmse": open_distance("rmse")}
    view = memory_view([frames(name, (0, 2, 4))])
    [physical] = measure_distances(metrics, view)["rmse"]
    [flat] = measure_distances(metrics, view, image_plane_family, batch_size=batch_size)["rmse"]
    assert (flat.transform, flat.ids, flat.groups) == (physical.transform, physical.ids, physical.groups)
    assert torch.equal(flat.magnitudes, physical.magnitudes)
    turned, clipped = moved(name, (0, 2, 4))
    assert flat.distances[0, 0] == 0
    assert flat.distances[0, 2].item() == pytest.approx(metrics["rmse"].model(turned, IMAGE[None]).item())
    assert flat.clipped[0, 2].item() == pytest.approx(clipped.item())


def test_frames_without_a_camera_have_no_visual_angle():
    with refused("`pixels_per_degree` must be above 0, got nan"):
        image_plane_family(frames("translation x", (0, 1), math.nan))
