import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from torch import inf, nan

from candlelight.evaluation.coverage.causal_effects import (
    causal_effects,
    rank_agreement,
    region_density,
    region_hits,
    region_share,
)
from tests.refusals import refused


def softmax(logits):
    weights = [math.exp(value) for value in logits]
    return [weight / sum(weights) for weight in weights]


def test_effects_are_those_of_the_class_predicted_on_the_original():
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    changed = torch.tensor([[[0.0, 1.0, 5.0], [0.0, 3.0, 1.0], [0.0, 2.0, 1.0]]])
    torch.testing.assert_close(causal_effects(logits, changed, "logit"), torch.tensor([[-1.0, 1.0, 0.0]]))
    before = softmax([0, 2, 1])[1]
    expected = [softmax(row)[1] - before for row in changed[0].tolist()]
    torch.testing.assert_close(causal_effects(logits, changed), torch.tensor([expected]))
    assert expected[0] < 0 < expected[1]


def test_logits_that_are_not_finite_leave_their_effects_alone_undefined():
    changed = torch.tensor([[[nan, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
    found = causal_effects(torch.tensor([[1.0, 0.0], [0.0, inf]]), changed)
    assert found.isnan().tolist() == [[True, False], [True, True]]


def test_density_and_share_equal_loops():
    generator = torch.Generator().manual_seed(1)
    heatmap = torch.rand(3, 5, 6, generator=generator)
    regions = torch.rand(3, 4, 5, 6, generator=generator) > 0.6
    marked = torch.rand(3, 5, 6, generator=generator) > 0.7
    density, share = region_density(heatmap, regions), region_share(marked, regions)
    for image in range(3):
        above = heatmap[image].numpy() - heatmap[image].numpy().min()
        for number in range(4):
            inside = regions[image, number].numpy()
            assert float(density[image, number]) == pytest.approx(
                above[inside].mean() / above.mean(), rel=1e-5
            )
            points = marked[image].numpy()
            assert float(share[image, number]) == pytest.approx((points & inside).sum() / points.sum())


def test_density_does_not_depend_on_area_scale_or_offset():
    heatmap = torch.zeros(1, 4, 8)
    heatmap[0, :, :4] = 1.0
    regions = torch.zeros(1, 3, 4, 8, dtype=torch.bool)
    regions[0, 0, 0, 0] = regions[0, 1, :, :4] = regions[0, 2, :, 4:] = True
    for one in (heatmap, 7 * heatmap - 3):
        torch.testing.assert_close(region_density(one, regions), torch.tensor([[2.0, 2.0, 0.0]]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=8))
def test_agreement_equals_scipy_with_ties(pairs):
    density, effect = (torch.tensor(column, dtype=torch.float64)[None] for column in zip(*pairs, strict=True))
    found = float(rank_agreement(density, effect))
    if len(density.unique()) == 1 or len(effect.abs().unique()) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(density[0], effect[0].abs()).statistic, abs=1e-12)


def test_regions_without_density_or_effect_take_no_part():
    density = torch.tensor([[nan, 1.0, 2.0, 9.0], [0.0, 1.0, 2.0, 9.0]])
    effect = torch.tensor([[9.0, 0.1, -0.2, nan], [9.0, 0.1, -0.2, 0.3]])
    assert rank_agreement(density, effect).tolist() == pytest.approx(
        [1.0, spearmanr([0, 1, 2, 9], [9, 1, 2, 3])[0]]
    )
    hits = region_hits(density, effect)
    assert hits.hit.tolist() == [1.0, 0.0]
    assert hits.chance.tolist() == [0.5, 0.25]


CASES = {
    "no region": ([nan, nan], [nan, nan], nan, nan, nan),
    "equal densities": ([1.0, 1.0, 1.0, 1.0], [0.0, 0.1, 0.2, 0.3], nan, 0.25, 0.25),
    "two densest": ([1.0, 2.0, 2.0], [0.0, 0.1, 0.2], None, 0.5, 1 / 3),
    "two strongest": ([1.0, 2.0, 0.0], [0.2, 0.2, 0.0], None, 1.0, 2 / 3),
}


@pytest.mark.parametrize("case", CASES)
def test_ties_and_undefined_scores(case):
    density, effect, agreement, hit, chance = CASES[case]
    given = torch.tensor([density]), torch.tensor([effect])
    found = region_hits(*given)
    assert [float(found.hit), float(found.chance)] == pytest.approx([hit, chance], nan_ok=True)
    if agreement is not None:
        assert math.isnan(float(rank_agreement(*given)))


def test_a_random_order_hits_as_often_as_chance_says():
    rng = np.random.default_rng(0)
    density = torch.from_numpy(rng.random((4000, 5)))
    hits = region_hits(density, torch.from_numpy(rng.random((4000, 5))))
    assert float(hits.chance.mean()) == pytest.approx(0.2)
    assert float(hits.hit.mean()) == pytest.approx(0.2, abs=0.02)


def test_refused_arguments():
    with refused("`scale` must be one of"):
        causal_effects(torch.zeros(1, 2), torch.zeros(1, 1, 2), "logits")
    with refused(r"expected `heatmap` \[images, height, width\]"):
        region_density(torch.zeros(1, 2, 2), torch.ones(1, 1, 2, 3).bool())
