"""Standardised codes, discretised values, ranks and areas, against numpy, scipy and scikit-learn."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from candlelight.evaluation.causal.code_inputs import (
    area_under_roc,
    discretise,
    mean_ranks,
    split_samples,
    standardise,
)
from tests.refusals import refused


def test_standardise_equals_scikit_learn():
    rng = np.random.default_rng(0)
    values, others = 1e6 + rng.normal(size=(30, 3)), 1e6 + rng.normal(size=(7, 3))
    scaler = StandardScaler().fit(values)
    table = torch.from_numpy(values)
    np.testing.assert_allclose(standardise(table), scaler.transform(values), atol=1e-8)
    np.testing.assert_allclose(
        standardise(torch.from_numpy(others), table), scaler.transform(others), atol=1e-8
    )


def test_constant_columns_become_zero():
    constant = torch.full((7, 1), 0.1)
    assert standardise(constant).abs().max() == 0
    # A column that is constant among the rows to fit on tells nothing about other rows.
    assert standardise(torch.rand(3, 1), constant).abs().max() == 0


def test_factors_must_vary_in_both_parts():
    training = torch.tensor([True, True, False, False])
    factors = torch.tensor([[0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1]])
    fitted, scored, varies = split_samples(training, factors)
    assert (fitted.tolist(), scored.tolist(), varies.tolist()) == ([0, 1], [2, 3], [True, False, False])


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (torch.tensor([1, 0, 0]), "`training` must be boolean, got torch.int64"),
        (torch.tensor([True, False]), r"got \[2\], \[3, 1\]"),
        (torch.tensor([True] * 3), "no factor varies both among the 3 rows of `training` and the 0 others"),
        (torch.tensor([True, True, False]), "among the 2 rows of `training` and the 1 others"),
    ],
)
def test_refused_training(training, message):
    with refused(message):
        split_samples(training, torch.arange(3)[:, None])


NUMBERS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=30)


@settings(max_examples=50)
@given(NUMBERS, st.data())
def test_equal_width_is_that_of_numpy(values, data):
    bins = data.draw(st.integers(2, len(values)))
    column = torch.tensor(values, dtype=torch.float64)
    found = discretise(column[:, None], bins)[:, 0]
    edges = np.linspace(min(values), max(values), bins + 1)
    assert found.tolist() == (np.digitize(values, edges[:-1]) - 1).tolist()
    if column.min() < column.max():
        counts = np.histogram(column.numpy(), edges)[0]
        assert torch.bincount(found, minlength=bins).tolist() == counts.tolist()


@settings(max_examples=50)
@given(NUMBERS, st.data())
def test_quantiles_equal_loops(values, data):
    bins = data.draw(st.integers(2, len(values)))
    found = discretise(torch.tensor(values, dtype=torch.float64)[:, None], bins, "quantile")[:, 0]
    below = [sum(other < value for other in values) for value in values]
    assert found.tolist() == [count * bins // len(values) for count in below]


def test_classes_are_numbered_in_order_and_need_no_bins():
    classes = torch.tensor([[30, -1], [7, -1], [30, 5]])
    assert discretise(classes, bins=999).tolist() == [[1, 0], [0, 0], [1, 1]]
    mixed = torch.tensor([[3.0, 0.0], [1.5, 0.9], [3.0, 1.0]])
    assert discretise(mixed, 2, categorical=[0]).tolist() == [[1, 0], [0, 1], [1, 1]]


def test_a_constant_column_is_one_class():
    for rule in ("width", "quantile"):
        assert len(discretise(torch.full((6, 1), 0.3), 3, rule).unique()) == 1


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (torch.rand(6, 2), {"bins": 1}, "`bins` must be 2 to 6, the number of samples, got 1"),
        (torch.rand(6, 2), {"bins": 7}, "`bins` must be 2 to 6, the number of samples, got 7"),
        (torch.rand(0, 2), {"bins": 2}, "`bins` must be 2 to 0"),
        (torch.tensor([[0.0], [torch.nan]]), {"bins": 2}, "`values` must be finite"),
        (torch.rand(6, 2), {"categorical": [2]}, "`categorical` must list columns from 0 to 1, got 2"),
        (torch.rand(6, 2), {"categorical": [-1]}, "`categorical` must list columns from 0 to 1, got -1"),
        (torch.rand(6, 2), {"rule": "widht"}, "`rule` must be one of: width, quantile; got widht"),
        (torch.rand(6), {}, r"expected `values` \[samples, columns\], got \[6\]"),
    ],
)
def test_values_that_are_not_discretised(values, options, message):
    with refused(message):
        discretise(values, **options)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_ranks_equal_scipy(values):
    column = torch.tensor(values)
    assert mean_ranks(torch.stack([column, -column], dim=1)).T.tolist() == [
        rankdata(values).tolist(),
        rankdata([-value for value in values]).tolist(),
    ]


def test_areas_equal_scikit_learn():
    rng = np.random.default_rng(0)
    scores, members = rng.integers(0, 6, (40, 3)), rng.random((40, 3)) < 0.4
    expected = [roc_auc_score(*pair) for pair in zip(members.T, scores.T, strict=True)]
    np.testing.assert_allclose(area_under_roc(torch.from_numpy(scores), torch.from_numpy(members)), expected)


def test_area_without_members_or_others_is_nan():
    members = torch.tensor([[True, False], [True, False]])
    assert area_under_roc(torch.rand(2, 2), members).isnan().all()
