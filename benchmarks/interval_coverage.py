"""Measure how often 95 % intervals contain the true value, and how often a comparison finds a difference.

    python -m benchmarks.interval_coverage [--runs 2000]

The data are simulated: groups of 1 to 9 rows, with correlation 0.3 between the rows of a group (between the
logarithms for lognormal values, which have standard deviation 1). "Mean" is a mean over rows; "ratio" is the
sum of one column divided by the sum of another, a statistic of all rows that is recomputed on resampled
groups. "R2 of random halves" is a score that is fitted on five random halves of the groups and computed on
the others. For comparison the first table has the BCa and percentile intervals of `scipy.stats.bootstrap`
over groups. Two or three minutes.
"""

import argparse
import itertools
from collections.abc import Iterator

import numpy as np
from numpy import ndarray
from scipy import stats

from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.intervals import (
    RESAMPLES,
    mean_interval,
    replicate_interval,
    resampled_groups,
    split_groups,
    split_interval,
)
from candlelight.evaluation.run.result import MeanResult, Provenance, Score, StatisticResult

GROUPS = 8, 16, 64
PLANTED = 0.35  # standard deviations of the difference of a row
CORRELATION = 0.3
PEER_RUNS = 20  # at once, which bounds the memory of the resamples


def draw(rng: np.random.Generator, numbers: ndarray, skewed: bool) -> ndarray:
    """Draw a column of positive mean: normal with mean 3, or lognormal."""
    shared = rng.normal(size=numbers.max() + 1)[numbers]
    values = CORRELATION**0.5 * shared + (1 - CORRELATION) ** 0.5 * rng.normal(size=len(numbers))
    return np.exp(values) if skewed else 3 + values


def group_rows(rng: np.random.Generator, groups: int) -> ndarray:
    """Number the group of each row."""
    return np.repeat(np.arange(groups), rng.integers(1, 10, size=groups))


def replicates(first: ndarray, second: ndarray, numbers: ndarray, draws: ndarray) -> ndarray:
    """Recompute the ratio on resampled groups, by the sums of each group."""
    above, below = (np.bincount(numbers, column)[draws].sum(1) for column in (first, second))
    return above / below


def coverage(groups: int, skewed: bool, runs: int, seed: int) -> dict[str, float]:
    """Compute the share of runs in which the interval of a mean, and of a ratio, contains the true value."""
    rng = np.random.default_rng([seed, groups, skewed])
    truth = np.exp(0.5) if skewed else 3
    held = {"mean": 0, "ratio": 0}
    for run in range(runs):
        numbers = group_rows(rng, groups)
        first, second = draw(rng, numbers, skewed), draw(rng, numbers, skewed)
        mean = mean_interval(first.tolist(), [str(number) for number in numbers])
        drawn = replicates(first, second, numbers, resampled_groups(groups, run, RESAMPLES))
        ratio = replicate_interval(float(first.sum() / second.sum()), drawn.tolist(), groups)
        held["mean"] += mean.low <= truth <= mean.high
        held["ratio"] += ratio.low <= 1 <= ratio.high
    return {name: count / runs for name, count in held.items()}


def peer_coverage(groups: int, skewed: bool, runs: int, seed: int) -> dict[str, float]:
    """Compute the same shares as `coverage` for the two intervals of scipy."""
    rng = np.random.default_rng([seed, groups, skewed])
    truth = np.exp(0.5) if skewed else 3.0
    held = dict.fromkeys(("mean, BCa", "mean, percentile", "ratio, BCa", "ratio, percentile"), 0)
    for _ in range(runs // PEER_RUNS):
        sums = np.array([list(group_sums(rng, groups, skewed)) for _ in range(PEER_RUNS)])
        for name, below, wanted in (("mean", sums[:, 2], truth), ("ratio", sums[:, 1], 1.0)):
            found = stats.bootstrap(
                (sums[:, 0], below),
                lambda above, below, axis: above.sum(axis) / below.sum(axis),
                n_resamples=RESAMPLES,
                paired=True,
                vectorized=True,
                axis=-1,
                method="BCa",
                random_state=rng,
            )
            low, high = found.confidence_interval
            held[f"{name}, BCa"] += int(((low <= wanted) & (wanted <= high)).sum())
            low, high = np.quantile(found.bootstrap_distribution, (0.025, 0.975), axis=-1)
            held[f"{name}, percentile"] += int(((low <= wanted) & (wanted <= high)).sum())
    return {name: count / (runs // PEER_RUNS * PEER_RUNS) for name, count in held.items()}


def group_sums(rng: np.random.Generator, groups: int, skewed: bool) -> Iterator[ndarray]:
    """Sum two columns over the rows of each group, and count the rows of each group."""
    numbers = group_rows(rng, groups)
    for _ in range(2):
        yield np.bincount(numbers, draw(rng, numbers, skewed))
    yield np.bincount(numbers).astype(np.float64)


def found(size: float, skewed: bool, runs: int, seed: int, groups: int = 64) -> dict[str, float]:
    """Compute the share of runs in which `compare` finds one of two models better.

    Args:
        size: true difference, in standard deviations of the difference of a row.
        skewed: whether the errors of both models are lognormal.
        runs: number of simulated pairs of results.
        seed: seed of the simulation.
        groups: number of groups of each result.
    """
    rng = np.random.default_rng([seed, groups, skewed])
    deviation = np.sqrt(np.exp(1) * (np.exp(1) - 1)) if skewed else 1.0
    won = {"mean": 0, "ratio": 0}
    for run in range(runs):
        numbers = group_rows(rng, groups)
        first, second, below = (draw(rng, numbers, skewed) for _ in range(3))
        second = second + size * 2**0.5 * deviation
        draws = resampled_groups(groups, run, RESAMPLES)
        means = [mean_result(column, numbers) for column in (first, second)]
        ratios = [ratio_result(column, below, numbers, draws) for column in (first, second)]
        won["mean"] += compare(*means).winner is not None
        won["ratio"] += compare(*ratios).winner is not None
    return {name: count / runs for name, count in won.items()}


def halves_coverage(groups: int, codes: int, runs: int) -> float:
    """Compute the share of runs in which the interval of R2, fitted on random halves, holds the true value.

    One factor, and codes of which the first is the factor and noise. The true value is the mean R2, on many
    new rows, of fits to half as many rows.
    """
    rng = np.random.default_rng([groups, codes])

    def sample(rows: int) -> tuple[ndarray, ndarray]:
        table = rng.normal(size=(rows, codes + 1))
        return table[:, :codes] + np.eye(codes)[0] * table[:, codes:], table[:, codes]

    def r2(training: tuple[ndarray, ndarray], others: tuple[ndarray, ndarray]) -> float:
        weights = np.linalg.lstsq(*training, rcond=None)[0]
        return 1 - np.square(others[1] - others[0] @ weights).mean() / others[1].var()

    truth = np.mean([r2(sample((groups + 1) // 2), sample(10_000)) for _ in range(400)])
    held = 0
    for run in range(runs):
        table, factor = sample(groups)
        halves = split_groups([str(row) for row in range(groups)], 5, run)
        scores = [r2((table[half], factor[half]), (table[~half], factor[~half])) for half in halves]
        found = split_interval(scores)
        held += found.low <= truth <= found.high
    return held / runs


ABOUT = Provenance("simulated", 1, "lower", {}, {}, {}, {})


def mean_result(column: ndarray, numbers: ndarray) -> MeanResult:
    """Make a result of rows."""
    groups = tuple(str(number) for number in numbers)
    ids = tuple(str(row) for row in range(len(numbers)))
    return MeanResult(ABOUT, ids, groups, {"error": tuple(column.tolist())}, ())


def ratio_result(first: ndarray, second: ndarray, numbers: ndarray, draws: ndarray) -> StatisticResult:
    """Make a result of a ratio with its replicates."""
    drawn = replicates(first, second, numbers, draws)
    score = Score(float(first.sum() / second.sum()), np.nan, np.nan)
    groups = tuple(str(number) for number in range(draws.shape[1]))
    return StatisticResult(ABOUT, {"ratio": score}, {"ratio": tuple(drawn.tolist())}, groups, (), {})


def main() -> None:
    """Print the tables."""
    from benchmarks.processes import print_table

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    names = {False: "normal", True: "lognormal"}
    rows = []
    for skewed, groups in itertools.product(names, GROUPS):
        held = coverage(groups, skewed, runs, 0) | peer_coverage(groups, skewed, runs, 0)
        rows.append([names[skewed], groups, *(f"{share:.3f}" for share in held.values())])
    print_table(["values", "groups", *held], rows)
    print()
    rows = []
    for skewed, size in itertools.product(names, (0.0, PLANTED)):
        won = found(size, skewed, runs, 0)
        rows.append([names[skewed], f"{size:g} sd", *(f"{share:.3f}" for share in won.values())])
    print_table(["values", "planted", *won], rows)
    print()
    rows = [
        [groups, codes, f"{halves_coverage(groups, codes, runs):.3f}"]
        for groups, codes in itertools.product((60, 400, 4000), (2, 20))
    ]
    print_table(["groups", "codes", "R2 of random halves"], rows)


if __name__ == "__main__":
    main()
