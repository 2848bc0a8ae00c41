import numpy as np
import pytest
import torch
from scipy.stats import norm

from candlelight.evaluation.causal.prediction_scores import t_mex
from tests.refusals import refused

EXCLUSIVE = torch.eye(3, dtype=torch.bool)


def _chain(samples, seed, noise=1.0):
    """Draw three factors, each of which depends on the one before."""
    rng = np.random.default_rng(seed)
    factors = noise * rng.normal(size=(samples, 3))
    for column in (1, 2):
        factors[:, column] += factors[:, column - 1]
    return torch.from_numpy(factors), torch.from_numpy(rng.normal(size=(samples, 3)))


def _slow(codes, factors):
    """Compute p-values with least squares by numpy for each pair."""
    p_values = np.empty((codes.shape[1], factors.shape[1]))
    for column, factor in enumerate(factors.T):
        others = np.column_stack([np.ones(len(factors)), np.delete(factors, column, axis=1)])
        for row, code in enumerate(codes.T):
            both = [y - others @ np.linalg.lstsq(others, y, rcond=None)[0] for y in (code, factor)]
            products = both[0] * both[1]
            p_values[row, column] = 2 * norm.sf(np.sqrt(len(code)) * abs(products.mean()) / products.std())
    return p_values


def test_equals_loops():
    factors, noise = _chain(40, 0)
    codes = factors[:, [1, 0]] + noise[:, :2]
    result = t_mex(codes, factors, EXCLUSIVE[[1, 0]])
    expected = _slow(codes.numpy(), factors.numpy())
    np.testing.assert_allclose(result.p_values, expected)
    assert result.decisions.tolist() == (expected < 0.05).tolist()
    assert int(result.score) == ((expected < 0.05) != EXCLUSIVE[[1, 0]].numpy()).sum()


@pytest.mark.parametrize("regression", ["linear", "kernel"])
def test_exclusive_codes_of_dependent_factors_agree(regression):
    factors, noise = _chain(200, 0)
    result = t_mex(factors + 0.3 * noise, factors, EXCLUSIVE, regression)
    assert int(result.score) == 0
    assert result.decisions.equal(EXCLUSIVE)
    # The factors themselves are determined, not only predicted, by the factors that are held fixed.
    assert int(t_mex(2 * factors - 5, factors, EXCLUSIVE).score) == 0


def test_disagreements_are_counted_by_entry():
    factors, noise = _chain(400, 1)
    codes = factors + 0.3 * noise
    assert int(t_mex(codes[:, [1, 0, 2]], factors, EXCLUSIVE).score) == 4
    assert int(t_mex(codes[:, [1, 0, 2]], factors, EXCLUSIVE[[1, 0, 2]]).score) == 0
    codes[:, 2] += codes[:, 0]
    assert int(t_mex(codes, factors, EXCLUSIVE).score) == 1
    assert int(t_mex(codes, factors, EXCLUSIVE, alpha=1e-12).score) == 1
    assert int(t_mex(0 * codes, factors, EXCLUSIVE).score) == 3


def test_level_and_power():
    rejected = []
    for seed in range(150):
        factors, noise = _chain(100, seed)
        rejected.append(t_mex(0.5 * factors + noise, factors, EXCLUSIVE).decisions)
    share = torch.stack(rejected).double().mean(0)
    assert 0.035 < float(share[~EXCLUSIVE].mean()) < 0.07
    assert float(share[EXCLUSIVE].min()) > 0.9


def test_a_curve_needs_the_kernel():
    linear, kernel = [], []
    for seed in range(8):
        factors, noise = _chain(150, seed)
        factors[:, 1] = factors[:, 0].square() + 0.5 * noise[:, 0]
        codes = torch.stack([factors[:, 0].square() + 0.5 * noise[:, 1], factors[:, 1]], dim=1)
        graph = torch.tensor([[True, False], [False, True]])
        # Factor 0 drives factor 1 and code 0, which do not depend on each other otherwise.
        linear.append(t_mex(codes, factors[:, :2], graph).decisions[0, 1])
        kernel.append(t_mex(codes, factors[:, :2], graph, "kernel").decisions[0, 1])
    assert sum(map(int, linear)) >= 7
    assert sum(map(int, kernel)) <= 2


def test_a_single_factor_is_tested_without_others():
    factors, noise = _chain(100, 0)
    result = t_mex(
        torch.cat([factors[:, :1] + noise[:, :1], noise[:, 1:2]], 1), factors[:, :1], EXCLUSIVE[:2, :1]
    )
    assert result.decisions.flatten().tolist() == [True, False]
    for regression in ("linear", "kernel"):
        assert int(t_mex(factors[:, :1], factors[:, :1], EXCLUSIVE[:1, :1], regression).score) == 0


def test_a_constant_factor_has_no_p_value_and_no_decision():
    factors, noise = _chain(60, 3)
    more = torch.cat([0 * factors[:, :1] + 0.1, factors], 1)
    graph = torch.cat([EXCLUSIVE[:, :1], EXCLUSIVE], 1)
    result = t_mex(factors + noise, more, graph)
    assert result.p_values.isnan().any(0).tolist() == [True, False, False, False]
    assert not result.decisions[:, 0].any()
    assert int(result.score) == int(t_mex(factors + noise, factors, EXCLUSIVE).score)


def test_determined_factors_are_independent_of_codes():
    factors, noise = _chain(60, 0)
    factors[:, 2] = factors[:, 0] + factors[:, 1]
    assert t_mex(factors + noise, factors, EXCLUSIVE).p_values.eq(1).all()
    # As many samples as factors leave no residuals.
    assert t_mex(noise[:3], factors[:3] + noise[3:6], EXCLUSIVE).p_values.eq(1).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"graph": torch.eye(3)}, "`graph` must be boolean, got torch.float32"),
        ({"graph": EXCLUSIVE[:2]}, r"`graph` \[codes, factors\], got \[5, 3\], \[5, 3\], \[2, 3\]"),
        ({"alpha": 1}, "`alpha` must lie between 0 and 1, got 1"),
        ({"regression": "forest"}, "`regression` must be one of: linear"),
    ],
)
def test_refused_arguments(changed, message):
    given = {"codes": torch.rand(5, 3), "factors": torch.rand(5, 3), "graph": EXCLUSIVE, **changed}
    with refused(message):
        t_mex(**given)
