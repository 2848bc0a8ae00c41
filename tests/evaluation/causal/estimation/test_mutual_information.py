import math
from inspect import unwrap

import numpy as np
import pytest
import torch
from sklearn.metrics import mutual_info_score

import candlelight.evaluation.causal.information as module
from candlelight.evaluation.causal.information import entropy, mutual_information_matrix
from candlelight.loaders.errors import InputError


def _drawn(samples=70, sizes=(2, 5, 9), columns=6):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=samples) for size in sizes], axis=1)
    mixed = np.stack([factors @ rng.integers(0, 3, len(sizes)) for _ in range(columns)], axis=1)
    return torch.from_numpy(mixed), torch.from_numpy(factors)


@pytest.mark.parametrize("cells", [1, 60, 2**22])
def test_equals_loops(cells, monkeypatch):
    monkeypatch.setattr(module, "_CELLS", cells)
    codes, factors = _drawn()
    expected = [[mutual_info_score(code, factor) for factor in factors.T] for code in codes.T]
    np.testing.assert_allclose(mutual_information_matrix(codes, factors), expected, atol=1e-12)


def test_names_of_classes_do_not_matter():
    codes, factors = _drawn()
    renamed = mutual_information_matrix(-1000 * codes, 10**9 * factors - 7)
    torch.testing.assert_close(renamed, mutual_information_matrix(codes, factors))


def test_entropy_of_one_class_and_of_equal_classes():
    classes = torch.stack([torch.zeros(12), torch.arange(12) % 4, torch.arange(12)], dim=1).long()
    np.testing.assert_allclose(entropy(classes), [0, math.log(4), math.log(12)])
    np.testing.assert_allclose(mutual_information_matrix(classes, classes).diagonal(), entropy(classes))


def test_independent_columns_have_exactly_no_information():
    grid = torch.cartesian_prod(torch.arange(3), torch.arange(7), torch.arange(11))
    information = mutual_information_matrix(grid, grid)
    assert (information - information.diagonal().diag() == 0).all()


def test_no_columns():
    codes, factors = _drawn()
    assert mutual_information_matrix(codes[:, :0], factors).shape == (0, 3)
    assert mutual_information_matrix(codes, factors[:, :0]).shape == (6, 0)
    assert entropy(codes[:, :0]).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (torch.rand(4, 1), torch.ones(4, 1).long()),
            "`codes` must be class numbers, got torch.float32; call",
        ),
        ((torch.ones(4, 1).long(), torch.rand(4, 1)), "`factors` must be class numbers"),
        ((torch.ones(0, 1).long(), torch.ones(0, 1).long()), "`codes` needs at least one sample, got none"),
        ((torch.ones(4, 1).long(), torch.ones(3, 1).long()), r"got \[4, 1\], \[3, 1\]"),
    ],
)
def test_refused_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        unwrap(mutual_information_matrix)(*arguments)


def test_entropy_refuses_floats_and_no_samples():
    with pytest.raises(InputError, match="`classes` must be class numbers"):
        unwrap(entropy)(torch.rand(3, 1))
    with pytest.raises(InputError, match="`classes` needs at least one sample"):
        entropy(torch.zeros(0, 1).long())
