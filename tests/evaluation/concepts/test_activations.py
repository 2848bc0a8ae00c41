import numpy as np
import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.concepts.activations import (
    layer_activations,
    layer_gradients,
    output_gradient,
    pixel_loss,
)
from tests.evaluation.concepts.conftest import generator
from tests.refusals import refused


@pytest.fixture
def pair():
    prediction = torch.rand(3, 3, 4, 5, generator=generator(0), dtype=torch.float64)
    target = torch.rand(3, 3, 4, 5, generator=generator(1), dtype=torch.float64)
    return prediction, target, torch.rand(3, 4, 5, generator=generator(2)) > 0.4


class Split(nn.Module):
    """A shared layer and one layer per branch; with dropout and batch norm, training mode would show."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.shared = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=True))
            self.norm = nn.BatchNorm2d(4)
            self.drop = nn.Dropout(0.5)
            self.reflectance = nn.Conv2d(4, 3, 1)
            self.shading = nn.Conv2d(4, 3, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.drop(self.norm(self.shared(image)))
        return self.reflectance(hidden).sigmoid(), self.shading(hidden).exp()


@pytest.mark.parametrize("align", [False, True])
def test_loss_equals_loops(pair, align):
    prediction, target, mask = (x.numpy() for x in pair)
    expected = []
    for p, t, m in zip(prediction, target, mask, strict=True):
        values = [(p[:, y, x], t[:, y, x]) for y in range(4) for x in range(5) if m[y, x]]
        scale = sum(a @ b for a, b in values) / sum(a @ a for a, _ in values) if align else 1
        expected.append(np.mean([(scale * a - b) ** 2 for a, b in values]))
    np.testing.assert_allclose(pixel_loss(*pair, align), expected)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("align", [False, True])
def test_closed_form_equals_automatic_differentiation(pair, align, masked):
    prediction, target, mask = pair
    mask = mask if masked else None
    leaf = prediction.clone().requires_grad_()
    pixel_loss(leaf, target, mask, align).sum().backward()
    gradient = output_gradient(prediction, target, mask, align)
    torch.testing.assert_close(gradient, leaf.grad.flatten(1))
    if align:  # a scale changes nothing
        assert (gradient * prediction.flatten(1)).sum(1).abs().max() < 1e-15
    assert torch.autograd.gradcheck(
        lambda p: pixel_loss(p, target, mask, align), leaf.detach().requires_grad_()
    )


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_aligned_loss_ignores_scales_whose_square_no_float32_can_hold(pair, factor):
    prediction, target, mask = pair
    expected = pixel_loss(prediction.float(), target.float(), mask, align_scale=True)
    scaled = prediction.float() * factor
    scaled[0] = prediction[0]  # images do not depend on each other
    found = pixel_loss(scaled, target.float(), mask, align_scale=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    assert found[0] == expected[0]
    gradient = output_gradient(scaled[1:], target[1:].float(), mask[1:], align_scale=True) * factor
    plain = output_gradient(prediction[1:].float(), target[1:].float(), mask[1:], align_scale=True)
    torch.testing.assert_close(gradient, plain, rtol=1e-3, atol=1e-6)


def test_empty_mask_and_black_prediction():
    one, nothing = torch.ones(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.bool)
    for align in (False, True):
        assert (output_gradient(one, 2 * one, nothing, align) == 0).all()
        assert output_gradient(0 * one, one, None, align).isfinite().all()
        # The square of a subnormal prediction is 0.
        assert pixel_loss(1e-42 * one, one, None, align).item() == pytest.approx(1)


def test_activations_are_those_of_evaluation_mode_in_any_batches():
    model, images = Split(), torch.rand(5, 3, 6, 6, generator=generator())
    found = layer_activations(model, ["shared.0", "norm"], images, batch_size=2)
    expected = model.shared[0](images).detach()
    torch.testing.assert_close(found["shared.0"], expected.flatten(1))
    torch.testing.assert_close(found["norm"], (expected.relu() / (1 + 1e-5) ** 0.5).flatten(1))
    assert model.training
    assert model.norm.num_batches_tracked == 0


@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_equal_finite_differences(frozen):
    model = Split().double().eval().requires_grad_(not frozen)
    images = torch.rand(3, 3, 4, 4, generator=generator(), dtype=torch.float64)

    def loss(output, rows):
        assert len(output[0]) == rows.stop - rows.start
        return output[0].square().flatten(1).sum(1)

    with torch.no_grad():
        found = layer_gradients(model, "shared.1", images, loss, batch_size=2)
    hidden = layer_activations(model, ["shared.1"], images)["shared.1"].reshape(3, 4, 4, 4)
    step = torch.zeros_like(hidden)
    step[:, 2, 1, 3] = 1e-6

    def above(activation):
        return model.reflectance(model.norm(activation)).sigmoid().square().flatten(1).sum(1)

    with torch.no_grad():
        slope = (above(hidden + step) - above(hidden - step)) / 2e-6
    torch.testing.assert_close(found.reshape(3, 4, 4, 4)[:, 2, 1, 3], slope, rtol=1e-6, atol=1e-8)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("layer", ["tokens_first", "attention"])
def test_as_many_tokens_as_images_are_not_transposed(attention, layer):
    model, images = attention(), torch.rand(4, 3, 2, 2, generator=generator())
    rows = layer_activations(model, [layer, "images_first"], images, batch_size=4)
    torch.testing.assert_close(rows[layer], rows["images_first"])
    assert not torch.allclose(
        rows[layer].reshape(4, 4, 3), rows["images_first"].reshape(4, 4, 3).transpose(0, 1)
    )

    def loss(output, _rows):
        return (output * torch.arange(3)).sum(1)

    slopes = (layer_gradients(model, name, images, loss, batch_size=4) for name in (layer, "images_first"))
    torch.testing.assert_close(*slopes)


def _exact_up_to_scale(dtype=torch.float32):
    """A ground truth, and an image divided by its shading: a multiple of the ground truth up to rounding."""
    target = torch.rand(4, 3, 16, 16, generator=generator(7), dtype=dtype) + 0.05
    light = torch.rand(4, 3, 16, 16, generator=generator(8), dtype=dtype) + 0.05
    scale = torch.tensor([0.37, 1.0, 2.9, 1e-3], dtype=dtype)[:, None, None, None]
    return scale * (target * light / light), target


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_errors_of_a_prediction_exact_up_to_scale_have_no_gradient(dtype):
    prediction, target = _exact_up_to_scale(dtype)
    assert not torch.equal(prediction[1], target[1])
    assert (output_gradient(prediction, target, None, True) == 0).all()
    assert (pixel_loss(prediction, target, None, True) == 0).all()
    # Without alignment only the second image, whose scale is 1, is exact.
    assert (output_gradient(prediction, target) == 0).all(1).tolist() == [False, True, False, False]
    # At a hidden layer, too.
    scaler = nn.Sequential(nn.Identity(), nn.Conv2d(3, 3, 1, bias=False, dtype=dtype))
    with torch.no_grad():
        scaler[1].weight.copy_(torch.eye(3)[:, :, None, None] * 1.7)
    found = layer_gradients(
        scaler, "0", prediction, lambda some, rows: pixel_loss(some, target[rows], None, True)
    )
    assert (found == 0).all()


def test_small_true_errors_have_a_gradient():
    prediction, target = _exact_up_to_scale()
    # The step of half precision is the smallest error that stored ground truth can show.
    coarse = prediction.half().float()
    assert (output_gradient(coarse, target, None, True) != 0).float().mean() > 0.9
    spoilt = prediction.clone()
    spoilt[0, 0, 0, 0] *= 1.001
    assert (output_gradient(spoilt, target, None, True)[0] != 0).any()


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_values_that_are_not_finite(pair, align, bad):
    prediction, target, mask = pair
    plain = pixel_loss(*pair, align), output_gradient(*pair, align)
    # Nothing is read outside the mask.
    given = [x.masked_fill(~mask[:, None], bad) for x in (prediction, target)]
    leaf = given[0].clone().requires_grad_()
    loss = pixel_loss(leaf, given[1], mask, align)
    loss.sum().backward()
    assert torch.equal(loss.detach(), plain[0])
    assert torch.equal(output_gradient(*given, mask, align), plain[1])
    torch.testing.assert_close(leaf.grad.flatten(1), plain[1])
    # Inside it, they do not count as rounding.
    prediction[0, 0, 0, 0] = bad
    assert pixel_loss(prediction, target, None, align).isfinite().tolist() == [False, True, True]
    assert output_gradient(prediction, target, None, align).isfinite().all(1).tolist() == [False, True, True]


ONE, THREE = torch.ones(2, 1, 4, 4), torch.ones(2, 3, 4, 4)
FLAT = nn.Sequential(nn.Flatten(0), nn.ReLU())


@pytest.mark.parametrize("function", [pixel_loss, output_gradient])
@pytest.mark.parametrize(
    ("images", "message"),
    [
        ((ONE, THREE), r"expected `prediction` .*got \[2, 1, 4, 4\], \[2, 3, 4, 4\]$"),
        ((THREE, THREE, torch.ones(1, 4, 4).bool()), r"got \[2, 3, 4, 4\], \[2, 3, 4, 4\], \[1, 4, 4\]$"),
        ((THREE, THREE, torch.ones(2, 4, 4)), r"must be boolean, got torch\.float32; pass `mask > 0`"),
    ],
)
def test_images_that_cannot_be_compared(function, images, message):
    with refused(message):
        function(*images)


@pytest.mark.parametrize(
    ("model", "layer", "images", "message"),
    [
        (FLAT, "1", THREE, r"layer `1` gives shape \[96\] for 2 images and \[48\] for one; choose one with"),
        (Split(), "norm", THREE[:0], "`images` needs at least one image, got none"),
        (Split(), "norm", THREE[0], r"`images` \[images, channels, height, width\], got \[3, 4, 4\]"),
    ],
)
def test_layers_and_images_without_activations(model, layer, images, message):
    with refused(message):
        layer_activations(model, [layer], images)


def test_refused_gradients():
    def loss(output, _rows):
        return output[0].flatten(1).sum(1)

    for model in (Split(), Split().requires_grad_(False)):
        with refused("the loss or target does not depend on layer `shading`; choose a layer on"):
            layer_gradients(model, "shading", THREE, loss)
    with refused("`images` needs at least one image, got none"):
        layer_gradients(Split(), "norm", THREE[:0], loss)
    with refused("`batch_size` must be at least 1, got 0"):
        layer_gradients(Split(), "norm", THREE, loss, batch_size=0)
