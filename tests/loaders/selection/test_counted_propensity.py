import numpy as np
import pytest
from scipy.stats import chisquare

from candlelight.loaders.errors import InputError
from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.selection.confounding import ConditionalTable, select_by_tables
from candlelight.loaders.selection.counted_propensity import counted_inverse_propensity
from candlelight.loaders.selection.factor_index import FactorIndex

FULL = FactorIndex.of(FactorSpace(("a", "b", "c"), ((0, 1), (0, 1, 2), tuple(range(50)))))
TABLE = ConditionalTable("a", {0: {0: 3, 1: 1}, 1: [2]}, strength=0.7)
SELECTED = FULL.select(select_by_tables(FULL, {"b": TABLE}, 0).rows)


def joint(index: FactorIndex, weights=None) -> np.ndarray:
    positions = index.positions(np.arange(len(index)))
    return np.bincount(positions[:, 0] * 3 + positions[:, 1], weights, minlength=6).reshape(2, 3)


def test_weights_make_the_factor_independent_and_keep_the_others():
    counted = joint(SELECTED)
    assert counted.std(axis=1).min() > 1  # confounded
    weighted = joint(SELECTED, counted_inverse_propensity(SELECTED, "b", ["a"]))
    np.testing.assert_allclose(weighted, np.tile(counted.sum(axis=1, keepdims=True) / 3, 3))
    assert counted_inverse_propensity(SELECTED, "b", ["a"]).mean() == pytest.approx(1)


def test_without_parents_the_values_are_balanced():
    weighted = joint(SELECTED, counted_inverse_propensity(SELECTED, "b", [])).sum(axis=0)
    np.testing.assert_allclose(weighted, len(SELECTED) / 3)


def test_a_weighted_draw_is_not_confounded():
    weights = counted_inverse_propensity(SELECTED, "b", ["a"])
    rows = np.random.default_rng(0).choice(len(SELECTED), 60_000, p=weights / len(weights))
    drawn = joint(SELECTED.select(rows))
    for row in drawn:
        assert chisquare(row).pvalue > 1e-4
    plain = joint(SELECTED.select(SELECTED.sample(60_000, np.random.default_rng(0))))
    assert max(chisquare(row).pvalue for row in plain) < 1e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: counted_inverse_propensity(FULL.select(np.arange(250)), "b", ["a"]),
            "`b` is never 2 where a=1; without positivity",
        ),
        (
            lambda: counted_inverse_propensity(FULL.select(np.arange(50)), "b", []),
            "`b` is never 1; without positivity",
        ),
        (lambda: counted_inverse_propensity(FULL, "d", []), "factor `d` is not in this set"),
    ],
)
def test_failed_positivity_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
