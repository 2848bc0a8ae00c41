from inspect import unwrap

import numpy as np
import pytest
import torch

from candlelight.evaluation.coverage.explanations import explanation_heatmap
from candlelight.evaluation.coverage.thresholds import Explanations, binarise, is_dead, set_threshold
from candlelight.evaluation.coverage.waiou import part_iou
from candlelight.loaders.errors import InputError


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
def test_pooled_thresholds_equal_quantiles_over_images_with_equal_sets(proportion):
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


def test_minimum_is_marked_by_the_papers_rule_only():
    heatmap = torch.tensor([[[0.0, 0.0, 0.0, 0.9]]])
    thresholds = set_threshold(Explanations(heatmap, torch.tensor([[0]])), 0.5)
    assert thresholds.tolist() == [0]
    assert binarise(heatmap, thresholds).tolist() == [[[False, False, False, True]]]
    assert binarise(heatmap, thresholds, "waiou2023").all()


def test_each_map_has_its_own_minimum():
    heatmap = torch.tensor([[[0.0, 0.5, 1.0]], [[0.5, 0.7, 0.5]], [[-1.0, 0.5, 0.4]]])
    marked = binarise(heatmap, torch.full((3,), 0.5))
    assert marked.tolist() == [[[False, True, True]], [[False, True, False]], [[False, True, False]]]


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0])
def test_constant_map_is_dead_and_marks_nothing(value):
    heatmap = torch.cat([torch.full((1, 4, 3), value), _maps(3)[:1, 0]])
    assert is_dead(heatmap).tolist() == [True, False]
    for share in (0.01, 0.1, 0.9):
        explained = Explanations(heatmap, torch.tensor([[0], [1]]))
        marked = binarise(heatmap, set_threshold(explained, share))
        assert marked.flatten(1).any(1).tolist() == [False, True]


def test_zeros_score_less_than_a_right_explanation():
    part = torch.zeros(1, 1, 10, 10, dtype=torch.bool)
    part[0, 0, 2:5, 2:5] = True
    right = torch.zeros(1, 10, 10)
    right[0, 2:4, 2:4] = 1
    for share in (0.01, 0.05, 0.1):
        iou = [
            part_iou(binarise(one, set_threshold(Explanations(one, torch.tensor([[0]])), share)), part).item()
            for one in (right, torch.zeros_like(right))
        ]
        assert iou == [pytest.approx(4 / 9), 0]


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 7.7])
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


def test_integer_heatmaps_are_taken_as_floats():
    maps = (255 * _maps()).to(torch.uint8)
    found, wanted = explanation_heatmap(maps, 2), explanation_heatmap(maps.float(), 2)
    assert torch.equal(found.heatmap, wanted.heatmap)
    assert torch.equal(found.members, wanted.members)
    assert torch.equal(set_threshold(found, 0.1), set_threshold(wanted, 0.1))


def _explanations(heatmap, members):
    """Make explanations without the type checks of jaxtyping."""
    made = object.__new__(Explanations)
    unwrap(Explanations.__init__)(made, heatmap, members)
    return made


@pytest.mark.parametrize(
    ("heatmap", "message"),
    [
        (
            torch.ones(2, 3, 3),
            r"`heatmap` \[images, height, width\], `members` \[images, k\], got \[2,",
        ),
        (torch.ones(1, 3), r"expected `heatmap` .*, got \[1, 3\], \[1, 1\]"),
        (
            torch.ones(1, 3, 3, dtype=torch.int64),
            r"got torch\.int64; convert it with \.float\(\)",
        ),
        (torch.full((1, 3, 3), torch.nan), "`heatmap` must be finite, got nan or inf; check the method"),
        (torch.full((1, 3, 3), torch.inf), "`heatmap` must be finite"),
        (torch.ones(1, 0, 3), r"`heatmap` needs at least one point in each map, got \[1, 0, 3\]"),
        (np.ones((1, 3, 3)), "`heatmap` must be a torch tensor, got ndarray"),
    ],
    ids=["rows", "dimension", "integers", "nan", "inf", "no points", "numpy"],
)
def test_explanations_that_cannot_be_used(heatmap, message):
    with pytest.raises(InputError, match=message):
        _explanations(heatmap, torch.zeros(1, 1, dtype=torch.int64))


@pytest.mark.parametrize(
    ("heatmap", "thresholds", "message"),
    [
        (torch.ones(2, 3, 3), torch.ones(1), r"`thresholds` \[images\], got \[2, 3, 3\], \[1\]"),
        (torch.ones(3, 3), torch.ones(3), r"expected `heatmap` \[images, height, width\]"),
        (torch.ones(1, 3, 3, dtype=torch.uint8), torch.ones(1), "must be floating point, got torch.uint8"),
        (torch.full((1, 3, 3), torch.nan), torch.ones(1), "`heatmap` must be finite"),
        (torch.ones(1, 3, 3), torch.full((1,), torch.nan), "`thresholds` must be finite, got nan or inf"),
    ],
    ids=["rows", "dimension", "integers", "nan", "threshold"],
)
def test_maps_that_cannot_be_binarised(heatmap, thresholds, message):
    with pytest.raises(InputError, match=message):
        unwrap(binarise)(heatmap, thresholds)


def test_dimension_missing():
    with pytest.raises(InputError, match=r"`heatmaps` \[images, maps, height, width\], got \[6, 4, 3\]"):
        unwrap(explanation_heatmap)(_maps()[:, 0], 1)
    with pytest.raises(InputError, match=r"expected `heatmap` \[images, height, width\], got \[4, 3\]"):
        unwrap(is_dead)(_maps()[0, 0])


def test_misspelt_options():
    explained = explanation_heatmap(_maps(), 1)
    with pytest.raises(InputError, match="`pooling` must be one of: set, image; got images"):
        unwrap(set_threshold)(explained, 0.1, "images")
    with pytest.raises(InputError, match="`compat` must be one of: exact, waiou2023; got waiou"):
        unwrap(binarise)(explained.heatmap, torch.ones(6), "waiou")
