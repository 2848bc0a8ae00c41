"""Merged heatmaps, their thresholds and binary maps, against loops and quantiles of numpy."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.coverage.explanations import Explanation, explanation_heatmap, merge_explanation
from candlelight.evaluation.coverage.thresholds import Explanations, binarise, is_dead, set_threshold
from tests.refusals import refused

MAPS = torch.rand(6, 5, 4, 3, generator=torch.Generator().manual_seed(0))
ONE = torch.tensor([[0]])


def _explanation(maps, concepts=None, scores=None):
    count = maps.shape[:2]
    numbers = torch.arange(count[1]).expand(count) if concepts is None else torch.tensor(concepts)
    scores = torch.zeros(count) if scores is None else torch.tensor(scores)
    return Explanation(maps, numbers, scores, torch.zeros(len(maps), dtype=torch.int64))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_explanation_equals_loops(k):
    found, merged = explanation_heatmap(MAPS, k), merge_explanation(_explanation(MAPS), k)
    for image in range(6):
        score = [sum(MAPS[image, t].flatten().tolist()) for t in range(5)]
        best = sorted(sorted(range(5), key=lambda t: -score[t])[:k])
        assert found.members[image].tolist() == merged.members[image].tolist() == best
        for v, u in np.ndindex(4, 3):
            largest = max(MAPS[image, t, v, u] for t in best)
            assert found.heatmap[image, v, u] == merged.heatmap[image, v, u] == largest


def test_equal_maps_go_in_order():
    assert explanation_heatmap(torch.zeros(1, 4, 2, 2), 2).members.tolist() == [[0, 1]]
    assert merge_explanation(_explanation(torch.zeros(1, 4, 2, 2)), 2).members.tolist() == [[0, 1]]


def test_lacking_concepts_are_never_merged():
    maps = torch.tensor([[[[1.0]], [[5.0]]], [[[-2.0]], [[9.0]]], [[[7.0]], [[9.0]]]])
    found = merge_explanation(_explanation(maps, [[4, -1], [8, -1], [-1, -1]]), 3)
    assert found.heatmap.flatten().tolist() == [1, -2, 0]
    assert found.members.tolist() == [[-1, -1, 4], [-1, -1, 8], [-1, -1, -1]]


def test_concepts_are_ranked_by_score_or_by_sum():
    explanation = _explanation(torch.tensor([[[[1.0]], [[5.0]]]]), [[6, 2]], [[0.9, 0.1]])
    assert merge_explanation(explanation, 1, "score").members.tolist() == [[6]]
    assert merge_explanation(explanation, 1).members.tolist() == [[2]]


@pytest.mark.parametrize("proportion", [0.01, 0.37])
def test_thresholds_equal_quantiles_over_images_with_equal_sets_or_of_each_image(proportion):
    heatmap = MAPS[:, 0]
    members = torch.tensor([[0, 1], [0, 2], [0, 1], [1, 2], [0, 2], [0, 1]])
    explained = Explanations(heatmap, members)
    found = set_threshold(explained, proportion)
    for image in range(6):
        pool = [heatmap[i].flatten() for i in range(6) if members[i].tolist() == members[image].tolist()]
        np.testing.assert_allclose(found[image], np.quantile(torch.cat(pool), 1 - proportion), rtol=1e-6)
    single = np.quantile(heatmap.flatten(1), 1 - proportion, axis=1)
    np.testing.assert_allclose(set_threshold(explained, proportion, "image"), single, rtol=1e-6)


def test_more_points_than_torch_quantile_takes():
    heatmap = torch.zeros(1, 4097, 4097)
    heatmap[0, :41] = 1
    assert set_threshold(Explanations(heatmap, ONE), 0.005).tolist() == [1]


def test_minimum_is_marked_by_the_papers_rule_only():
    heatmap = torch.tensor([[[0.0, 0.0, 0.0, 0.9]]])
    thresholds = set_threshold(Explanations(heatmap, ONE), 0.5)
    assert thresholds.tolist() == [0]
    assert binarise(heatmap, thresholds).tolist() == [[[False, False, False, True]]]
    assert binarise(heatmap, thresholds, "waiou2023").all()


def test_each_map_has_its_own_minimum():
    heatmap = torch.tensor([[[0.0, 0.5, 1.0]], [[0.5, 0.7, 0.5]], [[-1.0, 0.5, 0.4]]])
    marked = binarise(heatmap, torch.full((3,), 0.5))
    assert marked.tolist() == [[[False, True, True]], [[False, True, False]], [[False, True, False]]]


@pytest.mark.parametrize("value", [0.1, 1 / 3])
def test_resized_maps_keep_their_ties(value):
    # Weights of bilinear interpolation add up to 1 only up to rounding, which would break ties.
    flat = torch.full((1, 7, 5), value)
    spot = flat.clone()
    spot[0, 3, 2] = value + 1
    larger = Explanations(torch.cat([flat, spot]), torch.tensor([[0], [1]])).resized(33, 41).heatmap
    assert is_dead(larger).tolist() == [True, False]
    assert (larger[0] == flat[0, 0, 0]).all()
    assert (larger[1] == larger[1].min()).float().mean() > 0.7


def test_resized_is_bilinear_and_keeps_the_sets():
    explained = Explanations(torch.tensor([[[0.0, 1.0]]]), torch.tensor([[3]]))
    assert explained.resized(1, 2) is explained
    larger = explained.resized(2, 4)
    assert larger.heatmap.tolist() == [[[0, 0.25, 0.75, 1]] * 2]
    assert larger.members.tolist() == [[3]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: explanation_heatmap(MAPS, 6), "`k` must be 1 to 5, the number of heatmaps, got 6"),
        (lambda: explanation_heatmap(MAPS[:, 0], 1), r"`heatmaps` \[images, maps, .*, got \[6, 4, 3\]"),
        (lambda: merge_explanation(_explanation(MAPS), 0), "`k` must be at least 1, got 0"),
        (lambda: merge_explanation(_explanation(MAPS), 1, "max"), "`rank` must be one of"),
        (lambda: merge_explanation(_explanation(MAPS, [[0, 1]]), 1), "`concepts`"),
        (lambda: Explanations(MAPS[:2, 0], ONE), r"`members` \[images, k\], got \[2, 4, 3\], \[1, 1\]"),
        (lambda: Explanations(MAPS[0, 0], ONE), r"expected `heatmap` .*, got \[4, 3\], \[1, 1\]"),
        (lambda: Explanations(torch.ones(1, 0, 3), ONE), "needs at least one point in each map, got .1, 0"),
        (lambda: Explanations(np.ones((1, 3, 3)), ONE), "`heatmap` must be a torch tensor, got ndarray"),
        (lambda: set_threshold(Explanations(MAPS[:1, 0], ONE), 0.0), "between 0 and 1, got 0.0"),
        (lambda: set_threshold(Explanations(MAPS[:1, 0], ONE), 1.0), "between 0 and 1, got 1.0"),
        (lambda: set_threshold(Explanations(MAPS[:1, 0], ONE), 0.1, "images"), "`pooling` must be one of"),
        (lambda: binarise(MAPS[0, 0], torch.ones(4)), r"expected `heatmap` \[images, height, width\]"),
        (lambda: binarise(MAPS[:, 0], torch.ones(6), "waiou"), "`compat` must be one of: exact, waiou2023"),
        (lambda: is_dead(MAPS[0, 0]), r"expected `heatmap` \[images, height, width\], got \[4, 3\]"),
    ],
)
def test_arguments_that_are_refused(call, message):
    with refused(message):
        call()
