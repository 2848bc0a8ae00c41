"""Grad-CAM against differences, and VEBI against loops and planted filters."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.filter_methods import (
    VEBI,
    GradCAM,
    WeightedFilters,
    filter_energies,
    grad_cam,
    grad_cam_by_filter,
    weigh_filters,
)
from tests.refusals import refused


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


def _drawn(count=4, seed=1):
    return torch.rand(count, 3, 11, 11, generator=torch.Generator().manual_seed(seed))


class Tokens(nn.Module):
    """Gives a class token of 0 and the pixels as tokens."""

    def forward(self, images):
        tokens = images.flatten(2).transpose(1, 2)
        return torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1)


class TokenHead(nn.Module):
    def forward(self, tokens):
        return tokens[:, 1:].mean(1)


def test_grad_cam_by_hand():
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


@pytest.mark.parametrize("layer", ["1", "3"])
def test_gradients_equal_differences_of_single_images(layer):
    network, images = _network().double().eval().requires_grad_(False), _drawn().double()
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


def test_the_network_is_left_unchanged_and_gradients_may_be_off():
    network = _network().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    expected = weigh_filters(network, "3", _drawn()).weights
    assert (expected != 0).all()
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert network[1].training
    with torch.no_grad():
        torch.testing.assert_close(weigh_filters(network, "3", _drawn()).weights, expected)
    torch.testing.assert_close(weigh_filters(network.requires_grad_(False), "3", _drawn()).weights, expected)


def test_chosen_filters():
    found = weigh_filters(_network(), "3", _drawn())
    every = torch.ones(4, 4, dtype=torch.bool)
    torch.testing.assert_close(grad_cam(found, every), grad_cam(found))
    assert (grad_cam(found, ~every) == 0).all()
    one = torch.zeros(4, 4, dtype=torch.bool)
    one[:, 2] = True
    single = grad_cam_by_filter(found, torch.full((4, 1), 2))[:, 0]
    torch.testing.assert_close(grad_cam(found, one), single)


def test_tokens_of_a_transformer():
    network = nn.Sequential(Tokens(), TokenHead())
    images = _drawn()[:, :, :4, :4]
    found = weigh_filters(network, "0", images)
    torch.testing.assert_close(found.activations, images)
    expected = functional.one_hot(images.mean((2, 3)).argmax(1), 3) / 16
    torch.testing.assert_close(found.weights, expected)


def test_explanation_has_one_concept():
    method: ExplanationMethod = GradCAM(_network(), "3")
    fitted = method.fit(_drawn(), torch.zeros(4, dtype=torch.int64))
    assert fitted is method
    explanation = method.explain(_drawn())
    assert explanation.concepts.tolist() == [[0]] * 4
    torch.testing.assert_close(explanation.maps[:, 0], grad_cam(weigh_filters(_network(), "3", _drawn())))
    torch.testing.assert_close(explanation.scores, explanation.maps.sum((2, 3)))


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


@pytest.mark.parametrize(
    ("network", "layer", "message"),
    [
        (_network(), "9", "layer `9` is not in the model"),
        (_network(), "5", r"layer `5` gives no maps: expected \[images, filters, h, w\], got \[4, 36\]"),
        (nn.Sequential(nn.Identity()), "0", r"expected logits \[4, classes\] of the network, got \[4, 3, 11"),
        (Aside(rounded=False), "unused", "layer `unused` has no gradient: the logits do not depend on it"),
        (Aside(rounded=True), "unused", "layer `unused` has no gradient"),
    ],
    ids=["absent", "flat", "no logits", "unused", "rounded"],
)
def test_layers_and_outputs_that_do_not_fit(network, layer, message):
    with refused(message):
        weigh_filters(network, layer, _drawn())


def test_chosen_filters_are_boolean_and_one_for_each_image():
    found = WeightedFilters(torch.ones(2, 3, 1, 1), torch.ones(2, 3), torch.ones(2, 1), torch.zeros(2).long())
    with refused(r"expected `weights` \[images, filters\], `chosen` \[images, filters\]"):
        grad_cam(found, torch.ones(1, 3, dtype=torch.bool))
    with refused("`chosen` must be boolean, got torch"):
        grad_cam(found, torch.ones(2, 3, dtype=torch.int64))


CARRIERS = [5, 2, 6]  # filters of the planted network that carry red, green and blue


def planted_network():
    """Make a classifier of coloured squares by three of eight filters; two others are dead."""
    filters = nn.Conv2d(3, 8, 1)
    filters.weight.data = torch.tensor([0.4, 0.7, 0, 0.5, 0, 0, 0, 0])[:, None].repeat(1, 3)[..., None, None]
    filters.bias.data = torch.tensor([0.0, 0.1, 0, 0, -1, 0, 0, -1])
    for channel, carrier in enumerate(CARRIERS):
        filters.weight.data[carrier, channel] = 1
    head = nn.Linear(8, 3, bias=False)
    head.weight.data = functional.one_hot(torch.tensor(CARRIERS), 8).float()
    return nn.Sequential(filters, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def squares(count, seed=0):
    """Draw images of a coloured square on a faint noise, their classes and the masks of the squares."""
    generator = torch.Generator().manual_seed(seed)
    images = 0.05 * torch.rand(count, 3, 6, 6, generator=generator)
    labels = torch.randint(3, (count,), generator=generator)
    masks = torch.zeros(count, 6, 6, dtype=torch.bool)
    for row, (top, left) in enumerate(torch.randint(4, (count, 2), generator=generator).tolist()):
        masks[row, top : top + 2, left : left + 3] = True
        images[row, labels[row], masks[row]] += 0.9
    return images, labels, masks


def _fitted(**options):
    images, labels, _ = squares(60)
    return VEBI(planted_network(), "1", **options).fit(images, labels)


def _pixels(*values):
    return torch.tensor(values)[:, :, None, None]


def test_energies_by_loops():
    activations = torch.randn(3, 4, 2, 5, generator=torch.Generator().manual_seed(0))
    expected = np.zeros((3, 4))
    for i in range(3):
        total = sum(float(a) ** 2 for a in activations[i].flatten())
        for t in range(4):
            expected[i, t] = sum(float(a) ** 2 for a in activations[i, t].flatten()) / total
    energies = filter_energies(activations)
    np.testing.assert_allclose(energies, expected)
    torch.testing.assert_close(filter_energies(-3 * activations), energies)
    torch.testing.assert_close(filter_energies(activations.flip(2)), energies)
    assert filter_energies(torch.zeros(1, 2, 3, 3)).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(10.0, [[25 / 26, 0, 0], [0, 5 / 4, 0]]), (0.5, [[0.5, 0, 0], [0, 0.5, 0]])],
)
def test_two_filters_and_two_classes_by_hand(bound, expected):
    # Energies (1, 0) of class 0 and (1/5, 4/5) of class 1; without w >= 0, class 0 would have (1, -1/4).
    method = VEBI(_linear_head([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), "0", bound)
    images = _pixels([1.0, 0.0, 0.0], [1.0, 2.0, 0.0])
    method.fit(images, torch.tensor([0, 1]))
    np.testing.assert_allclose(method.weights, expected, atol=1e-9)
    explanation = method.explain(images)
    assert explanation.predicted.tolist() == [0, 1]
    assert explanation.concepts.tolist() == [[0], [1]]
    np.testing.assert_allclose(explanation.scores, [[expected[0][0]], [expected[1][1] * 4 / 5]])
    # The map is alpha * A, with alpha = 1 for the filter of the predicted class.
    assert explanation.maps.flatten().tolist() == [1, 2]


def test_planted_filters_are_found_and_mark_the_squares():
    method: ExplanationMethod = VEBI(planted_network(), "1")
    images, labels, _ = squares(60)
    assert method.fit(images, labels) is method
    weights = method.weights
    assert weights.argmax(1).tolist() == CARRIERS
    assert (weights.gather(1, torch.tensor(CARRIERS)[:, None])[:, 0] > 0.9 * weights.sum(1)).all()
    assert not method.chosen[:, [4, 7]].any()
    assert float(method.gap.max()) < 1e-8
    images, labels, masks = squares(20, seed=1)
    explanation = method.explain(images)
    assert torch.equal(explanation.predicted, labels)
    assert explanation.concepts[:, 0].tolist() == [CARRIERS[label] for label in labels]
    maps = explanation.maps[:, 0]
    assert ((maps > maps.amax((1, 2), keepdim=True) / 2) == masks).all()


def test_explanation_by_loops():
    method, (images, _, _) = _fitted(bound=3.0), squares(9, seed=2)
    explanation = method.explain(images)
    found = weigh_filters(method.network, "1", images)
    energies = filter_energies(found.activations)
    places = int(method.chosen.sum(1).max())
    for row in range(9):
        weights = method.weights[found.predicted[row]]
        scores = {
            t: float(weights[t] * energies[row, t]) for t in range(8) if weights[t] * energies[row, t] > 0
        }
        order = sorted(scores, key=lambda t, scores=scores: -scores[t])
        order_padded = order + [-1] * (places - len(order))
        assert explanation.concepts[row].tolist() == order_padded
        np.testing.assert_allclose(explanation.scores[row], [scores.get(t, 0) for t in order_padded])
        maps = grad_cam_by_filter(found, torch.tensor([order_padded] * 9))[row]
        torch.testing.assert_close(explanation.maps[row], maps)


def test_indicators_of_predicted_classes_ignore_the_labels():
    images, labels, _ = squares(60)
    expected = _fitted().weights
    wrong = (labels + 1) % 3
    method = VEBI(planted_network(), "1", indicators="predicted").fit(images, wrong)
    torch.testing.assert_close(method.weights, expected)
    assert VEBI(planted_network(), "1").fit(images, wrong).weights.argmax(1).tolist() == [6, 5, 2]


def test_class_without_training_images_has_no_concepts():
    images, labels, _ = squares(60)
    method = VEBI(planted_network(), "1").fit(images[labels > 0], labels[labels > 0])
    assert method.chosen.any(1).tolist() == [False, True, True]
    explanation = method.explain(images[labels == 0])
    assert (explanation.predicted == 0).all()
    assert (explanation.concepts == -1).all()
    assert not explanation.maps.any()
    assert not explanation.scores.any()


def test_network_with_one_class():
    method = VEBI(_linear_head([[1.0, 1.0, 1.0]]), "0").fit(_pixels([1.0, 3.0, 0.0]), torch.tensor([0]))
    # Energies 0.1 and 0.9 of a single image; from 0, the weights move along them: w * x = 1.
    np.testing.assert_allclose(method.weights, [[0.1 / 0.82, 0.9 / 0.82, 0]], atol=1e-9)
    assert method.explain(_pixels([1.0, 1.0, 1.0])).concepts.tolist() == [[1, 0]]


def test_batches_do_not_matter():
    torch.testing.assert_close(_fitted(batch_size=7).weights, _fitted().weights)


def test_dead_images():
    images, labels, _ = squares(60)
    extended = torch.cat([images, torch.full((2, 3, 6, 6), -1.0)])
    method = VEBI(planted_network(), "1").fit(extended, torch.cat([labels, torch.tensor([0, 1])]))
    torch.testing.assert_close(method.weights, _fitted().weights)
    explanation = method.explain(extended[-2:])
    assert (explanation.concepts == -1).all()
    assert (explanation.maps == 0).all()


@pytest.mark.parametrize("make", [lambda: GradCAM(planted_network(), "1"), _fitted])
def test_image_that_is_not_finite_has_no_concepts(make):
    method, images = make(), squares(3)[0]
    expected = method.explain(images)
    images[1, 0, 0, 0] = math.nan
    found = method.explain(images)
    assert found.predicted[1] == -1
    assert (found.concepts[1] == -1).all()
    assert not found.scores[1].any()
    assert not found.maps[1].any()
    torch.testing.assert_close(found.maps[[0, 2]], expected.maps[[0, 2]])


IMAGES, LABELS, _ = squares(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda method: method.explain(IMAGES), "VEBI has no concepts yet; call `fit` with training images"),
        (lambda method: method.fit(IMAGES[:0], LABELS[:0]), "VEBI needs training images, got none"),
        (lambda method: method.fit(IMAGES, LABELS[:1]), r"expected `images` .*, `labels` \[train\]"),
        (lambda method: method.fit(IMAGES, torch.tensor([0, 3])), "the network has 3 classes; got 0 to 3"),
        (lambda method: method.fit(IMAGES, torch.tensor([-1, 0])), "`labels` must be 0 to 2, .* got -1 to 0"),
        (lambda method: method.fit(IMAGES * math.nan, LABELS), "training images give logits or"),
        (lambda method: method.fit(0 * IMAGES - 1, LABELS), "layer `1` is 0 for all training images; choose"),
        (
            lambda method: VEBI(method.network, "1", indicators="label").fit(IMAGES, LABELS),
            "`indicators` must be one of: labels, predicted; got",
        ),
    ],
)
def test_uses_that_are_refused(call, message):
    with refused(message):
        call(VEBI(planted_network(), "1"))
