"""Score decompositions against the ground truth: one result for each model or folder of predictions."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.intrinsic.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.intrinsic.image_errors import mse, si_mse
from candlelight.evaluation.intrinsic.lmse import gray, lmse
from candlelight.evaluation.models.model_protocols import IntrinsicModel
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.models.retinex import BASELINES
from candlelight.evaluation.run.batches import Fingerprint, make_provenance
from candlelight.evaluation.run.named_models import identify_models, predict_decomposition
from candlelight.evaluation.run.predictions import MissingResults, Predictions
from candlelight.evaluation.run.result import MeanResult, Result, fill_failures
from candlelight.evaluation.run.steps import FinishedSteps, Step, join_steps, run_batches
from candlelight.evaluation.views import Decompositions, Judgements, Regions

_ERROR = 0.0, math.inf
_RANGES = {
    # The best scale of a window leaves at most the energy of the truth.
    "lmse": (0.0, 1.0),
    "si_lmse": _ERROR,
    "si_mse": _ERROR,
    "mse": _ERROR,
    "rmse": _ERROR,
    "dssim": (0.0, 1.0),
    "ssim": (-1.0, 1.0),
    "whdr": (0.0, 1.0),
    "maw_intensity": _ERROR,
    "maw_chromaticity": _ERROR,
    "c_mat": _ERROR,
    "c_mat_unscaled": _ERROR,
    "chroma_drift": _ERROR,
    "chroma_loss": (0.0, 1.0),
    "psnr": (-math.inf, math.inf),
}


def score_ranges(columns: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest possible value of columns of results.

    Args:
        columns: names of scores, which may end in ``_reflectance`` or ``_shading``.

    Example:
        >>> score_ranges(["lmse_shading", "mse_shading"])
        {'lmse_shading': (0.0, 1.0), 'mse_shading': (0.0, inf)}
    """
    return {name: _RANGES[name.removesuffix("_reflectance").removesuffix("_shading")] for name in columns}


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
        batches: from `candlelight.evaluation.run.steps.run_batches`.
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


METRIC, VERSION = "lmse", 2
COLUMNS = (
    "lmse",
    "lmse_reflectance",
    "lmse_shading",
    "si_mse_reflectance",
    "si_mse_shading",
    "mse_reflectance",
    "mse_shading",
)

DecompositionModel = IntrinsicModel | NamedModel | Predictions


@overload
def score_intrinsic(
    models: Mapping[str, DecompositionModel],
    data: Decompositions,
    protocol: None = None,
    *,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> dict[str, MeanResult]: ...


@overload
def score_intrinsic(
    models: Mapping[str, DecompositionModel],
    data: Decompositions | Judgements | Regions,
    protocol: str,
    *,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> dict[str, Result]: ...


def score_intrinsic(
    models: Mapping[str, DecompositionModel],
    data: Any,
    protocol: str | None = None,
    *,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> Mapping[str, Result]:
    """Measure the errors of reflectance and shading of models, or of predictions in files.

    With ``protocol`` this is `candlelight.evaluation.intrinsic.score_protocols.score_protocol`; the rest is
    about the default.

    Columns of a result: ``lmse``, the score of Grosse et al. 2009 (mean of the LMSE of reflectance and
    shading, eq. 9), its two parts, and `si_mse` and `mse` of reflectance and shading. Only pixels in the mask
    are scored, and of the shading only its known channels (`DecomposedImage.shading_known`). Gray shading of
    a model is repeated over the channels. If the true shading is gray, it is compared with the mean of the
    predicted channels.

    A prediction that is missing, not finite inside the mask, or so large that its squared error is not
    finite in float32 (above 1e19), has failed. It counts as 1 in LMSE; in the other columns it counts as the
    larger of the error of an all-zero image and the largest finite error of any model in any row. Rows with
    undefined ground truth (an empty mask, or no light) are left out and counted; but where only the truth is
    black, `mse` is defined, and `si_mse` is 0.

    Args:
        models: by name: an `IntrinsicModel` that takes scene-linear images, a `NamedModel` of
            `candlelight.evaluation.models.open_model`, or `Predictions` of another program.
        data: images with their ground-truth decomposition, from
            `open_data("decompositions", ...)`; for some protocols another view.
        protocol: name of an evaluation protocol in
            `candlelight.evaluation.intrinsic.protocol_records.PROTOCOLS`.
        device: torch device of the models.
        batch_size: images per call of a model.
        missing: "error" refuses predictions without a file for an id; "fail" counts the id as failed.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each model, lower is better.

    Raises:
        InputError: there are no rows or no models, images are smaller than a window of `lmse`, an output is
            not a decomposition, or ids of predictions do not match.

    Example:
        >>> import torch
        >>> from candlelight.evaluation.models.retinex import constant_shading
        >>> from candlelight.evaluation.views import DataIdentity, DecomposedImage
        >>> class Flat:
        ...     identity = DataIdentity("flat", "memory")
        ...     ids, groups, known_ids, explains = ("a",), ("a",), frozenset("a"), "image"
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row):
        ...         image = torch.rand(3, 20, 20)
        ...         return DecomposedImage(image, image, torch.ones_like(image), torch.ones(20, 20).bool())
        >>> score_intrinsic({"all reflectance": constant_shading}, Flat())["all reflectance"].score < 1e-9
        True
    """
    if protocol is not None:
        from candlelight.evaluation.intrinsic.score_protocols import score_protocol

        run: dict[str, Any] = {"device": device, "batch_size": batch_size, "missing": missing, "steps": steps}
        return score_protocol(models, data, protocol, **run)
    named_models = identify_models(models, [data], "linear", missing)
    metric, fingerprint = ErrorMetric(METRIC, VERSION, COLUMNS), Fingerprint()
    batches = run_batches(
        named_models,
        data,
        lambda batch: stack_ground_truth(batch.items),
        _score,
        fingerprint=fingerprint,
        settings=metric.settings,
        device=device,
        batch_size=batch_size,
        steps=steps,
    )
    found = collect_errors(batches, _zero_errors)
    settings = intrinsic_settings(data, missing)
    described = fingerprint.describe(data)
    return mean_results(named_models, metric, found, data.ids, data.groups, described, settings)


def score_baselines(data: Decompositions) -> dict[str, MeanResult]:
    """Score the two trivial decompositions; every model should have lower errors. See `score_intrinsic`."""
    return score_intrinsic(BASELINES, data)


def intrinsic_settings(data: Decompositions, missing: MissingResults) -> dict[str, Any]:
    """Describe the arguments that change the numbers of every model; see `score_intrinsic`."""
    return {"window": 20, "step": 10, "explains": data.explains, "missing": missing}


def _score(named: NamedModel, ids: Sequence[str], truth: GroundTruth, device: str) -> dict[str, Tensor]:
    """Compute the errors of one model on a batch, and flags of failed rows."""
    reflectance, shading, failed = predict_decomposition(
        named, ids, truth.image, truth.mask, device, truth.lights
    )
    errors = decomposition_errors(reflectance, shading, truth)
    return {"errors": errors, "failed": failed | errors.isinf().any(1)}  # finite values, infinite squares


@torch.no_grad()
def decomposition_errors(
    reflectance: Float[Tensor, "rows 3 height width"],
    shading: Float[Tensor, "rows 3 height width"],
    truth: GroundTruth,
) -> Float64[Tensor, "rows columns"]:
    """Compute the errors of a batch in the order of `COLUMNS`, see `score_intrinsic`.

    Args:
        reflectance: predicted, scene-linear.
        shading: predicted, scene-linear.
        truth: images with their ground truth.
    """
    shading = truth.comparable(shading)
    if truth.shading.shape[1] == 1:
        shading = shading.mean(1, keepdim=True)
    pairs = ((reflectance, truth.reflectance), (shading, truth.shading))
    local = [lmse(gray(given), gray(true), truth.mask) for given, true in pairs]
    scaled = [si_mse(given, true, truth.mask) for given, true in pairs]
    plain = [mse(given, true, truth.mask) for given, true in pairs]
    return torch.stack([0.5 * (local[0] + local[1]), *local, *scaled, *plain], 1).double()


def _zero_errors(truth: GroundTruth) -> Tensor:
    """Compute the errors of all-zero predictions; nan if the ground truth is undefined."""
    return decomposition_errors(torch.zeros_like(truth.image), torch.zeros_like(truth.image), truth)
