"""Compare queries and pairs of a factor index over a million rows with a scan of the whole table.

    python -m benchmarks.factor_index [--share 0.97] [--pairs 100000] [--repeats 20]

The grid is MPI3D's, 1,036,800 combinations of seven factors: the whole grid, and a random share of it. For
the share, the index sorts a table once for each subset of factors in a query. The scan uses numpy: one
comparison of all rows for each factor, for a query and for each pair. Best of several runs; about half a
minute.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.processes import print_table
from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.supervision import k_pairs, match_pairs, rank_pairs

SIZES = (6, 6, 2, 3, 3, 40, 40)
QUERIES = {"1 factor": {"c": 1}, "2 factors": {"a": 1, "d": 2}, "5 factors": dict.fromkeys("abcde", 1)}
SLOW_PAIRS = 20


def best(work: Callable[[], Any], repeats: int) -> float:
    """Return the shortest time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def scan(table: np.ndarray, wanted: dict[int, int]) -> np.ndarray:
    """Find rows by comparing all rows."""
    return np.flatnonzero(np.logical_and.reduce([table[:, j] == value for j, value in wanted.items()]))


def scanned_pairs(table: np.ndarray, count: int) -> None:
    """Draw pairs that differ in one factor, comparing all rows for each pair."""
    rng = np.random.default_rng(0)
    for row in rng.integers(len(table), size=count):
        kept = np.delete(np.arange(len(SIZES)), rng.integers(len(SIZES)))
        rng.choice(scan(table, {int(j): int(table[row, j]) for j in kept}))


def measure(name: str, index: FactorIndex, pairs: int, repeats: int) -> None:
    """Print both tables for one index."""
    table = index.positions(np.arange(len(index)))
    rows = []
    for query, values in QUERIES.items():
        first = best(partial(index.rows, **values), 1)
        ours = best(partial(index.rows, **values), repeats)
        wanted = {index.column(factor): value for factor, value in values.items()}
        peer = best(partial(scan, table, wanted), 3)
        assert np.array_equal(index.rows(**values), scan(table, wanted))
        found = len(index.rows(**values))
        rows.append(
            (
                query,
                found,
                f"{1e3 * first:.2f}",
                f"{1e3 * ours:.3f}",
                f"{1e3 * peer:.2f}",
                f"{peer / ours:.0f}",
            )
        )
    print_table((f"query, {name} of {len(index)}", "rows", "first ms", "ms", "scan ms", "ratio"), rows)
    slow = SLOW_PAIRS / best(partial(scanned_pairs, table, SLOW_PAIRS), 1)
    items = np.arange(pairs)
    draws = {
        "share or change": partial(match_pairs, index, 0, share=["a", "f"], change=["g"]),
        "rank": partial(rank_pairs, index, 0, names=["f"]),
        "k = 1": partial(k_pairs, index, 0, k=1),
        "k = 1, distinct": partial(k_pairs, index, 0, k=1, distinct=True, missing="mask"),
        "k uniform": partial(k_pairs, index, 0),
    }
    rows = []
    for kind, draw in draws.items():
        first = best(partial(draw, items=items[:1000]), 1)
        ours = pairs / best(partial(draw, items=items), 3)
        rows.append((kind, f"{first:.2f}", f"{ours:.0f}", f"{slow:.0f}", f"{ours / slow:.0f}"))
    print_table((f"pairs, {name}", "first 1000, s", "a second", "scan, a second", "ratio"), rows)


def main() -> None:
    """Measure the whole grid and a part of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=0.97, help="share of the grid in the part")
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    grid = FactorSpace(tuple("abcdefg"), tuple(tuple(range(size)) for size in SIZES))
    kept = np.flatnonzero(np.random.default_rng(0).random(grid.size) < options.share)
    part = FactorSpace(grid.names, grid.values, kept)
    for name, space in (("the grid", grid), ("a part", part)):
        measure(name, FactorIndex.of(space), options.pairs, options.repeats)


if __name__ == "__main__":
    main()
