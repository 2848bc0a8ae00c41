"""Records that score decompositions: errors against the truth, judgements, and regions of one material."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int, Int64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.intrinsic_options import (
    PREDICTIONS,
    ConstancyOptions,
    LMSEOptions,
    MAWOptions,
    SAWOptions,
    WHDROptions,
)
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.intrinsic.constancy import (
    chroma_drift,
    chroma_retention,
    gray_reflectance,
    material_variation,
)
from candlelight.evaluation.intrinsic.ground_truth import (
    GroundTruth,
    RegionBatch,
    stack_ground_truth,
    stack_regions,
)
from candlelight.evaluation.intrinsic.image_errors import mse, si_mse
from candlelight.evaluation.intrinsic.judgements import SAWVariant, count_smooth, saw_curve, whdr
from candlelight.evaluation.intrinsic.lmse import gray, lmse
from candlelight.evaluation.intrinsic.material_albedo import (
    MAW_SIZE,
    maw_chromaticity,
    maw_intensity,
    region_means,
    resize_for_maw,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.models.retinex import constant_reflectance
from candlelight.evaluation.run.evaluate import Errors, Measured, Run, filled_results, mean_results
from candlelight.evaluation.run.intervals import distinct_groups, resampled_interval
from candlelight.evaluation.run.model_outputs import PREDICTED_LAYERS, has_parameter
from candlelight.evaluation.run.named_models import Decomposition, predict_decomposition
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.evaluation.run.steps import join_steps
from candlelight.evaluation.views import Comparisons, JudgedImage, RegionImage, open_data
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.errors import InputError

_Judgement = TypeVar("_Judgement")
_PAGES = "candlelight.evaluation.intrinsic.intrinsic_report"
ERRORS = {
    # The best scale of a window leaves at most the energy of the truth.
    "lmse": (0.0, 1.0),
    "si_mse": (0.0, math.inf),
    "mse": (0.0, math.inf),
}


def open_with_lights(
    choice: Mapping[str, Any],
    options: Any,
    models: Mapping[str, Any],
    needy: bool = False,
    shading: bool = True,
) -> Any:
    """Open decompositions; images under other lights only if they are needed, or a model takes them."""
    if is_view(choice["data"]):
        return choice["data"]
    bare = (getattr(model, "model", model) for model in models.values())
    lights = needy or any(callable(model) and has_parameter(model, "lights") for model in bare)
    chosen = {name: getattr(options, name) for name in ("leave_edges", "image") if hasattr(options, name)}
    return open_data("decompositions", **choice, **chosen, lights=lights, shading=shading)


def _decompose(
    named: NamedModel, ids: Sequence[str], batch: Any, device: str, layers: Sequence[str] = PREDICTED_LAYERS
) -> Decomposition:
    """Decompose a batch. A model is given the mask of surfaces, if there is one, and never the regions."""
    mask, lights = getattr(batch, "mask", None), getattr(batch, "lights", None)
    return predict_decomposition(named, ids, batch.image, mask, device, lights, layers)


def _zeros(prepared: Any) -> Decomposition:
    """Make the worst decomposition of prepared rows: zero everywhere."""
    zeros = torch.zeros_like(prepared.image)
    return Decomposition(zeros, zeros, torch.zeros(len(zeros), dtype=torch.bool, device=zeros.device))


DECOMPOSITIONS = Reading(
    open=open_with_lights, prepare=stack_ground_truth, predict=_decompose, worst=_zeros, files=PREDICTIONS
)
REFLECTANCE_ALONE = replace(DECOMPOSITIONS, predict=partial(_decompose, layers=("reflectance",)))


def decomposition_errors(
    predicted: Decomposition, truth: GroundTruth, options: object = None
) -> dict[str, Float[Tensor, " rows"]]:
    """Compute the errors of a batch: LMSE, si-MSE and MSE of reflectance and shading.

    ``lmse`` is the score of Grosse et al. 2009, the mean of the LMSE of reflectance and shading (eq. 9). Only
    pixels in the mask are scored, and of the shading only its known channels
    (`DecomposedImage.shading_known`). If the true shading is gray, it is compared with the mean of the
    predicted channels.

    Args:
        predicted: reflectance and shading, scene-linear.
        truth: images with their ground truth.
        options: not used.
    """
    shading = truth.comparable(predicted.shading)
    if truth.shading.shape[1] == 1:
        shading = shading.mean(1, keepdim=True)
    pairs = {"reflectance": (predicted.reflectance, truth.reflectance), "shading": (shading, truth.shading)}
    local = {
        f"lmse_{name}": lmse(gray(given), gray(true), truth.mask) for name, (given, true) in pairs.items()
    }
    scaled = {f"si_mse_{name}": si_mse(*pair, truth.mask) for name, pair in pairs.items()}
    plain = {f"mse_{name}": mse(*pair, truth.mask) for name, pair in pairs.items()}
    return {"lmse": 0.5 * (local["lmse_reflectance"] + local["lmse_shading"]), **local, **scaled, **plain}


LMSE = Evaluation(
    name="lmse",
    version=2,
    better="lower",
    options=LMSEOptions,
    reads=DECOMPOSITIONS,
    measure=decomposition_errors,
    facts=lambda view: {"window": 20, "step": 10, "explains": view.explains},
    ranges={
        "lmse": ERRORS["lmse"],
        **{f"{score}_{layer}": ERRORS[score] for score in ERRORS for layer in ("reflectance", "shading")},
    },
    page=f"{_PAGES}:LMSE_PAGE",
)


class _Compared(NamedTuple):
    """A batch with the comparisons of each image."""

    image: Float[Tensor, "batch 3 height width"]
    comparisons: list[Comparisons]


class _Labelled(NamedTuple):
    """A batch with the labels of each image."""

    image: Float[Tensor, "batch 3 height width"]
    labels: Int64[Tensor, "batch height width"]


def _open_judgements(choice: Mapping[str, Any], _: object, __: object) -> Any:
    return open_data("judgements", **choice)


def _compared(items: Sequence[JudgedImage]) -> _Compared:
    given = [_of(item, "comparisons", item.comparisons) for item in items]
    return _Compared(torch.stack([item.image for item in items]), given)


def _labelled(items: Sequence[JudgedImage]) -> _Labelled:
    labels = [_of(item, "labels", item.labels) for item in items]
    return _Labelled(torch.stack([item.image for item in items]), torch.stack(labels))


def _of(item: JudgedImage, name: str, judgement: _Judgement | None) -> _Judgement:
    if judgement is None:
        other = "iiw:PATH" if name == "comparisons" else "saw:PATH"
        raise InputError(f"the data have no {name}; expected {other} or frames")
    return judgement


def _raised(values: Float[Tensor, "*shape"], power: float) -> Float[Tensor, "*shape"]:
    return values if power == 1 else values.clamp(min=0) ** power


def _disagreement(predicted: Decomposition, batch: _Compared, options: WHDROptions) -> dict[str, Tensor]:
    reflectance = _raised(predicted.reflectance.double(), options.power)
    return {"whdr": whdr(reflectance, batch.comparisons, options.threshold)}


WHDR = Evaluation(
    name="whdr",
    version=1,
    better="lower",
    options=WHDROptions,
    reads=replace(REFLECTANCE_ALONE, open=_open_judgements, prepare=_compared),
    measure=_disagreement,
    worst={"whdr": 1.0},
    ranges={"whdr": (0.0, 1.0)},
    facts=lambda view: {"judgements": view.origin},
    page=f"{_PAGES}:WHDR_PAGE",
)


def _smooth_counts(predicted: Decomposition, batch: _Labelled, options: SAWOptions) -> dict[str, Tensor]:
    """Count the pixels of a batch; in a failed image every answer is wrong."""
    shading = _raised(predicted.shading, options.power)
    counts = count_smooth(shading, batch.labels, options.variant, batch.image)
    totals = counts[predicted.failed].sum(-1)
    wrong = torch.zeros_like(counts[predicted.failed])
    wrong[..., :2, 1], wrong[..., 2, 0] = totals[..., :2], totals[..., 2]
    counts[predicted.failed] = wrong
    return {"counts": counts}


def _precisions(run: Run[SAWOptions], measured: Measured) -> dict[str, Result]:
    """Make the average precision of all images, with an interval over groups of images."""
    rows = join_steps(made for _, made in measured)
    variant, view = run.options.variant, run.data
    results: dict[str, Result] = {}
    for name in run.scored:
        counts = rows[name]["counts"]
        scores, replicates = resampled_interval(_precision(counts, variant), view.groups, seed=0)
        curve, weights = saw_curve(counts.sum(0), variant), counts.sum(0)[-1].sum(-1).tolist()
        drawn = {"recall": curve.recall.tolist(), "precision": curve.precision.tolist(), "weights": weights}
        failed = tuple(view.ids[row] for row in rows[name]["failed"].nonzero().flatten().tolist())
        about, groups = run.provenance(name), distinct_groups(view.groups)
        details = drawn | run.notes(name)
        results[name] = StatisticResult(about, scores, replicates, groups, failed, details)
    return results


def _precision(
    counts: Float[Tensor, "images thresholds 3 2"], variant: SAWVariant
) -> Callable[[Int[ndarray, " rows"]], dict[str, float]]:
    """Make the statistic of drawn images: an image counts as often as it is drawn."""
    flat = counts.flatten(1).numpy()

    def statistic(rows: Int[ndarray, " rows"]) -> dict[str, float]:
        drawn = np.bincount(rows, minlength=len(flat)).astype(np.float64)
        summed = torch.from_numpy(drawn @ flat).reshape(counts.shape[1:])
        return {"saw_ap": float(saw_curve(summed, variant).score)}

    return statistic


SAW_PRECISION = Evaluation(
    name="saw_ap",
    version=2,
    better="higher",
    options=SAWOptions,
    reads=replace(
        DECOMPOSITIONS,
        open=_open_judgements,
        prepare=_labelled,
        predict=partial(_decompose, layers=("shading",)),
    ),
    measure=_smooth_counts,
    summarise=_precisions,
    facts=lambda view: {"judgements": view.origin},
    page=f"{_PAGES}:SAW_PAGE",
)


class _Lit(NamedTuple):
    """A batch with regions, and for each row a key: equal for rows of equal regions and true colours."""

    image: Float[Tensor, "batch 3 height width"]
    regions: Int64[Tensor, "batch height width"]
    mask: Bool[Tensor, "batch height width"] | None
    colours: Float[Tensor, "batch count 3"] | None
    regions_count: int
    keys: list[bytes]


def _lit(items: Sequence[RegionImage]) -> _Lit:
    batch = stack_regions(items)
    keys = []
    for place, regions in enumerate(batch.regions):
        shown = torch.unique(regions[regions > 0]) - 1
        parts = (regions, *(() if batch.colours is None else (batch.colours[place, shown].double(),)))
        told = b"".join(f"{tuple(one.shape)}".encode() + one.numpy().tobytes() for one in parts)
        keys.append(hashlib.sha256(told).digest())
    return _Lit(batch.image, batch.regions, batch.mask, batch.colours, batch.count, keys)


def _open_regions(choice: Mapping[str, Any], options: MAWOptions | ConstancyOptions, _: object) -> Any:
    if is_view(choice["data"]):
        return choice["data"]
    return open_data("regions", **choice, longest=options.longest)


REGIONS = replace(REFLECTANCE_ALONE, open=_open_regions, prepare=stack_regions)


def _albedo_errors(predicted: Decomposition, batch: RegionBatch, _: object) -> dict[str, Tensor]:
    """Compute both errors of MAW on predictions that `resize_for_maw` prepares."""
    if batch.colours is None:
        raise InputError("the regions of the data have no true colours; expected maw:PATH or frames")
    resized, regions = resize_for_maw(predicted.reflectance, batch.regions)
    means = region_means(resized, regions, batch.count)
    given = means.colours, batch.colours, means.pixels
    return {"maw_intensity": maw_intensity(*given), "maw_chromaticity": maw_chromaticity(*given)}


def _region_means(run: Run[MAWOptions], measured: Measured) -> dict[str, Result]:
    """Make the means over rows; data without any region are refused."""
    results = mean_results(run, measured)
    if all(math.isnan(result.score) for result in results.values()):
        name = run.data.identity.name
        raise InputError(f"`{name}`: expected rows with regions of one material, got none")
    return results


MAW_ERROR = Evaluation(
    name="maw",
    version=1,
    better="lower",
    options=MAWOptions,
    reads=REGIONS,
    measure=_albedo_errors,
    summarise=_region_means,
    ranges={"maw_intensity": (0.0, math.inf), "maw_chromaticity": (0.0, math.inf)},
    facts=lambda view: {"size": list(MAW_SIZE), "synthetic": view.synthetic},
    page=f"{_PAGES}:MAW_PAGE",
)


def _material_means(predicted: Decomposition, batch: _Lit, _: object) -> dict[str, Tensor]:
    return {"means": region_means(predicted.reflectance, batch.regions, batch.regions_count).colours}


_Means = Float64[Tensor, "materials 3"]


class _Scene:
    """Rows of one scene: equal group, regions and true colours.

    ``means`` are mean colours of the regions in each light, by the name of the model; the image's own are
    under None. ``failed`` are names of models with a failed prediction.
    """

    def __init__(self, group: str, colours: _Means | None) -> None:
        self.group, self.colours = group, colours
        self.means: dict[str | None, list[_Means]] = {}
        self.failed: set[str] = set()


def _drifts(run: Run[ConstancyOptions], measured: Measured) -> dict[str, Result]:
    """Make the means over scenes: two or more rows of a group with equal regions and equal true colours.

    Other rows, such as the same object in another paint, are scenes of their own, or are left out if there is
    one light. A scene has failed if a prediction of it is missing or not finite, or is not positive on
    average over the regions. It counts as the largest finite error of any model in any scene, but at least as
    ``sqrt(lights - 1)``, the largest possible, in the first two columns, as the drift of the image itself,
    and as a loss of 1. Scenes without regions or with a light that is black in all regions are left out and
    counted, and so is ``c_mat`` of scenes with one region.
    """
    scenes: dict[tuple[str, bytes], _Scene] = {}
    groups = iter(run.data.groups)
    for batch, made in measured:
        for place in range(len(batch.image)):
            _add_row(scenes, next(groups), batch, place, made)
    kept = [scene for scene in scenes.values() if len(scene.means[None]) > 1]
    if not any(len(scene.means[None][0]) for scene in kept):
        raise InputError(
            f"`{run.data.identity.name}`: expected rows of one scene with equal regions under several "
            "lights, got none"
        )
    floors = torch.stack([_least_of_failed(scene) for scene in kept])
    errors, failed = {}, {}
    for name in run.scored:
        found = torch.stack([_variations(scene.means[name], scene.colours) for scene in kept])
        errors[name] = found.masked_fill(floors.isnan(), torch.nan).numpy()
        failed[name] = np.array([name in scene.failed for scene in kept])
    names = [scene.group for scene in kept]
    left = {"rows_with_one_light": len(scenes) - len(kept)}
    ids = _number_repeated(names)
    every = Errors(_CONSTANCY, errors, failed, floors.numpy())
    return filled_results(run, every, ids, names, **left)


def _add_row(
    scenes: dict[tuple[str, bytes], _Scene],
    group: str,
    batch: _Lit,
    place: int,
    made: Mapping[str, Mapping[str, Tensor]],
) -> None:
    """Add the means of one row to its scene."""
    regions = batch.regions[place]
    on_device = torch.unique(regions[regions > 0]) - 1
    shown = on_device.cpu()
    image = batch.image[place : place + 1]
    own = region_means(image, regions[None], batch.regions_count).colours[0].cpu()[shown]
    colours = None if batch.colours is None else batch.colours[place, on_device].double().cpu()
    scene = scenes.setdefault((group, batch.keys[place]), _Scene(group, colours))
    scene.means.setdefault(None, []).append(own)
    for name, step in made.items():
        scene.means.setdefault(name, []).append(step["means"][place, shown])
        dark = len(shown) > 0 and not float(step["means"][place, shown].mean()) > 0
        if dark or bool(step["failed"][place]):
            scene.failed.add(name)


def _least_of_failed(scene: _Scene) -> Float64[Tensor, " columns"]:
    """Compute the errors that a failed prediction has at least: of the image, or the largest possible."""
    own = _variations(scene.means[None], scene.colours)
    largest = math.sqrt(len(scene.means[None]) - 1)
    floors = torch.tensor([largest, largest, float(own[2]), 1.0], dtype=torch.float64)
    return floors.masked_fill(own.isnan(), torch.nan)


def _variations(means: Sequence[_Means], colours: _Means | None) -> Float64[Tensor, " columns"]:
    lights = torch.stack(list(means))[None]
    unknown = torch.full((1,), torch.nan, dtype=torch.float64)
    retained = unknown if colours is None else chroma_retention(lights, colours[None])
    found = (
        material_variation(lights),
        material_variation(lights, align=False),
        chroma_drift(lights),
        (1 - retained).clamp(min=0),
    )
    return torch.cat(found)


def _number_repeated(names: Sequence[str]) -> list[str]:
    """Number the scenes of a group with several, in order: ``cup#1`` and ``cup#2``."""
    seen: dict[str, int] = {}
    numbered = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        numbered.append(f"{name}#{seen[name]}" if names.count(name) > 1 else name)
    return numbered


_CONSTANCY = ("c_mat", "c_mat_unscaled", "chroma_drift", "chroma_loss")
CONSTANCY = Evaluation(
    name="constancy",
    version=1,
    better="lower",
    options=ConstancyOptions,
    reads=replace(REGIONS, prepare=_lit),
    measure=_material_means,
    summarise=_drifts,
    controls={"gray": gray_reflectance, "constant": constant_reflectance},
    ranges={**dict.fromkeys(_CONSTANCY, (0.0, math.inf)), "chroma_loss": (0.0, 1.0)},
    facts=lambda view: {"controls": ["gray", "constant"], "synthetic": view.synthetic},
    page=f"{_PAGES}:CONSTANCY_PAGE",
)
