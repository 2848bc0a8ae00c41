"""Score decompositions against the ground truth: one result for each model or folder of predictions."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from candlelight.evaluation.inputs.ground_truth import GroundTruth, stack_ground_truth
from candlelight.evaluation.inputs.predictions import MissingResults, Predictions
from candlelight.evaluation.intrinsic.lmse import gray, lmse
from candlelight.evaluation.intrinsic.mse import mse
from candlelight.evaluation.intrinsic.scored_rows import ErrorMetric, collect_errors, mean_results
from candlelight.evaluation.intrinsic.si_mse import si_mse
from candlelight.evaluation.models.baselines import BASELINES
from candlelight.evaluation.models.model_protocols import IntrinsicModel
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.result import MeanResult, Result
from candlelight.evaluation.running.batches import Fingerprint
from candlelight.evaluation.running.finished_steps import FinishedSteps
from candlelight.evaluation.running.named_models import identify_models
from candlelight.evaluation.running.predict_decomposition import predict_decomposition
from candlelight.evaluation.running.run_batches import run_batches
from candlelight.loaders.views import Decompositions, Judgements, Regions

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

    With ``protocol`` this is `candlelight.evaluation.protocols.score_protocol`; the rest is about the
    default.

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
            `candlelight.loaders.views.open_decompositions`; for some protocols another view.
        protocol: name of an evaluation protocol in `candlelight.evaluation.protocols.PROTOCOLS`.
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
        >>> from candlelight.evaluation.models.baselines import constant_shading
        >>> from candlelight.loaders.views import DataIdentity, DecomposedImage
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
        from candlelight.evaluation.protocols import (
            score_protocol,  # here, because the protocols import this module
        )

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
