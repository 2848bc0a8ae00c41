"""Score models by protocols with true reflectance and shading that show the same images."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.inputs.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.inputs.predictions import MissingResults
from candlelight.evaluation.intrinsic.lmse_barron import geometric_mean
from candlelight.evaluation.intrinsic.score_ranges import score_ranges
from candlelight.evaluation.intrinsic.scored_rows import RowErrors, collect_errors
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.protocols.evaluation_protocol import (
    Average,
    DecompositionRule,
    EvaluationProtocol,
)
from candlelight.evaluation.protocols.prepared_rows import PreparedRows
from candlelight.evaluation.results.mean_intervals import distinct_groups, group_numbers
from candlelight.evaluation.results.resampled_intervals import resampled_interval
from candlelight.evaluation.results.result import (
    MeanResult,
    Provenance,
    Result,
    StatisticResult,
    fill_failures,
)
from candlelight.evaluation.running.batches import Fingerprint, make_provenance
from candlelight.evaluation.running.finished_steps import FinishedSteps
from candlelight.evaluation.running.named_models import identify_models
from candlelight.evaluation.running.predict_decomposition import predict_decomposition
from candlelight.evaluation.running.run_batches import Step, run_batches
from candlelight.loaders.views import Decompositions


def prepared_view(record: EvaluationProtocol, view: Decompositions) -> Decompositions:
    """Prepare the rows of a view as a protocol does, unless its reader has done so.

    Args:
        record: a protocol that reads decompositions.
        view: the rows.
    """
    rule = cast(DecompositionRule, record.rule)
    if rule.prepare is None or view.identity.layout in rule.prepared:
        return view
    return PreparedRows(view, rule.prepare)


def score_rules(
    models: Mapping[str, Any],
    data: Decompositions,
    records: Sequence[EvaluationProtocol],
    *,
    device: str,
    batch_size: int,
    missing: MissingResults,
    steps: FinishedSteps | None,
) -> dict[str, dict[str, Result]]:
    """Predict each row once, and compute the columns of all protocols.

    Args:
        models: see `candlelight.evaluation.protocols.score_protocol`.
        data: the rows as they are.
        records: protocols with the same preparation.
        device: torch device of the models.
        batch_size: images per call of a model.
        missing: see `candlelight.evaluation.protocols.score_protocol`.
        steps: keeps finished batches.

    Returns:
        Results by protocol and model.
    """
    view = prepared_view(records[0], data)
    named_models, fingerprint = identify_models(models, [view], "linear", missing), Fingerprint()
    batches = run_batches(
        named_models,
        view,
        lambda batch: stack_ground_truth(batch.items),
        partial(_step, records),
        fingerprint=fingerprint,
        settings={"protocols": [(record.name, record.version) for record in records]},
        device=device,
        batch_size=batch_size,
        steps=steps,
    )
    found = collect_errors(batches, partial(_zero_losses, records))
    described = fingerprint.describe(view)
    settings: dict[str, Any] = {"explains": data.explains, "missing": missing}
    if any(flags.any() for flags in found.failed.values()):
        settings["filled_among"] = sorted(named_models)
    filled = fill_failures(found.errors, found.failed, found.zeros)
    results: dict[str, dict[str, Result]] = {}
    start = 0
    for record in records:
        end = start + len(record.columns)
        sign = -1 if record.better == "higher" else 1
        results[record.name] = {
            name: _result(
                record,
                make_provenance(record.name, record.version, record.better, named, described, settings),
                sign * filled[name][:, start:end].T,
                view,
                _failed_ids(found, name, view),
            )
            for name, named in named_models.items()
        }
        start = end
    return results


def _step(
    records: Sequence[EvaluationProtocol],
    named: NamedModel,
    ids: Sequence[str],
    truth: GroundTruth,
    device: str,
) -> Step:
    reflectance, shading, failed = predict_decomposition(
        named, ids, truth.image, truth.mask, device, truth.lights
    )
    return {"errors": _losses(records, reflectance, shading, truth), "failed": failed}


@torch.no_grad()
def _losses(
    records: Sequence[EvaluationProtocol], reflectance: Tensor, shading: Tensor, truth: GroundTruth
) -> Float64[Tensor, "rows columns"]:
    """Compute the columns of all protocols, negated where higher values are better."""
    parts = []
    shading = truth.comparable(shading)
    for record in records:
        values = cast(DecompositionRule, record.rule).values(reflectance.double(), shading.double(), truth)
        parts.append(-values if record.better == "higher" else values)
    return torch.cat(parts).double().T.contiguous()


def _zero_losses(records: Sequence[EvaluationProtocol], truth: GroundTruth) -> Tensor:
    zeros = torch.zeros_like(truth.image)
    return _losses(records, zeros, zeros, truth)


def _failed_ids(found: RowErrors, name: str, view: Decompositions) -> tuple[str, ...]:
    return tuple(view.ids[row] for row in np.flatnonzero(found.failed[name]).tolist())


def _result(
    record: EvaluationProtocol,
    about: Provenance,
    values: Float64[ndarray, "columns rows"],
    view: Decompositions,
    failed: tuple[str, ...],
) -> Result:
    columns = {name: tuple(row.tolist()) for name, row in zip(record.columns, values, strict=True)}
    average = cast(DecompositionRule, record.rule).average
    if average == "arithmetic":
        return MeanResult(
            about, tuple(view.ids), tuple(view.groups), columns, failed, ranges=score_ranges(columns)
        )
    statistic = _averages(record.columns, values, average, view.groups)
    scores, replicates = resampled_interval(statistic, view.groups, seed=0)
    details = {"ids": view.ids, "columns": columns}
    return StatisticResult(about, scores, replicates, distinct_groups(view.groups), failed, details)


def _averages(
    names: Sequence[str],
    values: Float[ndarray, "columns rows"],
    average: Average,
    groups: Sequence[str],
) -> Callable[[Int[ndarray, " rows"]], dict[str, float]]:
    """Make the statistic of drawn rows: the mean of each column over rows where it is defined."""
    numbers = group_numbers(groups)

    def mean(column: Float[ndarray, " rows"], rows: Int[ndarray, " drawn"]) -> float:
        known = rows[~np.isnan(column[rows])]
        if not known.size:
            return math.nan
        if average == "geometric":
            return float(geometric_mean(torch.from_numpy(column[known])))
        # Rows weigh 1 / the size of their group, so a group that is drawn twice counts twice.
        sizes = np.bincount(numbers[~np.isnan(column)])
        return float(np.average(column[known], weights=1 / sizes[numbers[known]]))

    def statistic(rows: Int[ndarray, " drawn"]) -> dict[str, float]:
        return {name: mean(column, rows) for name, column in zip(names, values, strict=True)}

    return statistic
