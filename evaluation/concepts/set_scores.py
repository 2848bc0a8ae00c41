"""Sensitivities of the two branches to each concept set, and the ratios CSM_S and CSM_R over sets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float64, Int
from numpy import ndarray
from torch import Tensor

from loaders.schema import FactorValue
from loaders.views import ConceptSet

Concept = Literal["albedo", "illumination"]
BRANCHES = ("reflectance", "shading")
WANTED = {"albedo": "reflectance", "illumination": "shading"}
METRICS: dict[Concept, str] = {"albedo": "csm_s", "illumination": "csm_r"}
ALIGNMENTS = ("aligned", "unaligned")
RULES = ("all sets", "paper's rule", "wanted branch")
_LISTS = ("frames", "runs")


@dataclass(frozen=True)
class BranchScore:
    """Sensitivity of one branch to one concept set, for one alignment of the loss.

    Attributes:
        frames: for each test frame, the share of the runs in which the concept lowers the loss.
        spread: standard deviation over the runs of the share of frames.
        accuracy: mean held-out accuracy of the vectors; near 0.5 the branch does not represent the concept.
        p_value: p-value of the t-test against random vectors.
        significant: whether the p-value is below the level.
        runs: for each run, the share of test frames on which the concept lowers the loss.
    """

    frames: tuple[float, ...]
    spread: float
    accuracy: float
    p_value: float
    significant: bool
    runs: tuple[float, ...] = ()

    @property
    def sensitivity(self) -> float:
        """Mean over test frames and runs, in [0, 1]."""
        return float(np.mean(self.frames))


@dataclass(frozen=True)
class SetScore:
    """One concept set: its concept, its fixed factors, and the scores of each branch by alignment.

    Attributes:
        objects: number of objects in the scene; None if it is unknown or not fixed.
    """

    concept: Concept
    fixed: dict[str, FactorValue]
    images: int
    branches: dict[str, dict[str, BranchScore]]
    objects: int | None = None

    def passes(self, alignment: str, rule: str) -> bool:
        """Tell whether a rule of `RULES` keeps the set."""
        if rule == "all sets":
            return True
        branches = BRANCHES if rule == "paper's rule" else (WANTED[self.concept],)
        return all(self.branches[branch][alignment].significant for branch in branches)

    def describe(self) -> dict[str, Any]:
        """Collect the details of a result, without the shares of single frames and runs."""
        return {
            "concept": self.concept,
            "fixed": self.fixed,
            "objects": self.objects,
            "images": self.images,
            **{
                branch: {
                    alignment: {
                        "sensitivity": score.sensitivity,
                        **{name: value for name, value in asdict(score).items() if name not in _LISTS},
                    }
                    for alignment, score in scores.items()
                }
                for branch, scores in self.branches.items()
            },
        }


def to_step(score: SetScore) -> dict[str, Tensor]:
    """Convert the scores of a set to float64 tensors, which `evaluation.running.finished_steps` can keep."""
    step = {}
    for branch, alignments in score.branches.items():
        for alignment, one in alignments.items():
            numbers = [one.spread, one.accuracy, one.p_value, one.significant]
            step[f"{branch} {alignment}"] = torch.tensor([*numbers, *one.frames], dtype=torch.float64)
            step[f"{branch} {alignment} runs"] = torch.tensor(one.runs, dtype=torch.float64)
    return step


def from_step(step: Mapping[str, Tensor], concept: Concept, chosen: ConceptSet) -> SetScore:
    """Convert the tensors of `to_step` back to the scores of a set.

    Example:
        >>> branch = BranchScore((0.0, 0.5), 0.1, 0.9, 0.01, True, (0.25, 0.25))
        >>> score = SetScore("albedo", {}, 2, {name: {"aligned": branch} for name in BRANCHES}, objects=1)
        >>> from_step(to_step(score), "albedo", ConceptSet({}, (0, 1), objects=1)) == score
        True
    """
    branches: dict[str, dict[str, BranchScore]] = {branch: {} for branch in BRANCHES}
    for name in (name for name in step if not name.endswith(" runs")):
        branch, alignment = name.split()
        spread, accuracy, p_value, significant, *frames = step[name].tolist()
        runs = tuple(step[f"{name} runs"].tolist())
        one = BranchScore(tuple(frames), spread, accuracy, p_value, bool(significant), runs)
        branches[branch][alignment] = one
    return SetScore(concept, dict(chosen.fixed), len(chosen.rows), branches, chosen.objects)


class Ratios:
    """CSM_S and CSM_R over any choice of test frames, for each alignment and rule.

    Rules: "all sets" keeps all sets; "paper's rule" (Gupta et al. 2022, sec. 4.2, "average over the passing
    significant CAVs") keeps sets that are significant for both branches; "wanted branch" keeps sets that are
    significant for the branch that should respond to the concept. If no set is left, a ratio is nan.

    Args:
        sets: scores of all concept sets, on the same test frames.
    """

    def __init__(self, sets: Sequence[SetScore]) -> None:
        self._concepts = {one.concept for one in sets}
        self._frames = {
            (branch, alignment): np.array([one.branches[branch][alignment].frames for one in sets])
            for branch in BRANCHES
            for alignment in ALIGNMENTS
        }
        self._kept = {
            (concept, alignment, rule): [
                number
                for number, one in enumerate(sets)
                if one.concept == concept and one.passes(alignment, rule)
            ]
            for concept in WANTED
            for alignment in ALIGNMENTS
            for rule in RULES
        }

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Combine sensitivities over some test frames.

        Args:
            rows: numbers of the test frames; repeated numbers count repeatedly.

        Returns:
            Ratios by name, such as ``csm_s aligned, all sets``; a metric without concept sets is left out.
        """
        means = {key: frames[:, rows].mean(1) for key, frames in self._frames.items()}
        ratios = {}
        for rule in RULES:
            for alignment in ALIGNMENTS:
                for concept, metric in METRICS.items():
                    if concept in self._concepts:
                        kept = self._kept[concept, alignment, rule]
                        wanted, other = (means[branch, alignment][kept] for branch in _order(concept))
                        ratios[f"{metric} {alignment}, {rule}"] = _mean_ratio(wanted, other)
        return ratios


def _order(concept: Concept) -> tuple[str, str]:
    """Return the branch that should respond to a concept, and the other branch."""
    return BRANCHES if concept == "albedo" else (BRANCHES[1], BRANCHES[0])


def _mean_ratio(wanted: Float64[ndarray, " sets"], other: Float64[ndarray, " sets"]) -> float:
    """Compute the mean of ratios, as `evaluation.concepts.csm.csm` but faster; nan without any set."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float((wanted / other).mean()) if len(wanted) else math.nan
