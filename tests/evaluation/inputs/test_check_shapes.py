import numpy as np
import pytest
import torch

from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from tests.refusals import refused


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((), ""),
        ((0,), "batch"),
        ((4, 2), "batch width"),
        ((4, 2), "batch 2"),
        ((4, 2), "_ 2"),
        ((4, 4), "side side"),
        ((4, 2), "batch *channels width"),
        ((4, 3, 5, 2), "batch *channels width"),
        ((4, 3), "batch *channels"),
        ((3, 4), "*channels width"),
    ],
)
def test_axes_that_fit(shape, axes):
    check_shapes(image=(torch.zeros(shape), axes))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1,), ""),
        ((4,), "batch width"),
        ((4, 2, 1), "batch width"),
        ((4, 3), "batch 2"),
        ((4, 3), "side side"),
        ((4,), "batch *channels width"),
        ((), "batch *channels width"),
    ],
)
def test_axes_that_do_not_fit(shape, axes):
    with refused("expected `image`"):
        check_shapes(image=(torch.zeros(shape), axes))


def test_axes_of_one_name_are_equally_long():
    image, mask = torch.zeros(2, 3, 4, 5), torch.zeros(2, 4, 5)
    axes = "batch *channels height width"
    check_shapes(prediction=(image, axes), target=(image, axes), mask=(mask, "batch height width"))
    message = (
        r"^expected `prediction` \[batch, \*channels, height, width\], "
        r"`mask` \[batch, height, width\], got \[2, 3, 4, 5\], \[1, 4, 5\]$"
    )
    with refused(message):
        check_shapes(prediction=(image, axes), mask=(mask[:1], "batch height width"))
    with refused(r"got \[2, 3, 4, 5\], \[2, 1, 4, 5\]$"):
        check_shapes(prediction=(image, axes), target=(image[:, :1], axes))


@pytest.mark.parametrize(("value", "kind"), [(np.zeros(3), "ndarray"), ([1.0], "list"), (None, "NoneType")])
def test_other_types_than_tensors_are_refused(value, kind):
    with refused(f"^`codes` must be a torch tensor, got {kind}; use "):
        check_shapes(codes=(value, "samples"))


def test_boolean_maps():
    check_bool(mask=torch.tensor([True]))
    with refused(r"^`parts` must be boolean, got torch\.uint8; pass `parts > 0` if"):
        check_bool(mask=torch.tensor([True]), parts=torch.tensor([255], dtype=torch.uint8))
