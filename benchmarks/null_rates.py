"""Measure how often comparisons of IRS, unconfoundedness, WAIoU or CSM find a false difference.

    python -m benchmarks.null_rates irs --runs 120 --images 120

Both models are drawn from one distribution, so every difference is a false positive; the nominal rate is
0.05. IRS: codes of six mixtures of three factors, with noise. Unconfoundedness (rho 2): the same codes with
more noise. WAIoU: skewed IoUs of four parts, equally distributed in five proportions. CSM: shares of test
frames of six concept sets, correlated between the sets, with fixed vectors. Minutes each.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch

from evaluation.causal.irs import IRS, irs
from evaluation.causal.scoring.measure_codes import MOST_RESAMPLES
from evaluation.causal.unconfoundedness import unconfoundedness
from evaluation.concepts.set_scores import ALIGNMENTS, BRANCHES, BranchScore, Ratios, SetScore
from evaluation.coverage.causal_statistic import CausalStatistic
from evaluation.coverage.coverage_statistic import CoverageStatistic
from evaluation.coverage.open_parameters import OpenParameters
from evaluation.results.compare import compare
from evaluation.results.resampled_intervals import resampled_interval
from evaluation.results.result import Provenance, StatisticResult

ABOUT = Provenance("simulated", 1, "higher", {}, {}, {}, {})
MIXTURES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.7, 0.7, 0], [0, 0.5, 1], [0.3, 0.3, 0.3]]).T
CSM = "csm_s aligned, all sets"


def irs_pair(rng: np.random.Generator, images: int) -> list[StatisticResult]:
    """Score two encoders with IRS; they differ only in their noise."""
    return encoder_pair(rng, images, "irs", 1, lambda found: float(found.score), repeats=False)


def unconfoundedness_pair(rng: np.random.Generator, images: int) -> list[StatisticResult]:
    """Score two encoders with unconfoundedness; they respond weakly and differ only in their noise."""
    name = "unconfoundedness(2)"
    return encoder_pair(
        rng, images, name, 0.15, lambda found: float(unconfoundedness(found, 2)), repeats=True
    )


def encoder_pair(
    rng: np.random.Generator,
    images: int,
    name: str,
    gain: float,
    score: Callable[[IRS], float],
    repeats: bool,
) -> list[StatisticResult]:
    """Score two encoders of the same factors that differ only in their noise."""
    grid = np.stack(np.meshgrid(range(3), range(4), range(2), indexing="ij")).reshape(3, -1).T
    factors = torch.from_numpy(np.tile(grid, (max(1, images // len(grid)), 1)))

    def one() -> StatisticResult:
        noise = rng.normal(size=(len(factors), MIXTURES.shape[1])) * 0.5
        codes = torch.from_numpy(factors.numpy() @ MIXTURES * gain + noise)

        def statistic(rows: np.ndarray) -> dict[str, float]:
            return {name: score(irs(codes[rows], factors[rows]))}

        return result(statistic, len(factors), name, resamples=MOST_RESAMPLES, repeats=repeats)

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
    repeats: bool = True,
) -> StatisticResult:
    """Make a result of one score, in which each image is a group."""
    groups = tuple(str(row) for row in range(images))
    scores, replicates = resampled_interval(statistic, groups, 0, resamples, repeats)
    own = as_name or name
    return StatisticResult(ABOUT, {own: scores[name]}, {own: replicates[name]}, groups, (), {})


def main() -> None:
    """Print the share of runs with a difference, and the share of intervals that contain the true value."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pairs = {
        "irs": irs_pair,
        "unconfoundedness": unconfoundedness_pair,
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
    share = np.mean([compare(*pair).winner is not None for pair in results])
    print(f"{given.score}, {given.images} images: {share:.3f} of {given.runs} runs, 0.05 is meant")
    scores = [next(iter(result.scores.values())) for pair in results for result in pair]
    expected = np.mean([score.value for score in scores])
    held = np.mean([score.low <= expected <= score.high for score in scores])
    print(f"{held:.3f} of {len(scores)} intervals hold the mean of all scores, 0.95 is meant")


if __name__ == "__main__":
    main()
