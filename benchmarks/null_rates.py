"""Measure how often comparisons of causal metrics, WAIoU or CSM find a false difference.

    python -m benchmarks.null_rates irs --runs 120 --images 120
    python -m benchmarks.null_rates csm-controls --images 30 --scenes 6 --controls 6 --ratio 2

Both models are drawn from one distribution, so every difference is a false positive; the nominal rate is
0.05. Causal metrics: codes of six mixtures of three factors, with noise, for unconfoundedness with more.
WAIoU: skewed IoUs of four parts, equally distributed in five proportions. CSM: shares of test frames of six
concept sets, correlated between the sets, with fixed vectors. CSM against controls: shares with effects of
frames, scenes and controls, drawn anew for each model; with --ratio the first model is better. Minutes each.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from candlelight.evaluation.catalogue.coverage_options import CoverageOptions
from candlelight.evaluation.causal.factor_table import FactorTable
from candlelight.evaluation.causal.measure_codes import measure_codes
from candlelight.evaluation.concepts.set_scores import (
    ALIGNMENTS,
    BRANCHES,
    CONTROLLED,
    METRICS,
    UNWANTED,
    BranchScore,
    Concept,
    Ratios,
    SetScore,
    merge_controls,
)
from candlelight.evaluation.coverage.causal_effects import CausalStatistic
from candlelight.evaluation.coverage.waiou import CoverageStatistic
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.result import Provenance, StatisticResult

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
        CoverageOptions(),
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
        chance, dead = np.full(images, 1 / 9), np.zeros(images, bool)
        statistic = CausalStatistic(density, effect, chance, dead, *sides)
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


def controls_pair(
    rng: np.random.Generator,
    images: int,
    *,
    scenes: int,
    controls: int,
    spread: Sequence[float],
    ratio: float,
    resamples: int = 600,
) -> list[StatisticResult]:
    """Score two models on concept sets of several scenes, each against several controls.

    The logit of a share is a sum of normal effects of the frame (standard deviation 1), of the scene, of the
    control, and of all three together (0.5). All are drawn anew for each model, branch and concept.

    Args:
        rng: source of the effects.
        images: number of test frames; each is a group.
        scenes: number of scenes, with a set of albedo and one of illumination each.
        controls: number of controls of each set.
        spread: standard deviations of the effects of scenes and of controls.
        ratio: true score of the first model in units of that of the second, 1 or more.
        resamples: number of resamples.
    """
    sizes = (scenes, 1, 1), (1, controls, 1), (1, 1, images), (scenes, controls, images)

    def shares(times: float) -> np.ndarray:
        effects = [sd * rng.normal(size=size) for sd, size in zip((*spread, 1, 0.5), sizes, strict=True)]
        return times / (1 + np.exp(-sum(effects)))

    def one(times: float) -> StatisticResult:
        sets = []
        for concept in METRICS:
            frames = {branch: shares(times if branch == UNWANTED[concept] else 1) for branch in BRANCHES}
            sets += [controlled_set(concept, scene, frames) for scene in range(scenes)]
        return controlled_result(sets, images, resamples)

    return [one(1 / ratio), one(1)]


def controlled_set(concept: Concept, scene: int, frames: dict[str, np.ndarray]) -> SetScore:
    """Make the scores of a set against its controls from shares [scene, control, frame] of both branches."""
    branches = {}
    for branch, some in frames.items():
        ends = [f" {number + 1}" for number in range(some.shape[1])] if some.shape[1] > 1 else [""]
        branches[branch] = {
            f"aligned{CONTROLLED}{end}": BranchScore(tuple(one), 0.1, 0.9, 0.01)
            for end, one in zip(ends, some[scene], strict=True)
        }
    return merge_controls(SetScore(concept, {"scene": scene}, 20, branches))


def controlled_result(sets: Sequence[SetScore], images: int, resamples: int) -> StatisticResult:
    """Make a result of the scores of all sets against controls, in which each image is a group."""
    ratios, groups = Ratios(sets), tuple(map(str, range(images)))
    units, by_control = ratios.units(), ratios.by_control()
    scores, replicates = resampled_interval(ratios, groups, 0, resamples, units=units)
    return StatisticResult(
        ABOUT,
        {name: scores[name] for name in by_control},
        {name: replicates[name] for name in by_control},
        groups,
        (),
        {
            "by_control": {
                name: {str(number): one for number, one in enumerate(some)}
                for name, some in by_control.items()
            }
        },
        units,
    )


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


def print_rates(results: Sequence[Sequence[StatisticResult]]) -> None:
    """Print the share of pairs with a difference, and the share of intervals that hold the mean score."""
    for name in results[0][0].scores:
        found = [compare(first, second, name) for first, second in results]
        share = np.mean([one.winner is not None for one in found])
        print(f"{name}: {share:.3f} of {len(results)} runs, between equal models 0.05 is meant")
        if results[0][0].units:
            every = np.mean([one.p_value < 0.05 for one in found])
            pairs = [[replace(one, units={}) for one in pair] for pair in results]
            alone = np.mean([compare(first, second, name).winner is not None for first, second in pairs])
            print(f"{every:.3f} with reversed orders, {alone:.3f} if test frames alone were counted")
        held: list[bool] = []
        for column in zip(*results, strict=True):
            scores = [one.scores[name] for one in column]
            expected = np.mean([score.value for score in scores])
            held += [score.low <= expected <= score.high for score in scores if score.low == score.low]
        if held:
            print(f"{np.mean(held):.3f} of {len(held)} intervals hold the mean of all scores, 0.95 is meant")


def main() -> None:
    """Simulate pairs of models, and print how often they are told apart."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    pairs: dict[str, Callable[..., list[StatisticResult]]] = {
        **{metric: partial(encoder_pair, metric) for metric in GAINS},
        "waiou": waiou_pair,
        "causal-check": causal_check_pair,
        "csm": csm_pair,
        "csm-controls": controls_pair,
    }
    parser.add_argument("score", choices=pairs)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.add_argument_group("csm-controls")
    options.add_argument("--scenes", type=int, default=6)
    options.add_argument("--controls", type=int, default=6)
    options.add_argument("--spread", type=float, nargs=2, default=(0.6, 0.6), metavar=("SCENES", "CONTROLS"))
    options.add_argument("--ratio", type=float, default=1.0)
    given = vars(parser.parse_args())
    torch.set_num_threads(1)
    score, runs, images, seed = (given.pop(name) for name in ("score", "runs", "images", "seed"))
    if score == "csm-controls":
        pairs[score] = partial(controls_pair, **given)
    rng = np.random.default_rng(seed)
    print_rates([pairs[score](rng, images) for _ in range(runs)])


if __name__ == "__main__":
    main()
