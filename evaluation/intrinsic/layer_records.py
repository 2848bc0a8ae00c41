"""Records that score one layer: of colours and materials, normals, depth, and the reconstruction."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.catalogue.intrinsic_options import (
    PREDICTIONS,
    DepthOptions,
    NormalsOptions,
    OneLayerOptions,
    ScoredLayer,
)
from candlelight.evaluation.catalogue.record import Better, Evaluation, Reading
from candlelight.evaluation.intrinsic.alignment import align, in_space, resize, resize_masked
from candlelight.evaluation.intrinsic.image_errors import mae, mse, psnr
from candlelight.evaluation.intrinsic.layer_scores import depth_errors, normal_errors
from candlelight.evaluation.intrinsic.lpips import LPIPS, open_lpips
from candlelight.evaluation.intrinsic.masked import PixelMask, chunk_length
from candlelight.evaluation.intrinsic.ssim import ssim
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.model_outputs import layer_name
from candlelight.evaluation.run.named_models import check_proportions, predict_layers
from candlelight.evaluation.views import LayerImage, open_data
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.errors import InputError, argument

Options = OneLayerOptions | NormalsOptions | DepthOptions
_COLOURS = ("albedo", "shading", "residual", "reconstruction")
_IMAGE_SCORES: dict[str, Better] = {
    "mae": "lower",
    "rmse": "lower",
    "psnr": "higher",
    "ssim": "higher",
    "lpips": "lower",
}
_RANGES = {"psnr": (-math.inf, math.inf), "ssim": (-1.0, 1.0)}


@dataclass(frozen=True, eq=False)
class LayerBatch:
    """Images with the truth of one layer; see `candlelight.evaluation.views.LayerImage`."""

    image: Float[Tensor, "batch 3 height width"]
    truth: Float[Tensor, "batch channels height width"]
    mask: Bool[Tensor, "batch height width"]
    layer: str
    parts: Mapping[str, Bool[Tensor, "batch height width"]]


class PredictedLayer(NamedTuple):
    """The predicted layer of each image in its own size; see `PredictedLayers`."""

    rows: tuple[Float[Tensor, "channels height width"], ...]
    failed: Bool[Tensor, " batch"]
    resized: Bool[Tensor, " batch"] | None = None


def stack_layers(items: Sequence[LayerImage]) -> LayerBatch:
    """Stack items of a view, whose images have one size, into a batch.

    Raises:
        InputError: an item has other shapes than `candlelight.evaluation.views.LayerImage`.

    Example:
        >>> one = LayerImage(torch.ones(3, 2, 2), torch.ones(1, 2, 2), torch.ones(2, 2).bool(), "depth")
        >>> stack_layers([one, one]).truth.shape
        torch.Size([2, 1, 2, 2])
    """
    for item in items:
        check_shapes(image=(item.image, "3 height width"), mask=(item.mask, "height width"))
        check_shapes(truth=(item.truth, "channels height width"), mask=(item.mask, "height width"))
        check_bool(mask=item.mask, **item.parts)
    image, truth, mask = (
        torch.stack([getattr(item, name) for item in items]) for name in ("image", "truth", "mask")
    )
    parts = {name: torch.stack([item.parts[name] for item in items]) for name in items[0].parts}
    return LayerBatch(image, truth, mask, items[0].layer, parts)


def constant_layers(image: Float[Tensor, "batch 3 height width"]) -> dict[str, Tensor]:
    """Answer the same to every image: the control of the scores of layers.

    Colours, roughness and metallic are 0.5, the residual is 0, normals face the camera, and depth is 1.

    Example:
        >>> constant_layers(torch.ones(1, 3, 1, 1))["normal"].flatten()
        tensor([ 0.,  0., -1.])
    """
    half = torch.full_like(image, 0.5)
    facing = torch.zeros_like(image)
    facing[:, 2] = -1
    return {
        **{"albedo": half, "shading": half, "residual": torch.zeros_like(image), "normal": facing},
        **{"depth": 2 * half[:, :1], "roughness": half[:, :1], "metallic": half[:, :1]},
    }


def _open(choice: Mapping[str, Any], options: Options, _: object) -> Any:
    if not (options.resize in ("none", "prediction") or (options.resize.isdecimal() and int(options.resize))):
        raise InputError(f"{argument('resize')}: expected none, prediction or pixels, got {options.resize}")
    if getattr(options, "space", "linear") != "linear" and options.layer not in _COLOURS:
        raise InputError(f"{argument('space')}: `{options.layer}` is no colour; leave it out")
    if is_view(choice["data"]):
        return choice["data"]
    layer, edges, by = options.layer, options.leave_edges, options.by
    return open_data("layers", **choice, layer=layer, leave_edges=edges, by=by)


def _predict(named: NamedModel, ids: Sequence[str], batch: LayerBatch, device: str) -> PredictedLayer:
    whole = batch.layer == "reconstruction"
    layers = ("reflectance", "shading") if whole else (layer_name(batch.layer),)
    optional = ("residual",) if whole else ()
    found = predict_layers(named, ids, batch.image, batch.mask, device, layers, optional)
    if not whole:
        return PredictedLayer(tuple(row[layers[0]] for row in found.rows), found.failed, found.resized)
    for name, row in zip(ids, found.rows, strict=True):
        if len({layer.shape for layer in row.values()}) > 1:
            raise InputError(f"{named.identity.name}: `{name}`: expected its layers in one size, got several")
    sums = tuple(row["reflectance"] * row["shading"] + row["residual"] for row in found.rows)
    return PredictedLayer(sums, found.failed, found.resized)


def _zeros(batch: LayerBatch) -> PredictedLayer:
    return PredictedLayer(tuple(torch.zeros_like(batch.truth)), torch.zeros_like(batch.mask[:, 0, 0]))


Scores = Callable[[Tensor, Tensor, PixelMask, Any], dict[str, Tensor]]


def _measure(scores: Scores, predicted: PredictedLayer, batch: LayerBatch, options: Any) -> dict[str, Tensor]:
    """Score each image, and each of its parts, in the size and after the alignment of the options."""
    if batch.layer != options.layer:
        raise InputError(f"expected rows of the layer {options.layer}, got {batch.layer}; give its `layer`")
    made: dict[str, list[Tensor]] = {}
    for rows in _alike(predicted.rows):
        given = torch.stack([predicted.rows[row] for row in range(*rows.indices(len(batch.truth)))])
        given, true, weights, size = _fitted(given, batch.truth[rows], batch.mask[rows], options)
        if how := getattr(options, "align", None):
            given = align(given, true, weights, how)
        shares = {
            f" of {name}": resize((part[rows] & batch.mask[rows])[:, None].double(), size, options.filter)
            for name, part in batch.parts.items()
        }
        for part, share in {
            "": weights,
            **{name: one[:, 0].clamp(0, 1) for name, one in shares.items()},
        }.items():
            for name, column in scores(given, true, share, options).items():
                made.setdefault(f"{name}{part}", []).append(column)
    return {name: torch.cat(columns) for name, columns in made.items()}


def _alike(rows: Sequence[Tensor]) -> Iterator[slice]:
    """Split rows into neighbours of one size, as many as fit in memory at once."""
    start = 0
    for row in range(1, len(rows) + 1):
        count = max(1, chunk_length(rows[start].device) // rows[start].numel())
        if row == len(rows) or row - start == count or rows[row].shape != rows[start].shape:
            yield slice(start, row)
            start = row


def _fitted(
    given: Tensor, true: Tensor, mask: Tensor, options: Options
) -> tuple[Tensor, Tensor, Tensor, tuple[int, int]]:
    """Bring predictions and truth to one size; only what is inside the mask counts where both have one."""
    height, width = true.shape[2:]
    size = (height, width)
    if options.resize.isdecimal():
        share = int(options.resize) / max(size)
        size = max(1, round(height * share)), max(1, round(width * share))
    target, weights = resize_masked(true, mask, size, options.filter)
    if given.shape[2:] == true.shape[2:]:
        return resize_masked(given, mask, size, options.filter)[0], target, weights, size
    if options.resize == "none":
        raise InputError(
            f"expected predictions of {height}x{width} pixels, as the truth, got "
            f"{given.shape[2]}x{given.shape[3]}; give {argument('resize')} prediction"
        )
    check_proportions(given.shape[2:], (height, width), options.layer)
    return resize(given, size, options.filter), target, weights, size


def _image_scores(
    given: Tensor, true: Tensor, mask: PixelMask, options: OneLayerOptions
) -> dict[str, Tensor]:
    pair = in_space(given, options.space), in_space(true, options.space), mask
    found = {
        "mae": mae(*pair),
        "rmse": mse(*pair).sqrt(),
        "psnr": psnr(*pair, options.peak),
        "ssim": ssim(*pair, options.peak),
    }
    if options.lpips is not None:
        one, other = (values.expand(-1, 3, -1, -1) for values in pair[:2])
        found["lpips"] = _lpips(options.lpips, given.device)(one, other, mask)
    return {f"{name}_{options.layer}": column for name, column in found.items()}


@lru_cache(2)
def _lpips(place: str, device: torch.device) -> LPIPS:
    return open_lpips(place, device)[0]


def _normal_scores(
    given: Tensor, true: Tensor, mask: PixelMask, options: NormalsOptions
) -> dict[str, Tensor]:
    if options.axes == "opengl":
        given = given * given.new_tensor([1.0, -1.0, -1.0])[:, None, None]
    found = normal_errors(given, true, mask)
    shares = {name: getattr(found, name) for name in ("within_11_25", "within_22_5", "within_30")}
    return {"mean_angle": found.mean, "median_angle": found.median, **shares}


def _depth_scores(given: Tensor, true: Tensor, mask: PixelMask, _: DepthOptions) -> dict[str, Tensor]:
    found = depth_errors(given, true, mask)
    return {"abs_rel": found.abs_rel, "delta_1_25": found.delta_1_25, "si_log": found.si_log}


_READS = Reading(open=_open, prepare=stack_layers, predict=_predict, worst=_zeros, files=PREDICTIONS)
_CONTROLS = {"constant": constant_layers}
_ALL_SCORES = {f"{score}_{layer}": score for layer in get_args(ScoredLayer) for score in _IMAGE_SCORES}
ONE_LAYER = Evaluation(
    name="layer",
    version=1,
    better={name: _IMAGE_SCORES[score] for name, score in _ALL_SCORES.items()},
    options=OneLayerOptions,
    reads=_READS,
    measure=lambda *given: _measure(_image_scores, *given),
    controls=_CONTROLS,
    ranges={name: _RANGES.get(score, (0.0, math.inf)) for name, score in _ALL_SCORES.items()},
)
_SHARE, _ANGLE = (0.0, 1.0), (0.0, 180.0)
NORMALS = Evaluation(
    name="normals",
    version=1,
    better={
        **{"mean_angle": "lower", "median_angle": "lower"},
        **{"within_11_25": "higher", "within_22_5": "higher", "within_30": "higher"},
    },
    options=NormalsOptions,
    reads=_READS,
    measure=lambda *given: _measure(_normal_scores, *given),
    controls=_CONTROLS,
    ranges={
        **{"mean_angle": _ANGLE, "median_angle": _ANGLE},
        **{"within_11_25": _SHARE, "within_22_5": _SHARE, "within_30": _SHARE},
    },
)
DEPTH = Evaluation(
    name="depth",
    version=1,
    better={"abs_rel": "lower", "delta_1_25": "higher", "si_log": "lower"},
    options=DepthOptions,
    reads=_READS,
    measure=lambda *given: _measure(_depth_scores, *given),
    controls=_CONTROLS,
    ranges={"abs_rel": (0.0, math.inf), "delta_1_25": _SHARE, "si_log": (0.0, math.inf)},
)
