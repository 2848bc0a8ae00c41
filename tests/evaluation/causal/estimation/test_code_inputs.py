from inspect import unwrap

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from candlelight.evaluation.causal import irs, mcc
from candlelight.evaluation.causal.code_inputs import split_samples, standardise
from candlelight.loaders.errors import InputError


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
    with pytest.raises(InputError, match=message):
        unwrap(split_samples)(training, torch.arange(3)[:, None])


def test_metrics_take_numpy_arrays():
    factors = torch.cartesian_prod(torch.arange(3), torch.arange(4)).repeat(5, 1)
    codes = factors.double() @ torch.tensor([[1.0, 0.3], [0.0, 1.0]]).double()
    half = torch.arange(len(codes)) % 2 == 0
    assert float(irs(codes.numpy(), factors.numpy()).score) == float(irs(codes, factors).score)
    arrays = mcc(codes.numpy(), factors.numpy(), training=half.numpy())
    assert torch.equal(arrays.matrix, mcc(codes, factors, training=half).matrix)
