"""Compare dci_fast with dci, which uses scikit-learn: CPU seconds, disentanglement and completeness.

    python -m benchmarks.metrics.dci [--train 10000] [--test 5000] [--only identity,random]

Ten codes and five independent factors of 2 to 4 classes; one thread, CPU seconds, both programs in one
process. Five representations: the standardised factors and five codes of noise (identity), a random rotation
of these ten, the factors with noise of standard deviation 0.5 and five codes of noise (noisy), each factor
twice (redundant), and noise only (random). The reference takes minutes.
"""

import argparse
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy import ndarray

from benchmarks.processes import print_table
from candlelight.evaluation.causal.dci import DCI, dci, dci_fast

WANTED = 8
SIZES = (2, 2, 3, 3, 4)


def representations(rows: int) -> tuple[ndarray, Mapping[str, ndarray]]:
    """Draw factors, and codes by name."""
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(size, size=rows) for size in SIZES], axis=1)
    pure = (factors - factors.mean(0)) / factors.std(0)
    identity = np.hstack([pure, rng.normal(size=pure.shape)])
    return factors, {
        "identity": identity,
        "rotation": identity @ np.linalg.qr(rng.normal(size=(10, 10)))[0],
        "noisy": identity + np.hstack([0.5 * rng.normal(size=pure.shape), np.zeros(pure.shape)]),
        "redundant": np.hstack([pure, pure]),
        "random": rng.normal(size=identity.shape),
    }


def timed(program: Callable[..., DCI], *arguments: torch.Tensor) -> tuple[float, DCI]:
    before = time.process_time()
    found = program(*arguments)
    return time.process_time() - before, found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=int, default=10000)
    parser.add_argument("--test", type=int, default=5000)
    parser.add_argument("--only", default="identity,rotation,noisy,redundant,random")
    options = parser.parse_args()
    torch.set_num_threads(1)
    factors, codes = representations(options.train + options.test)
    train, test = torch.arange(len(factors)).split([options.train, options.test])
    rows = []
    for name in options.only.split(","):
        arguments = torch.from_numpy(codes[name]), torch.from_numpy(factors), train, test
        (fast_time, fast), (slow_time, slow) = timed(dci_fast, *arguments), timed(dci, *arguments)
        numbers: list[float] = [slow_time, fast_time, slow_time / fast_time, WANTED]
        for part in ("disentanglement", "completeness", "informativeness_test"):
            numbers += [float(getattr(slow, part)), float(getattr(fast, part))]
        rows.append((name, *numbers))
    pairs = [f"{part}, {program}" for part in ("D", "C", "test accuracy") for program in ("dci", "dci_fast")]
    print_table(("codes", "dci, CPU s", "dci_fast, CPU s", "ratio", "wanted, at least", *pairs), rows)


if __name__ == "__main__":
    main()
