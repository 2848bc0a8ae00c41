import numpy as np
import pytest
from scipy.stats import chisquare

from loaders.errors import InputError
from loaders.factors import FactorSpace
from loaders.selection.confounding import Table, select_by_tables
from loaders.selection.factor_index import FactorIndex
from loaders.selection.propensity import draw_weighted, inverse_propensity

FULL = FactorIndex.of(FactorSpace(("a", "b", "c"), ((0, 1), (0, 1, 2), tuple(range(50)))))
TABLE = Table("a", {0: {0: 3, 1: 1}, 1: [2]}, strength=0.7)
SELECTED = FULL.select(select_by_tables(FULL, {"b": TABLE}, 0).rows)


def joint(index: FactorIndex, weights=None) -> np.ndarray:
    positions = index.positions(np.arange(len(index)))
    return np.bincount(positions[:, 0] * 3 + positions[:, 1], weights, minlength=6).reshape(2, 3)


def test_weights_make_the_factor_independent_and_keep_the_others():
    counted = joint(SELECTED)
    assert counted.std(axis=1).min() > 1  # confounded
    weighted = joint(SELECTED, inverse_propensity(SELECTED, "b", ["a"]))
    np.testing.assert_allclose(weighted, np.tile(counted.sum(axis=1, keepdims=True) / 3, 3))
    assert inverse_propensity(SELECTED, "b", ["a"]).mean() == pytest.approx(1)


def test_given_nothing_the_values_are_balanced():
    weighted = joint(SELECTED, inverse_propensity(SELECTED, "b", [])).sum(axis=0)
    np.testing.assert_allclose(weighted, len(SELECTED) / 3)


def test_a_weighted_draw_is_uniform_against_the_confounding():
    rows = draw_weighted(inverse_propensity(SELECTED, "b", ["a"]), 60_000, np.random.default_rng(0))
    drawn = joint(SELECTED.select(rows))
    for row in drawn:
        assert chisquare(row).pvalue > 1e-4
    plain = joint(SELECTED.select(SELECTED.sample(60_000, np.random.default_rng(0))))
    assert max(chisquare(row).pvalue for row in plain) < 1e-4


def test_draws_follow_their_weights():
    weights = np.array([0, 1.0, 0, 5, 2, 0])
    counts = np.bincount(draw_weighted(weights, 30_000, np.random.default_rng(1)), minlength=6)
    assert counts[weights == 0].sum() == 0
    assert chisquare(counts[weights > 0], weights[weights > 0] / 8 * 30_000).pvalue > 1e-4
    assert draw_weighted(weights, 6, np.random.default_rng(1)).tolist() == [3, 1, 3, 4, 3, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: inverse_propensity(FULL.select(np.arange(250)), "b", ["a"]),
            "`b` does not take all of its 3 values where a=1; without positivity",
        ),
        (lambda: inverse_propensity(FULL.select(np.arange(50)), "b", []), "all of its 3 values; without"),
        (lambda: inverse_propensity(FULL, "d", []), "factor `d` is not in this set"),
        (lambda: draw_weighted(np.array([1.0, -1]), 1, np.random.default_rng(0)), "weights: expected finite"),
        (lambda: draw_weighted(np.zeros(2), 1, np.random.default_rng(0)), "weights: expected finite"),
        (lambda: draw_weighted(np.array([np.inf]), 1, np.random.default_rng(0)), "weights: expected finite"),
        (lambda: draw_weighted(np.zeros(0), 1, np.random.default_rng(0)), "weights: expected finite"),
    ],
)
def test_errors(call, message):
    with pytest.raises(InputError, match=message):
        call()
