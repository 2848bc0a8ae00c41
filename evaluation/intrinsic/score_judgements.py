"""Score decompositions against judgements of reflectance (WHDR) and labels of shading (SAW)."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.intrinsic.judgements import SAWVariant, count_smooth, saw_curve, whdr
from candlelight.evaluation.intrinsic.score_intrinsic import DecompositionModel, score_ranges
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Batch, Fingerprint, make_provenance
from candlelight.evaluation.run.intervals import distinct_groups, resampled_interval
from candlelight.evaluation.run.named_models import identify_models, predict_decomposition
from candlelight.evaluation.run.predictions import MissingResults
from candlelight.evaluation.run.result import MeanResult, StatisticResult
from candlelight.evaluation.run.steps import FinishedSteps, join_steps, run_batches
from candlelight.evaluation.views import Comparisons, JudgedImage, Judgements
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

WHDR_METRIC, WHDR_VERSION = "whdr", 1
SAW_METRIC, SAW_VERSION = "saw_ap", 1
_Judgement = TypeVar("_Judgement")


class _Compared(NamedTuple):
    """A batch with the comparisons of each image."""

    image: Float[Tensor, "batch 3 height width"]
    comparisons: list[Comparisons]


class _Labelled(NamedTuple):
    """A batch with the labels of each image."""

    image: Float[Tensor, "batch 3 height width"]
    labels: Int64[Tensor, "batch height width"]


def score_whdr(
    models: Mapping[str, DecompositionModel],
    data: Judgements,
    *,
    threshold: float = 0.10,
    power: float = 1.0,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> dict[str, MeanResult]:
    """Measure how often the reflectance of models, or of predictions in files, contradicts comparisons.

    The column ``whdr`` holds the weighted human disagreement rate of each image (see `whdr`), and the score
    is the mean over images. A prediction that is missing, or not finite at any pixel of reflectance or
    shading, has failed and counts as 1. Images without comparisons are left out and counted.

    Args:
        models: by name: an `IntrinsicModel` that takes scene-linear images, a `NamedModel` of
            `candlelight.evaluation.models.open_model`, or `Predictions` of another program, of the size of
            the images.
        data: images with comparisons, from `open_data("judgements", ...)`: IIW or frames.
        threshold: see `whdr`.
        power: reflectance is raised to it before points are compared: 1 compares scene-linear values as
            Bell et al. do; CGIntrinsics and BigTime have 0.4545. Values below 0 then count as 0.
        device: torch device of the models.
        batch_size: images per call of a model; images of several sizes are never in one call.
        missing: "error" refuses predictions without a file for an id; "fail" counts the id as failed.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each model, lower is better; its settings say whether the judgements are of people or
        synthetic.

    Raises:
        InputError: there are no rows, no models or no comparisons, an output is not a decomposition, or ids
            of predictions do not match.

    Example:
        >>> from candlelight.evaluation.models.retinex import BASELINES
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Halves:
        ...     identity, origin = DataIdentity("halves", "memory"), "synthetic"
        ...     ids, groups, known_ids = ("a",), ("a",), frozenset("a")
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row):
        ...         image = torch.tensor([0.1, 0.9]).expand(3, 2, 2)
        ...         points = torch.tensor([[[0.2, 0.5], [0.8, 0.5]]]).double()
        ...         darker = Comparisons(points, torch.tensor([1]), torch.ones(1).double())
        ...         return JudgedImage(image, darker)
        >>> {name: result.score for name, result in score_whdr(BASELINES, Halves()).items()}
        {'constant-reflectance': 1.0, 'constant-shading': 0.0}
    """
    named_models = identify_models(models, [data], "linear", missing)

    def prepare(batch: Batch[JudgedImage]) -> _Compared:
        given = [_of(item, "comparisons", item.comparisons) for item in batch.items]
        return _Compared(batch.stack(lambda item: item.image), given)

    choice = {"threshold": threshold, **_named_power(power)}
    fingerprint = Fingerprint()
    batches = run_batches(
        named_models,
        data,
        prepare,
        partial(_rates, threshold=threshold, power=power),
        fingerprint=fingerprint,
        settings={"metric": WHDR_METRIC, "version": WHDR_VERSION, **choice},
        device=device,
        batch_size=batch_size,
        steps=steps,
    )
    rows = join_steps(made for _, made in batches)
    described = fingerprint.describe(data)
    settings = {**choice, "missing": missing, "judgements": data.origin}
    return {
        name: MeanResult(
            make_provenance(WHDR_METRIC, WHDR_VERSION, "lower", named, described, settings),
            tuple(data.ids),
            tuple(data.groups),
            {WHDR_METRIC: tuple(rows[name]["whdr"].tolist())},
            _failed(data, rows[name]["failed"]),
            ranges=score_ranges([WHDR_METRIC]),
        )
        for name, named in named_models.items()
    }


def score_saw(
    models: Mapping[str, DecompositionModel],
    data: Judgements,
    *,
    variant: SAWVariant,
    truncate: bool = False,
    power: float = 1.0,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> dict[str, StatisticResult]:
    """Measure how well the shading of models, or of predictions in files, tells smooth pixels from others.

    The score ``saw_ap`` is the average precision of one curve over all images, see
    `saw_average_precision`. A prediction that is missing, or not finite at any pixel of reflectance or
    shading, has failed: at every threshold its smooth pixels count as not smooth, and all others as smooth.
    If all fail, the score is 0 for "kovacs2017" and 0.25 for the others, whose curve ends at (1, 0.5).

    Args:
        models: see `score_whdr`.
        data: images with labels, from `open_data("judgements", ...)`: SAW or frames.
        variant: see `saw_average_precision`; the numbers of two variants are not comparable.
        truncate: see `saw_average_precision`.
        power: shading is raised to it before gradients are taken: 1 scores scene-linear shading; CGIntrinsics
            and BigTime have 0.4545. Values below 0 then count as 0.
        device: torch device of the models.
        batch_size: images per call of a model; images of several sizes are never in one call.
        missing: "error" refuses predictions without a file for an id; "fail" counts the id as failed.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each model, higher is better, with a 95 % interval over groups of images; nan without
        smooth pixels or without others. Details: precision and recall at each threshold, and the weight of
        each label. The settings say whether the labels are of people or synthetic.

    Raises:
        InputError: there are no rows, no models or no labels, the variant is unknown, an output is not a
            decomposition, or ids of predictions do not match.

    Example:
        >>> from candlelight.evaluation.models.retinex import BASELINES
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Halves:
        ...     identity, origin = DataIdentity("halves", "memory"), "synthetic"
        ...     ids, groups, known_ids = ("a",), ("a",), frozenset("a")
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row):
        ...         image = torch.tensor([0.2] * 20 + [0.8] * 20).expand(3, 12, 40)
        ...         labels = torch.full((12, 40), 2)
        ...         labels[:, 18:22] = torch.tensor([0, 0, 1, 1])
        ...         return JudgedImage(image, labels=labels)
        >>> results = score_saw(BASELINES, Halves(), variant="cgintrinsics2018")
        >>> {name: round(result.score, 3) for name, result in results.items()}
        {'constant-reflectance': 1.0, 'constant-shading': 0.5}
    """
    check_choice("variant", variant, SAWVariant)
    named_models = identify_models(models, [data], "linear", missing)

    def prepare(batch: Batch[JudgedImage]) -> _Labelled:
        labels = [_of(item, "labels", item.labels) for item in batch.items]
        return _Labelled(batch.stack(lambda item: item.image), torch.stack(labels))

    choice: dict[str, Any] = {"variant": variant, "truncate": truncate, **_named_power(power)}
    fingerprint = Fingerprint()
    batches = run_batches(
        named_models,
        data,
        prepare,
        partial(_counts, variant=variant, truncate=truncate, power=power),
        fingerprint=fingerprint,
        settings={"metric": SAW_METRIC, "version": SAW_VERSION, **choice},
        device=device,
        batch_size=batch_size,
        steps=steps,
    )
    rows = join_steps(made for _, made in batches)
    described = fingerprint.describe(data)
    settings = {**choice, "missing": missing, "judgements": data.origin}
    results = {}
    for name, named in named_models.items():
        counts = rows[name]["counts"]
        scores, replicates = resampled_interval(_precision(counts, variant), data.groups, seed=0)
        results[name] = StatisticResult(
            make_provenance(SAW_METRIC, SAW_VERSION, "higher", named, described, settings),
            scores,
            replicates,
            distinct_groups(data.groups),
            _failed(data, rows[name]["failed"]),
            _describe(counts.sum(0), variant),
        )
    return results


def _rates(
    named: NamedModel, ids: Sequence[str], batch: _Compared, device: str, threshold: float, power: float
) -> dict[str, Tensor]:
    """Compute the WHDR of a batch; a failed image with comparisons counts as 1."""
    reflectance, _, failed = predict_decomposition(named, ids, batch.image, None, device)
    rates = whdr(_raised(reflectance.double(), power), batch.comparisons, threshold)
    return {"whdr": rates.masked_fill(failed & ~rates.isnan(), 1.0), "failed": failed}


def _counts(
    named: NamedModel,
    ids: Sequence[str],
    batch: _Labelled,
    device: str,
    variant: SAWVariant,
    truncate: bool,
    power: float,
) -> dict[str, Tensor]:
    """Count the pixels of a batch; in a failed image every answer is wrong."""
    _, shading, failed = predict_decomposition(named, ids, batch.image, None, device)
    counts = count_smooth(_raised(shading, power), batch.labels, variant, batch.image, truncate)
    totals = counts[failed].sum(-1)
    wrong = torch.zeros_like(counts[failed])
    wrong[..., :2, 1], wrong[..., 2, 0] = totals[..., :2], totals[..., 2]
    counts[failed] = wrong
    return {"counts": counts, "failed": failed}


def _precision(
    counts: Float[Tensor, "images thresholds 3 2"], variant: SAWVariant
) -> Callable[[Int[ndarray, " rows"]], dict[str, float]]:
    """Make the statistic of drawn images: an image counts as often as it is drawn."""
    flat = counts.flatten(1).numpy()

    def statistic(rows: Int[ndarray, " rows"]) -> dict[str, float]:
        drawn = np.bincount(rows, minlength=len(flat)).astype(np.float64)
        summed = torch.from_numpy(drawn @ flat).reshape(counts.shape[1:])
        return {SAW_METRIC: float(saw_curve(summed, variant).score)}

    return statistic


def _describe(counts: Float[Tensor, "thresholds 3 2"], variant: SAWVariant) -> dict[str, Any]:
    """Collect the details of a result: its curve, and the weight of each label."""
    curve = saw_curve(counts, variant)
    weights = counts[-1].sum(-1).tolist()
    return {"recall": curve.recall.tolist(), "precision": curve.precision.tolist(), "weights": weights}


def _named_power(power: float) -> dict[str, float]:
    """Name a power among the settings; 1 is not named, so that results stay comparable with older ones."""
    if not 0 < power < math.inf:
        raise InputError(f"`power` must be above 0 and finite, got {power}; 1 is scene-linear")
    return {} if power == 1 else {"power": power}


def _raised(values: Float[Tensor, "*shape"], power: float) -> Float[Tensor, "*shape"]:
    return values if power == 1 else values.clamp(min=0) ** power


def _of(item: JudgedImage, name: str, judgement: _Judgement | None) -> _Judgement:
    if judgement is None:
        other = "iiw:PATH" if name == "comparisons" else "saw:PATH"
        raise InputError(f"the data have no {name}; expected {other} or frames")
    return judgement


def _failed(data: Judgements, failed: Tensor) -> tuple[str, ...]:
    return tuple(data.ids[row] for row in failed.nonzero().flatten().tolist())
