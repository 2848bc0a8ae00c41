"""Score predicted reflectance on regions of one material against their measured or true albedo."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.inputs.predictions import MissingResults
from candlelight.evaluation.inputs.region_batch import RegionBatch, stack_regions
from candlelight.evaluation.intrinsic.maw_errors import maw_chromaticity, maw_intensity
from candlelight.evaluation.intrinsic.maw_protocol import MAW_SIZE, resize_for_maw
from candlelight.evaluation.intrinsic.region_means import region_means
from candlelight.evaluation.intrinsic.score_intrinsic import DecompositionModel
from candlelight.evaluation.intrinsic.scored_rows import ErrorMetric, collect_errors, mean_results
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.result import MeanResult
from candlelight.evaluation.running.batches import Batch, Fingerprint
from candlelight.evaluation.running.finished_steps import FinishedSteps
from candlelight.evaluation.running.named_models import identify_models
from candlelight.evaluation.running.predict_decomposition import predict_decomposition
from candlelight.evaluation.running.run_batches import Step, run_batches
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import RegionImage, Regions

MAW_METRIC = ErrorMetric("maw", 1, ("maw_intensity", "maw_chromaticity"))


def score_maw(
    models: Mapping[str, DecompositionModel],
    data: Regions,
    *,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> dict[str, MeanResult]:
    """Measure the errors of reflectance on regions with true colours, as Measured Albedo in the Wild does.

    Columns of a result: `maw_intensity`, of which papers report 100 times the value, and `maw_chromaticity`,
    both on predictions that `resize_for_maw` prepares: clipped to [0, 1], 8 bits, 320 x 240 pixels.

    A prediction that is missing, or not finite inside the mask, has failed. It counts as the larger of the
    error of an all-zero image and the largest finite error of any model in any row. Rows without a region
    are left out and counted.

    Args:
        models: by name: an `IntrinsicModel` that takes scene-linear images, a `NamedModel` of
            `candlelight.evaluation.models.open_model`, or `Predictions` of another program.
        data: images with regions and their colours, from `candlelight.loaders.views.open_regions`.
        device: torch device of the models.
        batch_size: images per call of a model.
        missing: "error" refuses predictions without a file for an id; "fail" counts the id as failed.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each model, lower is better.

    Raises:
        InputError: there are no rows or no models, no row has a region, the regions have no colours, an
            output is not a decomposition, or ids of predictions do not match.

    Example:
        >>> from candlelight.evaluation.models.baselines import constant_shading
        >>> from candlelight.loaders.views import DataIdentity
        >>> class Wall:
        ...     identity, synthetic = DataIdentity("wall", "memory"), False
        ...     ids, groups, known_ids = ("a",), ("a",), frozenset("a")
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row):
        ...         regions = torch.ones(4, 4, dtype=torch.int64)
        ...         return RegionImage(torch.full((3, 4, 4), 0.5), regions, torch.full((1, 3), 0.2))
        >>> score_maw({"all reflectance": constant_shading}, Wall())["all reflectance"].score < 1e-9
        True
    """
    named_models = identify_models(models, [data], "linear", missing)
    fingerprint = Fingerprint()
    batches = run_batches(
        named_models,
        data,
        partial(_with_colours, data.identity.name),
        _maw_step,
        fingerprint=fingerprint,
        settings=MAW_METRIC.settings,
        device=device,
        batch_size=batch_size,
        steps=steps,
    )
    found = collect_errors(batches, lambda batch: _maw_errors(torch.zeros_like(batch.image), batch))
    if np.isnan(found.zeros).all():
        raise InputError(f"`{data.identity.name}`: expected rows with regions of one material, got none")
    settings = {"size": list(MAW_SIZE), "synthetic": data.synthetic, "missing": missing}
    described = fingerprint.describe(data)
    return mean_results(named_models, MAW_METRIC, found, data.ids, data.groups, described, settings)


def predict_reflectance(
    named: NamedModel, ids: Sequence[str], batch: RegionBatch, device: str
) -> tuple[Float[Tensor, "batch 3 height width"], Tensor]:
    """Predict the reflectance of a batch; flags tell which predictions failed.

    The model is given the mask of surfaces, if there is one, and never the regions, which are parts of them.
    """
    reflectance, _, failed = predict_decomposition(named, ids, batch.image, batch.mask, device)
    return reflectance, failed


def _with_colours(name: str, batch: Batch[RegionImage]) -> RegionBatch:
    stacked = stack_regions(batch.items)
    if stacked.colours is None:
        raise InputError(f"regions of `{name}` have no true colours; expected maw:PATH or frames")
    return stacked


def _maw_step(named: NamedModel, ids: Sequence[str], batch: RegionBatch, device: str) -> Step:
    reflectance, failed = predict_reflectance(named, ids, batch, device)
    return {"errors": _maw_errors(reflectance, batch), "failed": failed}


def _maw_errors(
    reflectance: Float[Tensor, "batch 3 height width"], batch: RegionBatch
) -> Float[Tensor, "batch columns"]:
    assert batch.colours is not None  # `_with_colours`
    means = region_means(*resize_for_maw(reflectance, batch.regions), batch.count)
    given = means.colours, batch.colours, means.pixels
    return torch.stack([maw_intensity(*given), maw_chromaticity(*given)], 1)
