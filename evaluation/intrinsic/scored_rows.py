"""Mean results of the errors of models, in which failed predictions have the worst error."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.intrinsic.score_ranges import score_ranges
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.result import MeanResult, fill_failures
from candlelight.evaluation.running.batches import make_provenance
from candlelight.evaluation.running.run_batches import Step, join_steps

_Truth = TypeVar("_Truth")


class ErrorMetric(NamedTuple):
    """Metric of a mean result whose columns are errors: lower is better."""

    name: str
    version: int
    columns: tuple[str, ...]

    @property
    def settings(self) -> dict[str, object]:
        """Name, version and axes of the errors, for the keys of finished steps."""
        return {"metric": self.name, "version": self.version, "errors": "rows, columns"}


class RowErrors(NamedTuple):
    """Errors of each model, its failed predictions, and the errors that a failed one has at least."""

    errors: dict[str, Float[ndarray, "rows columns"]]
    failed: dict[str, Bool[ndarray, " rows"]]
    zeros: Float[ndarray, "rows columns"]


def collect_errors(
    batches: Iterator[tuple[_Truth, Mapping[str, Step]]], zero_errors: Callable[[_Truth], Tensor]
) -> RowErrors:
    """Join the steps of all batches, each with ``errors`` [rows, columns] and ``failed`` [rows].

    Args:
        batches: from `candlelight.evaluation.running.run_batches.run_batches`.
        zero_errors: computes the errors of all-zero predictions of a batch; nan if the truth is undefined.
    """
    zeros, steps = [], []
    for prepared, made in batches:
        zeros.append(zero_errors(prepared))
        steps.append(made)
    joined = join_steps(steps)
    return RowErrors(
        {name: one["errors"].numpy() for name, one in joined.items()},
        {name: one["failed"].numpy() for name, one in joined.items()},
        torch.cat(zeros).numpy(),
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
                for column, values in zip(metric.columns, filled[name].T, strict=True)
            },
            tuple(ids[row] for row in np.flatnonzero(found.failed[name]).tolist()),
            ranges=score_ranges(metric.columns),
        )
        for name, named in named_models.items()
    }
