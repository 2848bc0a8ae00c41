import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from candlelight.evaluation.models.published_methods import (
    _SIZES,
    CGI_SIZES,
    SQUARE,
    choose_size,
    decode_srgb,
    resize_bilinear,
    shorter_side_size,
)
from candlelight.loaders.colour import srgb_to_linear

# Height and width of an image, its size for CGIntrinsics, and for BigTime.
TABLE = [
    ((174, 100), (512, 256), (384, 256)),
    ((173, 100), (384, 256), (384, 256)),
    ((142, 100), (384, 256), (384, 256)),
    ((141, 100), (512, 384), (512, 384)),
    ((116, 100), (512, 384), (512, 384)),
    ((115, 100), (384, 384), (384, 384)),
    ((100, 100), (384, 384), (384, 384)),
    ((100, 114), (384, 384), (384, 384)),
    ((100, 116), (384, 512), (384, 512)),
    ((480, 640), (384, 512), (384, 512)),
    ((341, 512), (256, 384), (256, 384)),
    ((100, 172), (256, 384), (256, 384)),
    ((100, 174), (256, 512), (256, 384)),
    ((1, 50), (256, 512), (256, 384)),
]


@pytest.mark.parametrize(("image", "cgintrinsics", "bigtime"), TABLE)
def test_sizes_by_the_aspect_ratio(image, cgintrinsics, bigtime) -> None:
    assert choose_size(*image, CGI_SIZES, SQUARE) == cgintrinsics
    assert choose_size(*image, _SIZES, SQUARE) == bigtime


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_all_sizes_are_multiples_of_128_in_the_direction_of_the_image(height: int, width: int) -> None:
    for sizes in (CGI_SIZES, _SIZES):
        rows, columns = choose_size(height, width, sizes, SQUARE)
        assert rows % 128 == columns % 128 == 0
        assert (rows - columns) * (height - width) >= 0


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ((480, 640), (300, 400)),
        ((640, 480), (400, 300)),
        ((300, 402), (300, 400)),  # the network itself would cut 2 columns
        ((100, 100), (300, 300)),
        ((60, 80), (300, 400)),
        ((341, 512), (300, 448)),  # 450.4, rounded down to a multiple of 4
    ],
)
def test_shorter_side_of_300(image, expected) -> None:
    assert shorter_side_size(*image, 300) == expected


def test_resized_images_are_those_of_torch_and_the_identity() -> None:
    images = torch.rand(2, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    assert resize_bilinear(images, (5, 7)) is images
    doubled = resize_bilinear(images, (10, 14))
    weights = torch.tensor([9.0, 3.0, 3.0, 1.0]) / 16
    assert torch.allclose(doubled[..., 1, 1], images[..., :2, :2].flatten(2) @ weights)


def test_shrunk_images_do_not_alias() -> None:
    stripes = torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(16).expand(1, 1, 8, 64)
    quarter = resize_bilinear(stripes, (2, 16))[..., 2:-2]
    assert torch.allclose(quarter, torch.tensor(0.25), atol=0.1)
    assert quarter.min() > 0.15  # neighbours of the sampled points alone would give 0


def test_srgb_is_decoded_as_by_the_loaders_and_has_gradients() -> None:
    encoded = torch.cat([torch.linspace(0, 1, 1001), torch.tensor([0.04045, 0.040451])]).requires_grad_()
    linear = decode_srgb(encoded)
    expected = srgb_to_linear(encoded.detach().double().numpy())
    np.testing.assert_allclose(linear.detach().numpy(), expected, rtol=1e-5, atol=1e-8)
    (gradient,) = torch.autograd.grad(linear.sum(), encoded)
    assert gradient.isfinite().all()
    assert gradient.min() > 0.07
