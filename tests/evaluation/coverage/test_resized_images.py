"""`ResizedImages`: linear light, one size, and the very pixels that coverage shows a method."""

import numpy as np
import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.views import PartImage
from candlelight.evaluation.views.image_tensors import ResizedImages
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from tests.refusals import refused

SIZES = ((30, 20), (20, 40), (6, 9), (12, 16))


@pytest.fixture
def photographs() -> list[torch.Tensor]:
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.random((3, *size), np.float32)) for size in SIZES]


def slow_resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Average with triangles around the middles of new pixels, as wide as two of the larger pixels."""
    for axis, new in ((1, size[0]), (2, size[1])):
        old = image.shape[axis]
        scale = old / new
        reach = max(1, scale)
        weights = np.zeros((new, old))
        for target in range(new):
            middle = (target + 0.5) * scale
            for source in range(old):
                weights[target, source] = max(0, 1 - abs(source + 0.5 - middle) / reach)
        weights /= weights.sum(1, keepdims=True)
        image = np.moveaxis(np.tensordot(weights, image, (1, axis)), 0, axis)
    return image


@pytest.mark.parametrize("size", [(12, 16), (1, 1), (33, 8)])
def test_images_are_resized_in_linear_light(memory_view, photographs, size) -> None:
    view = ResizedImages(memory_view(photographs), size)
    for row, image in enumerate(photographs):
        linear = srgb_to_linear(image.numpy().astype(np.float64))
        np.testing.assert_allclose(view[row].numpy(), linear_to_srgb(slow_resize(linear, size)), atol=2e-6)
        assert view[row].dtype == torch.float32
    assert (len(view), view.ids) == (4, ("row-0", "row-1", "row-2", "row-3"))
    assert view.identity.image == f"resized to {size[0]} x {size[1]} pixels"
    assert len({ResizedImages(memory_view(photographs), (8, n)).identity for n in (8, 9)}) == 2


@pytest.mark.parametrize("batch_size", [1, 16])
def test_methods_see_the_same_images(memory_view, photographs, batch_size) -> None:
    seen: list[torch.Tensor] = []

    def method(images: torch.Tensor) -> torch.Tensor:
        seen.extend(images.clone())
        return images[:, :1]

    parts = [PartImage(image, {"all": torch.ones(image.shape[1:]).bool()}) for image in photographs]
    how = {"size": (12, 16), "batch_size": batch_size, "quick": True}
    evaluate("coverage", memory_view(parts), {"method": method}, device="cpu", **how)
    view = ResizedImages(memory_view(photographs), (12, 16))
    assert len(seen) == 4
    for row in range(4):
        assert torch.equal(view[row], seen[row])


def test_other_images_are_refused(memory_view) -> None:
    with refused(r"sRGB-encoded in \[0, 1\], got float32 \[3, 2, 2\] from 2 to 2"):
        ResizedImages(memory_view([torch.full((3, 2, 2), 2.0)]), (1, 1))[0]
