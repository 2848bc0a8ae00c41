"""Concept sensitivity metrics CSM_S and CSM_R (Gupta et al. 2022), as a whole and by factor."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.concepts.set_scores import (
    ALIGNMENTS,
    BRANCHES,
    METRICS,
    RULES,
    UNWANTED,
    WANTED,
    Concept,
    SetScore,
    mean_ratio,
)
from candlelight.evaluation.run.intervals import Score, resampled_interval
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.schema import FactorValue

Reduce = Literal["mean_of_ratios", "ratio_of_means"]


@dataclass(frozen=True)
class CSM:
    """The two metrics, their bounded variants, and the sensitivities that they combine.

    Attributes:
        csm_s: wanted over unwanted sensitivity to albedo; high values mean little albedo in the shading.
        csm_r: wanted over unwanted sensitivity to illumination; high values mean little illumination in the
            reflectance.
        bounded_s: ``R / (R + S)`` instead of ``R / S`` for albedo sets, in [0, 1]; 0.5 means equal
            sensitivities.
        bounded_r: ``S / (S + R)`` instead of ``S / R`` for illumination sets.
        r_albedo: sensitivities of the reflectance branch to the albedo sets.
        s_albedo: sensitivities of the shading branch to the albedo sets.
        r_illumination: sensitivities of the reflectance branch to the illumination sets.
        s_illumination: sensitivities of the shading branch to the illumination sets.
    """

    csm_s: Float[Tensor, ""]
    csm_r: Float[Tensor, ""]
    bounded_s: Float[Tensor, ""]
    bounded_r: Float[Tensor, ""]
    r_albedo: Float[Tensor, " albedo_sets"]
    s_albedo: Float[Tensor, " albedo_sets"]
    r_illumination: Float[Tensor, " illumination_sets"]
    s_illumination: Float[Tensor, " illumination_sets"]


def csm(
    r_albedo: Float[Tensor, " albedo_sets"],
    s_albedo: Float[Tensor, " albedo_sets"],
    r_illumination: Float[Tensor, " illumination_sets"],
    s_illumination: Float[Tensor, " illumination_sets"],
    reduce: Reduce = "mean_of_ratios",
) -> CSM:
    """Combine sensitivities into the Concept Sensitivity Metrics.

    ``CSM_S = R_da / S_da`` and ``CSM_R = S_di / R_di`` (Gupta et al. 2022, eq. 4). The paper does not say
    whether it averages ratios or sensitivities over concept sets; ``reduce`` chooses. With one set both are
    equal.

    Blind to: the correctness of the predictions, and the strength of an effect, because only shares of test
    images count. A noisy branch is sensitive to everything. The ratio has no upper bound, so one set with a
    small denominator can dominate the mean; the bounded variants avoid this.

    Args:
        r_albedo: sensitivity of the reflectance branch to each albedo set (only albedo varies), in [0, 1].
        s_albedo: sensitivity of the shading branch to the same sets.
        r_illumination: sensitivity of the reflectance branch to each illumination set.
        s_illumination: sensitivity of the shading branch to the same sets.
        reduce: "mean_of_ratios" averages the ratios of the sets, "ratio_of_means" divides the averages.

    Returns:
        Higher is better for all four metrics. A positive number over 0 is inf; 0 over 0, or a mean without
        sets, is nan. One inf or nan makes a mean of ratios inf or nan.

    Raises:
        InputError: a sensitivity is outside [0, 1] or nan, the branches have different numbers of sets, or
            ``reduce`` is misspelt.

    Example:
        >>> scores = csm(*(Tensor([x]) for x in (0.8, 0.4, 0.391, 0.296)))
        >>> scores.csm_s, scores.csm_r.round(decimals=3)
        (tensor(2.), tensor(0.7570))
    """
    inputs = {
        "r_albedo": r_albedo,
        "s_albedo": s_albedo,
        "r_illumination": r_illumination,
        "s_illumination": s_illumination,
    }
    check_choice("reduce", reduce, Reduce)
    check_shapes(
        r_albedo=(r_albedo, "albedo_sets"),
        s_albedo=(s_albedo, "albedo_sets"),
        r_illumination=(r_illumination, "illumination_sets"),
        s_illumination=(s_illumination, "illumination_sets"),
    )
    for name, values in inputs.items():
        if not bool(((values >= 0) & (values <= 1)).all()):
            raise InputError(f"`{name}` must hold sensitivities from 0 to 1, got {values.tolist()}")
    csm_s, bounded_s = _ratios(r_albedo, s_albedo, reduce)
    csm_r, bounded_r = _ratios(s_illumination, r_illumination, reduce)
    return CSM(csm_s, csm_r, bounded_s, bounded_r, **inputs)


def _ratios(wanted: Tensor, unwanted: Tensor, reduce: Reduce) -> tuple[Tensor, Tensor]:
    """Compute wanted over unwanted, and wanted over the sum of both."""
    if reduce == "ratio_of_means":
        wanted, unwanted = wanted.mean(), unwanted.mean()
    return (wanted / unwanted).mean(), (wanted / (wanted + unwanted)).mean()


_OBJECTS = "objects"
# The columns of Table 1, and the rows and columns of Table 2, in the names of the recipe `concepts`.
_PUBLISHED = ((_OBJECTS, "texturing"), ("temperature", _OBJECTS, "texturing"))
_QUANTITIES = (
    "mean_of_ratios",
    "ratio_of_means",
    "bounded_mean_of_ratios",
    "bounded_ratio_of_means",
    "wanted",
    "unwanted",
)
_Key = tuple[FactorValue, ...]


@dataclass(frozen=True)
class FactorGroup:
    """Concept sets that agree in some factors, and their common scores.

    Attributes:
        concept: the concept that varies in the sets: "albedo" for CSM_S, "illumination" for CSM_R.
        values: the common value of each factor.
        sets: for each alignment, the number of sets that the rule on significance keeps.
        scores: for each alignment, with intervals over groups of test frames: ``mean_of_ratios`` and
            ``ratio_of_means``, the metric in both orders of averaging over the sets; ``bounded_...``, its
            variant in [0, 1]; ``wanted`` and ``unwanted``, the mean sensitivity of the branch that should
            respond to the concept and of the other branch. nan without any set.
    """

    concept: Concept
    values: dict[str, FactorValue]
    sets: dict[str, int]
    scores: dict[str, dict[str, Score]]


def csm_by_factor(
    sets: Sequence[SetScore],
    factors: Sequence[str],
    frame_groups: Sequence[str],
    *,
    rule: str = "all sets",
    seed: int = 0,
) -> list[FactorGroup]:
    """Compute CSM_S and CSM_R of the concept sets that agree in some factors.

    Each group is scored like the whole, see `candlelight.evaluation.concepts.csm`. Sets of one concept only
    may fix a
    factor: the sets that do not fix it are in no group.

    Blind to: differences between the groups in other factors, if not all combinations were rendered. The
    intervals are over test frames, not over scenes: two groups that differ by more than their intervals may
    still differ by their scenes alone.

    Args:
        sets: scores of all concept sets, on the same test frames.
        factors: factors that the sets fix; "objects" is the number of objects in the scene.
        frame_groups: the group of each test frame.
        rule: one of `candlelight.evaluation.concepts.set_scores.RULES`.
        seed: seed of the resampling.

    Returns:
        Groups in the order of the values in ``sets``, albedo first. Combinations without sets are left out.

    Raises:
        InputError: no set fixes all factors, or the rule does not exist.

    Example:
        >>> from candlelight.evaluation.concepts.set_scores import BranchScore
        >>> def score(share):
        ...     return dict.fromkeys(ALIGNMENTS, BranchScore((share,), 0.1, 0.9, 0.001))
        >>> def one(scene, r, s):
        ...     branches = {"reflectance": score(r), "shading": score(s)}
        ...     return SetScore("albedo", {"scene": scene}, 20, branches)
        >>> sets = [one("cube", 0.8, 0.2), one("cube", 0.2, 0.2), one("vase", 0.1, 0.4)]
        >>> cube, vase = csm_by_factor(sets, ["scene"], ["frame"])
        >>> cube.values, cube.scores["aligned"]["mean_of_ratios"].value
        ({'scene': 'cube'}, 2.5)
    """
    if rule not in RULES:
        raise InputError(f"`rule` must be one of: {', '.join(RULES)}; got {rule}")
    members = _members(sets, factors)
    if not members:
        known = dict.fromkeys(name for one in sets for name in factor_values(one))
        raise InputError(
            f"no concept set fixes {' and '.join(f'`{name}`' for name in factors)}; expected some of: "
            f"{', '.join(known) or 'none'}"
        )
    kept = {
        (concept, key, alignment): [number for number in numbers if sets[number].passes(alignment, rule)]
        for (concept, key), numbers in members.items()
        for alignment in ALIGNMENTS
    }
    scores, _ = resampled_interval(_GroupRatios(sets, list(kept.values())), frame_groups, seed)
    found = iter(scores.values())
    by_alignment = {place: {name: next(found) for name in _QUANTITIES} for place in kept}
    return [
        FactorGroup(
            concept,
            dict(zip(factors, key, strict=True)),
            {alignment: len(kept[concept, key, alignment]) for alignment in ALIGNMENTS},
            {alignment: by_alignment[concept, key, alignment] for alignment in ALIGNMENTS},
        )
        for concept, key in members
    ]


def factor_values(one: SetScore) -> dict[str, FactorValue]:
    """Return the fixed factors of a concept set, with the number of objects where it is known.

    Example:
        >>> factor_values(SetScore("albedo", {"scene": "cube"}, 20, {}, objects=1))
        {'objects': 1, 'scene': 'cube'}
    """
    return {**({} if one.objects is None else {_OBJECTS: one.objects}), **one.fixed}


def table_factors(sets: Sequence[SetScore]) -> list[tuple[str, ...]]:
    """List the factors by which the page groups concept sets.

    These are the factors with several values among the sets, and the combinations of Tables 1 and 2 of the
    paper, if all their factors have several values.

    Example:
        >>> sets = [SetScore("albedo", {"light": 20, "scene": scene}, 20, {}) for scene in ("cube", "vase")]
        >>> table_factors(sets)
        [('scene',)]
    """
    values: dict[str, set[FactorValue]] = {}
    for one in sets:
        for name, value in factor_values(one).items():
            values.setdefault(name, set()).add(value)
    several = [name for name, found in values.items() if len(found) > 1]
    combined = [factors for factors in _PUBLISHED if set(factors) <= set(several)]
    return [*combined, *((name,) for name in several)]


def every_factor_group(sets: Sequence[SetScore], frame_groups: Sequence[str], seed: int) -> list[FactorGroup]:
    """Group concept sets by each entry of `table_factors`; for the arguments see `csm_by_factor`.

    Example:
        >>> every_factor_group([SetScore("albedo", {"scene": "cube"}, 20, {})], ["frame"], seed=0)
        []
    """
    return [
        group
        for factors in table_factors(sets)
        for group in csm_by_factor(sets, factors, frame_groups, seed=seed)
    ]


def _members(sets: Sequence[SetScore], factors: Sequence[str]) -> dict[tuple[Concept, _Key], list[int]]:
    """Number the sets of each concept and combination of values, in the order of the values in ``sets``."""
    known = [factor_values(one) for one in sets]
    fixing = [number for number, values in enumerate(known) if set(factors) <= values.keys()]
    orders = [list(dict.fromkeys(known[number][name] for number in fixing)) for name in factors]
    members: dict[tuple[Concept, _Key], list[int]] = {}
    for number in fixing:
        key = tuple(known[number][name] for name in factors)
        members.setdefault((sets[number].concept, key), []).append(number)

    def place(group: tuple[Concept, _Key]) -> tuple[int, ...]:
        concept, key = group
        return list(WANTED).index(concept), *(o.index(v) for o, v in zip(orders, key, strict=True))

    return {group: members[group] for group in sorted(members, key=place)}


class _GroupRatios:
    """Scores of each group of sets over any choice of test frames, in the order of `_QUANTITIES`.

    Args:
        sets: scores of all concept sets.
        groups: the numbers of the sets of each group, once for each of `ALIGNMENTS`, in its order.
    """

    def __init__(self, sets: Sequence[SetScore], groups: Sequence[Sequence[int]]) -> None:
        self._groups = groups
        self._frames = [
            np.array([[one.branches[branch][alignment].frames for one in sets] for branch in BRANCHES])
            for alignment in ALIGNMENTS
        ]
        self._swapped = np.array([WANTED[one.concept] != BRANCHES[0] for one in sets])

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Combine sensitivities over some test frames; repeated numbers count repeatedly."""
        means = [np.where(self._swapped, m[::-1], m) for m in (f[..., rows].mean(2) for f in self._frames)]
        scores = {}
        for number, chosen in enumerate(self._groups):
            for name, value in zip(
                _QUANTITIES, _combine(means[number % len(ALIGNMENTS)][:, chosen]), strict=True
            ):
                scores[f"{number} {name}"] = value
        return scores


def _combine(means: Float64[ndarray, "2 sets"]) -> tuple[float, ...]:
    """Compute the quantities of one group from the wanted and the unwanted sensitivities of its sets."""
    if not means.shape[1]:
        return (math.nan,) * len(_QUANTITIES)
    wanted, unwanted = means
    mean, other = means.mean(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_means = mean / other
        bounded = mean_ratio(wanted, wanted + unwanted), mean / (mean + other)
    return tuple(map(float, (mean_ratio(wanted, unwanted), of_means, *bounded, mean, other)))


NUMBERS_OF_RUNS = (2, 5, 10, 20, 40, 60, 80, 100, 200, 500, 1000)


@dataclass(frozen=True)
class RunsScore:
    """Scores over the first runs of all concept sets of one kind, for one alignment of the loss.

    Attributes:
        concept: the concept that varies in the sets.
        alignment: "aligned" or "unaligned".
        runs: number of runs.
        mean: for each branch, the mean over runs and sets of its sensitivity.
        spread: for each branch, the standard deviation over runs of the mean over sets.
        csm: CSM_S or CSM_R, the mean over sets of the ratios.
    """

    concept: Concept
    alignment: str
    runs: int
    mean: dict[str, float]
    spread: dict[str, float]
    csm: float


def score_by_runs(sets: Sequence[SetScore], numbers: Sequence[int] = NUMBERS_OF_RUNS) -> list[RunsScore]:
    """Average the sensitivities over the first 2, 5, 10, ... runs, which shows how many runs are enough.

    No vector is fitted and no model is run: the scores of single runs are averaged.

    Blind to: everything that all runs share, such as the images of a set that has no more images than a run
    draws, and the test frames.

    Args:
        sets: scores of concept sets with equal numbers of runs.
        numbers: numbers of runs, each at least 1; larger ones than the sets have are left out, and the number
            that they have is added.

    Returns:
        Scores by concept, alignment and number, in increasing order.

    Raises:
        InputError: sets lack the scores of single runs or have different numbers of them, or a number is
            below 1.

    Example:
        >>> from candlelight.evaluation.concepts.set_scores import BranchScore
        >>> def score(*runs):
        ...     return dict.fromkeys(ALIGNMENTS, BranchScore((0.5,), 0.1, 0.9, 0.001, runs=runs))
        >>> one = SetScore("albedo", {}, 20, {"reflectance": score(1.0, 0.5), "shading": score(0.5, 0.5)})
        >>> [(some.runs, some.csm) for some in score_by_runs([one], [1, 2]) if some.alignment == "aligned"]
        [(1, 2.0), (2, 1.5)]
    """
    counts = {len(one.branches[name][how].runs) for one in sets for name in BRANCHES for how in ALIGNMENTS}
    if len(counts) != 1 or counts == {0}:
        raise InputError(f"expected scores of the same number of runs in all sets, got {sorted(counts)}")
    if min(numbers, default=1) < 1:
        raise InputError(f"`numbers` must be 1 or larger, got {min(numbers)}")
    whole = counts.pop()
    chosen = sorted({number for number in numbers if number < whole} | {whole})
    found = []
    for concept in METRICS:
        some = [one for one in sets if one.concept == concept]
        for alignment in ALIGNMENTS if some else ():
            shares = {
                name: np.array([one.branches[name][alignment].runs for one in some]) for name in BRANCHES
            }
            found += [_first(concept, alignment, shares, number) for number in chosen]
    return found


def _first(concept: Concept, alignment: str, shares: dict[str, np.ndarray], number: int) -> RunsScore:
    """Average the shares, one row for each set, of the first runs."""
    first = {name: rows[:, :number] for name, rows in shares.items()}
    means = {name: rows.mean(1) for name, rows in first.items()}
    return RunsScore(
        concept,
        alignment,
        number,
        {name: float(values.mean()) for name, values in means.items()},
        {
            name: float(rows.mean(0).std(ddof=1)) if number > 1 else float("nan")
            for name, rows in first.items()
        },
        mean_ratio(means[WANTED[concept]], means[UNWANTED[concept]]),
    )
