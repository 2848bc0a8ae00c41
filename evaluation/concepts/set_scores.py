"""Sensitivities of the two branches to each concept set, and the ratios CSM_S and CSM_R over sets."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.concepts.permutation_test import permutation_test
from candlelight.loaders.schema import FactorValue
from candlelight.loaders.views import ConceptSet

Concept = Literal["albedo", "illumination"]
BRANCHES = ("reflectance", "shading")
WANTED = {"albedo": "reflectance", "illumination": "shading"}
UNWANTED = {"albedo": "shading", "illumination": "reflectance"}
METRICS: dict[Concept, str] = {"albedo": "csm_s", "illumination": "csm_r"}
ALIGNMENTS = ("aligned", "unaligned")
CONTROLLED = " against control"  # ends the name of a condition in which a control replaces the negatives
RULES = ("all sets", "both branches", "wanted branch")
SetTest = Literal["t-test", "permutation"]
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
    control instead of the negatives.

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
        for condition in conditions(sets):
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


def conditions(sets: Sequence[SetScore]) -> list[str]:
    """List the conditions of all sets: the alignments first, then those against controls."""
    return list(dict.fromkeys(name for one in sets for name in one.branches[BRANCHES[0]]))


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


def to_step(score: SetScore) -> dict[str, Tensor]:
    """Convert the scores of a set to float64 tensors, as `running.finished_steps` keeps them."""
    step = {}
    for branch, scores in score.branches.items():
        for condition, one in scores.items():
            values = {name: getattr(one, name) for name in _LONG}
            values["numbers"] = [one.spread, one.accuracy, one.t_test_p, one.cosine, *one.effect]
            for name, numbers in values.items():
                step[f"{branch}, {condition}, {name}"] = torch.tensor(numbers, dtype=torch.float64)
    return step


def from_step(step: Mapping[str, Tensor], concept: Concept, chosen: ConceptSet) -> SetScore:
    """Convert the tensors of `to_step` back to the scores of a set.

    Example:
        >>> branch = BranchScore((0.0, 0.5), 0.1, 0.9, 0.01, 0.2, (3, 2, 4), (3, 0, 1), runs=(0.25, 0.25))
        >>> score = SetScore("albedo", {}, 2, {name: {"aligned": branch} for name in BRANCHES}, objects=1)
        >>> again = from_step(to_step(score), "albedo", ConceptSet({}, (0, 1), objects=1))
        >>> with_p_values([again]) == with_p_values([score])
        True
    """
    branches: dict[str, dict[str, BranchScore]] = {branch: {} for branch in BRANCHES}
    for key in (key for key in step if key.endswith(", numbers")):
        branch, condition, _ = key.split(", ")
        spread, accuracy, t_test_p, cosine, *effect = step[key].tolist()
        frames, draws, runs = (tuple(step[f"{branch}, {condition}, {name}"].tolist()) for name in _LONG)
        shown = (effect[0], effect[1], effect[2])
        one = BranchScore(frames, spread, accuracy, t_test_p, cosine, shown, draws, runs=runs)
        branches[branch][condition] = one
    return SetScore(concept, dict(chosen.fixed), len(chosen.rows), branches, chosen.objects)


class Ratios:
    """CSM_S and CSM_R over any choice of test frames, for each condition and rule.

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
        self._frames: dict[tuple[str, Concept, str], Float64[ndarray, "sets frames"]] = {}
        self._kept: dict[tuple[Concept, str, str], list[int]] = {}
        self._conditions = conditions(sets)
        for condition, concept in itertools.product(self._conditions, METRICS):
            some = [s for s in sets if s.concept == concept and condition in s.branches[BRANCHES[0]]]
            if not some:
                continue
            for branch in BRANCHES:
                frames = [one.branches[branch][condition].frames for one in some]
                self._frames[branch, concept, condition] = np.array(frames)
            for rule in RULES:
                passed = [one.passes(condition, rule, significance, p) for one in some]
                self._kept[concept, condition, rule] = np.flatnonzero(passed).tolist()

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Combine sensitivities over some test frames.

        Args:
            rows: numbers of the test frames; repeated numbers count repeatedly.

        Returns:
            Ratios by name, such as ``csm_s aligned, all sets``; a metric without concept sets is left out.
        """
        means = {key: frames[:, rows].mean(1) for key, frames in self._frames.items()}
        ratios = {}
        for rule, condition, concept in itertools.product(RULES, self._conditions, METRICS):
            if (concept, condition, rule) in self._kept:
                kept = self._kept[concept, condition, rule]
                wanted, unwanted = (
                    means[branches[concept], concept, condition][kept] for branches in (WANTED, UNWANTED)
                )
                ratios[f"{METRICS[concept]} {condition}, {rule}"] = mean_ratio(wanted, unwanted)
        return ratios


def mean_ratio(wanted: Float64[ndarray, " sets"], unwanted: Float64[ndarray, " sets"]) -> float:
    """Compute the mean of ratios, as `concepts.csm.csm` but faster; nan without any set.

    Example:
        >>> mean_ratio(np.array([0.5, 0.5]), np.array([0.5, 0.25]))
        1.5
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return float((wanted / unwanted).mean()) if len(wanted) else math.nan
