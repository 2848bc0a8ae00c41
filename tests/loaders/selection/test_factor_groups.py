import itertools

import numpy as np
import pytest

from candlelight.loaders.schema import FactorInfo
from candlelight.loaders.selection.factor_classes import FactorClasses
from candlelight.loaders.selection.factor_groups import RowGroups
from candlelight.loaders.selection.factor_rows import FactorRows

SIZES = (2, 3, 4)
GRID = np.array(list(itertools.product(*map(range, SIZES))))
SUBSETS = [list(c) for n in range(4) for c in itertools.combinations(range(3), n)]


@pytest.mark.parametrize("columns", SUBSETS, ids=str)
def test_a_grid_and_the_table_of_its_rows_give_equal_groups(columns):
    grid, table = RowGroups(None, SIZES, columns), RowGroups(GRID, SIZES, columns)
    requested = GRID[:, columns]
    groups = grid.find(requested)
    np.testing.assert_array_equal(groups, table.find(requested))
    np.testing.assert_array_equal(grid.counts(groups), table.counts(groups))
    for group in set(groups.tolist()):
        members = np.flatnonzero(groups == group)
        np.testing.assert_array_equal(grid.members(group), members)
        np.testing.assert_array_equal(table.members(group), members)
        numbers = np.arange(len(members))
        np.testing.assert_array_equal(grid.member(np.full(len(members), group), numbers), members)
        np.testing.assert_array_equal(table.member(np.full(len(members), group), numbers), members)


def test_a_table_may_repeat_and_miss_combinations():
    codes = GRID[[5, 3, 5, 17]]
    groups = RowGroups(codes, SIZES, [0, 1, 2])
    found = groups.find(GRID)
    assert sorted(np.flatnonzero(found >= 0)) == [3, 5, 17]
    assert groups.members(int(found[5])).tolist() == [0, 2]


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


@pytest.mark.parametrize(
    ("codes", "expected"),
    [(GRID, True), (GRID[::-1], False), (GRID[:-1], False), (GRID[[0] * 24], False)],
)
def test_grids_in_product_order_are_recognised(codes, expected):
    classes = tuple(
        FactorClasses(FactorInfo(name=name, kind="categorical", values=tuple(range(size))), np.zeros(0))
        for name, size in zip("abc", SIZES, strict=True)
    )
    assert FactorRows(classes, codes, None).is_grid == expected
