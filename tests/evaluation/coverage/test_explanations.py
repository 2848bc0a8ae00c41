from inspect import unwrap

import pytest
import torch

from candlelight.evaluation.coverage.explanations import Explanation, explanation_heatmap, merge_explanation
from candlelight.loaders.errors import InputError


def _explanation(maps, concepts=None, scores=None):
    count = maps.shape[:2]
    numbers = torch.arange(count[1]).expand(count) if concepts is None else torch.tensor(concepts)
    scores = torch.zeros(count) if scores is None else torch.tensor(scores)
    return Explanation(maps, numbers, scores, torch.zeros(len(maps), dtype=torch.int64))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_equals_the_merging_of_heatmaps(k):
    maps = torch.rand(7, 5, 3, 4, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    found, expected = merge_explanation(_explanation(maps), k), explanation_heatmap(maps, k)
    assert torch.equal(found.heatmap, expected.heatmap)
    assert torch.equal(found.members, expected.members)


def test_lacking_concepts_are_never_merged():
    maps = torch.tensor([[[[1.0]], [[5.0]]], [[[-2.0]], [[9.0]]], [[[7.0]], [[9.0]]]])
    found = merge_explanation(_explanation(maps, [[4, -1], [8, -1], [-1, -1]]), 3)
    assert found.heatmap.flatten().tolist() == [1, -2, 0]
    assert found.members.tolist() == [[-1, -1, 4], [-1, -1, 8], [-1, -1, -1]]


def test_rank_by_score():
    maps = torch.tensor([[[[1.0]], [[5.0]]]])
    explanation = _explanation(maps, [[6, 2]], [[0.9, 0.1]])
    assert merge_explanation(explanation, 1, "score").members.tolist() == [[6]]
    assert merge_explanation(explanation, 1).members.tolist() == [[2]]


def test_bad_arguments_are_refused():
    explanation = _explanation(torch.zeros(1, 2, 1, 1))
    with pytest.raises(InputError, match="`k` must be at least 1, got 0"):
        merge_explanation(explanation, 0)
    with pytest.raises(InputError, match="rank"):
        unwrap(merge_explanation)(explanation, 1, "max")
    with pytest.raises(InputError, match="concepts"):
        unwrap(merge_explanation)(explanation._replace(concepts=torch.zeros(1, 3)), 1)
