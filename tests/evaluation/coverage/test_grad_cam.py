import math
from inspect import unwrap

import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.filter_methods import (
    GradCAM,
    WeightedFilters,
    grad_cam,
    grad_cam_by_filter,
    weigh_filters,
)
from candlelight.loaders.errors import InputError


def _linear_head(weights):
    """Make a classifier of the mean of each of three channels; layer "0" gives the channels themselves."""
    head = nn.Linear(3, len(weights), bias=False)
    head.weight.data = torch.tensor(weights)
    return nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def _network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3, stride=2),
        nn.BatchNorm2d(5),
        nn.ReLU(inplace=True),
        nn.Conv2d(5, 4, 3),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(4 * 3 * 3, 6),
    )


def _images(count=4, seed=1):
    return torch.rand(count, 3, 11, 11, generator=torch.Generator().manual_seed(seed))


class Tokens(nn.Module):
    """Gives a class token of 0 and the pixels as tokens."""

    def forward(self, images):
        tokens = images.flatten(2).transpose(1, 2)
        return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1)


class TokenHead(nn.Module):
    def forward(self, tokens):
        return tokens[:, 1:].mean(1)


def test_by_hand():
    network = _linear_head([[2.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    images = torch.tensor(
        [[[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 0.0]]], [[[0.0, 0.0]], [[0.0, 0.0]], [[0.0, 4.0]]]]
    )
    found = weigh_filters(network, "0", images)
    # Logits are (1/2, 0) and (0, 2); a mean over two places has the gradient w / 2 at each of them.
    assert found.logits.tolist() == [[0.5, 0], [0, 2]]
    assert found.predicted.tolist() == [0, 1]
    assert found.weights.tolist() == [[1, -0.5, 0], [0, 0, 0.5]]
    assert grad_cam(found).tolist() == [[[1, 0]], [[0, 2]]]
    maps = grad_cam_by_filter(found, torch.tensor([[0, 1, -1], [-1, 2, 0]]))
    assert maps[:, :, 0].tolist() == [[[1, 0], [0, 0], [0, 0]], [[0, 0], [0, 2], [0, 0]]]


@pytest.mark.parametrize("layer", ["0", "1", "2", "3", "4"])
def test_equals_differences_of_single_images(layer):
    network, images = _network().double().eval().requires_grad_(False), _images().double()
    found = weigh_filters(network, layer, images)
    split = int(layer) + 1
    for row, image in enumerate(images):
        activations = network[:split](image[None])
        logits = network[split:](activations.clone())[0]
        predicted = int(logits.argmax())
        expected = torch.zeros(activations.shape[1:], dtype=torch.float64)
        for place in np.ndindex(*expected.shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = activations.clone()
                moved[(0, *place)] += step
                sides.append(float(network[split:](moved)[0, predicted]))
            expected[place] = (sides[0] - sides[1]) / 2e-6
        weights = expected.mean((1, 2))
        assert found.predicted[row] == predicted
        np.testing.assert_allclose(found.weights[row], weights, atol=1e-7)
        expected_map = (weights[:, None, None] * found.activations[row]).sum(0).clamp(min=0)
        np.testing.assert_allclose(grad_cam(found)[row], expected_map, atol=1e-6)


def test_network_is_left_unchanged():
    network = _network().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    weigh_filters(network, "3", _images())
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert network[1].training


def test_gradients_of_the_caller_and_the_parameters_may_be_off():
    network = _network()
    expected = weigh_filters(network, "3", _images()).weights
    assert (expected != 0).all()
    with torch.no_grad():
        torch.testing.assert_close(weigh_filters(network, "3", _images()).weights, expected)
    torch.testing.assert_close(weigh_filters(network.requires_grad_(False), "3", _images()).weights, expected)


def test_images_do_not_affect_each_other():
    network, images = _network(), _images()
    together = grad_cam(weigh_filters(network, "3", images))
    for row in range(4):
        alone = grad_cam(weigh_filters(network, "3", images[row : row + 1]))[0]
        torch.testing.assert_close(together[row], alone)


def test_map_follows_the_scale_of_the_logits_and_not_their_offset():
    network, images = _network(), _images()
    expected = grad_cam(weigh_filters(network, "3", images))
    network[-1].bias.data += 5
    torch.testing.assert_close(grad_cam(weigh_filters(network, "3", images)), expected)
    network[-1].weight.data *= 3
    network[-1].bias.data *= 3
    torch.testing.assert_close(grad_cam(weigh_filters(network, "3", images)), 3 * expected)


def test_chosen_filters():
    found = weigh_filters(_network(), "3", _images())
    every = torch.ones(4, 4, dtype=torch.bool)
    torch.testing.assert_close(grad_cam(found, every), grad_cam(found))
    assert (grad_cam(found, ~every) == 0).all()
    one = torch.zeros(4, 4, dtype=torch.bool)
    one[:, 2] = True
    single = grad_cam_by_filter(found, torch.full((4, 1), 2))[:, 0]
    torch.testing.assert_close(grad_cam(found, one), single)


def test_tokens_of_a_transformer():
    network = nn.Sequential(Tokens(), TokenHead())
    images = _images()[:, :, :4, :4]
    found = weigh_filters(network, "0", images)
    torch.testing.assert_close(found.activations, images)
    expected = torch.nn.functional.one_hot(images.mean((2, 3)).argmax(1), 3) / 16
    torch.testing.assert_close(found.weights, expected)


def test_explanation_has_one_concept():
    method: ExplanationMethod = GradCAM(_network(), "3")
    fitted = method.fit(_images(), torch.zeros(4, dtype=torch.int64))
    assert fitted is method
    explanation = method.explain(_images())
    assert explanation.concepts.tolist() == [[0]] * 4
    torch.testing.assert_close(explanation.maps[:, 0], grad_cam(weigh_filters(_network(), "3", _images())))
    torch.testing.assert_close(explanation.scores, explanation.maps.sum((2, 3)))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_image_that_is_not_finite_has_no_concept(value):
    images = _images()
    images[1, 0, 0, 0] = value
    explanation = GradCAM(_network(), "3").explain(images)
    expected = GradCAM(_network(), "3").explain(_images())
    assert explanation.concepts.tolist() == [[0], [-1], [0], [0]]
    assert explanation.predicted[1] == -1
    assert (explanation.maps[1] == 0).all()
    for row in (0, 2, 3):
        torch.testing.assert_close(explanation.maps[row], expected.maps[row])


def test_dead_layer_gives_maps_of_zeros():
    explanation = GradCAM(_linear_head([[1.0, 1.0, 1.0]]), "0").explain(torch.zeros(2, 3, 2, 2))
    assert (explanation.maps == 0).all()
    assert explanation.predicted.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("network", "layer", "message"),
    [
        (_network(), "9", "layer `9` is not in the model"),
        (_network(), "5", r"layer `5` gives no maps: expected \[images, filters, h, w\], got \[4, 36\]"),
        (
            nn.Sequential(nn.Identity()),
            "0",
            r"expected logits \[4, classes\] of the network, got \[4, 3, 11, 11\]",
        ),
    ],
    ids=["absent", "flat", "no logits"],
)
def test_layers_and_outputs_that_do_not_fit(network, layer, message):
    with pytest.raises(InputError, match=message):
        weigh_filters(network, layer, _images())


class Aside(nn.Module):
    """Runs a layer whose output the logits do not use, or use without a gradient."""

    def __init__(self, rounded):
        super().__init__()
        self.unused = nn.Conv2d(3, 2, 1)
        self.head = _linear_head([[1.0, 2.0, 3.0]])
        self.rounded = rounded

    def forward(self, images):
        found = self.unused(images)
        return found.detach().mean((2, 3)) if self.rounded else self.head(images)


@pytest.mark.parametrize("rounded", [False, True])
def test_layer_that_does_not_lead_to_the_logits(rounded):
    with pytest.raises(InputError, match="layer `unused` has no gradient: the logits do not depend on it"):
        weigh_filters(Aside(rounded), "unused", _images())


def test_chosen_filters_are_boolean_and_one_for_each_image():
    found = WeightedFilters(torch.ones(2, 3, 1, 1), torch.ones(2, 3), torch.ones(2, 1), torch.zeros(2).long())
    with pytest.raises(
        InputError, match=r"expected `weights` \[images, filters\], `chosen` \[images, filters\]"
    ):
        unwrap(grad_cam)(found, torch.ones(1, 3, dtype=torch.bool))
    with pytest.raises(InputError, match="`chosen` must be boolean, got torch"):
        unwrap(grad_cam)(found, torch.ones(2, 3, dtype=torch.int64))
