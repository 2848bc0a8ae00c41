"""Estimators of effects against restated formulas, another program, closed forms and simulated replicates."""

import numpy as np
import pytest

from candlelight.evaluation.causal import (
    doubly_robust_effect,
    fit_propensity,
    ipw_effect,
    naive_effect,
    score_estimates,
)
from tests.refusals import refused

BRIGHT = {0.2: 0.9, 0.5: 0.5, 0.8: 0.1}  # P(arm 1) by the confounder
ARM = np.array([1, 1, 0, 0])


def draw(seed: int, rows: int):
    """Draw outcome, arm, confounder and propensity; the effect is 2, the naive one 2 - 5 x 0.32."""
    rng = np.random.default_rng(seed)
    confounder = rng.choice(list(BRIGHT), rows)
    chance = np.vectorize(BRIGHT.get)(confounder)
    arm = (rng.random(rows) < chance).astype(int)
    outcome = 2.0 * arm + 5 * confounder + rng.normal(size=rows)
    return outcome, arm, confounder[:, None], np.where(arm == 1, chance, 1 - chance)


def estimates(seed: int, rows: int):
    outcome, arm, confounder, propensity = draw(seed, rows)
    fitted = fit_propensity(arm, confounder)
    return {
        "naive": naive_effect(outcome, arm),
        "ipw": ipw_effect(outcome, arm, propensity),
        "doubly robust": doubly_robust_effect(outcome, arm, confounder, propensity),
        "ipw, fitted": ipw_effect(outcome, arm, fitted),
        "doubly robust, fitted": doubly_robust_effect(outcome, arm, confounder, fitted),
    }


def test_formulas_row_by_row():
    outcome, arm, confounder, propensity = draw(0, 60)
    arm[:5] = -1  # another value
    sums = {one: [0.0, 0.0] for one in (0, 1)}
    for y, a, p in zip(outcome, arm, propensity, strict=True):
        if a >= 0:
            sums[a][0] += y / p
            sums[a][1] += 1 / p
    means = {one: top / bottom for one, (top, bottom) in sums.items()}
    found = ipw_effect(outcome, arm, propensity)
    assert found.value == pytest.approx(means[1] - means[0])
    squares = 0.0
    for y, a, p in zip(outcome, arm, propensity, strict=True):
        squares += 0.0 if a < 0 else ((y - means[a]) / p / sums[a][1]) ** 2
    assert found.error == pytest.approx(squares**0.5)

    scores = np.zeros((2, 60))
    for one in (0, 1):
        slope, level = np.polyfit(confounder[arm == one, 0], outcome[arm == one], 1)
        for row in range(60):
            fitted = level + slope * confounder[row, 0]
            scores[one, row] = fitted + (arm[row] == one) / propensity[row] * (outcome[row] - fitted)
    robust = doubly_robust_effect(outcome, arm, confounder, propensity)
    assert robust.value == pytest.approx(scores[1].mean() - scores[0].mean())
    assert robust.error == pytest.approx((scores[1] - scores[0]).std(ddof=1) / 60**0.5)
    assert (robust.low + robust.high) / 2 == pytest.approx(robust.value)


def test_difference_of_means_is_that_of_scipy():
    from scipy.stats import ttest_ind

    outcome, arm, *_ = draw(1, 40)
    wanted = ttest_ind(outcome[arm == 1], outcome[arm == 0], equal_var=False).confidence_interval(0.95)
    found = naive_effect(outcome, arm)
    assert (found.low, found.high) == pytest.approx(tuple(wanted))


@pytest.mark.oracle
def test_weighted_and_doubly_robust_effects_are_those_of_statsmodels():
    effects = pytest.importorskip("statsmodels.treatment.treatment_effects")
    api = pytest.importorskip("statsmodels.api")
    outcome, arm, confounder, _ = draw(2, 400)
    design = api.add_constant(confounder)
    chosen = api.Logit(arm, design).fit(disp=False, tol=1e-12)
    other = effects.TreatmentEffect(api.OLS(outcome, design), arm, results_select=chosen)
    fitted = fit_propensity(arm, confounder)
    np.testing.assert_allclose(fitted, np.where(arm == 1, chosen.predict(), 1 - chosen.predict()), atol=1e-6)
    weighted = ipw_effect(outcome, arm, fitted)
    robust = doubly_robust_effect(outcome, arm, confounder, fitted)
    assert weighted.value == pytest.approx(other.ipw(return_results=False)[0], abs=1e-5)
    assert robust.value == pytest.approx(other.aipw(return_results=False)[0], abs=1e-5)
    assert robust.error == pytest.approx(other.aipw(disp=False).results_gmm.bse[0], rel=0.05)


def test_large_samples_have_the_closed_form():
    found = estimates(3, 200_000)
    assert found.pop("naive").value == pytest.approx(2 - 5 * 0.32, abs=0.03)
    for name, one in found.items():
        assert one.value == pytest.approx(2, abs=5 * one.error), name


def test_intervals_hold_the_effect_as_often_as_they_say():
    made = [estimates(seed, 300) for seed in range(100, 500)]
    for name in made[0]:
        table = np.array([(one[name].value, one[name].low, one[name].high) for one in made])
        scores = score_estimates(table, 2.0)
        coverage = scores["coverage"]
        if name == "naive":
            assert coverage.value == 0
        elif name == "ipw, fitted":  # too wide, as if the propensities were known
            assert coverage.value > 0.95
        else:
            assert coverage.low < 0.95 < coverage.high, (name, coverage)
            assert scores["bias"].low < 0 < scores["bias"].high


def test_one_of_two_right_models_is_enough():
    outcome, arm, confounder, propensity = draw(4, 20_000)
    none, wrong = np.zeros((len(arm), 0)), np.full(len(arm), 0.5)
    without = doubly_robust_effect(outcome, arm, none, propensity)
    assert without.value == pytest.approx(2, abs=4 * without.error)
    regressed = doubly_robust_effect(outcome, arm, confounder, wrong)
    assert regressed.value == pytest.approx(2, abs=4 * regressed.error)
    assert doubly_robust_effect(outcome, arm, none, wrong).value < 1


def test_planted_estimates_land_where_they_must():
    rng = np.random.default_rng(5)
    errors = rng.normal(size=2000)

    def planted(bias=0.0, wide=1.96):
        value = 1 + bias + errors
        return score_estimates(np.column_stack([value, value - wide, value + wide]), 1.0)

    perfect = planted()
    assert perfect["coverage"].low < 0.95 < perfect["coverage"].high
    assert perfect["rmse"].value == pytest.approx(1, abs=0.05)
    assert perfect["bias"].low < 0 < perfect["bias"].high
    biased = planted(bias=2)
    assert biased["bias"].value == pytest.approx(2, abs=0.07)
    assert biased["coverage"].value == pytest.approx(0.484, abs=0.04)  # P(|z + 2| < 1.96)
    narrow = planted(wide=0.98)
    assert (narrow["width"].value, narrow["coverage"].value) == pytest.approx((1.96, 0.673), abs=0.04)


def test_scores_of_few_replicates_by_hand():
    table = np.array([[1.0, 0.0, 2.0], [3.0, 2.5, 3.5], [np.nan] * 3])
    scores = score_estimates(table, 1.0, error=0.1)
    assert scores["bias"].value == 1
    assert scores["bias"].high - 1 == pytest.approx(12.706 * (1 + 0.1**2) ** 0.5, rel=1e-4)  # t of one degree
    assert scores["rmse"].value == pytest.approx(2**0.5)
    assert scores["width"].value == 1.5
    assert scores["coverage"].value == pytest.approx(1 / 3)  # a missing interval holds nothing
    one = score_estimates(table[:1], 1.0)
    assert (one["coverage"].high, np.isnan(one["bias"].low), np.isnan(one["width"].low)) == (1, True, True)
    assert score_estimates(table[:2, [0, 0, 0]], 1.0)["coverage"].low == pytest.approx(0.0126, abs=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: naive_effect(np.arange(3.0), ARM[1:]), "two rows or more with 1 and with 0, got 1 and 2"),
        (lambda: ipw_effect(np.arange(4.0), ARM, np.array([1, 1, 0.5, 0])), "`propensity`: positivity fails"),
    ],
)
def test_what_cannot_be_estimated_is_refused(call, message):
    with refused(message):
        call()


def test_covariates_that_tell_the_value_have_propensities_at_the_bounds():
    value = np.array([0, 0, 1, 1, 2, 2])
    assert fit_propensity(value, value[:, None].astype(float)).min() > 0.99
    shares = fit_propensity(np.array([0, 1, 1, 2]), np.ones((4, 1)))
    assert shares.tolist() == [0.25, 0.5, 0.5, 0.25]
