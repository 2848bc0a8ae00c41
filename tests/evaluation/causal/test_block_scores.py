"""Matrices of blocks of codes and factors against scikit-learn and scipy, and on planted codes."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor

from candlelight.evaluation.causal import block_matrices, diagonal_scores, find_blocks, planted_codes
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.measure_codes import measure_codes
from candlelight.evaluation.run.evaluate import evaluate
from tests.refusals import refused

DRAWS = torch.Generator().manual_seed(77)
FACTORS = torch.rand(600, 4, generator=DRAWS, dtype=torch.float64)
HALF = torch.arange(600) % 2 == 0


def scores(codes, factors=FACTORS, regression="linear", **options):
    blocks = find_blocks(codes[HALF], factors[HALF])
    found = block_matrices(codes, factors, blocks, HALF, regression, **options)
    return tuple(map(diagonal_scores, found))


@pytest.mark.parametrize("regression", ["linear", "mlp"])
def test_entries_equal_scikit_learn_and_scipy(regression):
    codes = planted_codes("rotated", FACTORS, 0) + 0.3 * FACTORS[:, [1, 2, 3, 0]].square()
    blocks = {0: [0], 1: [1, 3], 3: [2]}
    found, correlation = block_matrices(codes, FACTORS, blocks, HALF, regression, seed=3)
    train, test = (part.numpy() for part in (HALF, ~HALF))
    scaled = (FACTORS - FACTORS[HALF].mean(0)) / FACTORS[HALF].std(0, correction=0)
    for block, members in blocks.items():
        rows = codes[:, members]
        rows = ((rows - rows[HALF].mean(0)) / rows[HALF].std(0, correction=0)).numpy()
        model = LinearRegression()
        if regression == "mlp":
            model = MLPRegressor(
                hidden_layer_sizes=(64, 64),
                early_stopping=True,
                learning_rate_init=0.005,
                max_iter=300,
                n_iter_no_change=20,
                random_state=3,
            )
        columns = [model.fit(rows[train], one[train]).predict(rows[test]) for one in scaled.T.numpy()]
        made = np.stack(columns, axis=1)
        truth = scaled.numpy()[test]
        np.testing.assert_allclose(found[block], r2_score(truth, made, multioutput="raw_values"))
        ranks = [spearmanr(made[:, factor], truth[:, factor]).statistic for factor in range(4)]
        np.testing.assert_allclose(correlation[block], ranks)
    assert found[2].tolist() == correlation[2].tolist() == [0] * 4  # a factor without a block


@pytest.mark.parametrize("regression", ["linear", "mlp"])
def test_planted_codes_land_where_they_must(regression):
    def close(name, expected, codes=None):
        found = scores(planted_codes(name, FACTORS, 0) if codes is None else codes, regression=regression)
        np.testing.assert_allclose(found[0], expected, atol=0.07)

    for name in ("identity", "permuted", "redundant")[: None if regression == "linear" else 1]:
        close(name, (1, 0))
    # A rotation by 30 degrees leaves cos^2 of the variance to the own factor, and sin^2 to the other one.
    close("rotated", (0.75, 0.25))
    close("missing", (0.75, 0))
    close("noisy", (0.5, 0))
    close("random", (0, 0))
    close("constant", (0, 0))
    entangled = planted_codes("identity", FACTORS, 0)
    entangled[:, 0] += 0.5 * entangled[:, 1]  # a fifth of the variance of code 0 is that of factor 1
    close("", (1 - 0.2 / 4, 0.2 / 4), entangled)


def test_networks_see_curves_that_lines_do_not():
    wrapped = planted_codes("wrapped", FACTORS, 0)
    assert scores(wrapped)[0][0] < 0.4
    assert scores(wrapped, regression="mlp")[0][0] > 0.9


def test_codes_go_to_the_factor_of_which_they_tell_most_or_to_none():
    codes = planted_codes("permuted", FACTORS, 5)
    parents = [int(abs(np.corrcoef(code, FACTORS.T)[0, 1:]).argmax()) for code in codes.T]
    found = find_blocks(torch.cat([codes, torch.rand(600, 1, generator=DRAWS)], dim=1), FACTORS)
    assert found == [[parents.index(factor)] for factor in range(4)]
    # A cosine tells a phase but for its sign, which no line and no mean sees.
    assert find_blocks(planted_codes("circular", FACTORS, 0), FACTORS) == [[f, f + 4] for f in range(4)]


def test_angles_are_sine_and_cosine_and_values_without_order_are_columns():
    angle, kind = 360 * FACTORS[:, 0], (3 * FACTORS[:, 1]).floor()
    factors = torch.stack([angle, kind, FACTORS[:, 2]], dim=1)
    one_hot = (kind[:, None] == torch.tensor([0, 2, 1])).double()  # no line of the numbers themselves
    codes = torch.cat([angle.deg2rad().sin()[:, None], angle.deg2rad().cos()[:, None], one_hot], dim=1)
    blocks = {0: [0, 1], 1: [2, 3, 4]}
    found, correlation = block_matrices(codes, factors, blocks, HALF, unordered=[1], turning=[0])
    np.testing.assert_allclose(found[:2, :2], np.eye(2), atol=0.05)
    assert correlation[:, 1].isnan().all()
    assert float(correlation[0, 0]) == pytest.approx(1)
    assert float(block_matrices(codes, factors, blocks, HALF)[0][0, 0]) < 0.8  # the angle as a number


def test_a_factor_of_one_value_has_no_column():
    factors = FACTORS.clone()
    factors[~HALF, 2] = 0.5
    found, _ = block_matrices(FACTORS, factors, [[0], [1], [2], [3]], HALF)
    assert found.isnan().all(0).tolist() == [False, False, True, False]
    assert diagonal_scores(found)[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": {0: [9]}}, r"`blocks` must lie in 0..3, got 9"),
        ({"blocks": {4: [0]}}, r"`columns of factors` must lie in 0..3, got 4"),
        ({"turning": [-1]}, r"`columns of factors` must lie in 0..3, got -1"),
        ({"regression": "kernel"}, "`regression` must be one of: linear, mlp"),
        ({"regression": "mlp", "training": torch.arange(600) < 5}, "at least 11 rows to fit on, got 5"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    with refused(message):
        block_matrices(FACTORS, FACTORS, **{"training": HALF, "blocks": [[0]], **options})


def test_scores_of_halves_and_matrices_for_the_page():
    table = FactorTable(("a", "b"), FACTORS[:, :2], (9 * FACTORS[:, :2]).long(), (), (), ())
    codes, groups = planted_codes("rotated", FACTORS[:, :2], 0), [str(row) for row in range(600)]
    found = measure_codes(codes, table, groups, "blocks", splits=2)
    assert found.scores["blocks(r2, linear)"].value == pytest.approx(0.75, abs=0.05)
    assert found.scores["blocks(r2, mlp), off-diagonal"].value == pytest.approx(0.25, abs=0.1)
    assert found.matrices["blocks"] == [[1, 0], [0, 1]]
    swapped = measure_codes(codes, table, groups, "blocks", 2, blocks={0: [1], 1: [0]})
    assert swapped.scores["blocks(r2, linear)"].value == pytest.approx(0.25, abs=0.05)
    assert np.shape(swapped.matrices["blocks(spearman, mlp)"]) == (2, 2)


def test_blocks_of_the_command_are_for_encoders_and_off_diagonals_are_better_low():
    columns = {"a": FACTORS[:, 0].numpy(), "b": FACTORS[:, 1].numpy()}
    codes = {"mine": FACTORS[:, [1, 0]].numpy()}
    given = {"metrics": ["blocks"], "splits": 2}
    found = evaluate("codes", columns, codes, blocks=["a=1", "b=0"], **given)
    for name in ("mine", "factors as codes"):
        assert found[name].scores["blocks(r2, linear)"].value == pytest.approx(1)
    found["mine"] = evaluate("codes", columns, codes, blocks=["a=1", "b=7"], controls=False, **given)["mine"]
    assert found["mine"].details["notes"][-1] == "mine: no blocks: `blocks` must lie in 0..1, got 7"
    better = found["factors as codes"].about.better
    assert (better["irs"], better["blocks(r2, mlp), off-diagonal"]) == ("higher", "lower")
    for wrong, message in (("c=1", r"expected a factor \(a, b\)"), ("a=x", "got a=x"), ("a", "NAME=SOURCE")):
        with refused(message):
            evaluate("codes", columns, codes, blocks=[wrong], **given)
    with refused("`blocks` is for `metrics` blocks alone"):
        evaluate("codes", columns, codes, blocks=["a=1"])
    large = evaluate("codes", columns, codes, seed=2**40, controls=False, **given)["mine"]
    assert large.scores["blocks(r2, mlp)"].value > 0.8
