"""Compute the metrics of one encoder's codes, with their intervals over groups of images."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.scoring.code_metrics import CODE_METRICS, CodeMetric, CodeScores
from candlelight.evaluation.causal.scoring.factor_table import FactorTable
from candlelight.evaluation.causal.scoring.score_bounds import cut_at_bounds
from candlelight.evaluation.results.mean_intervals import Score
from candlelight.evaluation.results.resampled_intervals import LEAST_GROUPS, resampled_interval
from candlelight.evaluation.results.split_intervals import split_groups, split_interval
from candlelight.loaders.errors import InputError

MOST_RESAMPLES = 500  # fewer than of other metrics, because each resample sorts the rows again


@dataclass(frozen=True)
class MeasuredCodes:
    """Scores of one metric, or why there is none.

    Attributes:
        scores: values with their intervals, by name.
        replicates: scores of resampled groups; none for metrics that are fitted on random halves.
        matrices: [codes, factors], by name; of random halves the mean.
        failure: why the metric cannot be computed; empty if it can.
    """

    scores: dict[str, Score]
    replicates: dict[str, tuple[float, ...]]
    matrices: dict[str, Float[Tensor, "codes factors"]]
    failure: str = ""


def measure_codes(
    codes: Float[Tensor, "images codes"],
    table: FactorTable,
    groups: Sequence[str],
    metric: str,
    splits: int = 5,
    seed: int = 0,
) -> MeasuredCodes:
    """Compute one metric of `CODE_METRICS` with its intervals.

    Metrics that count are computed from all images, with intervals over resampled groups. Metrics that fit
    something are fitted on one half of the groups and computed on the other, for several random halves.
    Fewer than `LEAST_GROUPS` groups give no interval.

    Args:
        codes: finite code vectors, on the CPU.
        table: factors of the images.
        groups: group of each image; the images of a group stay together.
        metric: name of the metric.
        splits: number of random halves.
        seed: seed of all draws.

    Returns:
        Scores; without any, and with a reason, if the images are too few or too much alike for the metric.

    Example:
        >>> classes = torch.cartesian_prod(torch.arange(2), torch.arange(3)).repeat(10, 1)
        >>> table = FactorTable(("shape", "size"), classes.double(), classes, (0, 1), (), ())
        >>> found = measure_codes(classes.double(), table, [str(row) for row in range(60)], "mig")
        >>> {name: round(score.value, 3) for name, score in found.scores.items()}
        {'mig': 1.0}
    """
    chosen = CODE_METRICS[metric]
    if "numbers" in chosen.needs and not table.ordered:
        return MeasuredCodes({}, {}, {}, "the values of all factors have no order")
    try:
        if chosen.resampling == "splits":
            found = _over_splits(codes, table, groups, chosen, splits, seed)
        else:
            found = _over_resamples(codes, table, groups, chosen, seed)
    except InputError as error:
        return MeasuredCodes({}, {}, {}, str(error))
    return replace(found, scores={name: cut_at_bounds(name, score) for name, score in found.scores.items()})


def pack_measured(found: MeasuredCodes) -> dict[str, Tensor]:
    """Write scores as tensors by name, for `FinishedSteps`.

    Example:
        >>> step = pack_measured(MeasuredCodes({"mig": Score(0.5, 0.4, 0.6)}, {}, {}))
        >>> unpack_measured(step).scores["mig"].value
        0.5
    """
    scores = {name: [score.value, score.low, score.high] for name, score in found.scores.items()}
    parts = {
        "score": {name: torch.tensor(one, dtype=torch.float64) for name, one in scores.items()},
        "replicates": {
            name: torch.tensor(one, dtype=torch.float64) for name, one in found.replicates.items()
        },
        "matrix": found.matrices,
        "failure": {"": torch.tensor(list(found.failure.encode()), dtype=torch.uint8)},
    }
    return {f"{part}:{name}": value for part, values in parts.items() for name, value in values.items()}


def unpack_measured(step: Mapping[str, Tensor]) -> MeasuredCodes:
    """Read the tensors of `pack_measured`."""
    parts: dict[str, dict[str, Tensor]] = {"score": {}, "replicates": {}, "matrix": {}, "failure": {}}
    for label, value in step.items():
        part, _, name = label.partition(":")
        parts[part][name] = value
    return MeasuredCodes(
        {name: Score(*value.tolist()) for name, value in parts["score"].items()},
        {name: tuple(value.tolist()) for name, value in parts["replicates"].items()},
        parts["matrix"],
        bytes(parts["failure"][""].tolist()).decode(),
    )


def _over_splits(
    codes: Tensor, table: FactorTable, groups: Sequence[str], metric: CodeMetric, splits: int, seed: int
) -> MeasuredCodes:
    halves = [torch.from_numpy(half) for half in split_groups(groups, splits, seed)][: metric.most]
    found = [metric.compute(codes, table, half, seed + place) for place, half in enumerate(halves)]
    scores = {name: split_interval([one.scores[name] for one in found]) for name in found[0].scores}
    if len(set(groups)) < LEAST_GROUPS:  # few different halves, so that the scores differ too little
        scores = {name: Score(score.value, math.nan, math.nan) for name, score in scores.items()}
    matrices = {
        name: torch.stack([one.matrices[name] for one in found]).mean(0) for name in found[0].matrices
    }
    return MeasuredCodes(scores, {}, matrices)


def _over_resamples(
    codes: Tensor, table: FactorTable, groups: Sequence[str], metric: CodeMetric, seed: int
) -> MeasuredCodes:
    unused = torch.zeros(len(codes), dtype=torch.bool)
    whole = metric.compute(codes, table, unused, seed)

    def statistic(rows: Int[ndarray, " rows"]) -> dict[str, float]:
        if len(rows) == len(codes) and bool((rows[1:] > rows[:-1]).all()):
            return whole.scores
        return _of_some(codes, table, rows, metric, seed, whole)

    resamples = min(MOST_RESAMPLES, metric.most or MOST_RESAMPLES)
    scores, replicates = resampled_interval(
        statistic, groups, seed, resamples, repeats=metric.resampling == "groups"
    )
    return MeasuredCodes(scores, replicates, whole.matrices)


def _of_some(
    codes: Tensor,
    table: FactorTable,
    rows: Int[ndarray, " rows"],
    metric: CodeMetric,
    seed: int,
    whole: CodeScores,
) -> dict[str, float]:
    """Compute the scores of some images; nan if these are too few or too much alike."""
    part = table.take(torch.from_numpy(rows))
    # With few images, every class may have a single one and no deviation.
    sizes = [torch.bincount(classes) for classes in part.classes.T]
    if any(int(size.max()) == 1 for size in sizes):
        return dict.fromkeys(whole.scores, math.nan)
    try:
        found = metric.compute(codes[rows], part, torch.zeros(len(rows), dtype=torch.bool), seed)
    except InputError:
        return dict.fromkeys(whole.scores, math.nan)
    return found.scores
