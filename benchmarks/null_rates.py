"""Measure how often comparisons of causal metrics, WAIoU or CSM find a false difference.

    python -m benchmarks.null_rates irs --runs 120 --images 120

Both models are drawn from one distribution, so every difference is a false positive; the nominal rate is
0.05. Causal metrics: codes of six mixtures of three factors, with noise, for unconfoundedness with more.
WAIoU: skewed IoUs of four parts, equally distributed in five proportions. CSM: shares of test frames of six
concept sets, correlated between the sets, with fixed vectors. Minutes each.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from candlelight.evaluation.causal.scoring.factor_table import FactorTable
from candlelight.evaluation.causal.scoring.measure_codes import measure_codes
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BRANCHES, BranchScore, Ratios, SetScore
from candlelight.evaluation.coverage.causal_statistic import CausalStatistic
from candlelight.evaluation.coverage.coverage_statistic import CoverageStatistic
from candlelight.evaluation.coverage.open_parameters import OpenParameters
from candlelight.evaluation.results.compare import compare
from candlelight.evaluation.results.resampled_intervals import resampled_interval
from candlelight.evaluation.results.result import Provenance, StatisticResult

ABOUT = Provenance("simulated", 1, "higher", {}, {}, {}, {})
MIXTURES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.7, 0.7, 0], [0, 0.5, 1], [0.3, 0.3, 0.3]]).T
CSM = "csm_s aligned, all sets"
# Gain of the codes of each metric: 1, except where it would bring a score to its bound.
GAINS = {"irs": 1, "unconfoundedness": 0.15, "mig": 1, "modularity": 1, "infomec": 1, "minimality": 1}


def encoder_pair(metric: str, rng: np.random.Generator, images: int) -> list[StatisticResult]:
    """Score two encoders of the same factors that differ only in their noise.

    Args:
        metric: a name of `CODE_METRICS`.
        rng: source of the noise.
        images: number of images, rounded down to whole grids of 24; each is a group.
    """
    grid = torch.cartesian_prod(torch.arange(3), torch.arange(4), torch.arange(2))
    factors = grid.repeat(max(1, images // len(grid)), 1)
    table = FactorTable(("a", "b", "c"), factors.double(), factors, (0, 1, 2), (), ())
    groups = tuple(str(row) for row in range(len(factors)))

    def one() -> StatisticResult:
        noise = rng.normal(size=(len(factors), MIXTURES.shape[1])) * 0.5
        codes = torch.from_numpy(factors.numpy() @ MIXTURES * GAINS[metric] + noise)
        found = measure_codes(codes, table, groups, metric)
        return StatisticResult(ABOUT, found.scores, found.replicates, groups, (), {})

    return [one(), one()]


def waiou_pair(rng: np.random.Generator, images: int) -> list[StatisticResult]:
    """Score two methods whose IoUs are drawn from one distribution."""
    base = rng.beta(1, 3, size=(2, 1, images, 4))
    iou = np.clip(base + rng.normal(size=(2, 5, images, 4)) * 0.02, 0, 1)
    weighed = CoverageStatistic(
        iou * (rng.random((2, 1, images, 4)) > 0.3),
        OpenParameters(),
        ("a", "b"),
        list(map(str, range(images))),
    )
    return [result(weighed, images, f"waiou {name}", as_name="waiou", resamples=1000) for name in "ab"]


def causal_check_pair(rng: np.random.Generator, images: int) -> list[StatisticResult]:
    """Score two methods whose maps know nothing of the effects of nine regions."""
    effect, sides = rng.exponential(size=(images, 9)), rng.random((2, images, 2))
    effect[rng.random((images, 9)) < 0.3] = np.nan

    def one() -> StatisticResult:
        density = np.where(np.isnan(effect), np.nan, rng.random((images, 9)))
        statistic = CausalStatistic(density, effect, np.zeros(images, bool), *sides)
        return result(statistic, images, "agreement", resamples=1000)

    return [one(), one()]


def csm_pair(rng: np.random.Generator, images: int) -> list[StatisticResult]:
    """Score two models whose shares of test frames are drawn from one distribution."""

    def one() -> StatisticResult:
        shared, sets = rng.normal(size=(2, images)), []
        for _ in range(6):
            branches = {}
            for place, branch in enumerate(BRANCHES):
                level = 0.5**0.5 * (shared[place] + rng.normal(size=images)) + (0.5, -0.2)[place]
                score = BranchScore(tuple(1 / (1 + np.exp(-2 * level))), 0.1, 0.9, 0.01, True)
                branches[branch] = dict.fromkeys(ALIGNMENTS, score)
            sets.append(SetScore("albedo", {}, 9, branches))
        return result(Ratios(sets), images, CSM, resamples=600)

    return [one(), one()]


def result(
    statistic: Callable[[np.ndarray], dict[str, float]],
    images: int,
    name: str,
    as_name: str | None = None,
    resamples: int = 200,
) -> StatisticResult:
    """Make a result of one score, in which each image is a group."""
    groups = tuple(str(row) for row in range(images))
    scores, replicates = resampled_interval(statistic, groups, 0, resamples)
    own = as_name or name
    return StatisticResult(ABOUT, {own: scores[name]}, {own: replicates[name]}, groups, (), {})


def main() -> None:
    """Print the share of runs with a difference, and the share of intervals that contain the true value."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pairs = {
        **{metric: partial(encoder_pair, metric) for metric in GAINS},
        "waiou": waiou_pair,
        "causal-check": causal_check_pair,
        "csm": csm_pair,
    }
    parser.add_argument("score", choices=pairs)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(given.seed)
    results = [pairs[given.score](rng, given.images) for _ in range(given.runs)]
    for name in results[0][0].scores:
        share = np.mean([compare(*pair, name).winner is not None for pair in results])
        print(f"{name}, {given.images} images: {share:.3f} of {given.runs} runs, 0.05 is meant")
        scores = [result.scores[name] for pair in results for result in pair]
        expected = np.mean([score.value for score in scores])
        held = np.mean([score.low <= expected <= score.high for score in scores])
        print(f"{held:.3f} of {len(scores)} intervals hold the mean of all scores, 0.95 is meant")


if __name__ == "__main__":
    main()
