"""Run models on the rows of a view in batches, and make a mean result of their errors for each model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from evaluation.models.model_spec import NamedModel
from evaluation.results.result import MeanResult, fill_failures
from evaluation.running.batches import Batch, Fingerprint, make_provenance, read_batches
from evaluation.running.finished_steps import FinishedSteps, batch_key, model_key
from loaders.views import View

_Item = TypeVar("_Item")
_Truth = TypeVar("_Truth")
Step = dict[str, Tensor]


class ErrorMetric(NamedTuple):
    """Metric of a mean result whose columns are errors: lower is better."""

    name: str
    version: int
    columns: tuple[str, ...]


class RowErrors(NamedTuple):
    """Errors of each model, its failed predictions, and the errors that a failed one has at least."""

    errors: dict[str, Float[ndarray, "columns rows"]]
    failed: dict[str, Bool[ndarray, " rows"]]
    zeros: Float[ndarray, "columns rows"]


def run_batches(
    named_models: Mapping[str, NamedModel],
    data: View[_Item],
    prepare: Callable[[Batch[_Item]], _Truth],
    compute: Callable[[NamedModel, Sequence[str], _Truth, str], Step],
    *,
    image: Callable[[_Item], Tensor],
    metric: ErrorMetric,
    fingerprint: Fingerprint,
    device: str,
    batch_size: int,
    steps: FinishedSteps | None,
) -> Iterator[tuple[_Truth, dict[str, Step]]]:
    """Compute a step of each model for each batch, or take it from finished steps.

    Args:
        named_models: the models, on ``device``.
        data: the rows.
        prepare: makes the input of ``compute`` of a batch, once for all models.
        compute: computes the step of a model from the ids and the prepared batch: CPU tensors by name.
        image: returns the image of an item; all images of a batch have one shape.
        metric: metric of the steps.
        fingerprint: every row is added to it.
        device: torch device of the models.
        batch_size: images per call of a model.
        steps: keeps finished steps; None keeps nothing.

    Returns:
        An iterator over batches: the prepared batch, and the step of each model.

    Raises:
        InputError: there is no row, the batch size is below 1, or ``compute`` raises it.
    """
    kept = steps or FinishedSteps()
    keys = {
        name: model_key(named, device, metric=metric.name, version=metric.version)
        for name, named in named_models.items()
    }
    for batch in read_batches(data, batch_size, image, fingerprint, "score"):
        prepared = prepare(batch)
        yield (
            prepared,
            {
                name: kept.get_or_compute(
                    batch_key(keys[name], batch, fingerprint),
                    partial(compute, named, batch.ids, prepared, device),
                )
                for name, named in named_models.items()
            },
        )


def collect_errors(
    batches: Iterator[tuple[_Truth, dict[str, Step]]], zero_errors: Callable[[_Truth], Tensor]
) -> RowErrors:
    """Join the steps of all batches, each with ``errors`` [columns, rows] and ``failed`` [rows].

    Args:
        batches: from `run_batches`.
        zero_errors: computes the errors of all-zero predictions of a batch; nan if the truth is undefined.
    """
    zeros: list[Tensor] = []
    found: dict[str, list[Step]] = {}
    for prepared, made in batches:
        zeros.append(zero_errors(prepared))
        for name, step in made.items():
            found.setdefault(name, []).append(step)
    return RowErrors(
        {name: torch.cat([one["errors"] for one in some], 1).numpy() for name, some in found.items()},
        {name: torch.cat([one["failed"] for one in some]).numpy() for name, some in found.items()},
        torch.cat(zeros, 1).numpy(),
    )


def mean_results(
    named_models: Mapping[str, NamedModel],
    metric: ErrorMetric,
    found: RowErrors,
    ids: Sequence[str],
    groups: Sequence[str],
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> dict[str, MeanResult]:
    """Make the result of each model; failed predictions have the errors of `fill_failures`.

    Args:
        named_models: the models.
        metric: the metric.
        found: errors and failures.
        ids: id of each row.
        groups: group of each row.
        data: description of the data, from `Fingerprint.describe`.
        settings: arguments that change the numbers.
    """
    filled = fill_failures(found.errors, found.failed, found.zeros)
    recorded = dict(settings)
    if any(failure.any() for failure in found.failed.values()):
        recorded["filled_among"] = sorted(named_models)
    return {
        name: MeanResult(
            make_provenance(metric.name, metric.version, "lower", named, data, recorded),
            tuple(ids),
            tuple(groups),
            {
                column: tuple(values.tolist())
                for column, values in zip(metric.columns, filled[name], strict=True)
            },
            tuple(ids[row] for row in np.flatnonzero(found.failed[name]).tolist()),
        )
        for name, named in named_models.items()
    }
