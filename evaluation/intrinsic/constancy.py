"""Constancy of predicted reflectance over lights, on regions of one material."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from candlelight.evaluation.intrinsic.ground_truth import RegionBatch, stack_regions
from candlelight.evaluation.intrinsic.masked import is_finite, result_dtype
from candlelight.evaluation.intrinsic.material_albedo import predict_reflectance, region_means
from candlelight.evaluation.intrinsic.score_intrinsic import (
    DecompositionModel,
    ErrorMetric,
    RowErrors,
    mean_results,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.models.retinex import constant_reflectance
from candlelight.evaluation.run.batches import Fingerprint
from candlelight.evaluation.run.check_shapes import check_shapes
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.predictions import MissingResults
from candlelight.evaluation.run.result import MeanResult
from candlelight.evaluation.run.steps import FinishedSteps, Step, run_batches
from candlelight.evaluation.views import Regions
from candlelight.loaders.errors import InputError

_FLOOR = 1e-6  # of denominators, where the mean of a scene is 1
LEAST_CHROMA = 1e-6  # smaller variance of the true chroma counts as none; rounded gray has less

_Scenes = Float[Tensor, "batch lights materials 3"]


def material_variation(prediction: _Scenes, align: bool = True) -> Float[Tensor, " batch"]:
    """Compute the variation of each material over the lights, ``C_mat``, averaged over the materials.

    ``mean_m std_k(mu_mk) / mean_k(mu_mk)``, where mu_mk is the mean of channels of material m in light k and
    std is that of the population. Intrinsic images are defined up to one scale per image, which is no error
    of constancy. So with ``align`` the prediction of each light is first divided by its mean over materials.
    This scale needs no reference, treats all lights alike, and brings any prediction that is right up to a
    scale to 0. Without it the value also counts how the exposure of predictions changes, as in CARI.

    Args:
        prediction: mean reflectance of each material under each light, scene-linear, in any scale.
        align: whether each light has a scale of its own.

    Returns:
        One value per scene in [0, sqrt(lights - 1)], lower is better; nan if a prediction is not finite or a
        light's mean is not positive (a failed prediction), or, with ``align``, if there are fewer than two
        materials. Blind to colour, to variation within a material, and to anything that is wrong under all
        lights alike: a constant prediction gives 0.

    Raises:
        InputError: the shape is another one, or there are fewer than two lights.

    Example:
        >>> albedo = torch.tensor([[0.2, 0.2, 0.2], [0.6, 0.6, 0.6]])
        >>> lights = torch.stack([albedo, 3 * albedo])[None]
        >>> material_variation(lights).round(decimals=6), material_variation(lights, align=False)
        (tensor([0.]), tensor([0.5000]))
    """
    values, usable = _checked(prediction)
    gray = (_aligned(values) if align else _scaled_as_one(values)).mean(3)
    variation = _variance(gray, 1).sqrt() / gray.mean(1).clamp(min=_FLOOR)
    if align and prediction.shape[2] < 2:
        usable = torch.zeros_like(usable)
    return variation.mean(1).masked_fill(~usable, torch.nan).to(result_dtype(prediction))


def chroma_drift(prediction: _Scenes) -> Float[Tensor, " batch"]:
    """Compute the drift of each material's chroma over the lights, averaged over the materials.

    ``E_m[Var_k(R/G)] + E_m[Var_k(B/G)]`` over lights k and materials m, of mean colours. Only variance within
    a material counts: pooled over materials, the variance would fall when a model makes all of them gray.

    Args:
        prediction: mean reflectance of each material under each light, scene-linear, in any scale per light.

    Returns:
        One value per scene, >= 0, lower is better; nan if a prediction is not finite or a light's mean is not
        positive (a failed prediction). Blind to intensity and to lost chroma: gray predictions give 0, so
        read it beside `chroma_retention`.

    Raises:
        InputError: the shape is another one, or there are fewer than two lights.

    Example:
        >>> one, other = torch.tensor([[0.4, 0.4, 0.4]]), torch.tensor([[0.6, 0.4, 0.4]])
        >>> chroma_drift(torch.stack([one, other])[None]).round(decimals=4)
        tensor([0.0625])
    """
    values, usable = _checked(prediction)
    drift = _variance(_chroma(_aligned(values)), 1).sum(2).mean(1)
    return drift.masked_fill(~usable, torch.nan).to(result_dtype(prediction))


def chroma_retention(
    prediction: _Scenes, target: Float[Tensor, "batch materials 3"]
) -> Float[Tensor, " batch"]:
    """Compute how much of the chroma that tells the materials apart a prediction retains.

    ``(Var_m(r) + Var_m(b)) / (Var_m(R/G) + Var_m(B/G))`` over materials m, where r and b are the prediction's
    R/G and B/G, averaged over the lights, and the denominator is that of the truth.

    Args:
        prediction: mean reflectance of each material under each light, scene-linear, in any scale per light.
        target: true reflectance of each material, scene-linear, in any scale.

    Returns:
        One value per scene, >= 0: 1 is right, 0 is gray or constant, above 1 is too much; nan if a prediction
        is not finite or a light's mean is not positive (a failed prediction), or if the truth is not finite
        or has a variance below `LEAST_CHROMA`. Blind to which material has which chroma.

    Raises:
        InputError: the shapes do not agree, or there are fewer than two lights.

    Example:
        >>> albedo = torch.tensor([[0.2, 0.4, 0.4], [0.6, 0.4, 0.4]])
        >>> chroma_retention(torch.stack([albedo, 3 * albedo])[None], albedo[None]).round(decimals=6)
        tensor([1.])
    """
    axes = "batch lights materials 3"
    check_shapes(prediction=(prediction, axes), target=(target, "batch materials 3"))
    values, usable = _checked(prediction)
    true = target.double()
    known = is_finite(true)
    true = torch.where(known[:, None, None], true, 1.0)[:, None]
    spread, true_spread = (
        _variance(_chroma(_aligned(colours)).mean(1), 1).sum(1) for colours in (values, true)
    )
    known &= true_spread >= LEAST_CHROMA
    retained = spread / true_spread.clamp(min=LEAST_CHROMA)
    return retained.masked_fill(~(usable & known), torch.nan).to(result_dtype(prediction))


def _checked(
    prediction: Tensor,
) -> tuple[Float64[Tensor, "batch lights materials 3"], Bool[Tensor, " batch"]]:
    """Check the shape, tell which scenes are usable, and set the other scenes to 1."""
    check_shapes(prediction=(prediction, "batch lights materials 3"))
    if prediction.shape[1] < 2:
        raise InputError(f"constancy needs at least 2 lights, got {prediction.shape[1]}")
    values = prediction.double()
    usable = is_finite(values) & (values.mean((2, 3)) > 0).all(1)
    return torch.where(usable[:, None, None, None], values, 1.0), usable


def _aligned(
    values: Float64[Tensor, "batch lights materials 3"],
) -> Float64[Tensor, "batch lights materials 3"]:
    return values / values.mean((2, 3), keepdim=True)


def _scaled_as_one(
    values: Float64[Tensor, "batch lights materials 3"],
) -> Float64[Tensor, "batch lights materials 3"]:
    return values / values.mean((1, 2, 3), keepdim=True)


def _chroma(
    values: Float64[Tensor, "batch lights materials 3"],
) -> Float64[Tensor, "batch lights materials 2"]:
    """Compute R/G and B/G."""
    return values[..., [0, 2]] / values[..., 1:2].clamp(min=_FLOOR)


def _variance(values: Tensor, axis: int) -> Tensor:
    """Compute the variance of a population; `Tensor.var` warns where the result is empty."""
    return (values - values.mean(axis, keepdim=True)).square().mean(axis)


CONSTANCY_METRIC = ErrorMetric("constancy", 1, ("c_mat", "c_mat_unscaled", "chroma_drift", "chroma_loss"))
_Means = Float64[Tensor, "materials 3"]


@dataclass
class _Scene:
    """Rows of one scene: equal group, regions and true colours.

    ``means`` are mean colours of the regions in each light, by the name of the model; the image's own are
    under None. ``failed`` are names of models with a failed prediction.
    """

    group: str
    colours: _Means | None
    means: dict[str | None, list[_Means]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)


def gray_reflectance(
    image: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the mean of the image's channels as reflectance, and shading 1: a control without chroma.

    Args:
        image: scene-linear Rec.709, [batch, 3, height, width].

    Example:
        >>> gray_reflectance(torch.tensor([0.2, 0.4, 0.6]).reshape(1, 3, 1, 1))[0].flatten()
        tensor([0.4000, 0.4000, 0.4000])
    """
    return image.mean(1, keepdim=True).expand_as(image), torch.ones_like(image)


CONSTANCY_CONTROLS = {"gray": gray_reflectance, "constant": constant_reflectance}


def score_constancy(
    models: Mapping[str, DecompositionModel],
    data: Regions,
    *,
    device: str = "cpu",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> dict[str, MeanResult]:
    """Measure how much predicted reflectance of the same materials changes with the light.

    Columns of a result, one value per scene: ``c_mat``, `material_variation` with a scale for each light;
    ``c_mat_unscaled``, the same without; `chroma_drift`; and ``chroma_loss``, ``max(0, 1 - r)`` of
    `chroma_retention` r. Without true colours ``chroma_loss`` is undefined. Two controls stand beside the
    models: ``gray`` has no drift and loses all chroma, ``constant`` has no variation at all and loses all
    chroma too. A model is good only if it is low in all columns.

    A scene is two or more rows of a group with equal regions and equal true colours. Other rows, such as the
    same object in another paint, are scenes of their own, or are left out if there is one light.

    A scene has failed if a prediction of it is missing or not finite, or is not positive on average over the
    regions. It counts as the largest finite error of any model in any scene, but at least as
    ``sqrt(lights - 1)``, the largest possible, in the first two columns, as the drift of the image itself,
    and as a loss of 1.
    Scenes without regions or with a light that is black in all regions are left out and counted, and so is
    ``c_mat`` of scenes with one region.

    Args:
        models: by name: an `IntrinsicModel` that takes scene-linear images, a `NamedModel` of
            `candlelight.evaluation.models.open_model`, or `Predictions` of another program.
        data: images with regions, from `open_data("regions", ...)`.
        device: torch device of the models.
        batch_size: images per call of a model.
        missing: "error" refuses predictions without a file for an id; "fail" counts the id as failed.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each model and control, lower is better; ids are scenes.

    Raises:
        InputError: there are no rows or no models, no scene has a region and two lights, a model has the name
            of a control, an output is not a decomposition, or ids of predictions do not match.

    Example:
        >>> from candlelight.evaluation.models.retinex import constant_shading
        >>> from candlelight.evaluation.views import DataIdentity, RegionImage
        >>> class Walls:
        ...     identity, synthetic = DataIdentity("walls", "memory"), False
        ...     ids, groups, known_ids = ("a", "b"), ("room", "room"), frozenset("ab")
        ...     def __len__(self): return 2
        ...     def __getitem__(self, row):
        ...         light = torch.tensor([1.0, 1.0, 1.0 - 0.5 * row])
        ...         albedo = torch.tensor([[0.2, 0.6], [0.2, 0.4], [0.2, 0.4]])
        ...         image = (light[:, None] * albedo)[:, None]
        ...         return RegionImage(image, torch.tensor([[1, 2]]), albedo.T)
        >>> results = score_constancy({"all reflectance": constant_shading}, Walls())
        >>> for name, result in results.items():
        ...     print(name, [round(score.value, 3) for score in result.scores.values()])
        all reflectance [0.007, 0.084, 0.062, 0.0]
        gray [0.007, 0.084, 0.0, 1.0]
        constant [0.0, 0.0, 0.0, 1.0]
    """
    if reserved := sorted(CONSTANCY_CONTROLS.keys() & models.keys()):
        raise InputError(f"model `{reserved[0]}`: the name is that of a control; give another name")
    if not models:
        raise InputError("expected at least one model beside the controls, got none")
    named_models = identify_models({**models, **CONSTANCY_CONTROLS}, [data], "linear", missing)
    fingerprint = Fingerprint()
    batches = run_batches(
        named_models,
        data,
        lambda batch: stack_regions(batch.items),
        _means_step,
        fingerprint=fingerprint,
        settings=CONSTANCY_METRIC.settings,
        device=device,
        batch_size=batch_size,
        steps=steps,
    )
    scenes: dict[tuple[str, bytes], _Scene] = {}
    groups = iter(data.groups)
    for batch, made in batches:
        for place in range(len(batch.image)):
            _add_row(scenes, next(groups), batch, place, made)
    kept = [scene for scene in scenes.values() if len(scene.means[None]) > 1]
    if not any(len(scene.means[None][0]) for scene in kept):
        raise InputError(
            f"`{data.identity.name}`: expected rows of one scene with equal regions under several "
            "lights, got none"
        )
    settings = {
        "controls": list(CONSTANCY_CONTROLS),
        "synthetic": data.synthetic,
        "missing": missing,
        "rows_with_one_light": len(scenes) - len(kept),
    }
    described = fingerprint.describe(data)
    found, names = _scene_errors(kept, named_models), [scene.group for scene in kept]
    return mean_results(
        named_models, CONSTANCY_METRIC, found, _number_repeated(names), names, described, settings
    )


def _means_step(named: NamedModel, ids: Sequence[str], batch: RegionBatch, device: str) -> Step:
    reflectance, failed = predict_reflectance(named, ids, batch, device)
    return {"means": region_means(reflectance, batch.regions, batch.count).colours, "failed": failed}


def _add_row(
    scenes: dict[tuple[str, bytes], _Scene],
    group: str,
    batch: RegionBatch,
    place: int,
    made: Mapping[str, Step],
) -> None:
    """Add the means of one row to its scene."""
    regions = batch.regions[place]
    shown = torch.unique(regions[regions > 0]) - 1
    colours = None if batch.colours is None else batch.colours[place, shown].double()
    parts = (regions, *(() if colours is None else (colours,)))
    key = hashlib.sha256(b"".join(f"{tuple(one.shape)}".encode() + one.numpy().tobytes() for one in parts))
    scene = scenes.setdefault((group, key.digest()), _Scene(group, colours))
    own = region_means(batch.image[place : place + 1], regions[None], batch.count).colours[0, shown]
    scene.means.setdefault(None, []).append(own)
    for name, step in made.items():
        scene.means.setdefault(name, []).append(step["means"][place, shown])
        dark = len(shown) > 0 and not float(step["means"][place, shown].mean()) > 0
        if dark or bool(step["failed"][place]):
            scene.failed.add(name)


def _scene_errors(scenes: Sequence[_Scene], names: Sequence[str] | Mapping[str, object]) -> RowErrors:
    """Compute the errors of each model in each scene; nan in scenes that leave a column undefined."""
    floors = torch.stack([_least_of_failed(scene) for scene in scenes])
    errors, failed = {}, {}
    for name in names:
        found = torch.stack([_errors(scene.means[name], scene.colours) for scene in scenes])
        errors[name] = found.masked_fill(floors.isnan(), torch.nan).numpy()
        failed[name] = np.array([name in scene.failed for scene in scenes])
    return RowErrors(errors, failed, floors.numpy())


def _least_of_failed(scene: _Scene) -> Float64[Tensor, " columns"]:
    """Compute the errors that a failed prediction has at least: of the image, or the largest possible."""
    own = _errors(scene.means[None], scene.colours)
    largest = math.sqrt(len(scene.means[None]) - 1)
    floors = torch.tensor([largest, largest, float(own[2]), 1.0], dtype=torch.float64)
    return floors.masked_fill(own.isnan(), torch.nan)


def _errors(means: Sequence[_Means], colours: _Means | None) -> Float64[Tensor, " columns"]:
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
