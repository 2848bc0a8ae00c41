import math
from inspect import unwrap

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.filter_methods import (
    VEBI,
    filter_energies,
    grad_cam_by_filter,
    weigh_filters,
)
from candlelight.loaders.errors import InputError

CARRIERS = [5, 2, 6]  # filters of the planted network that carry red, green and blue


def _linear_head(weights):
    """Make a classifier of the mean of each of three channels; layer "0" gives the channels themselves."""
    head = nn.Linear(3, len(weights), bias=False)
    head.weight.data = torch.tensor(weights)
    return nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


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


def test_small_bound_leaves_the_filter_of_most_energy():
    method, (images, labels, _) = _fitted(bound=1e-4), squares(60)
    energies = filter_energies(weigh_filters(method.network, "1", images).activations)
    assert method.chosen.sum(1).tolist() == [1, 1, 1]
    most = [int(energies[labels == one].sum(0).argmax()) for one in range(3)]
    assert method.weights.argmax(1).tolist() == most


def test_planted_filters_are_found():
    method: ExplanationMethod = VEBI(planted_network(), "1")
    images, labels, _ = squares(60)
    assert method.fit(images, labels) is method
    weights = method.weights
    assert weights.argmax(1).tolist() == CARRIERS
    assert (weights.gather(1, torch.tensor(CARRIERS)[:, None])[:, 0] > 0.9 * weights.sum(1)).all()
    assert not method.chosen[:, [4, 7]].any()
    assert float(method.gap.max()) < 1e-8


def test_explanations_mark_the_squares():
    images, labels, masks = squares(20, seed=1)
    explanation = _fitted().explain(images)
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


def test_classes_with_unequal_numbers_of_filters():
    # Class 0 shows channel 0 or channel 1, class 1 only channel 2.
    method = VEBI(_linear_head([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "0")
    images = _pixels([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 2.0, 0.0])
    method.fit(images[:3], torch.tensor([0, 0, 1]))
    np.testing.assert_allclose(method.weights, [[1, 1, 0], [0, 0, 1]], atol=1e-9)
    explanation = method.explain(images)
    # A filter of the class without any response in an image is no concept of the image.
    assert explanation.concepts.tolist() == [[0, -1], [1, -1], [2, -1], [1, 0]]
    np.testing.assert_allclose(explanation.scores, [[1, 0], [1, 0], [1, 0], [0.8, 0.2]], atol=1e-9)
    assert explanation.maps[..., 0, 0].tolist() == [[1, 0], [1, 0], [1, 0], [2, 1]]


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
    assert (explanation.maps == 0).all()
    assert (explanation.scores == 0).all()


def test_network_with_one_class():
    method = VEBI(_linear_head([[1.0, 1.0, 1.0]]), "0").fit(_pixels([1.0, 3.0, 0.0]), torch.tensor([0]))
    # Energies 0.1 and 0.9 of a single image; from 0, the weights move along them: w * x = 1.
    np.testing.assert_allclose(method.weights, [[0.1 / 0.82, 0.9 / 0.82, 0]], atol=1e-9)
    assert method.explain(_pixels([1.0, 1.0, 1.0])).concepts.tolist() == [[1, 0]]


@pytest.mark.parametrize("batch_size", [1, 7, 60])
def test_batches_do_not_matter(batch_size):
    torch.testing.assert_close(_fitted(batch_size=batch_size).weights, _fitted().weights)


def test_order_of_images_and_scale_of_activations_do_not_matter():
    images, labels, _ = squares(60)
    network = planted_network()
    expected = VEBI(network, "1").fit(images, labels).weights
    torch.testing.assert_close(VEBI(network, "1").fit(images.flip(0), labels.flip(0)).weights, expected)
    network[0].weight.data *= 4
    network[0].bias.data *= 4
    torch.testing.assert_close(VEBI(network, "1").fit(images, labels).weights, expected)


def test_dead_images():
    images, labels, _ = squares(60)
    extended = torch.cat([images, torch.full((2, 3, 6, 6), -1.0)])
    method = VEBI(planted_network(), "1").fit(extended, torch.cat([labels, torch.tensor([0, 1])]))
    torch.testing.assert_close(method.weights, _fitted().weights)
    explanation = method.explain(extended[-2:])
    assert (explanation.concepts == -1).all()
    assert (explanation.maps == 0).all()


def test_explained_image_that_is_not_finite_has_no_concepts():
    images, _, _ = squares(3)
    method = _fitted()
    expected = method.explain(images)
    images[1, 0, 0, 0] = math.nan
    explanation = method.explain(images)
    assert explanation.predicted[1] == -1
    assert (explanation.concepts[1] == -1).all()
    assert (explanation.scores[1] == 0).all()
    assert (explanation.maps[1] == 0).all()
    torch.testing.assert_close(explanation.maps[[0, 2]], expected.maps[[0, 2]])


def test_training_image_that_is_not_finite():
    images, labels, _ = squares(3)
    images[1, 0, 0, 0] = math.nan
    with pytest.raises(InputError, match="training images give logits or energies that are not finite"):
        VEBI(planted_network(), "1").fit(images, labels)


def test_layer_that_is_dead_for_all_images():
    images = torch.full((2, 3, 6, 6), -1.0)
    with pytest.raises(InputError, match="layer `1` is 0 for all training images; choose another layer"):
        VEBI(planted_network(), "1").fit(images, torch.tensor([0, 1]))


def test_use_before_fit():
    with pytest.raises(InputError, match="VEBI has no concepts yet; call `fit` with training images first"):
        VEBI(planted_network(), "1").explain(squares(1)[0])


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0]])
def test_labels_out_of_range(labels):
    message = rf"`labels` must be 0 to 2, the network has 3 classes; got {labels[0]} to {labels[1]}"
    with pytest.raises(InputError, match=message):
        VEBI(planted_network(), "1").fit(squares(2)[0], torch.tensor(labels))


def test_arguments_that_do_not_fit():
    images, labels, _ = squares(2)
    with pytest.raises(InputError, match="VEBI needs training images, got none"):
        VEBI(planted_network(), "1").fit(images[:0], labels[:0])
    with pytest.raises(InputError, match="`indicators` must be one of: labels, predicted; got label"):
        unwrap(VEBI.fit)(_misspelt(), images, labels)
    with pytest.raises(
        InputError, match=r"expected `images` \[train, 3, height, width\], `labels` \[train\]"
    ):
        unwrap(VEBI.fit)(VEBI(planted_network(), "1"), images, labels[:1])


def _misspelt():
    method = VEBI(planted_network(), "1")
    vars(method)["indicators"] = "label"
    return method
