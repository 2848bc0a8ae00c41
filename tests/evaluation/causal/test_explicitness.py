import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch.nn.functional import one_hot

from candlelight.evaluation.causal.code_inputs import discretise
from candlelight.evaluation.causal.prediction_scores import explicitness
from candlelight.loaders.errors import InputError

GRID = torch.cartesian_prod(torch.arange(3), torch.arange(2)).repeat(4, 1)


def _drawn(samples=60, codes=4):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=samples) for size in (2, 4)], axis=1)
    return factors @ rng.normal(size=(2, codes)) + rng.normal(size=(samples, codes)), factors


def test_equals_loops_out_of_sample():
    codes, factors = _drawn()
    training = np.arange(60) % 3 > 0
    result = explicitness(*map(torch.from_numpy, (codes, factors)), training=torch.from_numpy(training))
    scaled = StandardScaler().fit(codes[training]).transform(codes)
    means = []
    for column, areas in zip(factors.T, result.areas, strict=True):
        expected = []
        for value in np.unique(column):
            model = LogisticRegression(max_iter=1000).fit(scaled[training], column[training] == value)
            scores = model.decision_function(scaled[~training])
            expected.append(roc_auc_score(column[~training] == value, scores))
        np.testing.assert_allclose(areas, expected)
        means.append(2 * np.mean(expected) - 1)
    np.testing.assert_allclose(result.per_factor, means)
    np.testing.assert_allclose(result.score, np.mean(means))


def test_one_hot_codes_score_one_and_duplicates_too():
    codes = torch.cat([one_hot(column) for column in GRID.unbind(1)], dim=1).double()
    assert float(explicitness(codes, GRID).score) == 1
    assert float(explicitness(codes.repeat(1, 2), GRID).score) == 1


def test_noise_scores_zero_out_of_sample_only():
    rng = np.random.default_rng(0)
    codes, factors = (
        torch.from_numpy(rng.normal(size=(400, 60))),
        torch.from_numpy(rng.integers(0, 3, (400, 1))),
    )
    assert float(explicitness(codes, factors).score) > 0.3
    assert abs(float(explicitness(codes, factors, training=torch.arange(400) < 200).score)) < 0.1


def test_order_scale_and_names_do_not_matter():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    renamed = explicitness(-1000 * codes[rows].flip(1) + 3, 9 + 2 * factors[rows])
    torch.testing.assert_close(renamed.per_factor, explicitness(codes, factors).per_factor)


def test_continuous_factors_are_binned():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    found = explicitness(codes, factors.double() + 0.1 * codes[:, :2], 3, "quantile")
    classes = discretise(factors.double() + 0.1 * codes[:, :2], 3, "quantile")
    torch.testing.assert_close(found.per_factor, explicitness(codes, classes).per_factor)


def test_a_class_without_rows_to_fit_or_to_score_does_not_count():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    training = torch.arange(60) < 40
    factors[:2, 1], factors[-2:, 1] = 77, 99
    areas = explicitness(codes, factors, training=training).areas[1]
    assert areas.isnan().tolist() == [False] * 4 + [True, True]


def test_constant_codes_and_factors():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    result = explicitness(0 * codes, torch.cat([factors, 0 * factors[:, :1]], dim=1))
    assert result.per_factor.nan_to_num(9).tolist() == [0, 0, 9]
    assert float(result.score) == 0


@pytest.mark.parametrize(
    ("codes", "factors", "message"),
    [
        (torch.rand(1, 2), torch.ones(1, 1), "at least 1 of the factors must vary among the 1 samples"),
        (torch.full((2, 1), torch.inf), torch.arange(2)[:, None], "`codes` must be finite"),
        (torch.rand(4, 2), torch.rand(4, 1), "`bins` must be 2 to 4, the number of samples, got 20"),
    ],
)
def test_refused_arguments(codes, factors, message):
    with pytest.raises(InputError, match=message):
        explicitness(codes, factors)
