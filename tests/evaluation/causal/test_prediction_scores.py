"""SAP, explicitness, MCC and block R2 against scikit-learn, scipy, and closed forms."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch.nn.functional import one_hot

from candlelight.evaluation.causal.prediction_scores import block_r2, explicitness, mcc, sap
from tests.refusals import refused

TRAINING = np.arange(60) % 3 > 0
GRID = torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(2)).repeat(4, 1)


def _numbers(samples=60, codes=4):
    """Draw continuous factors, and codes with ties that are monotone in mixtures of them."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(samples, 3))
    mixed = factors @ rng.normal(size=(3, codes)) + 0.3 * rng.normal(size=(samples, codes))
    return torch.from_numpy(np.exp(mixed).round(1)), torch.from_numpy(factors)


def test_sap_of_classes_equals_support_vector_machines(draw_codes):
    codes, factors = draw_codes()
    result = sap(codes, factors, torch.from_numpy(TRAINING))
    expected = np.empty((4, 2))
    for (code, column), (number, factor) in itertools.product(enumerate(codes.T), enumerate(factors.T)):
        scaled = StandardScaler().fit(column[TRAINING, None]).transform(column[:, None])
        machine = LinearSVC(C=0.01, class_weight="balanced", dual=False)
        machine.fit(scaled[TRAINING], factor[TRAINING])
        expected[code, number] = machine.score(scaled[~TRAINING], factor[~TRAINING])
    np.testing.assert_allclose(result.predictability, expected)
    ordered = np.sort(expected, axis=0)
    np.testing.assert_allclose(result.gaps, ordered[-1] - ordered[-2])
    np.testing.assert_allclose(result.score, (ordered[-1] - ordered[-2]).mean())


def test_sap_of_numbers_equals_lines_and_tables_may_have_both(draw_codes):
    codes, factors = draw_codes()
    numbers = sap(codes, factors.double()).predictability
    expected = [
        [LinearRegression().fit(code, factor).score(code, factor) for factor in factors.numpy().T]
        for code in codes.numpy().T[:, :, None]
    ]
    np.testing.assert_allclose(numbers, expected, atol=1e-12)
    mixed = sap(codes, factors.double(), categorical=[1]).predictability
    torch.testing.assert_close(
        mixed, torch.stack([numbers[:, 0], sap(codes, factors).predictability[:, 1]], 1)
    )


def test_sap_of_duplicates_and_of_classes_over_chance():
    codes = GRID.double()
    np.testing.assert_allclose(sap(codes[:, [0, 0, 1, 2]], codes).gaps, [0, 1, 1], atol=1e-12)
    # The other codes know nothing: their accuracy is the share of the class that they choose.
    many = GRID.repeat(50, 1)
    np.testing.assert_allclose(sap(many.double(), many).gaps, [2 / 3, 1 / 2, 1 / 2])
    np.testing.assert_allclose(sap(many.double()[:, :1], many[:, :1]).gaps, [1])
    # A line cannot separate five classes.
    five = torch.arange(5).repeat(500)[:, None]
    assert 0.5 < float(sap(five.double(), five).score) < 1


def test_explicitness_equals_logistic_regressions(draw_codes):
    codes, factors = (part.numpy() for part in draw_codes())
    result = explicitness(*map(torch.from_numpy, (codes, factors)), training=torch.from_numpy(TRAINING))
    scaled = StandardScaler().fit(codes[TRAINING]).transform(codes)
    means = []
    for column, areas in zip(factors.T, result.areas, strict=True):
        expected = []
        for value in np.unique(column):
            model = LogisticRegression(max_iter=1000).fit(scaled[TRAINING], column[TRAINING] == value)
            scores = model.decision_function(scaled[~TRAINING])
            expected.append(roc_auc_score(column[~TRAINING] == value, scores))
        np.testing.assert_allclose(areas, [*expected, *[np.nan] * (len(areas) - len(expected))])
        means.append(2 * np.mean(expected) - 1)
    np.testing.assert_allclose(result.per_factor, means)
    np.testing.assert_allclose(result.score, np.mean(means))


def test_explicitness_of_one_hot_codes_is_one_with_duplicates_too():
    codes = torch.cat([one_hot(column) for column in GRID.unbind(1)], dim=1).double()
    assert float(explicitness(codes, GRID).score) == 1
    assert float(explicitness(codes.repeat(1, 2), GRID).score) == 1


def test_a_class_without_rows_to_fit_or_to_score_does_not_count(draw_codes):
    codes, factors = draw_codes()
    factors[:2, 1], factors[-2:, 1] = 77, 99
    areas = explicitness(codes, factors, training=torch.arange(60) < 40).areas[1]
    assert areas.isnan().tolist() == [False] * 4 + [True, True]


@pytest.mark.parametrize("correlation", ["pearson", "spearman"])
@pytest.mark.parametrize("split", [False, True])
def test_mcc_equals_the_best_of_all_assignments(correlation, split):
    codes, factors = _numbers()
    fitted = TRAINING if split else np.ones(60, dtype=bool)
    scored = ~TRAINING if split else fitted

    def one(rows, code, factor):
        pair = codes[rows, code], factors[rows, factor]
        return abs(spearmanr(*pair)[0] if correlation == "spearman" else np.corrcoef(*pair)[0, 1])

    best = max(
        itertools.permutations(range(4), 3),
        key=lambda order: sum(one(fitted, order[number], number) for number in range(3)),
    )
    result = mcc(codes, factors, correlation, torch.from_numpy(TRAINING) if split else None)
    assert tuple(result.assigned.tolist()) == best
    expected = [one(scored, best[number], number) for number in range(3)]
    np.testing.assert_allclose(result.per_factor, expected)
    np.testing.assert_allclose(result.score, np.mean(expected))


def test_mcc_of_duplicated_and_of_lacking_codes():
    factors = _numbers()[1]
    np.testing.assert_allclose(mcc(factors.repeat(1, 2), factors).score, 1)
    lacking = mcc(factors[:, 1:2], factors)
    np.testing.assert_allclose(lacking.per_factor, [0, 1, 0])
    assert lacking.assigned.tolist() == [-1, 0, -1]
    constant = mcc(factors, torch.cat([0 * factors[:, :1], factors], dim=1))
    assert constant.assigned.tolist() == [-1, 0, 1, 2]


def test_maps_that_each_correlation_sees():
    factors = torch.linspace(-1, 1, 41).double()[:, None]
    for codes, seen in ((factors, "psk"), ((2 * factors).exp(), "sk")):
        for correlation in ("pearson", "spearman", "kernel"):
            score = float(mcc(codes, factors, correlation).score)
            assert (score > 0.98) == (correlation[0] in seen), (correlation, score)
    # A square is not monotone: the code cannot tell the sign, but its own square is known from it.
    assert float(mcc(factors, factors.square(), "kernel").score) > 0.99
    assert float(mcc(factors, factors.square(), "spearman").score) < 1e-6
    assert float(mcc(factors.square(), factors, "kernel").score) < 0.1


def test_the_kernel_matrix_is_the_root_of_r2():
    codes, factors = (part[:, :2] for part in _numbers(30))
    training = torch.arange(30) % 3 > 0
    result = mcc(codes, factors, "kernel", training)
    for code in range(2):
        r2 = block_r2(codes[:, code : code + 1], factors, "kernel", training).per_factor
        torch.testing.assert_close(result.matrix[code], r2.clamp(min=0).sqrt())


@pytest.mark.parametrize("split", [False, True])
def test_block_r2_equals_scikit_learn(split):
    codes, factors = (part.numpy() for part in _numbers())
    fitted = TRAINING if split else np.ones(60, dtype=bool)
    scored = ~TRAINING if split else fitted
    model = LinearRegression().fit(codes[fitted], factors[fitted])
    expected = r2_score(factors[scored], model.predict(codes[scored]), multioutput="raw_values")
    chosen = torch.from_numpy(TRAINING) if split else None
    found = block_r2(torch.from_numpy(codes), torch.from_numpy(factors), training=chosen)
    np.testing.assert_allclose(found.per_factor, expected)
    np.testing.assert_allclose(found.score, expected.mean())


def test_block_r2_of_invertible_and_of_nonlinear_maps():
    factors = _numbers()[1][:, :2]
    mixed = factors @ torch.tensor([[1.0, 3.0], [2.0, -1.0]]).double() - 7
    np.testing.assert_allclose(block_r2(mixed, factors).per_factor, 1)
    assert float(block_r2(mixed[:, :1], factors).score) < 0.7
    angle = torch.linspace(0, 6, 60)[:, None]
    circle, training = torch.cat([angle.cos(), angle.sin()], dim=1), torch.from_numpy(TRAINING)
    assert float(block_r2(circle, angle, training=training).score) < 0.7
    assert float(block_r2(circle, angle, "kernel", training).score) > 0.95


def test_block_r2_of_collinear_constant_and_many_codes():
    codes, factors = _numbers()
    more = torch.cat([codes, codes[:, :3] @ torch.ones(3, 2).double(), torch.ones(60, 1)], dim=1)
    torch.testing.assert_close(block_r2(more, factors).score, block_r2(codes, factors).score)
    np.testing.assert_allclose(block_r2(torch.ones(60, 2), factors).per_factor, 0, atol=1e-12)
    np.testing.assert_allclose(block_r2(codes[:3], factors[:3]).per_factor, 1)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (
            sap,
            {"training": torch.tensor([True, False])},
            "no factor varies both among the 1 rows of `training`",
        ),
        (mcc, {"correlation": "kendall"}, "`correlation` must be one of: pearson"),
        (block_r2, {"regression": "kernel"}, "kernel regression needs at least 3 rows to fit on, got 2"),
        (block_r2, {"regression": "lasso"}, "`regression` must be one of: linear, kernel; got lasso"),
    ],
)
def test_refused_options(function, options, message):
    with refused(message):
        function(torch.rand(2, 1), torch.arange(2)[:, None], **options)
