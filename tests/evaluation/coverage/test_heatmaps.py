import numpy as np
import pytest
import torch

from evaluation.coverage.heatmaps import Explanations, binarise, explanation_heatmap, set_threshold
from loaders.errors import InputError


def _maps(seed=0, images=6, maps=5, height=4, width=3):
    return torch.rand(images, maps, height, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_explanation_equals_loops(k):
    maps = _maps()
    found = explanation_heatmap(maps, k)
    for image in range(6):
        score = [sum(maps[image, t].flatten().tolist()) for t in range(5)]
        best = sorted(sorted(range(5), key=lambda t: -score[t])[:k])
        assert found.members[image].tolist() == best
        for v in range(4):
            for u in range(3):
                assert found.heatmap[image, v, u] == max(maps[image, t, v, u] for t in best)


def test_equal_maps_go_in_order():
    assert explanation_heatmap(torch.zeros(1, 4, 2, 2), 2).members.tolist() == [[0, 1]]


@pytest.mark.parametrize("proportion", [0.01, 0.1, 0.37])
def test_pooled_thresholds_equal_quantiles_of_like_sets(proportion):
    heatmap = _maps(1)[:, 0]
    members = torch.tensor([[0, 1], [0, 2], [0, 1], [1, 2], [0, 2], [0, 1]])
    found = set_threshold(Explanations(heatmap, members), proportion)
    for image in range(6):
        pool = [heatmap[i].flatten() for i in range(6) if members[i].tolist() == members[image].tolist()]
        np.testing.assert_allclose(found[image], np.quantile(torch.cat(pool), 1 - proportion), rtol=1e-6)


def test_single_thresholds_equal_quantiles_of_each_image():
    heatmap = _maps(2)[:, 0]
    found = set_threshold(Explanations(heatmap, torch.zeros(6, 1, dtype=torch.int64)), 0.2, "image")
    np.testing.assert_allclose(found, np.quantile(heatmap.flatten(1), 0.8, axis=1), rtol=1e-6)


def test_proportion_of_points_is_marked():
    heatmap = torch.randperm(1000, generator=torch.Generator().manual_seed(0)).float().reshape(1, 20, 50)
    thresholds = set_threshold(Explanations(heatmap, torch.tensor([[0]])), 0.05)
    assert binarise(heatmap, thresholds).sum() == 50


def test_more_points_than_torch_quantile_takes():
    heatmap = torch.zeros(1, 4097, 4097)
    heatmap[0, :41] = 1
    explained = Explanations(heatmap, torch.tensor([[0]]))
    assert set_threshold(explained, 0.005).tolist() == [1]
    assert set_threshold(explained, 0.02).tolist() == [0]


def test_zeros_pass_unless_strict():
    heatmap = torch.tensor([[[0.0, 0.0, 0.0, 0.9]]])
    thresholds = set_threshold(Explanations(heatmap, torch.tensor([[0]])), 0.5)
    assert thresholds.tolist() == [0]
    assert binarise(heatmap, thresholds).all()
    assert binarise(heatmap, thresholds, strict=True).tolist() == [[[False, False, False, True]]]


def test_resized_is_bilinear_and_keeps_the_sets():
    explained = Explanations(torch.tensor([[[0.0, 1.0]]]), torch.tensor([[3]]))
    assert explained.resized(1, 2) is explained
    larger = explained.resized(2, 4)
    assert larger.heatmap.tolist() == [[[0, 0.25, 0.75, 1]] * 2]
    assert larger.members.tolist() == [[3]]


def test_no_images():
    explained = explanation_heatmap(torch.zeros(0, 3, 2, 2), 1)
    assert set_threshold(explained, 0.1).shape == (0,)


@pytest.mark.parametrize("k", [0, 6])
def test_number_of_maps(k):
    with pytest.raises(InputError, match=f"`k` must be 1 to 5, the number of heatmaps, got {k}"):
        explanation_heatmap(_maps(), k)


def test_heatmaps_must_be_finite():
    with pytest.raises(InputError, match="`heatmaps` must be finite"):
        explanation_heatmap(torch.full((1, 1, 2, 2), torch.nan), 1)


@pytest.mark.parametrize("proportion", [0.0, 1.0, 5.0])
def test_proportion_is_a_share(proportion):
    with pytest.raises(InputError, match=f"`proportion` must lie between 0 and 1, got {proportion}"):
        set_threshold(explanation_heatmap(_maps(), 1), proportion)
