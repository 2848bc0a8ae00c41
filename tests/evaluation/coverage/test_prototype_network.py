from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.coverage.prototypes import (
    PrototypeMethod,
    PrototypeNetwork,
    PrototypeTraining,
    patch_distances,
    prototype_network_loss,
    prototype_similarity,
    push_prototypes,
    train_prototype_network,
)
from tests.refusals import refused

HOW = PrototypeTraining(
    seed=0, per_class=2, dim=8, warm_epochs=40, epochs=45, push_every=45, rate=0.03, batch_size=8
)
SHORT = replace(HOW, warm_epochs=2, epochs=4, push_every=3)


def planted(images: int = 48, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Draw 2x2 blocks of dull colours, one of which has the colour of the class; also return its place."""
    rng = np.random.default_rng(seed)
    labels, places = np.arange(images) % 3, rng.integers(0, 2, (images, 2))
    blocks = rng.uniform(0.1, 0.9, (images, 3, 2, 2))
    for block, label, (row, column) in zip(blocks, labels, places, strict=True):
        block[:, row, column] = np.eye(3)[label]
    pixels = blocks.repeat(2, 2).repeat(2, 3)
    return torch.from_numpy(pixels).float(), torch.from_numpy(labels), torch.from_numpy(places)


def backbone() -> nn.Module:
    draws = torch.Generator().manual_seed(0)
    layers = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8))
    for weights in layers[1].parameters():
        nn.init.normal_(weights, generator=draws)
    return layers


@pytest.fixture(scope="module")
def trained() -> PrototypeNetwork:
    images, labels, _ = planted()
    return train_prototype_network(backbone(), images, labels, HOW)


def test_distances_equal_plain_loops() -> None:
    rng = np.random.default_rng(0)
    maps, prototypes = rng.normal(size=(2, 5, 3, 4)), rng.normal(size=(6, 5))
    found = patch_distances(torch.from_numpy(maps), torch.from_numpy(prototypes))
    for image, number, row, column in np.ndindex(2, 6, 3, 4):
        wanted = ((maps[image, :, row, column] - prototypes[number]) ** 2).sum()
        assert found[image, number, row, column].item() == pytest.approx(wanted)


def test_distances_are_never_negative() -> None:
    maps = torch.rand(50, 64, 1, 1, generator=torch.Generator().manual_seed(0))
    found = patch_distances(maps, maps[:, :, 0, 0])
    assert (found >= 0).all()
    assert prototype_similarity(found).isfinite().all()


def test_similarity_falls_from_its_largest_value_to_zero() -> None:
    found = prototype_similarity(torch.tensor([0.0, 0.5, 1e6], dtype=torch.float64)).tolist()
    assert found == pytest.approx([log(1 / 1e-4), log(1.5 / 0.5001), 0], abs=1e-5)


def test_logits_by_hand() -> None:
    network = PrototypeNetwork(nn.Identity(), 3, 2, per_class=2, dim=4, seed=0)
    images = torch.rand(3, 3, 5, 6, generator=torch.Generator().manual_seed(0))
    logits, nearest = network(images)
    for image in range(3):
        patches = network.add_on(images)[image].flatten(1).T
        wanted = [min((patch - one).square().sum().item() for patch in patches) for one in network.prototypes]
        assert nearest[image].tolist() == pytest.approx(wanted, rel=1e-4)
        own, other = prototype_similarity(nearest[image]).reshape(2, 2).sum(1).tolist()
        assert logits[image].tolist() == pytest.approx([own - other / 2, other - own / 2], rel=1e-4)


def test_loss_by_hand() -> None:
    network = PrototypeNetwork(nn.Identity(), 3, 2, per_class=2, dim=4, seed=0)
    nearest = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 8.0, 7.0]])
    found = prototype_network_loss(network, torch.zeros(2, 2), nearest, torch.tensor([0, 1]))
    cluster, separation, sparsity = (1 + 7) / 2, (3 + 5) / 2, 4 * 0.5
    assert found.item() == pytest.approx(log(2) + 0.8 * cluster - 0.08 * separation + 1e-4 * sparsity)


def test_push_copies_the_nearest_patch_of_the_class() -> None:
    images, labels, _ = planted(12)
    network = PrototypeNetwork(backbone(), 8, 3, per_class=2, dim=8, seed=1)
    before = network.prototypes.detach().clone()
    patches = push_prototypes(network, images, labels, batch_size=5)
    maps = network.eval().add_on(network.backbone(images)).detach()
    for number in range(6):
        best = (torch.inf, -1, -1, -1)
        for image, row, column in np.ndindex(12, 2, 2):
            if labels[image] == number // 2:
                distance = (maps[image, :, row, column] - before[number]).square().sum().item()
                best = min(best, (distance, image, row, column))
        found = patches.images[number], patches.rows[number], patches.columns[number]
        assert best[1:] == tuple(map(int, found))
        assert patches.distances[number].item() == pytest.approx(best[0], abs=1e-5)
        torch.testing.assert_close(network.prototypes[number].detach(), maps[best[1], :, best[2], best[3]])


def landed(network: PrototypeNetwork) -> Tensor:
    """Tell which prototypes are the patch in the colour of their class."""
    _, labels, places = planted()
    assert network.patches is not None
    assert torch.equal(labels[network.patches.images], torch.arange(6) // 2)
    found = torch.stack([network.patches.rows, network.patches.columns], 1)
    return (found == places[network.patches.images]).all(1)


def test_prototypes_land_on_a_patch_of_their_class_and_are_equal_to_it(trained: PrototypeNetwork) -> None:
    assert landed(trained).sum() >= 4  # at random, one of four lands
    others, known, _ = planted(seed=1)
    assert torch.equal(trained(others)[0].argmax(1), known)
    with torch.no_grad():
        maps = trained.add_on(trained.backbone(planted()[0]))
    rows = trained.patches.images, slice(None), trained.patches.rows, trained.patches.columns
    torch.testing.assert_close(maps[rows], trained.prototypes)


def test_training_is_the_same_again_and_leaves_the_backbone_and_the_stream_alone() -> None:
    images, labels, _ = planted(12)
    given = backbone()
    state = torch.get_rng_state()
    one = train_prototype_network(given, images, labels, SHORT).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(some, given.state_dict()[name]) for name, some in backbone().state_dict().items())
    assert not torch.equal(one["backbone.1.weight"], given.state_dict()["1.weight"])
    torch.rand(3)
    again = train_prototype_network(given, images, labels, SHORT).state_dict()
    assert all(torch.equal(some, again[name]) for name, some in one.items())
    other = train_prototype_network(given, images, labels, replace(SHORT, seed=1)).state_dict()
    assert not torch.equal(other["prototypes"], one["prototypes"])


def test_backbone_does_not_change_in_the_warm_epochs() -> None:
    images, labels, _ = planted(6)
    found = train_prototype_network(
        backbone(), images, labels, replace(SHORT, epochs=2)
    ).backbone.state_dict()
    assert all(torch.equal(some, found[name]) for name, some in backbone().state_dict().items())


def test_last_layer_follows_the_push() -> None:
    images, labels, _ = planted(12)
    plain = train_prototype_network(backbone(), images, labels, replace(SHORT, last_epochs=0))
    assert torch.equal(plain.last.weight, torch.where(plain.belongs().T, 1.0, -0.5))
    more = train_prototype_network(backbone(), images, labels, replace(SHORT, epochs=3, last_epochs=5))
    less = train_prototype_network(backbone(), images, labels, replace(SHORT, epochs=3, last_epochs=0))
    assert torch.equal(more.prototypes, less.prototypes)
    losses = []
    for network in (less, more):
        logits, nearest = network(images)
        losses.append(prototype_network_loss(network, logits, nearest, labels).item())
    assert losses[1] < losses[0]


def test_method_explains_by_the_prototypes_of_the_predicted_class(trained: PrototypeNetwork) -> None:
    images, labels, places = planted()
    method = PrototypeMethod(backbone(), HOW)
    method.network = trained
    found = method.explain(images)
    assert torch.equal(found.predicted, trained(images)[0].argmax(1))
    assert torch.equal(found.concepts // 2, found.predicted[:, None].expand(-1, 2))
    assert found.maps.shape == (48, 2, 2, 2)
    maps = prototype_similarity(trained.distances(trained.backbone(images)))
    for image in range(48):
        torch.testing.assert_close(found.maps[image], maps[image, found.concepts[image]])
    torch.testing.assert_close(found.scores, found.maps.sum((2, 3)))
    # The place of the largest similarity is the patch in the colour of the class.
    point = found.maps.flatten(2).argmax(2)
    shown = landed(trained)[found.concepts] & (found.predicted == labels)[:, None]
    assert shown.any()
    assert torch.equal(point[shown], (2 * places[:, 0] + places[:, 1])[:, None].expand(-1, 2)[shown])


IMAGES, LABELS, _ = planted(6)
UNTRAINED = PrototypeNetwork(backbone(), 8, 3, per_class=2, dim=8, seed=1)
NAN = IMAGES.clone()
NAN[1, 0, 0, 0] = torch.nan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.tensor([0, 2, 0, 2, 0, 2])}, "image of each class, class 1 has none"),
        ({"labels": LABELS - 1}, r"labels must lie in 0\.\.1, got -1"),
        ({"labels": 0 * LABELS}, "`classes` must be at least 2, got 1"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "expected at least one training image, got none"),
        ({"backbone": nn.Flatten()}, r"must give \[batch, channels, h, w\], got \[1, 48\]"),
        ({"images": NAN}, "the training diverged"),
    ],
)
def test_training_images_that_are_refused(change, message) -> None:
    given = {"backbone": backbone(), "images": IMAGES, "labels": LABELS, **change}
    with refused(message):
        train_prototype_network(*given.values(), HOW)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrototypeTraining(0, epochs=0), "`epochs`: expected at least 1, got 0"),
        (lambda: PrototypeTraining(0, rate=torch.nan), "`rate`: expected above 0, got nan"),
        (lambda: PrototypeNetwork(nn.Identity(), 3, 2, per_class=0, seed=0), "`per_class` must be"),
        (lambda: PrototypeMethod(backbone(), HOW).explain(IMAGES), "call `fit` first"),
        (lambda: push_prototypes(UNTRAINED, NAN, LABELS), "distances of patches must be finite"),
    ],
)
def test_uses_that_are_refused(call, message) -> None:
    with refused(message):
        call()


def test_constant_images_of_one_point() -> None:
    images, labels = torch.zeros(4, 3, 2, 2), torch.tensor([0, 1, 0, 1])
    how = replace(HOW, warm_epochs=1, epochs=2)
    found = PrototypeMethod(nn.AvgPool2d(2), how).fit(images, labels).explain(images)
    assert found.maps.shape == (4, 2, 1, 1)
    assert found.maps.isfinite().all()
