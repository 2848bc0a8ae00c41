import math

import numpy as np
import pytest
import torch
from torch import nn

from candlelight.evaluation.coverage.network_dissection import ablate_filters
from candlelight.evaluation.models.build_backbone import build_backbone
from tests.refusals import refused

CLASSES, FILTERS = 3, 30


def _network():
    """Make a classifier of the brightest channel by the first three of 30 filters; the others are noise."""
    torch.manual_seed(0)
    filters = nn.Conv2d(3, FILTERS, 1, bias=False)
    filters.weight.data.uniform_(0, 0.2)
    filters.weight.data[:3] = torch.eye(3)[..., None, None]
    head = nn.Linear(FILTERS, CLASSES, bias=False)
    head.weight.data = torch.eye(CLASSES, FILTERS)
    return nn.Sequential(filters, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def _images(count=30):
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(count) % CLASSES
    images = 0.3 * torch.rand(count, 3, 4, 4, generator=generator)
    images[torch.arange(count), labels] += 0.5
    return images, labels


def _off(*numbers, count=30):
    filters = torch.zeros(FILTERS, dtype=torch.bool)
    filters[list(numbers)] = True
    return filters.expand(count, -1)


def test_carriers_matter_more_than_random_filters_and_noise_does_not():
    images, labels = _images()
    found = ablate_filters(_network(), "1", _off(0, 1, 2), images, labels, seed=0)
    assert (found.intact, found.ablated) == (1, 1 / 3)  # all logits are 0, so class 0 is predicted
    assert found.random.shape == (199,)
    # A random set of 3 of 30 rarely holds two carriers, which alone lower the accuracy as much.
    assert found.p_value < 0.05
    assert found.p_value == (1 + int((found.random <= found.ablated).sum())) / 200
    noise = ablate_filters(_network(), "1", _off(10, 20, 29), images, labels, seed=0, draws=9)
    assert (noise.ablated, noise.p_value) == (1, 1)


def test_each_image_loses_its_own_filters():
    images, labels = _images()
    off = _off()[:1].repeat(30, 1)
    off[::2, 0] = True
    found = ablate_filters(_network(), "1", off, images, labels, seed=0, draws=1, batch_size=7)
    network, right = _network(), 0
    for row in range(30):
        activations = network[:2](images[row : row + 1])
        activations[0, off[row]] = 0
        right += int(network[2:](activations).argmax()) == int(labels[row])
    assert 0 < right < 30
    assert found.ablated == right / 30


def test_p_value_is_uniform_for_random_filters():
    # Single filters of a head with graded weights: accuracy falls with the number of the filter.
    network = nn.Sequential(nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    images = torch.zeros(20, 3, 1, 1)
    labels = torch.tensor([0] * 2 + [1] * 6 + [2] * 12)
    images[torch.arange(20), labels] = 1
    found = [
        ablate_filters(
            network, "0", torch.eye(3, dtype=torch.bool)[[one] * 20], images, labels, seed=4, draws=59
        )
        for one in range(3)
    ]
    assert [one.ablated for one in found] == [1, 0.7, 0.4]  # without channel 0, all-zero logits still say 0
    np.testing.assert_allclose([one.p_value for one in found], [1, 2 / 3, 1 / 3], atol=0.15)


@pytest.mark.parametrize("count", [0, FILTERS])
def test_no_filters_and_all_filters(count):
    images, labels = _images()
    found = ablate_filters(_network(), "1", _off(*range(count)), images, labels, seed=0, draws=5)
    assert found.ablated == (1 / 3 if count else found.intact)
    assert found.random.tolist() == [found.ablated] * 5
    assert found.p_value == 1


def test_result_depends_on_the_seed_and_not_on_batches():
    images, labels = _images()
    runs = [
        ablate_filters(_network(), "1", _off(0, 5), images, labels, seed=seed, draws=9, batch_size=size)
        for seed, size in [(0, 32), (0, 7), (1, 32)]
    ]
    assert torch.equal(runs[0].random, runs[1].random)
    assert not torch.equal(runs[0].random, runs[2].random)


def test_network_is_left_unchanged():
    network, (images, labels) = _network().train(), _images()
    ablate_filters(network, "1", _off(0), images, labels, seed=0, draws=2)
    assert not network[1]._forward_hooks
    assert network.training
    assert (network(images).argmax(1) == labels).all()


class Tokens(nn.Module):
    """Gives the pixels of an image as tokens."""

    def forward(self, images):
        return images.flatten(2).transpose(1, 2)


class TokenHead(nn.Module):
    def forward(self, tokens):
        return tokens.mean(1)


def test_filters_of_tokens():
    images, labels = _images()
    off = torch.tensor([[False, True, False]]).expand(30, -1)
    found = ablate_filters(nn.Sequential(Tokens(), TokenHead()), "0", off, images, labels, seed=0, draws=1)
    assert (found.intact, found.ablated) == (1, pytest.approx(2 / 3))


def test_logits_that_are_not_finite_are_wrong():
    images, labels = _images()
    images[:3] = math.nan
    found = ablate_filters(_network(), "1", _off(), images, labels, seed=0, draws=1)
    assert found.intact == found.ablated == 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draws": 0}, "expected images and draws, got 30 images and 0 draws"),
        (
            {"images": torch.zeros(0, 3, 4, 4), "labels": torch.zeros(0).long(), "filters": _off(count=0)},
            "expected images and draws, got 0 images and 199 draws",
        ),
        ({"filters": _off(0)[:, 1:]}, "`filters` has 29 columns, but layer `1` has 30 filters"),
        ({"labels": _images()[1] + 1}, "`labels` must be 0 to 2, the network has 3 classes; got 1 to 3"),
        ({"layer": "9"}, "layer `9` is not in the model"),
    ],
)
def test_arguments_that_are_refused(change, message):
    images, labels = _images()
    given = {"layer": "1", "filters": _off(0), "images": images, "labels": labels, "seed": 0, **change}
    with refused(message):
        ablate_filters(_network(), **given)


@pytest.mark.parametrize("name", ["vgg_small", "densenet_small"])
def test_backbones_run_once_for_all_sets(name):
    network = build_backbone(name, CLASSES, seed=0)
    images = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    labels = network(images).argmax(1)
    filters = (
        torch.rand(6, network.maps(images[:1]).shape[1], generator=torch.Generator().manual_seed(1)) < 0.5
    )
    layer = network.explained_layer
    found = ablate_filters(network, layer, filters, images, labels, seed=0, draws=9, batch_size=4)
    network.explained_layer = ""  # so that the layer is one as any other, and the whole network runs
    whole = ablate_filters(network, layer, filters, images, labels, seed=0, draws=9, batch_size=4)
    assert found.intact == 1
    assert (found.ablated, found.p_value) == (whole.ablated, whole.p_value)
    assert torch.equal(found.random, whole.random)
