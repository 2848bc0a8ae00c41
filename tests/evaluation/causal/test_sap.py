import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from candlelight.evaluation.causal.prediction_scores import sap
from candlelight.loaders.errors import InputError

GRID = torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(2)).repeat(4, 1)


def _drawn(samples=60, codes=4):
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=samples) for size in (2, 4)], axis=1)
    return factors @ rng.normal(size=(2, codes)) + 0.5 * rng.normal(size=(samples, codes)), factors


def _slow_accuracy(codes, factor, training):
    """Fit each code with scikit-learn, after its own standardising."""
    found = []
    for code in codes.T[:, :, None]:
        scaled = StandardScaler().fit(code[training]).transform(code)
        machine = LinearSVC(C=0.01, class_weight="balanced", dual=False).fit(
            scaled[training], factor[training]
        )
        found.append(machine.score(scaled[~training], factor[~training]))
    return found


def test_classes_equal_loops():
    codes, factors = _drawn()
    training = np.arange(60) % 3 > 0
    result = sap(torch.from_numpy(codes), torch.from_numpy(factors), torch.from_numpy(training))
    expected = np.stack([_slow_accuracy(codes, factor, training) for factor in factors.T], axis=1)
    np.testing.assert_allclose(result.predictability, expected)
    ordered = np.sort(expected, axis=0)
    np.testing.assert_allclose(result.gaps, ordered[-1] - ordered[-2])
    np.testing.assert_allclose(result.score, (ordered[-1] - ordered[-2]).mean())


def test_numbers_equal_loops():
    codes, factors = _drawn()
    result = sap(torch.from_numpy(codes), torch.from_numpy(factors).double())
    expected = [
        [LinearRegression().fit(code[:, None], factor).score(code[:, None], factor) for factor in factors.T]
        for code in codes.T
    ]
    np.testing.assert_allclose(result.predictability, expected, atol=1e-12)


def test_both_kinds_of_factors():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    mixed = sap(codes, factors.double(), categorical=[1]).predictability
    torch.testing.assert_close(mixed[:, 0], sap(codes, factors.double()).predictability[:, 0])
    torch.testing.assert_close(mixed[:, 1], sap(codes, factors).predictability[:, 1])


def test_numbers_as_codes_score_one_and_duplicates_zero():
    codes = GRID.double()
    np.testing.assert_allclose(sap(codes, codes).score, 1)
    np.testing.assert_allclose(sap(codes[:, [0, 0, 1, 2]], codes).gaps, [0, 1, 1], atol=1e-12)


def test_classes_as_codes_gain_over_chance():
    # The other codes know nothing: their accuracy is the share of the class that they choose.
    many = GRID.repeat(50, 1)
    np.testing.assert_allclose(sap(many.double(), many).gaps, [2 / 3, 1 / 2, 1 / 2])
    np.testing.assert_allclose(sap(many.double()[:, :1], many[:, :1]).gaps, [1])


def test_a_line_cannot_separate_five_classes():
    five = torch.arange(5).repeat(500)[:, None]
    assert 0.5 < float(sap(five.double(), five).score) < 1


def test_noise_has_a_small_gap():
    rng = np.random.default_rng(0)
    codes, factors = (
        torch.from_numpy(rng.normal(size=(1000, 3))),
        torch.from_numpy(rng.normal(size=(1000, 2))),
    )
    assert 0 < float(sap(codes, factors).score) < 0.01


def test_order_scale_and_names_do_not_matter():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    for kind in (torch.int64, torch.float64):
        renamed = sap(1e-6 * codes[rows].flip(1) + 3, (9 + 2 * factors[rows]).to(kind))
        torch.testing.assert_close(renamed.gaps, sap(codes, factors.to(kind)).gaps)


def test_constant_codes_and_factors():
    codes, factors = (torch.from_numpy(part) for part in _drawn())
    codes[:, 1] = 0.3
    factors = torch.cat([factors, 0 * factors[:, :1]], dim=1)
    for kind in (torch.int64, torch.float64):
        result = sap(codes, factors.to(kind))
        assert result.predictability[1, :2].tolist() == [0, 0]
        assert result.gaps.isnan().tolist() == [False, False, True]
        torch.testing.assert_close(result.score, result.gaps[:2].mean())


@pytest.mark.parametrize(
    ("codes", "factors", "options", "message"),
    [
        (torch.rand(1, 2), torch.ones(1, 1), {}, "at least 1 of the factors must vary among the 1 samples"),
        (torch.full((2, 1), torch.nan), torch.arange(2)[:, None], {}, "`codes` must be finite"),
        (
            torch.rand(2, 1),
            torch.arange(2)[:, None],
            {"categorical": [-1]},
            "`categorical` must list columns",
        ),
        (
            torch.rand(2, 1),
            torch.arange(2)[:, None],
            {"training": torch.tensor([True, False])},
            "no factor varies both among the 1 rows of `training` and the 1 others",
        ),
    ],
)
def test_refused_arguments(codes, factors, options, message):
    with pytest.raises(InputError, match=message):
        sap(codes, factors, **options)
