from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.coverage.topic_completeness import (
    LabelledMaps,
    ReconstructionTraining,
    classifier_accuracy,
    completeness,
    distinct_topics,
    gated_responses,
    initial_weights,
    reconstruct,
    subset_completeness,
    topic_maps,
    topic_nearness,
    topic_overlap,
    topic_scores,
)
from candlelight.evaluation.coverage.topics import TopicMethod, TopicSearch, discover_topics
from candlelight.evaluation.views.named_streams import named_generator
from tests.refusals import refused

CLASSES, DIM = 4, 48
HOW = ReconstructionTraining(seed=0, hidden=32, epochs=30, rate=0.01)


def head(activations: Tensor) -> Tensor:
    return activations[:, :CLASSES].mean((2, 3))


def planted(seed: int, images: int = 160) -> LabelledMaps:
    """Draw maps whose class shows in one channel at one of four points; the other channels are noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(images) % CLASSES
    maps = rng.uniform(0, 1, (images, DIM, 2, 2))
    maps[:, :CLASSES] = 0
    maps[np.arange(images), labels, rng.integers(0, 2, images), rng.integers(0, 2, images)] = 5
    return LabelledMaps(torch.from_numpy(maps).float(), torch.from_numpy(labels))


def class_topics() -> Tensor:
    return torch.eye(CLASSES, DIM)


def noise_topics() -> Tensor:
    topics = torch.rand(CLASSES, DIM, generator=torch.Generator().manual_seed(1))
    topics[:, :CLASSES] = 0
    return topics


def test_responses_equal_plain_loops() -> None:
    rng = np.random.default_rng(0)
    activations, topics = rng.normal(size=(2, 3, 2, 4)), rng.normal(size=(5, 3))
    maps = topic_maps(torch.from_numpy(activations), torch.from_numpy(topics))
    gated, cosines = gated_responses(torch.from_numpy(activations), torch.from_numpy(topics), 0.3)
    for image, topic, row, column in np.ndindex(2, 5, 2, 4):
        vector, unit = activations[image, :, row, column], topics[topic] / np.linalg.norm(topics[topic])
        cosine = vector @ unit / np.linalg.norm(vector)
        assert maps[image, topic, row, column].item() == pytest.approx(vector @ unit)
        assert cosines[image, row, column, topic].item() == pytest.approx(cosine)
        kept = vector @ unit if cosine > 0.3 else 0
        assert gated[image, row, column, topic].item() == pytest.approx(kept)
    assert not torch.cat(gated_responses(torch.zeros(1, 3, 1, 1), torch.eye(3))).any()


def test_scores_sum_to_one_where_a_topic_responds() -> None:
    scores = topic_scores(torch.tensor([[[4.0, 0.0], [0.0, 0.0]]]))
    assert scores.sum(-1).tolist() == [[pytest.approx(4 / 4.001), 0]]


def test_nearness_is_the_mean_of_the_largest_cosines_of_each_topic() -> None:
    cosines = torch.tensor([[0.1, 0.9], [0.5, 0.2], [0.3, 0.4]])
    assert topic_nearness(cosines, 2).item() == pytest.approx((0.5 + 0.3 + 0.9 + 0.4) / 4)
    assert topic_nearness(cosines, 99).item() == pytest.approx(cosines.mean().item())


def test_overlap_by_hand() -> None:
    topics = torch.tensor([[2.0, 0.0], [3.0, 4.0]])
    assert topic_overlap(topics).item() == pytest.approx(2 * 0.6 / 4)
    assert topic_overlap(topics, "squared").item() == pytest.approx(2 * 0.36 / 4)
    assert topic_overlap(torch.eye(3), "squared").item() == 0


def test_near_equal_topics_are_merged_into_the_first() -> None:
    angles = torch.tensor([0.0, 17, 34, 90, 91]).deg2rad()  # cos 17 is 0.956, cos 34 is 0.829
    topics = torch.stack([angles.cos(), angles.sin()], 1) * torch.arange(1.0, 6)[:, None]
    assert distinct_topics(topics).tolist() == [0, 2, 3]
    assert distinct_topics(torch.cat([torch.zeros(1, 2), topics])).tolist() == [1, 3, 4]
    assert distinct_topics(-topics[[0, 0]].mul(torch.tensor([[1.0], [-1.0]]))).tolist() == [0, 1]


def test_completeness_of_class_directions_is_one_and_of_noise_about_zero() -> None:
    train, test = planted(1), planted(2)
    assert classifier_accuracy(head, test) == 1
    assert completeness(class_topics(), head, train, test, HOW) == 1
    assert abs(completeness(noise_topics(), head, train, test, HOW)) < 0.2


def test_subsets_trained_together_are_those_trained_alone(monkeypatch) -> None:
    train, test = planted(1), planted(2)
    topics = torch.cat([class_topics(), noise_topics()[:1]])
    subsets = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]).bool()
    together = subset_completeness(topics, subsets, head, train, test, HOW)
    alone = [subset_completeness(topics, one[None], head, train, test, HOW) for one in subsets]
    torch.testing.assert_close(together, torch.cat(alone))
    monkeypatch.setattr("candlelight.evaluation.coverage.topic_completeness._LARGEST", 1)
    torch.testing.assert_close(subset_completeness(topics, subsets, head, train, test, HOW), together)
    # Zeros are class 0, and topics respond to their class only: that of class 1 adds a quarter of all images.
    assert together[:3].tolist() == pytest.approx([0, 1 / 3, 1])


def test_scores_of_a_subset_are_those_of_its_topics_alone() -> None:
    train, test = planted(1), planted(2)
    topics = torch.cat([class_topics(), class_topics() + 0.3])  # several topics respond at each point
    subset = torch.arange(8) % 4 != 0
    seen = []

    def watched(activations: Tensor) -> Tensor:
        seen.append(activations.detach())
        return head(activations)

    subset_completeness(topics, subset[None], watched, train, test, replace(HOW, epochs=1, batch_size=160))
    together = next(some for some in seen if len(some) == 160)
    responses = gated_responses(train.activations, topics)[0]
    order = torch.randperm(160, generator=named_generator(HOW.seed, "order"))
    first, second = initial_weights(8, DIM, HOW.hidden, HOW.seed, responses)
    alone = topic_scores(responses[order][..., subset])[None]
    torch.testing.assert_close(together, reconstruct(alone, (first[:, subset], second)))


def test_completeness_is_nan_if_the_classifier_is_not_better_than_chance() -> None:
    maps = planted(1)
    assert np.isnan(completeness(class_topics(), lambda some: 0 * head(some), maps, maps, HOW))


def test_discovered_topics_are_complete_and_the_same_again() -> None:
    train, test = planted(1), planted(2)
    search = TopicSearch(6, nearest=16, near=1.0, apart=1.0, orthogonality="squared")
    topics = discover_topics(train, head, search, HOW)
    assert topics.norm(dim=1).tolist() == pytest.approx([1] * len(topics))
    assert torch.equal(distinct_topics(topics), torch.arange(len(topics)))
    assert completeness(topics, head, train, test, HOW) > 0.95
    state = torch.get_rng_state()
    torch.rand(3)
    assert torch.equal(discover_topics(train, head, search, HOW), topics)
    torch.set_rng_state(state)


def test_many_topics_near_one_activation_are_merged() -> None:
    maps = LabelledMaps(torch.ones(8, 3, 1, 1), torch.arange(8) % 2)
    search = TopicSearch(5, nearest=4, near=10.0, apart=0.0)
    found = discover_topics(maps, lambda some: some[:, :2, 0, 0], search, replace(HOW, epochs=150))
    torch.testing.assert_close(found, torch.full((1, 3), 3**-0.5), rtol=0, atol=0.1)


def test_method_explains_by_maps_of_all_topics_and_leaves_the_classifier_alone() -> None:
    features = nn.Sequential(nn.Conv2d(3, DIM, 1), nn.Dropout(0.5), nn.ReLU())
    linear = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(DIM, CLASSES))
    images = torch.rand(8, 3, 3, 5, generator=torch.Generator().manual_seed(0))
    method = TopicMethod(features, linear, TopicSearch(3), HOW)
    with refused("call `fit` first"):
        method.explain(images)
    found = method.fit(images, torch.arange(8) % CLASSES).explain(images)
    assert method.topics is not None
    activations = features.eval()(images)
    assert found.maps.shape == (8, len(method.topics), 3, 5)
    torch.testing.assert_close(found.maps, topic_maps(activations, method.topics))
    torch.testing.assert_close(found.scores, found.maps.sum((2, 3)))
    assert torch.equal(found.predicted, linear(activations).argmax(1))
    assert found.concepts.tolist() == [list(range(len(method.topics)))] * 8
    assert all(one.grad is None for part in (features, linear) for one in part.parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activations": torch.full((2, 5, 1, 1), torch.nan)}, "activations must be finite"),
        ({"labels": torch.tensor([0, 4])}, r"labels must lie in 0\.\.3, the classes of the head, got 0 to 4"),
        ({"labels": torch.tensor([0])}, r"expected `activations` \[images, dim, height, width\], `labels`"),
        ({"activations": torch.zeros(0, 5, 1, 1), "labels": torch.zeros(0).long()}, "at least one image"),
    ],
)
def test_maps_that_are_refused(change: dict[str, Tensor], message: str) -> None:
    maps = LabelledMaps(torch.ones(2, 5, 1, 1), torch.tensor([0, 1]))._replace(**change)
    with refused(message):
        discover_topics(maps, head, TopicSearch(2), HOW)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopicSearch(0), "`count` must be at least 1, got 0"),
        (lambda: ReconstructionTraining(0, epochs=0), "`epochs` must be at least 1, got 0"),
        (lambda: ReconstructionTraining(0, rate=torch.nan), "`rate` must be above 0 and finite, got nan"),
        (lambda: gated_responses(torch.ones(1, 2, 1, 1), torch.eye(2), 1.0), "`threshold` must be"),
        (lambda: topic_nearness(torch.ones(1, 1), 0), "`nearest` must be at least 1, got 0"),
    ],
)
def test_choices_out_of_range(make, message: str) -> None:
    with refused(message):
        make()
