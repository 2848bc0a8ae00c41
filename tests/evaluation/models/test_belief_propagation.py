from itertools import product

import numpy as np
import pytest

from candlelight.evaluation.models.tap05 import propagate_beliefs


def exact_log_odds(evidence: np.ndarray, agreements: list[np.ndarray]) -> np.ndarray:
    """Sum the probability of all labellings."""
    totals = np.zeros((2, *evidence.shape))
    for bits in product((0, 1), repeat=evidence.size):
        labels = np.array(bits).reshape(evidence.shape)
        probability = np.exp((evidence * labels).sum())
        for place in np.ndindex(evidence.shape):
            for axis, agreement in enumerate(agreements):
                before = tuple(p - (a == axis) for a, p in enumerate(place))
                if min(before) >= 0:
                    equal = labels[place] == labels[before]
                    probability *= agreement[place] if equal else 1 - agreement[place]
        totals[0][labels == 0] += probability
        totals[1][labels == 1] += probability
    return np.log(totals[1] / totals[0])


@pytest.mark.parametrize(("shape", "damping"), [((1, 7), 0.0), ((7, 1), 0.5), ((1, 1, 6), 0.5)])
def test_chain_has_exact_marginals(shape: tuple[int, ...], damping: float) -> None:
    rng = np.random.default_rng(0)
    evidence = rng.normal(0, 2, shape)
    agreements = [rng.uniform(0.05, 0.95, shape) for _ in shape]
    found = propagate_beliefs(evidence, agreements, sweeps=100, damping=damping)
    np.testing.assert_allclose(found, exact_log_odds(evidence, agreements), atol=1e-9)


def test_comb_has_exact_marginals() -> None:
    # Rows are joined by the first column alone: a tree with branches.
    rng = np.random.default_rng(0)
    evidence = rng.normal(0, 2, (3, 4))
    agreements = [np.full((3, 4), 0.5), rng.uniform(0.6, 0.95, (3, 4))]
    agreements[0][:, 0] = 0.8
    found = propagate_beliefs(evidence, agreements, sweeps=100)
    np.testing.assert_allclose(found, exact_log_odds(evidence, agreements), atol=1e-9)


def test_loops_count_evidence_twice() -> None:
    evidence, agreements = np.array([[1.0, 1.0], [1.0, 1.0]]), [np.full((2, 2), 0.8)] * 2
    found, exact = propagate_beliefs(evidence, agreements, 200), exact_log_odds(evidence, agreements)
    assert (found > exact + 0.1).all()
    assert (exact > 1).all()


def test_a_sweep_moves_evidence_by_one_node() -> None:
    evidence = np.zeros((1, 6))
    evidence[0, 0] = 3.0
    found = propagate_beliefs(evidence, [np.full((1, 6), 0.9)] * 2, sweeps=2)
    assert (found[0, :3] > 0).all()
    assert (found[0, 3:] == 0).all()


def test_values_before_the_first_node_are_not_read() -> None:
    agreements = [np.full((2, 3), 0.7), np.full((2, 3), 0.7)]
    changed = [agreement.copy() for agreement in agreements]
    changed[0][0], changed[1][:, 0] = np.nan, np.nan
    evidence = np.random.default_rng(0).normal(size=(2, 3))
    np.testing.assert_array_equal(
        propagate_beliefs(evidence, agreements), propagate_beliefs(evidence, changed)
    )


def test_certain_evidence_stays_finite() -> None:
    found = propagate_beliefs(np.array([[1e3, -1e3, 0.0]]), [np.full((1, 3), 1 - 1e-9)] * 2)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("shape", [(1, 1), (0, 3)], ids=str)
def test_grid_without_neighbours(shape: tuple[int, int]) -> None:
    evidence = np.full(shape, 0.3)
    np.testing.assert_array_equal(propagate_beliefs(evidence, [np.full(shape, 0.9)] * 2), evidence)
