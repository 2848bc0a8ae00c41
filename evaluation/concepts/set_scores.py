"""Sensitivities of the two branches to each concept set, and the ratios CSM_S and CSM_R over sets."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.concepts_options import SetTest
from candlelight.evaluation.concepts.permutation import permutation_test
from candlelight.evaluation.views import ConceptSet
from candlelight.loaders.schema import FactorValue

Concept = Literal["albedo", "illumination"]
BRANCHES = ("reflectance", "shading")
WANTED = {"albedo": "reflectance", "illumination": "shading"}
UNWANTED = {"albedo": "shading", "illumination": "reflectance"}
METRICS: dict[Concept, str] = {"albedo": "csm_s", "illumination": "csm_r"}
ALIGNMENTS = ("aligned", "unaligned")
CONTROLLED = " against control"  # ends the name of a condition in which a control replaces the negatives
RULES = ("all sets", "both branches", "wanted branch")
_LONG = ("frames", "draws", "runs")  # fields that are left out of the details of a result


@dataclass(frozen=True)
class BranchScore:
    """Sensitivity of one branch to one concept set, under one condition.

    Attributes:
        frames: for each test frame, the share of the runs in which the concept lowers the loss.
        spread: standard deviation over the runs of the share of frames.
        accuracy: mean held-out accuracy of the vectors; near 0.5 the branch does not represent the concept.
        t_test_p: p-value of the t-test against random vectors.
        cosine: mean cosine of the vectors with the direction in which the loss falls, over frames and
            runs, in [-1, 1]: the smooth counterpart of the share, which also sees how strong an effect is.
        effect: score of `permutation_test` in standard deviations of the exchanges, and its interval.
        draws: score of the true sets and of each exchange of images; empty if groups leave too few exchanges.
        permutation_p: p-value of the permutation test; nan until `with_p_values` has seen all sets, and
            without draws.
        adjusted_p: the same, corrected for the number of sets.
        runs: for each run, the share of test frames on which the concept lowers the loss.
        vectors: share of the runs with a vector; there is none where all images have equal activations.
    """

    frames: tuple[float, ...]
    spread: float
    accuracy: float
    t_test_p: float
    cosine: float = math.nan
    effect: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    draws: tuple[float, ...] = ()
    permutation_p: float = math.nan
    adjusted_p: float = math.nan
    runs: tuple[float, ...] = ()
    vectors: float = 1.0

    @property
    def sensitivity(self) -> float:
        """Mean over test frames and runs, in [0, 1]."""
        return float(np.mean(self.frames))

    def passes(self, significance: SetTest, p: float) -> bool:
        """Tell whether a test finds the set significant for the branch."""
        return (self.t_test_p if significance == "t-test" else self.adjusted_p) < p


@dataclass(frozen=True)
class SetScore:
    """One concept set: its concept, its fixed factors, and the scores of each branch by condition.

    A condition is the alignment of the loss, with `CONTROLLED` if the vectors separate the set from its
    control instead of the negatives; with several controls `CONTROLLED` is their mean (`merge_controls`), and
    each has a condition of its own that ends with its number from 1.

    Attributes:
        objects: number of objects in the scene; None if it is unknown or not fixed.
    """

    concept: Concept
    fixed: dict[str, FactorValue]
    images: int
    branches: dict[str, dict[str, BranchScore]]
    objects: int | None = None

    def passes(self, condition: str, rule: str, significance: SetTest = "t-test", p: float = 0.01) -> bool:
        """Tell whether a rule of `RULES` keeps the set."""
        if rule == "all sets":
            return True
        # Negatives are of other scenes, so only a control can be exchanged with the set.
        if significance == "permutation" and condition + CONTROLLED in self.branches[BRANCHES[0]]:
            condition += CONTROLLED
        branches = BRANCHES if rule == "both branches" else (WANTED[self.concept],)
        return all(self.branches[branch][condition].passes(significance, p) for branch in branches)

    def describe(self, significance: SetTest = "t-test", p: float = 0.01) -> dict[str, Any]:
        """Collect the details of a result, without the shares of single frames and runs."""
        return {
            "concept": self.concept,
            "fixed": self.fixed,
            "objects": self.objects,
            "images": self.images,
            **{
                branch: {
                    condition: {
                        "sensitivity": score.sensitivity,
                        **{name: value for name, value in asdict(score).items() if name not in _LONG},
                        "significant": score.passes(significance, p),
                    }
                    for condition, score in scores.items()
                }
                for branch, scores in self.branches.items()
            },
        }


def with_p_values(sets: Sequence[SetScore]) -> list[SetScore]:
    """Compute the p-values of the permutation test, corrected over all sets of a branch and condition."""
    found = [{branch: dict(one.branches[branch]) for branch in BRANCHES} for one in sets]
    for branch in BRANCHES:
        for condition in dict.fromkeys(name for one in sets for name in one.branches[branch]):
            some = {number: one.branches[branch].get(condition) for number, one in enumerate(sets)}
            scores = [one for one in some.values() if one is not None and one.draws]
            tested = [number for number, one in some.items() if one is not None and one.draws]
            if not tested:  # groups left too few exchanges in every set
                continue
            test = permutation_test(torch.tensor([one.draws for one in scores], dtype=torch.float64))
            for place, (number, one) in enumerate(zip(tested, scores, strict=True)):
                single, adjusted = float(test.p_value[place]), float(test.adjusted[place])
                found[number][branch][condition] = replace(one, permutation_p=single, adjusted_p=adjusted)
    return [replace(one, branches=branches) for one, branches in zip(sets, found, strict=True)]


def merge_controls(score: SetScore) -> SetScore:
    """Add the mean over the controls of a set that has several, under the conditions `CONTROLLED`.

    A set is significant only if it is so against every control: p-values are the largest ones, and the effect
    is the one nearest to 0.
    """
    branches = {name: dict(scores) for name, scores in score.branches.items()}
    for scores in branches.values():
        for alignment in ALIGNMENTS:
            several = [one for name, one in scores.items() if name.startswith(f"{alignment}{CONTROLLED} ")]
            if several:
                scores[alignment + CONTROLLED] = _mean_score(several)
    return replace(score, branches=branches)


def _mean_score(several: Sequence[BranchScore]) -> BranchScore:
    def mean(name: str) -> Any:
        return np.mean([getattr(one, name) for one in several], axis=0)

    def largest(name: str) -> float:
        return float(np.max([getattr(one, name) for one in several]))

    return BranchScore(
        frames=tuple(mean("frames").tolist()),
        spread=float(mean("spread")),
        accuracy=float(mean("accuracy")),
        t_test_p=largest("t_test_p"),
        cosine=float(mean("cosine")),
        effect=min((one.effect for one in several), key=lambda effect: abs(effect[0])),
        permutation_p=largest("permutation_p"),
        adjusted_p=largest("adjusted_p"),
        runs=tuple(mean("runs").tolist()),
        vectors=float(mean("vectors")),
    )


def conditions(sets: Sequence[SetScore]) -> list[str]:
    """List the conditions of all sets, without single controls: those against controls first."""
    names = dict.fromkeys(name for one in sets for name in one.branches[BRANCHES[0]])
    return sorted(
        (name for name in names if name in ALIGNMENTS or name.endswith(CONTROLLED)),
        key=lambda name: not name.endswith(CONTROLLED),
    )


def frame_means(sets: Sequence[SetScore]) -> dict[str, list[float]]:
    """Average the shares of each test frame over the sets of a concept, for each branch and condition.

    Example:
        >>> branch = {"aligned": BranchScore((0.0, 0.5), 0.1, 0.9, 0.01)}
        >>> frame_means([SetScore("albedo", {}, 2, dict.fromkeys(BRANCHES, branch))])
        {'reflectance to albedo, aligned': [0.0, 0.5], 'shading to albedo, aligned': [0.0, 0.5]}
    """
    means = {}
    for condition, concept, branch in itertools.product(conditions(sets), METRICS, BRANCHES):
        some = [s for s in sets if s.concept == concept and condition in s.branches[branch]]
        if some:
            frames = np.array([one.branches[branch][condition].frames for one in some])
            means[f"{branch} to {concept}, {condition}"] = frames.mean(0).tolist()
    return means


_LATER = ("permutation_p", "adjusted_p")  # fields of which `with_p_values` computes the values


def to_step(score: SetScore) -> dict[str, Tensor]:
    """Convert the scores of a set to float64 tensors, as `candlelight.evaluation.run.steps` keeps them."""
    return {
        f"{branch}, {condition}, {name}": torch.tensor(value, dtype=torch.float64)
        for branch, scores in score.branches.items()
        for condition, one in scores.items()
        for name, value in vars(one).items()
        if name not in _LATER
    }


def from_step(step: Mapping[str, Tensor], concept: Concept, chosen: ConceptSet) -> SetScore:
    """Convert the tensors of `to_step` back to the scores of a set.

    Example:
        >>> branch = BranchScore((0.0, 0.5), 0.1, 0.9, 0.01, 0.2, (3, 2, 4), (3, 0, 1), runs=(0.25, 0.25))
        >>> score = SetScore("albedo", {}, 2, {name: {"aligned": branch} for name in BRANCHES}, objects=1)
        >>> again = from_step(to_step(score), "albedo", ConceptSet({}, (0, 1), objects=1))
        >>> with_p_values([again]) == with_p_values([score])
        True
    """
    found: dict[str, dict[str, dict[str, Any]]] = {branch: {} for branch in BRANCHES}
    for key, values in step.items():
        branch, condition, name = key.split(", ")
        read = values.tolist()
        found[branch].setdefault(condition, {})[name] = tuple(read) if values.ndim else read
    branches = {
        branch: {condition: BranchScore(**read) for condition, read in conditions.items()}
        for branch, conditions in found.items()
    }
    return SetScore(concept, dict(chosen.fixed), len(chosen.rows), branches, chosen.objects)


class Ratios:
    """CSM_S and CSM_R over any choice of test frames, for each condition and rule.

    Against negatives a score is the mean over sets of their ratios, as in the paper; against controls it is
    the mean sensitivity of the wanted branch over all sets and controls, divided by that of the other branch,
    so that no single set or control with a small denominator decides.

    Rules: "all sets" keeps all sets; "both branches" keeps sets that are significant for both branches, which
    is the rule of the paper with its t-test ("average over the passing significant CAVs", Gupta et al. 2022,
    sec. 4.2); "wanted branch" keeps sets that are significant for the branch that should respond to the
    concept. If no set is left, a ratio is nan.

    Args:
        sets: scores of all concept sets, on the same test frames.
        significance: the test that decides.
        p: its level; for the permutation test, of the p-value that is corrected for the number of sets.
    """

    def __init__(self, sets: Sequence[SetScore], significance: SetTest = "t-test", p: float = 0.01) -> None:
        self._frames: dict[tuple[str, Concept, str], Float64[ndarray, "sets controls frames"]] = {}
        self._kept: dict[tuple[Concept, str, str], Bool[ndarray, " sets"]] = {}
        self._scenes: dict[tuple[Concept, str], Int[ndarray, " sets"]] = {}
        self._conditions = conditions(sets)
        for condition, concept in itertools.product(self._conditions, METRICS):
            some = [s for s in sets if s.concept == concept and condition in s.branches[BRANCHES[0]]]
            if not some:
                continue
            names = [str(one.fixed.get("scene", number)) for number, one in enumerate(some)]
            self._scenes[concept, condition] = np.unique(names, return_inverse=True)[1]
            for branch in BRANCHES:
                frames = [_by_control(one.branches[branch], condition) for one in some]
                self._frames[branch, concept, condition] = _stacked(frames)
            for rule in RULES:
                passed = [one.passes(condition, rule, significance, p) for one in some]
                self._kept[concept, condition, rule] = np.array(passed)

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Combine sensitivities over some test frames.

        Against controls, a choice of frames other than all in their order also draws scenes and controls with
        replacement, so that intervals are over them too; the draw follows from the rows, and is the same for
        two models.

        Args:
            rows: numbers of the test frames; repeated numbers count repeatedly.

        Returns:
            Ratios by name, such as ``csm_s aligned, all sets``; a metric without concept sets is left out.
        """
        ratios = {}
        found = {key: _mean_frames(frames, rows) for key, frames in self._frames.items()}
        drawn = {key: self._times(*key, rows) for key in self._scenes if key[1].endswith(CONTROLLED)}
        for rule, condition, concept in itertools.product(RULES, self._conditions, METRICS):
            if (concept, condition, rule) not in self._kept:
                continue
            kept = self._kept[concept, condition, rule]
            wanted, unwanted = (found[side[concept], concept, condition] for side in (WANTED, UNWANTED))
            name = f"{METRICS[concept]} {condition}, {rule}"
            if condition.endswith(CONTROLLED):
                ratios[name] = ratio_of_means(wanted, unwanted, kept[:, None] * drawn[concept, condition])
            else:
                ratios[name] = mean_ratio(wanted[kept, 0], unwanted[kept, 0])
        return ratios

    def units(self) -> dict[str, dict[str, int]]:
        """Count the scenes and the controls that a score against controls draws, by the name of the score."""
        return {
            f"{METRICS[concept]} {condition}, {rule}": {
                "scenes": len(np.unique(self._scenes[concept, condition][kept])),
                "controls": self._frames[BRANCHES[0], concept, condition].shape[1],
            }
            for (concept, condition, rule), kept in self._kept.items()
            if condition.endswith(CONTROLLED)
        }

    def by_control(self) -> dict[str, list[float]]:
        """Compute the scores of all sets against each single control, by the name of the score."""
        scores = {}
        for concept, condition, rule in self._kept:
            if rule == RULES[0] and condition.endswith(CONTROLLED):
                frames = [self._frames[side[concept], concept, condition] for side in (WANTED, UNWANTED)]
                wanted, unwanted = (one.mean(2) for one in frames)
                numbers = range(wanted.shape[1])
                scores[f"{METRICS[concept]} {condition}, {rule}"] = [
                    ratio_of_means(wanted[:, [k]], unwanted[:, [k]], np.ones((len(wanted), 1)))
                    for k in numbers
                ]
        return scores

    def _times(self, concept: Concept, condition: str, rows: ndarray) -> Float64[ndarray, "sets controls"]:
        """Count how often a resample holds each set and control; once if ``rows`` are all frames in order."""
        scenes = self._scenes[concept, condition]
        _, controls, frames = self._frames[BRANCHES[0], concept, condition].shape
        if np.array_equal(rows, np.arange(frames)):
            return np.ones((len(scenes), controls))
        drawn = np.random.default_rng(rows)
        count = int(scenes.max()) + 1
        of_scene, of_control = (
            np.bincount(drawn.integers(size, size=size), minlength=size) for size in (count, controls)
        )
        return (of_scene[scenes][:, None] * of_control[None]).astype(np.float64)


def _by_control(scores: Mapping[str, BranchScore], condition: str) -> list[tuple[float, ...]]:
    """Return the shares of each test frame, for each control of a set."""
    of_one = condition + " " if condition.endswith(CONTROLLED) else None  # numbers follow
    several = [one.frames for name, one in scores.items() if of_one and name.startswith(of_one)]
    return several or [scores[condition].frames]


def _stacked(frames: Sequence[list[tuple[float, ...]]]) -> Float64[ndarray, "sets controls frames"]:
    """Stack the shares of all sets; nan where a set has fewer controls than others."""
    most = max(map(len, frames))
    return np.array([[*one, *[(math.nan,) * len(one[0])] * (most - len(one))] for one in frames])


def _mean_frames(
    frames: Float64[ndarray, "sets controls frames"], rows: Int[ndarray, " rows"]
) -> Float64[ndarray, "sets controls"]:
    times = np.bincount(rows, minlength=frames.shape[2])
    return (frames @ times / len(rows)).astype(np.float64)


def ratio_of_means(
    wanted: Float64[ndarray, "sets controls"],
    unwanted: Float64[ndarray, "sets controls"],
    times: Float64[ndarray, "sets controls"],
) -> float:
    """Divide the mean sensitivities of two branches; nan without any set, and for 0 over 0.

    Args:
        wanted: sensitivity of the wanted branch by set and control; nan where a set has no such control.
        unwanted: sensitivity of the other branch.
        times: how often each counts.

    Example:
        >>> ratio_of_means(np.array([[0.5, 1.0]]), np.array([[0.5, 0.25]]), np.ones((1, 2)))
        2.0
    """
    above, below = (float(np.nansum(one * times)) for one in (wanted, unwanted))
    if below == 0:
        return math.inf if above > 0 else math.nan
    return above / below


def mean_ratio(wanted: Float64[ndarray, " sets"], unwanted: Float64[ndarray, " sets"]) -> float:
    """Compute the mean of ratios, as `concepts.csm.csm` but faster; nan without any set.

    Example:
        >>> mean_ratio(np.array([0.5, 0.5]), np.array([0.5, 0.25]))
        1.5
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return float((wanted / unwanted).mean()) if len(wanted) else math.nan
