from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

from candlelight.evaluation.coverage.topic_completeness import LabelledMaps, ReconstructionTraining
from candlelight.evaluation.coverage.topics import (
    all_subsets,
    concept_shap,
    draw_subsets,
    regress_shapley,
    shapley_values,
)
from tests.refusals import refused

HOW = ReconstructionTraining(seed=0, hidden=16, epochs=60, rate=0.03)


def drawn_game(count: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=2**count))


def kernel_weights(subsets: Tensor) -> Tensor:
    count = subsets.shape[1]
    return torch.tensor(
        [
            (count - 1)
            / (float(np.prod(range(count - size + 1, count + 1))) / float(np.prod(range(1, size + 1))))
            / (size * (count - size))
            for size in subsets.sum(1).tolist()
        ],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("count", [1, 3, 5])
def test_shapley_values_are_mean_steps_over_all_orders(count: int) -> None:
    values = drawn_game(count)
    wanted = np.zeros(count)
    orders = list(permutations(range(count)))
    for order in orders:
        members = 0
        for topic in order:
            wanted[topic] += (values[members | 1 << topic] - values[members]).item() / len(orders)
            members |= 1 << topic
    np.testing.assert_allclose(shapley_values(values).numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_regression_on_all_subsets_is_exact(count: int) -> None:
    values, subsets = drawn_game(count), all_subsets(count)[1:-1]
    found = regress_shapley(
        subsets, values[1:-1], kernel_weights(subsets), values[0].item(), values[-1].item()
    )
    torch.testing.assert_close(found, shapley_values(values))


def test_regression_of_an_additive_game_is_exact_from_few_subsets() -> None:
    shares, subsets = torch.tensor([1.0, -2.0, 0.5, 4.0]).double(), all_subsets(4)[[1, 3, 12, 5]]
    values = 7 + subsets.double() @ shares
    found = regress_shapley(subsets, values, torch.tensor([1.0, 2, 3, 4]), 7.0, 10.5)
    torch.testing.assert_close(found, shares)


def test_regression_without_subsets_divides_equally() -> None:
    found = regress_shapley(torch.zeros(0, 4).bool(), torch.zeros(0), torch.zeros(0), 1.0, 3.0)
    assert found.tolist() == [0.5] * 4


def test_subsets_are_drawn_by_the_kernel() -> None:
    subsets, counts = draw_subsets(5, 30_000, torch.Generator().manual_seed(0))
    assert len(subsets) == 30
    weights = kernel_weights(subsets)
    wanted = 30_000 * weights / weights.sum()
    assert ((counts - wanted).abs() < 5 * wanted.sqrt()).all()


def head(activations: Tensor) -> Tensor:
    return activations[:, :4].mean((2, 3))


def planted(images: int = 40) -> LabelledMaps:
    labels = torch.arange(images) % 4
    maps = torch.zeros(images, 6, 1, 2)
    maps[torch.arange(images), labels, 0, torch.arange(images) // 4 % 2] = 1
    return LabelledMaps(maps, labels)


def test_shares_of_class_topics_by_hand() -> None:
    # Zeros count as class 0. Each other topic adds the quarter of the images of its class, and completeness
    # is (accuracy - 1/4) / (3/4); topic 4 responds to nothing.
    topics = torch.eye(6)[:5]
    found = concept_shap(topics, head, planted(), planted(), HOW)
    assert found.subsets == 32
    assert found.values.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 0], abs=1e-6)
    assert (found.completeness, found.without) == (1, 0)


def test_sampled_shares_are_near_the_exact_ones() -> None:
    topics = torch.eye(6)[:5]
    found = concept_shap(topics, head, planted(), planted(), HOW, samples=20)
    assert 2 < found.subsets <= 20
    assert found.values.sum().item() == pytest.approx(1)
    # An additive game is estimated without error from any subsets that tell the topics apart.
    assert found.values.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 0], abs=1e-6)


def test_one_topic_has_all() -> None:
    found = concept_shap(torch.eye(6)[1:2], head, planted(), planted(), HOW, samples=2)
    assert found.values.tolist() == pytest.approx([1 / 3])


def test_shares_are_nan_if_the_classifier_is_not_better_than_chance() -> None:
    found = concept_shap(torch.eye(6)[:3], lambda maps: 0 * head(maps), planted(), planted(), HOW, samples=4)
    assert found.values.isnan().all()


def test_messages() -> None:
    with refused("`topics` needs at least one topic, got none"):
        concept_shap(torch.zeros(0, 6), head, planted(), planted(), HOW)
    with refused("`samples` must be at least 2, got 1"):
        concept_shap(torch.eye(6), head, planted(), planted(), HOW, samples=1)
    with refused(r"values of all 2\^topics subsets, got 3"):
        shapley_values(torch.zeros(3))
