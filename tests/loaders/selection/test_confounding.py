import numpy as np
import pytest
from scipy.stats import chisquare

from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.schema import FactorInfo
from candlelight.loaders.selection.confounding import (
    ConditionalTable,
    ValueRange,
    select_by_rules,
    select_by_tables,
)
from candlelight.loaders.selection.counted_propensity import counted_inverse_propensity
from candlelight.loaders.selection.factor_index import FactorIndex
from tests.refusals import refused

SPACE = FactorSpace(
    ("shape", "color", "size", "rest"),
    (("cube", "cone", "torus"), ("red", "blue"), (0.5, 1, 1.5, 2), tuple(range(100))),
)
FULL = FactorIndex.of(SPACE)
EVERY = [FULL.values(row) for row in range(0, len(FULL), 100)]
COLOR = ConditionalTable(
    "shape", {"cube": ["red"], "cone": {"red": 3, "blue": 1}, "torus": ["blue", "red"]}, 0.6
)
SIZE = ConditionalTable(
    ("color", "shape"),
    {
        color: dict.fromkeys(SPACE.values[0], ValueRange(0, 1.5) if color == "red" else [2, 0.5])
        for color in ("red", "blue")
    },
)


def joint(index: FactorIndex, rows: np.ndarray) -> np.ndarray:
    positions = index.positions(rows)
    counts = np.zeros(index.sizes[:3])
    np.add.at(counts, tuple(positions[:, :3].T), 1)
    return counts


def test_rules_keep_the_rows_that_obey_them():
    rules = [
        {"shape": ["cube", "torus"], "size": 2},
        {"shape": "cone", "color": ["blue"]},
        {"shape": ["cone"], "size": [0.5, 2]},
        {"rest": ValueRange(50, 200)},
    ]

    def obeys(v: dict) -> bool:
        if v["shape"] == "cone" and not (v["color"] == "red" and v["size"] in (1, 1.5)):
            return False
        return v["rest"] < 50 and not (v["shape"] in ("cube", "torus") and v["size"] == 2)

    slow = [row for row in range(len(FULL)) if obeys(FULL.values(row))]
    assert select_by_rules(FULL, rules).tolist() == slow
    assert select_by_rules(FULL, []).tolist() == list(range(len(FULL)))


def test_a_range_ignores_rounding_errors_at_its_bounds():
    index = FactorIndex.of(FactorSpace(("x",), ((0.0, 0.1 * 3, 0.4),)))
    assert select_by_rules(index, [{"x": ValueRange(0.3, 1)}]).tolist() == [0]
    assert select_by_rules(index, [{"x": ValueRange(0, 0.3)}]).tolist() == [1, 2]


def test_a_selection_has_the_stated_conditional_distribution():
    selection = select_by_tables(FULL, {"color": COLOR, "size": SIZE}, 0)
    counts = joint(FULL, selection.rows)
    assert chisquare(counts.sum(axis=(1, 2))).pvalue > 1e-4  # shapes stay uniform
    stated = {"cube": [0.8, 0.2], "cone": [0.65, 0.35], "torus": [0.5, 0.5]}
    for shape, row in zip(SPACE.values[0], counts.sum(axis=2), strict=True):
        assert chisquare(row, np.array(stated[shape]) * row.sum()).pvalue > 1e-4
    for color, allowed in enumerate(([0, 1], [0, 3])):
        sizes = counts[:, color]
        assert sizes[:, [j for j in range(4) if j not in allowed]].sum() == 0
        assert all(chisquare(row[allowed]).pvalue > 1e-4 for row in sizes)


def test_other_factors_keep_their_distribution():
    rows = select_by_tables(FULL, {"color": COLOR}, 0).rows
    assert chisquare(np.bincount(FULL.positions(rows)[:, 3], minlength=100)).pvalue > 1e-4
    assert chisquare(np.bincount(FULL.positions(rows)[:, 2], minlength=4)).pvalue > 1e-4


def test_an_uneven_set_gets_the_stated_distribution_too():
    kept = np.random.default_rng(0).random(len(FULL)) < 0.2 + 0.7 * (
        FULL.positions(np.arange(2400))[:, 1] == 1
    )
    index = FULL.select(np.flatnonzero(kept))
    row = joint(index, select_by_tables(index, {"color": COLOR}, 1).rows).sum(axis=2)[1]
    assert chisquare(row, np.array([0.65, 0.35]) * row.sum()).pvalue > 1e-4
    plain = joint(index, np.arange(len(index))).sum(axis=2)[1]
    assert chisquare(plain, np.array([0.65, 0.35]) * plain.sum()).pvalue < 1e-4


def test_parents_keep_their_frequencies():
    frequent = np.array([0.25, 1.0, 0.5])[FULL.positions(np.arange(2400))[:, 0]]
    index = FULL.select(np.flatnonzero(np.random.default_rng(0).random(2400) < frequent))
    before = joint(index, np.arange(len(index))).sum(axis=(1, 2))
    table = ConditionalTable(
        "shape", {"cube": ["red"], "cone": {"red": 3, "blue": 1}, "torus": ["blue"]}, 0.5
    )
    after = joint(index, select_by_tables(index, {"color": table}, 0).rows).sum(axis=(1, 2))
    assert chisquare(after, before / before.sum() * after.sum()).pvalue > 1e-4
    assert chisquare(after).pvalue < 1e-4


def test_propensities_are_the_stated_probabilities():
    selection = select_by_tables(FULL, {"color": COLOR, "size": SIZE}, 0)
    stated = {"cube": [0.8, 0.2], "cone": [0.65, 0.35], "torus": [0.5, 0.5]}
    for row, propensity in zip(selection.rows, selection.propensity["color"], strict=True):
        values = FULL.values(row)
        assert propensity == pytest.approx(stated[values["shape"]][values["color"] == "blue"])
    assert (selection.propensity["size"] == 0.5).all()


def test_weights_undo_the_confounding():
    selection = select_by_tables(FULL, {"color": COLOR}, 2)
    weights = selection.weights()
    np.testing.assert_allclose(weights, 1 / (2 * selection.propensity["color"]))
    assert weights.mean() == pytest.approx(1, abs=0.05)
    positions = FULL.positions(selection.rows)
    for shape in range(3):
        of_shape = positions[:, 0] == shape
        sums = np.bincount(positions[of_shape, 1], weights[of_shape])
        squares = np.bincount(positions[of_shape, 1], weights[of_shape] ** 2)
        assert abs(sums[0] - sums[1]) < 4 * np.sqrt(squares.sum())


def test_weights_of_several_tables_are_multiplied():
    small = ConditionalTable("shape", dict.fromkeys(SPACE.values[0], ValueRange(0, 1.5)), 0.5)
    selection = select_by_tables(FULL, {"color": COLOR, "size": small}, 0)
    color, size = (selection.propensity[name] for name in ("color", "size"))
    sizes = np.array(SPACE.values[2])[FULL.positions(selection.rows)[:, 2]]
    np.testing.assert_allclose(size, np.where(sizes < 1.5, 0.375, 0.125))
    np.testing.assert_allclose(selection.weights(), 1 / (2 * color * 4 * size))


def test_weights_refuse_where_positivity_fails():
    selection = select_by_tables(FULL, {"color": COLOR, "size": SIZE}, 0)
    with refused(r"`size` is never 1.5 where color=red, shape=cube; .* lower the strength"):
        selection.weights()
    assert len(selection.weights(["color"])) == len(selection.rows)
    with refused("expected one of color, size, got `shape`"):
        selection.weights(["shape"])


@pytest.mark.parametrize("keep", ["given", "most"])
def test_strength_1_of_lists_is_a_rule_and_0_keeps_all_rows(keep):
    lists = {"cube": ["red"], "cone": ["blue"], "torus": ["blue"]}
    rules = [{"shape": "cube", "color": "blue"}, {"shape": ["cone", "torus"], "color": "red"}]
    rows = select_by_tables(FULL, {"color": ConditionalTable("shape", lists)}, 0, keep).rows
    assert rows.tolist() == select_by_rules(FULL, rules).tolist()
    free = ConditionalTable("shape", lists, strength=0.0)
    assert len(select_by_tables(FULL, {"color": free}, 0, keep).rows) == len(FULL)


def test_keep_most_or_keep_the_frequencies_of_the_parents():
    table = ConditionalTable("shape", {"cube": ["red"], "cone": ["blue", "red"], "torus": ["blue"]})
    most = joint(FULL, select_by_tables(FULL, {"color": table}, 0, "most").rows).sum(axis=(1, 2))
    assert most.tolist() == [400, 800, 400]
    given = joint(FULL, select_by_tables(FULL, {"color": table}, 0).rows).sum(axis=(1, 2))
    assert given[[0, 2]].tolist() == [400, 400]
    assert abs(given[1] - 400) < 5 * np.sqrt(200)


def test_selections_depend_on_the_seed():
    first, again, other = (select_by_tables(FULL, {"color": COLOR}, seed).rows for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert [len(first), *first[::200].tolist()] == [1532, 0, 200, 400, 894, 1141, 1555, 1888, 2198]


def by_shape(table, strength=1.0):
    return {"color": ConditionalTable("shape", table, strength)}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "tables: expected a table for at least one factor, got none"),
        ({"hue": COLOR}, "factor `hue` is not in this set"),
        ({"color": ConditionalTable("hue", {})}, "factor `hue` is not in this set"),
        (by_shape({"cube": ["red"]}), "a row for every value that occurs; shape=cone has none"),
        (by_shape({"ball": ["red"]}), "factor `shape`: expected one of 'cube'"),
        (by_shape({"cube": ["green"]}), "factor `color`: expected one of 'red', 'blue'"),
        (by_shape({"cube": []}), r"`color`\.table\.cube: expected weights with a sum above 0"),
        (by_shape({"cube": {"red": -1.0, "blue": 2}}), "expected finite weights of at least 0, got -1"),
        (by_shape({}, 1.5), r"`color`\.strength: expected a number in 0\.\.1, got 1\.5"),
        (
            {"color": ConditionalTable(("shape", "size"), {"cube": ["red"]})},
            r"`color`\.table\.cube: expected a row for each value of `size`, got \['red'\]",
        ),
        ({"color": ConditionalTable("color", {})}, "tables: expected no cycle, got color -> color"),
        (
            {"color": ConditionalTable("size", {}), "size": ConditionalTable("color", {})},
            "tables: expected no cycle, got color -> size",
        ),
    ],
)
def test_bad_tables_are_refused(tables, message):
    with refused(message):
        select_by_tables(FULL, tables, 0)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{}], "rule: expected values of at least one factor"),
        ([{"rest": ValueRange(0, 100)}], "rules: they leave no row"),
        ([{"hue": [1]}], "factor `hue` is not in this set"),
    ],
)
def test_bad_rules_are_refused(rules, message):
    with refused(message):
        select_by_rules(FULL, rules)


def test_missing_combinations_are_refused():
    with refused("some combination that should occur is not in this set"):
        select_by_tables(FULL.select(np.arange(100, 2400)), {"size": SIZE}, 0)


def test_tables_with_values_near_no_row_are_refused():
    factors = [
        FactorInfo(name="shape", kind="categorical", values=("cube",)),
        FactorInfo(name="angle", kind="continuous", low=0.0, high=9.0),
    ]
    index = FactorIndex.from_table(factors, np.array([[0, 1.0], [0, 2.0]]))
    with refused(r"`angle`\.table\.cube: expected values of continuous factors that occur"):
        select_by_tables(index, {"angle": ConditionalTable("shape", {"cube": [5]})}, 0)
    rows = select_by_tables(index, {"angle": ConditionalTable("shape", {"cube": ValueRange(1.5, 3)})}, 0).rows
    assert rows.tolist() == [1]


# ------------------------------------------------------------------------------ propensities that are counted

GRID = FactorIndex.of(FactorSpace(("a", "b", "c"), ((0, 1), (0, 1, 2), tuple(range(50)))))
A_TO_B = ConditionalTable("a", {0: {0: 3, 1: 1}, 1: [2]}, strength=0.7)
CHOSEN = GRID.select(select_by_tables(GRID, {"b": A_TO_B}, 0).rows)


def table_of(index: FactorIndex, weights=None) -> np.ndarray:
    positions = index.positions(np.arange(len(index)))
    return np.bincount(positions[:, 0] * 3 + positions[:, 1], weights, minlength=6).reshape(2, 3)


def test_weights_make_the_factor_independent_and_keep_the_others():
    counted = table_of(CHOSEN)
    assert counted.std(axis=1).min() > 1  # confounded
    weighted = table_of(CHOSEN, counted_inverse_propensity(CHOSEN, "b", ["a"]))
    np.testing.assert_allclose(weighted, np.tile(counted.sum(axis=1, keepdims=True) / 3, 3))
    assert counted_inverse_propensity(CHOSEN, "b", ["a"]).mean() == pytest.approx(1)


def test_without_parents_the_values_are_balanced():
    weighted = table_of(CHOSEN, counted_inverse_propensity(CHOSEN, "b", [])).sum(axis=0)
    np.testing.assert_allclose(weighted, len(CHOSEN) / 3)


def test_a_weighted_draw_is_not_confounded():
    weights = counted_inverse_propensity(CHOSEN, "b", ["a"])
    rows = np.random.default_rng(0).choice(len(CHOSEN), 60_000, p=weights / len(weights))
    drawn = table_of(CHOSEN.select(rows))
    for row in drawn:
        assert chisquare(row).pvalue > 1e-4
    plain = table_of(CHOSEN.select(CHOSEN.sample(60_000, np.random.default_rng(0))))
    assert max(chisquare(row).pvalue for row in plain) < 1e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: counted_inverse_propensity(GRID.select(np.arange(250)), "b", ["a"]),
            "`b` is never 2 where a=1; without positivity",
        ),
        (
            lambda: counted_inverse_propensity(GRID.select(np.arange(50)), "b", []),
            "`b` is never 1; without positivity",
        ),
        (lambda: counted_inverse_propensity(GRID, "d", []), "factor `d` is not in this set"),
    ],
)
def test_failed_positivity_is_refused(call, message):
    with refused(message):
        call()
