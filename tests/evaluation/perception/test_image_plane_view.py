import math

import pytest
import torch

from evaluation.perception import (
    ImagePlaneView,
    measure_distances,
    open_distance,
    rotate_images,
    shift_illuminant,
    translate_images,
)
from loaders.errors import InputError
from loaders.illuminants import EQUAL_ENERGY
from loaders.views import MovedImages, View

IMAGE = torch.rand(3, 12, 16, generator=torch.Generator().manual_seed(0))


def frames(transform: str, magnitudes: tuple[float, ...], pixels_per_degree: float = 10.0) -> MovedImages:
    """Make moved images that are all gray."""
    numbers = torch.tensor(magnitudes, dtype=torch.float64)
    moved = torch.full((len(magnitudes), 3, 12, 16), 0.5)
    return MovedImages(IMAGE, moved, transform, "unit", numbers, 0 * numbers, pixels_per_degree)


def test_references_are_transformed_by_the_magnitudes_of_the_frames(memory_view):
    items = [
        frames("translation y", (0, 0.3)),
        frames("rotation", (0, 2, 4)),
        frames("illuminant 611", (0, 8)),
        frames("parallax x", (0, 0.3)),
    ]
    view = ImagePlaneView(memory_view(items, groups=("a", "a", "b", "b")))
    assert isinstance(view, View)
    assert (view.ids, view.groups, len(view)) == (
        ("row-0", "row-1", "row-2", "row-3"),
        ("a", "a", "b", "b"),
        4,
    )
    assert view.identity.image == "image plane"
    shifted, turned, relit, aside = view
    assert torch.equal(shifted.moved[1], translate_images(IMAGE[None], down=3)[0])
    torch.testing.assert_close(turned.moved[2], rotate_images(IMAGE[None], 4)[0])
    wanted = shift_illuminant(IMAGE[None], 611, 8, EQUAL_ENERGY)
    torch.testing.assert_close(relit.moved[1], wanted.images[0])
    assert relit.clipped.tolist() == pytest.approx([0, wanted.clipped.item()])
    assert aside.transform == "parallax x"
    assert torch.equal(aside.moved[1], translate_images(IMAGE[None], right=3)[0])
    for item in view:
        assert torch.equal(item.moved[0], IMAGE)


def test_distances_have_the_form_of_those_of_the_frames(memory_view):
    metrics = {"rmse": open_distance("rmse")}
    view = memory_view([frames("rotation", (0, 2, 4))])
    [physical] = measure_distances(metrics, view)["rmse"]
    [flat] = measure_distances(metrics, ImagePlaneView(view))["rmse"]
    assert (flat.transform, flat.ids) == (physical.transform, physical.ids)
    assert torch.equal(flat.magnitudes, physical.magnitudes)
    turned = rotate_images(IMAGE[None], 4)
    assert flat.distances[0, 2].item() == pytest.approx(metrics["rmse"].model(turned, IMAGE[None]).item())


def test_frames_without_a_camera_have_no_visual_angle(memory_view):
    view = ImagePlaneView(memory_view([frames("translation x", (0, 1), math.nan)]))
    with pytest.raises(InputError, match="`pixels_per_degree` must be above 0, got nan"):
        view[0]
