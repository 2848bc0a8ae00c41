"""Compare IRS of many codes with plain numpy: the mean and the percentile of each group of rows.

    python -m benchmarks.metrics.irs [--samples 10000] [--codes 64] [--rounds 7]

Random codes that mix six factors of 3 to 20 values; one thread, CPU seconds, both programs by turns in one
process.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy import ndarray

from benchmarks.processes import print_table
from candlelight.evaluation.causal.irs import irs

WANTED = 1.5
SIZES = (3, 4, 8, 10, 15, 20)


def plain_irs(codes: ndarray, factors: ndarray) -> ndarray:
    """Score each code by each factor, group by group."""
    largest = abs(codes - codes.mean(0)).max(0)
    columns = []
    for factor in factors.T:
        deviations = []
        for value in np.unique(factor):
            group = codes[factor == value]
            deviations.append(np.percentile(abs(group - group.mean(0)), 99, axis=0))
        columns.append(1 - np.mean(deviations, axis=0) / largest)
    return np.stack(columns, axis=1)


def cpu_seconds(program: Callable[..., object], *arguments: object) -> float:
    before = time.process_time()
    program(*arguments)
    return time.process_time() - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=10000)
    parser.add_argument("--codes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=options.samples) for size in SIZES], axis=1)
    codes = factors @ rng.normal(size=(len(SIZES), options.codes))
    codes += rng.normal(size=codes.shape)
    plain, ours = (codes, factors), (torch.from_numpy(codes), torch.from_numpy(factors))
    times = [(cpu_seconds(plain_irs, *plain), cpu_seconds(irs, *ours)) for _ in range(options.rounds)]
    print_table(
        ("codes", "numpy, CPU s", "irs, CPU s", "ratio", "wanted", "largest difference"),
        [
            (
                f"{options.samples} x {options.codes}, {len(SIZES)} factors",
                *(statistics.median(column) for column in zip(*times, strict=True)),
                statistics.median(slow / fast for slow, fast in times),
                WANTED,
                float(np.abs(irs(*ours).matrix.numpy() - plain_irs(*plain)).max()),
            )
        ],
    )


if __name__ == "__main__":
    main()
