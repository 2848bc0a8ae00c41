"""Leaks: light in predicted reflectance and paint in predicted shading, over grids of paints and lights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.catalogue.intrinsic_options import LeaksOptions
from candlelight.evaluation.catalogue.record import Evaluation
from candlelight.evaluation.intrinsic.ground_truth import PlantedFault
from candlelight.evaluation.intrinsic.intrinsic_records import DECOMPOSITIONS
from candlelight.evaluation.intrinsic.masked import result_dtype
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.evaluate import Measured, Run
from candlelight.evaluation.run.model_outputs import PREDICTED_LAYERS, MissingLayer, has_parameter
from candlelight.evaluation.run.named_models import Decomposition, predict_decomposition
from candlelight.evaluation.run.result import MeanResult, Result
from candlelight.evaluation.run.steps import join_steps
from candlelight.evaluation.views import PaintLightGrid, open_data
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.errors import InputError

DARKEST = 1e-3  # share of the mean of an image to which the truth of the controls is raised
LEAST_VARIANCE = 1e-10  # of log values; smaller is the rounding of a constant prediction


class VarianceShares(NamedTuple):
    """Shares of the variance over a grid, which sum to 1; see `variance_shares`."""

    paint: Float[Tensor, " batch"]
    light: Float[Tensor, " batch"]
    interaction: Float[Tensor, " batch"]


def variance_shares(
    prediction: Float[Tensor, "batch paints lights channels height width"],
    mask: Bool[Tensor, "batch height width"],
    floor: float = 1e-3,
) -> VarianceShares:
    """Split the variance of log values over a grid into paint, light and their interaction.

    With ``y_pl`` the log of an image, minus its mean over pixels and channels (one scalar an image, as a
    decomposition is defined up to one), the two-way decomposition at each pixel and channel is
    ``a_p = mean_l y_pl - mean y``, ``b_l = mean_p y_pl - mean y`` and ``g_pl = y_pl - mean y - a_p - b_l``.
    The shares are ``sum a_p^2``, ``sum b_l^2`` and ``sum g_pl^2`` over the images, pixels and channels,
    divided by the sum of the three.

    Noise that is independent in each image adds to all three as their degrees of freedom, P - 1, L - 1 and
    (P - 1)(L - 1): ``light - interaction / (P - 1)`` and ``paint - interaction / (L - 1)`` are the shares
    without it (epsilon squared; Kelley 1935).

    Args:
        prediction: reflectance or shading of a scene in each paint under each light, scene-linear, in any
            scale an image.
        mask: pixels that count, the same in all images.
        floor: smallest value whose log is taken, as a share of the mean of its image.

    Returns:
        Shares in [0, 1]. For reflectance ``light`` is the leak, for shading ``paint``; both are 0 for the
        truth, where light does not bounce. nan if the variance is below `LEAST_VARIANCE` (constant up to a
        scale an image), if a value is not finite, or an image has no pixel or a mean that is not positive.
        Blind to all that is equal in all images, and to how much of the variance is right.

    Raises:
        InputError: the shapes do not agree, or there are fewer than two paints or lights.

    Example:
        >>> albedo = torch.tensor([[0.2, 0.8], [0.8, 0.2]])[:, None, None, None]  # [paints, 1, 1, 1, width]
        >>> shading = torch.tensor([[0.5, 1.0], [1.0, 0.5]])[None, :, None, None]
        >>> mask = torch.ones(1, 1, 2, dtype=torch.bool)
        >>> shares = variance_shares((albedo * shading**0.5)[None], mask)  # (log 2)^2 / 4 beside (log 4)^2
        >>> [round(float(share), 4) for share in shares]
        [0.9412, 0.0588, 0.0]
    """
    axes = "batch paints lights channels height width"
    check_shapes(prediction=(prediction, axes), mask=(mask, "batch height width"))
    paints, lights = prediction.shape[1:3]
    if min(paints, lights) < 2:
        raise InputError(f"shares of a grid need 2 paints and 2 lights or more, got {paints} and {lights}")
    inside, pixels = mask[:, None, None, None], (3, 4, 5)
    count = mask.sum((1, 2))[:, None, None, None, None, None] * prediction.shape[3]
    values = torch.where(inside, prediction.double(), 0)
    mean = values.sum(pixels, keepdim=True) / count
    logs = (values / mean).clamp(min=floor).log()
    centred = logs - torch.where(inside, logs, 0).sum(pixels, keepdim=True) / count
    y = torch.where(inside & (mean > 0), centred, torch.where(inside, torch.nan, 0.0))
    y = y - y.mean((1, 2), keepdim=True)
    paint, light = y.mean(2, keepdim=True), y.mean(1, keepdim=True)
    parts = lights * paint.square(), paints * light.square(), (y - paint - light).square()
    sums = torch.stack([part.flatten(1).sum(1) for part in parts])
    total = sums.sum(0)
    varies = total / (paints * lights * count.flatten()) >= LEAST_VARIANCE
    return VarianceShares(*(sums / total).masked_fill(~varies, torch.nan).to(result_dtype(prediction)))


LEAK_CONTROLS = {
    "truth": PlantedFault(),
    "leak 10 %": PlantedFault(leak=0.1),
    "leak 50 %": PlantedFault(leak=0.5),
    "leak 100 %": PlantedFault(leak=1),
    "noise 10 %": PlantedFault(noise=0.1),
    "constant": PlantedFault(constant=True),
}
LEAK_OF = {"reflectance": "light_in_reflectance", "shading": "paint_in_shading"}
COLUMNS = (
    *LEAK_OF.values(),
    *(f"{name}_above_noise" for name in LEAK_OF.values()),
    *(f"interaction_{layer}" for layer in LEAK_OF),
)


class _Grids(NamedTuple):
    """A batch of grids, and for each grid the ids of its images."""

    image: Float[Tensor, "batch paints lights 3 height width"]
    reflectance: Float[Tensor, "batch paints lights 3 height width"]
    shading: Float[Tensor, "batch paints lights 3 height width"]
    mask: Bool[Tensor, "batch height width"]
    frames: list[tuple[str, ...]]


class _Predicted(NamedTuple):
    """Predictions for a batch of grids; ``lost`` are failed layers; shading that is not given is nan."""

    reflectance: Float[Tensor, "batch paints lights 3 height width"]
    shading: Float[Tensor, "batch paints lights 3 height width"]
    lost: Bool[Tensor, "batch layers"]
    failed: Bool[Tensor, " batch"]
    resized: Bool[Tensor, " batch"]


def _open_grids(choice: Mapping[str, Any], options: LeaksOptions, models: object) -> Any:
    if is_view(choice["data"]):
        return choice["data"]
    return open_data("grids", **choice, leave_edges=options.leave_edges)


def stack_grids(items: Sequence[PaintLightGrid]) -> _Grids:
    """Stack grids of equal shape."""
    names = ("image", "reflectance", "shading", "mask")
    layers = {name: torch.stack([getattr(item, name) for item in items]) for name in names}
    return _Grids(**layers, frames=[item.frames for item in items])


def decompose_grids(named: NamedModel, ids: Sequence[str], grids: _Grids, device: str) -> _Predicted:
    """Decompose each grid in one call; a model that takes ``lights`` gets the images of the same paint."""
    made = [_decompose_grid(named, name, grids, row, device) for row, name in enumerate(ids)]
    return _Predicted(*map(torch.stack, zip(*made, strict=True)))


def _decompose_grid(named: NamedModel, name: str, grids: _Grids, row: int, device: str) -> tuple[Tensor, ...]:
    """Make the fields of `_Predicted` for one grid; only the layer that a score reads can fail it."""
    image, truth = grids.image[row], (grids.reflectance[row], grids.shading[row])
    if isinstance(named.model, PlantedFault):
        none = torch.zeros(2, dtype=torch.bool, device=image.device)
        means = [layer[..., grids.mask[row]].mean((2, 3))[..., None, None, None] for layer in truth]
        lit = [layer.maximum(DARKEST * mean) for layer, mean in zip(truth, means, strict=True)]
        return (*named.model(lit[0], lit[1], name), none, none[0], none[0])
    surfaces, lights = (truth[0].flatten(0, 1) > 0).any(1), None
    if has_parameter(named.model, "lights"):
        lights = image[:, None].expand(-1, image.shape[1], *image.shape[1:]).flatten(0, 1)

    def decompose(*layers: str) -> Decomposition:
        flat = image.flatten(0, 1)
        return predict_decomposition(named, grids.frames[row], flat, surfaces, device, lights, layers)

    def alone(layer: str) -> Decomposition | None:
        try:
            return decompose(layer)
        except MissingLayer:
            return None

    try:
        both = decompose(*PREDICTED_LAYERS)
        found = [both, both] if not bool(both.failed.any()) else [alone(layer) for layer in PREDICTED_LAYERS]
    except MissingLayer:
        found = [alone(layer) for layer in PREDICTED_LAYERS]
        if not any(found):
            raise
    missing, none = torch.full_like(image, torch.nan), torch.tensor(False, device=image.device)
    layers = [missing if one is None else one[:2][place] for place, one in enumerate(found)]
    lost = torch.stack([none if one is None else one.failed.any() for one in found])
    resized = [none if one is None or one.resized is None else one.resized.any() for one in found]
    return (*(layer.reshape(image.shape) for layer in layers), lost, lost.any(), resized[0] | resized[1])


def _shares(predicted: _Predicted, grids: _Grids, options: LeaksOptions) -> dict[str, Tensor]:
    """Measure a batch: the shares of both layers; 1 where a layer has failed."""
    paints, lights = grids.image.shape[1:3]
    columns: dict[str, Tensor] = {}
    lost = predicted.lost.clone()
    for place, (layer, name) in enumerate(LEAK_OF.items()):
        inside = torch.where(grids.mask[:, None, None, None], predicted[place], 0)
        lost[:, place] |= (inside.sum((3, 4, 5)) <= 0).flatten(1).any(1)  # an image without a scale
        shares = variance_shares(predicted[place], grids.mask, options.floor)
        leak, others = (shares.light, paints) if layer == "reflectance" else (shares.paint, lights)
        above = leak - shares.interaction / (others - 1)
        made = {name: leak, f"{name}_above_noise": above, f"interaction_{layer}": shares.interaction}
        made = {column: values.round(decimals=9) for column, values in made.items()}  # 1e-32 is 0
        columns |= {column: values.masked_fill(lost[:, place], 1) for column, values in made.items()}
    return {column: columns[column] for column in COLUMNS} | {"lost": lost}


def _results(run: Run[LeaksOptions], measured: Measured) -> dict[str, Result]:
    """Make the means over grids. Shares of a constant layer, or of one that is not given, are undefined."""
    rows = join_steps(made for _, made in measured)
    ids, groups = tuple(run.data.ids), tuple(run.data.groups)
    results: dict[str, Result] = {}
    for name in run.scored:
        columns = {column: tuple(rows[name][column].tolist()) for column in COLUMNS}
        failed = tuple(ids[row] for row in rows[name]["lost"].any(1).nonzero().flatten().tolist())
        counts = {layer: int(rows[name][f"interaction_{layer}"].isnan().sum()) for layer in LEAK_OF}
        lost = [f"{layer} in {count} of {len(ids)} grids" for layer, count in counts.items() if count]
        told = f"`{name}`: no shares, as the layer is constant or missing: {', '.join(lost)}"
        about = run.provenance(name)
        told_of = lost and about.model["source"] != "control"  # a constant control is so by design
        notes = [*run.notes(name).get("notes", []), *([told] if told_of else [])]
        results[name] = MeanResult(about, ids, groups, columns, failed, {"notes": notes}, _RANGES)
    return results


_RANGES = {column: (-1.0 if column.endswith("noise") else 0.0, 1.0) for column in COLUMNS}
LEAKS = Evaluation(
    name="leaks",
    version=1,
    better="lower",
    options=LeaksOptions,
    reads=replace(DECOMPOSITIONS, open=_open_grids, prepare=stack_grids, predict=decompose_grids),
    measure=_shares,
    summarise=_results,
    controls=LEAK_CONTROLS,
    ranges=_RANGES,
    page="candlelight.evaluation.intrinsic.leaks_report:LEAKS_PAGE",
)
