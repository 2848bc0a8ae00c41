import copy
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from scipy.stats import chisquare

from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import FactorInfo
from candlelight.loaders.selection.counterfactual_rows import choose_counterfactual_row, counterfactual_rows
from candlelight.loaders.selection.factor_groups import RowGroups
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.numbered_draws import NumberedDraws
from tests.refusals import refused

NAMES, VALUES = ("a", "b", "c"), ((0, 1), ("x", "y", "z"), (0.5, 1, 1.5, 2))
FULL = FactorSpace(NAMES, VALUES)
PARTIAL = FactorSpace(NAMES, VALUES, np.flatnonzero(np.random.default_rng(0).random(24) < 0.6))


def shuffled() -> FactorIndex:
    """Index all combinations in random order, some of them twice."""
    rng = np.random.default_rng(1)
    rows = rng.permutation(np.r_[np.arange(24), rng.integers(0, 24, 12)])
    return FactorIndex.of(FULL).select(rows)


INDEXES = {"full": FactorIndex.of(FULL), "partial": FactorIndex.of(PARTIAL), "shuffled": shuffled()}


@pytest.fixture(params=INDEXES)
def index(request) -> FactorIndex:
    return INDEXES[request.param]


def listed(index: FactorIndex) -> list[dict]:
    return [index.values(row) for row in range(len(index))]


def test_only_a_grid_in_product_order_uses_arithmetic():
    assert [index.is_grid for index in INDEXES.values()] == [True, False, False]
    table = FactorIndex.from_table(
        [FactorInfo(name=n, kind="categorical", values=v) for n, v in zip(NAMES, VALUES, strict=True)],
        FULL.positions(np.arange(24)).astype(float),
    )
    assert table.is_grid
    assert listed(table) == listed(INDEXES["full"])
    assert [index.is_complete for index in INDEXES.values()] == [True, False, False]
    turned = INDEXES["full"].select(np.arange(24)[::-1])
    assert (turned.is_grid, turned.is_complete) == (False, True)
    assert not INDEXES["full"].select(np.zeros(24, np.int64)).is_grid


@pytest.mark.parametrize("values", [{}, {"a": 1}, {"b": "z", "c": 0.5}, {"c": 2, "a": 0, "b": "x"}], ids=str)
def test_rows_have_the_values(index, values):
    slow = [row for row, has in enumerate(listed(index)) if values.items() <= has.items()]
    assert index.rows(**values).tolist() == slow
    assert index.rows(**values).tolist() == slow  # from the cache


def test_find_inverts_positions(index):
    positions = index.positions(np.arange(len(index)))
    lowest = [min(r for r in range(len(index)) if (positions[r] == p).all()) for p in positions]
    assert index.find(positions).tolist() == lowest


def test_find_marks_missing_combinations():
    missing = np.setdiff1d(np.arange(24), PARTIAL.rows)
    assert (INDEXES["partial"].find(FULL.positions(missing)) == -1).all()
    assert INDEXES["partial"].rows(**FULL.values_at(int(missing[0]))).tolist() == []


@pytest.mark.parametrize("names", [["a"], ["c", "a"], ["a", "b", "c"], []], ids=str)
def test_partners_agree_in_all_other_factors(index, names):
    table = index.positions(np.arange(len(index)))
    kept = [j for j, name in enumerate(NAMES) if name not in names]
    for row in range(len(index)):
        same = (table[:, kept] == table[row, kept]).all(axis=1)
        assert index.partners(row, names).tolist() == [r for r in np.flatnonzero(same) if r != row]


def test_traverse_lists_a_row_for_each_existing_value(index):
    for row in range(len(index)):
        rows = index.traverse(row, "c")
        kept = {name: index.values(row)[name] for name in "ab"}
        exist = [v for v in VALUES[2] if len(index.rows(**kept, c=v))]
        assert [index.values(r) for r in rows] == [{**kept, "c": v} for v in exist]
        assert row in rows


def test_counterfactual_differs_in_exactly_the_changes():
    index = INDEXES["full"]
    assert index.values(index.counterfactual(7, b="z", c=2)) == {"a": 0, "b": "z", "c": 2}
    assert index.counterfactual(7, a=index.values(7)["a"]) == 7
    with refused("row 0 has no counterfactual with"):
        INDEXES["partial"].counterfactual(0, **FULL.values_at(int(np.setdiff1d(range(24), PARTIAL.rows)[0])))


def test_keys_above_64_bits_are_ranked():
    rng = np.random.default_rng(0)
    sizes = (10**5,) * 7  # 10^35 combinations
    codes = rng.integers(0, 10**5, (500, 7))
    codes[100:200] = codes[:100]
    codes[200:300, :6] = codes[:100, :6]
    groups = RowGroups(codes, sizes, range(7))
    found = groups.find(codes)
    assert all(groups.members(g).tolist() == [i, i + 100] for i, g in enumerate(found[:100].tolist()))
    unknown = codes.copy()
    unknown[:, 2] = (unknown[:, 2] + 1) % 10**5
    assert (groups.find(unknown) == -1).all()


X = FactorInfo(name="x", kind="categorical", values=(0, 1))


class Related:
    """Samples with given values, units and origins."""

    factors = (X,)

    def __init__(self, make_frame, values, units, origins):
        plain = make_frame().metadata
        self.factor_table = np.array(values, np.float64)[:, None]
        self.metadata = [
            plain.model_copy(update={"id": str(row), "unit": unit, "counterfactual_of": origin})
            for row, (unit, origin) in enumerate(zip(units, origins, strict=True))
        ].__getitem__


def test_a_counterfactual_of_the_same_unit_is_preferred(make_frame):
    index = FactorIndex.of(Related(make_frame, [0, 1, 0, 1], "pqqp", [None] * 4))
    assert [index.counterfactual(row, x=1 - row % 2) for row in range(4)] == [3, 2, 1, 0]
    turned = index.select(np.array([3, 1, 0, 2]))
    assert [turned.counterfactual(row, x=x) for row, x in enumerate([0, 0, 1, 1])] == [2, 3, 0, 1]


def test_a_named_counterfactual_is_preferred(make_frame):
    index = FactorIndex.of(Related(make_frame, [0, 1, 1, 1], "pqrs", [None, None, "0", None]))
    assert index.counterfactual(0, x=1) == 2
    assert index.counterfactual(2, x=0) == 0
    assert index.counterfactual(1, x=0) == 0


def write_set(root, info, make_frame, changes):
    write_dataset_info(root, info)
    for index, change in enumerate(changes):
        frame = make_frame("grid", index)
        write_frame(root, Frame(frame.metadata.model_copy(update=change), frame.layers))
    return FrameFolder(root, "grid")


def test_counterfactuals_are_joined_to_their_factuals_by_id(tmp_path, info, make_frame):
    facts = write_set(tmp_path / "facts", info, make_frame, [{"id": "p"}, {"id": "q"}, {"id": "r"}])
    origins = ["r", "p", "elsewhere", None]
    counterfactuals = write_set(
        tmp_path / "counterfactuals", info, make_frame, [{"counterfactual_of": origin} for origin in origins]
    )
    assert counterfactual_rows(facts, counterfactuals).tolist() == [2, 0, -1, -1]


def test_the_lowest_row_is_chosen_without_a_related_row(make_frame):
    candidates = np.array([4, 6])
    assert choose_counterfactual_row(None, 0, candidates) == 4
    assert choose_counterfactual_row(lambda row: make_frame("grid", row).metadata, 0, candidates) == 4


@pytest.mark.parametrize("fixed", [{}, {"b": "y"}], ids=str)
def test_samples_are_uniform_over_the_rows(index, fixed):
    drawn = index.sample(20_000, np.random.default_rng(0), **fixed)
    rows = index.rows(**fixed)
    counts = np.bincount(drawn, minlength=len(index))
    assert counts.sum() == counts[rows].sum()
    assert chisquare(counts[rows]).pvalue > 1e-4


@pytest.mark.parametrize("fixed", [{}, {"b": "y"}, {"a": 0, "c": 1}], ids=str)
def test_samples_are_positions_in_the_list_of_rows(index, fixed):
    rows = index.rows(**fixed)
    chosen = NumberedDraws.of(np.random.default_rng(5), 50).below("row", len(rows))
    assert index.sample(50, np.random.default_rng(5), **fixed).tolist() == rows[chosen].tolist()


@pytest.mark.parametrize("distinct", [False, True])
def test_a_partner_without_redrawn_factors_has_the_same_factors(index, distinct):
    rows = np.arange(len(index))
    drawn = index.resample(rows, [], np.random.default_rng(0), distinct)
    np.testing.assert_array_equal(index.positions(drawn), index.positions(rows))


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("names", [["b"], ["c", "a"]], ids=str)
def test_resampled_rows_are_uniform_over_their_partners(index, names, distinct):
    table = index.positions(np.arange(len(index)))
    columns = index.columns(names)
    kept = [j for j in range(3) if j not in columns]
    for row in (0, 5, 11):
        allowed = (table[:, kept] == table[row, kept]).all(axis=1)
        if distinct:
            allowed &= (table[:, columns] != table[row, columns]).all(axis=1)
        requested = np.full(6000, row)
        drawn = index.resample(requested, names, np.random.default_rng(row), distinct, missing="mask")
        if not allowed.any():
            assert (drawn == -1).all()
            continue
        counts = np.bincount(drawn, minlength=len(index))
        assert counts[~allowed].sum() == 0
        assert allowed.sum() == 1 or chisquare(counts[allowed]).pvalue > 1e-4


def test_rare_partners_are_found_and_uniform():
    # One row in a thousand differs: draws rarely hit one of the two, so all partners are listed.
    table = np.zeros((2002, 1))
    table[[7, 1500]] = 1
    index = FactorIndex.from_table([X], table)
    drawn = index.resample(np.zeros(400, np.int64), ["x"], np.random.default_rng(0), distinct=True)
    assert set(drawn.tolist()) == {7, 1500}
    assert chisquare([(drawn == 7).sum(), (drawn == 1500).sum()]).pvalue > 1e-4


def test_resample_refuses_or_masks_a_missing_partner():
    index = FactorIndex.of(FULL).select(np.array([0, 4, 5]))
    with refused("row 0 has no partner that differs in exactly c"):
        index.resample(np.array([1, 0]), ["c"], np.random.default_rng(0), distinct=True)
    drawn = index.resample(np.array([1, 0, 2]), ["c"], np.random.default_rng(0), True, "mask")
    assert drawn.tolist() == [2, -1, 1]
    one = FactorIndex.of(FactorSpace(("a", "b"), ((0,), (0, 1))))
    assert one.resample(np.array([0]), ["a", "b"], np.random.default_rng(0), True, "mask").tolist() == [-1]


def continuous(tolerance: dict | None) -> FactorIndex:
    factors = (
        FactorInfo(name="shape", kind="categorical", values=("cube", "cone")),
        FactorInfo(name="angle", kind="continuous", low=0.0, high=90.0),
    )
    table = np.array([[0, 30.0], [1, 30.004], [0, 29.998], [1, 60.0], [0, 60.0], [1, -0.001]])
    return FactorIndex.from_table(factors, table, tolerance)


def test_continuous_values_are_equal_within_the_stated_bins():
    index = continuous({"angle": 0.1})
    assert index.sizes == (2, 3)
    assert index.rows(angle=30.03).tolist() == [0, 1, 2]
    assert index.rows(angle=45).tolist() == []
    assert index.partners(1, ["shape"]).tolist() == [0, 2]
    assert index.values(1) == {"shape": "cone", "angle": 30.004}
    assert index.traverse(0, "angle").tolist() == [0, 4]
    with refused("row 4 has no counterfactual with angle=10"):
        index.counterfactual(4, angle=10)


def test_without_a_tolerance_only_equal_continuous_values_match():
    index = continuous(None)
    assert index.sizes == (2, 5)
    assert index.rows(angle=60).tolist() == [3, 4]
    assert index.rows(angle=30.001).tolist() == []


def test_frames_are_indexed_by_their_factors(frames_root):
    frames = FrameFolder(frames_root, "grid")
    index = FactorIndex.of(frames)
    assert index.is_grid
    assert index.rows(color="blue", size=2).tolist() == [4]
    assert index.counterfactual(0, color="blue") == 3
    free = FactorIndex.of(FrameFolder(frames_root, "free"), {"angle": 20.0})
    assert free.rows(angle=12.5).tolist() == [1, 2]


def test_a_grid_sends_no_table_to_workers():
    space = FactorSpace(("a", "b"), (tuple(range(300)), tuple(range(400))))
    factors = [
        FactorInfo(name=n, kind="categorical", values=v) for n, v in zip("ab", space.values, strict=True)
    ]
    table = space.positions(np.arange(space.size)).astype(float)
    index = FactorIndex.from_table(factors, table)
    assert len(ForkingPickler.dumps(index)) < 100_000 < table.nbytes
    np.testing.assert_array_equal(index.numbers(np.arange(space.size)), table)


def test_a_worker_gets_no_groups():
    index = INDEXES["partial"]
    index.rows(a=1)
    copied = copy.deepcopy(index)
    assert index._cache
    assert not copied._cache
    assert copied.rows(a=1).tolist() == index.rows(a=1).tolist()


def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr("candlelight.loaders.selection.factor_rows._CACHE", 300)
    index = FactorIndex.of(PARTIAL)
    for names in (["a"], ["b"], ["c"], ["a", "b"], ["a"]):
        index.groups(names)
    assert 0 < sum(groups.nbytes for groups in index._cache.values()) <= 300 or len(index._cache) == 1
    assert (0,) in index._cache


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.rows(d=1), "factor `d` is not in this set; expected one of: a, b, c"),
        (lambda i: i.rows(a=7), "factor `a`: expected one of 0, 1, got 7"),
        (lambda i: i.classes[0].find([1]), r"factor `a`: expected one of 0, 1, got \[1\]"),
        (lambda i: i.values(24), "row numbers must lie in 0..23, got 24 to 24"),
        (lambda i: i.values(-1), "row numbers must lie in 0..23, got -1 to -1"),
        (lambda i: i.select(np.zeros(0, int)), "expected at least one row to select, got none"),
        (lambda i: i.find(np.array([[0, 0]])), "positions: expected one class number for each factor"),
        (lambda i: i.find(np.array([[0, 3, 0]])), "positions: expected one class number for each factor"),
        (lambda i: i.select(np.array([0])).sample(1, np.random.default_rng(0), a=1), "no row has a=1"),
        (lambda i: FactorIndex.of([1]), "expected an image set, data with `factors` .* got list"),
        (lambda i: FactorIndex.of(FULL, {"a": 1}), "tolerance of `a`: expected 0 or more for one of the"),
        (lambda i: continuous({"angle": -1}), "tolerance of `angle`: expected 0 or more"),
        (lambda i: continuous(None).rows(angle="wide"), "factor `angle`: expected a number, got 'wide'"),
        (lambda i: FactorIndex.from_table((X,), np.zeros((0, 1))), "factor table: expected at least one row"),
        (lambda i: FactorIndex.from_table((X,), np.zeros((2, 3))), r"for each of 1 factors, got \[2, 3\]"),
        (lambda i: FactorIndex.from_table((X,), np.full((1, 1), np.nan)), "expected finite numbers"),
        (
            lambda i: FactorIndex.from_table((X,), np.full((1, 1), 0.5)),
            "row 0: expected a class number in 0..1",
        ),
    ],
)
def test_bad_tables_and_queries_are_refused(call, message):
    with refused(message):
        call(INDEXES["full"])
