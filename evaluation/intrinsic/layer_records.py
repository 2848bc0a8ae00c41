"""Records that score one layer: of colours and materials, normals, depth, and the reconstruction."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

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
from candlelight.evaluation.intrinsic.masked import LARGEST, PixelMask, chunk_length
from candlelight.evaluation.intrinsic.ssim import SSIM_WINDOW, ssim
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.model_outputs import LAYER_CHANNELS, PREDICTED_LAYERS, layer_name
from candlelight.evaluation.run.named_models import PredictedLayers, check_proportions, predict_layers
from candlelight.evaluation.views import LayerImage, open_data
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.evaluation.views.open_data import is_view
from candlelight.loaders.errors import InputError, argument

Options = OneLayerOptions | NormalsOptions | DepthOptions
_COLOURS = ("albedo", "shading", "residual", "reconstruction")


@dataclass(frozen=True, eq=False)
class LayerBatch:
    """Images with the truth of one layer; see `candlelight.evaluation.views.LayerImage`."""

    image: Float[Tensor, "batch 3 height width"]
    truth: Float[Tensor, "batch channels height width"]
    mask: Bool[Tensor, "batch height width"]
    layer: str
    parts: Mapping[str, Bool[Tensor, "batch height width"]]


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


def _predict(named: NamedModel, ids: Sequence[str], batch: LayerBatch, device: str) -> PredictedLayers:
    given = named, ids, batch.image, batch.mask, device
    if batch.layer == "reconstruction":
        return predict_layers(*given, PREDICTED_LAYERS, ("residual",))
    found = predict_layers(*given, (layer_name(batch.layer),))
    return found._replace(control=named.model is constant_layers)


def _zeros(batch: LayerBatch) -> PredictedLayers:
    none = torch.zeros_like(batch.mask[:, 0, 0])
    return PredictedLayers(
        tuple(dict.fromkeys(LAYER_CHANNELS, zeros) for zeros in torch.zeros_like(batch.truth)), none, none
    )


def _scored(row: dict[str, Tensor], layer: str) -> Tensor:
    """Pick the layer of an image, or make its reconstruction."""
    if layer != "reconstruction":
        return row[layer_name(layer)]
    if len({part.shape for part in row.values()}) > 1:
        raise InputError("expected albedo, shading and residual of an image in one size, got several")
    return row["reflectance"] * row["shading"] + row["residual"]


Scores = Callable[[Tensor, Tensor, PixelMask, Any], dict[str, Tensor]]


def _measure(
    scores: Scores, predicted: PredictedLayers, batch: LayerBatch, options: Any
) -> dict[str, Tensor]:
    """Score each image, and each of its parts, in the size and after the alignment of the options."""
    if batch.layer != options.layer:
        raise InputError(f"expected rows of the layer {options.layer}, got {batch.layer}; give its `layer`")
    made: dict[str, list[Tensor]] = {}
    for part in ("", *batch.parts):
        of = part and f" of {part}"
        for _, given, true, weights in compared_layers(predicted, batch, options, part):
            for column, values in scores(given, true, weights, options).items():
                made.setdefault(f"{column}{of}", []).append(values)
    return {name: torch.cat(columns) for name, columns in made.items()}


def compared_layers(
    predicted: PredictedLayers, batch: LayerBatch, options: Any, part: str = ""
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Bring predictions and truth to the size, alignment and axes in which they are scored.

    Args:
        predicted: predictions.
        batch: the truth.
        options: of the record.
        part: name of the part whose pixels alone are read, after the alignment of the whole; empty for all.

    Returns:
        Neighbouring rows of the batch, their predictions, truths and weights of pixels.
    """
    every = [_scored(row, batch.layer) for row in predicted.rows]
    for rows in _alike(every):
        given, mask = torch.stack(every[rows]), batch.mask[rows]
        if getattr(options, "axes", "opencv") == "opengl" and not predicted.control:
            given = given * given.new_tensor([1.0, -1.0, -1.0])[:, None, None]
        inside = batch.parts[part][rows] & mask if part else mask
        whole = _fitted(given, batch.truth[rows], mask, options)
        given, true, weights = _fitted(given, batch.truth[rows], inside, options) if part else whole
        if hasattr(options, "align"):
            given = align(*whole, options.align, given).clamp(-LARGEST, LARGEST)
        yield rows, given, true, weights


def _alike(rows: Sequence[Tensor]) -> Iterator[slice]:
    """Split rows into neighbours of one size, as many as fit in memory at once."""
    start = 0
    for row in range(1, len(rows) + 1):
        count = max(1, chunk_length(rows[start].device) // rows[start].numel())
        if row == len(rows) or row - start == count or rows[row].shape != rows[start].shape:
            yield slice(start, row)
            start = row


def _fitted(given: Tensor, true: Tensor, mask: Tensor, options: Options) -> tuple[Tensor, Tensor, Tensor]:
    """Bring predictions and truth to one size; outside the mask, or not finite, no value counts."""
    whole = size = true.shape[2:]
    if options.resize.isdecimal():
        share = int(options.resize) / max(whole)
        size = torch.Size(max(1, round(side * share)) for side in whole)
    target, weights = resize_masked(true, mask, size, options.filter)
    if given.shape[2:] == whole:
        return resize_masked(given, mask, size, options.filter)[0], target, weights
    if options.resize == "none":
        sizes = [f"{height}x{width}" for height, width in (whole, given.shape[2:])]
        raise InputError(
            f"expected predictions of {sizes[0]} pixels, as the truth, got {sizes[1]}; "
            f"give {argument('resize')} prediction"
        )
    check_proportions(given.shape[2:], whole, options.layer)
    near = resize(mask.double()[:, None], given.shape[2:], "area")[:, 0].clamp(0, 1)
    finite = near.masked_fill(~given.isfinite().all(1), 0)
    return resize_masked(given, finite, size, options.filter)[0], target, weights


def _image_scores(
    given: Tensor, true: Tensor, mask: PixelMask, options: OneLayerOptions
) -> dict[str, Tensor]:
    pair = in_space(given, options.space), in_space(true, options.space), mask
    found = {
        "mae": mae(*pair),
        "rmse": mse(*pair).sqrt(),
        "psnr": psnr(*pair, options.peak),
    }
    small = min(mask.shape[1:]) < SSIM_WINDOW
    found["ssim"] = torch.full_like(found["mae"], torch.nan) if small else ssim(*pair, options.peak)
    if options.lpips is not None:
        one, other = (values.expand(-1, 3, -1, -1) for values in pair[:2])
        found["lpips"] = _lpips(options.lpips, given.device)(one, other, mask)
    return {f"{name}_{options.layer}": column for name, column in found.items()}


@lru_cache(2)
def _lpips(place: str, device: torch.device) -> LPIPS:
    return open_lpips(place, device)[0]


def _normal_scores(given: Tensor, true: Tensor, mask: PixelMask, _: NormalsOptions) -> dict[str, Tensor]:
    return vars(normal_errors(given, true, mask))


def _depth_scores(given: Tensor, true: Tensor, mask: PixelMask, _: DepthOptions) -> dict[str, Tensor]:
    return vars(depth_errors(given, true, mask))


_Column = tuple[Better, float, float]  # with its smallest and largest value
_ERROR: _Column = ("lower", 0.0, math.inf)
_SHARE: _Column = ("higher", 0.0, 1.0)
_ANGLE: _Column = ("lower", 0.0, 180.0)
_IMAGE_COLUMNS: dict[str, _Column] = {
    **{"mae": _ERROR, "rmse": _ERROR, "lpips": _ERROR},
    **{"psnr": ("higher", -math.inf, math.inf), "ssim": ("higher", -1.0, 1.0)},
}


def _record(name: str, options: type[Any], scores: Scores, columns: Mapping[str, _Column]) -> Evaluation[Any]:
    return Evaluation(
        name=name,
        version=1,
        better={column: about[0] for column, about in columns.items()},
        options=options,
        reads=Reading(open=_open, prepare=stack_layers, predict=_predict, worst=_zeros, files=PREDICTIONS),
        measure=lambda *given: _measure(scores, *given),
        controls={"constant": constant_layers},
        ranges={column: about[1:] for column, about in columns.items()},
        page="candlelight.evaluation.intrinsic.layer_report:LAYER_PAGE",
    )


ONE_LAYER = _record(
    "layer",
    OneLayerOptions,
    _image_scores,
    {f"{name}_{layer}": about for layer in get_args(ScoredLayer) for name, about in _IMAGE_COLUMNS.items()},
)
NORMALS = _record(
    "normals",
    NormalsOptions,
    _normal_scores,
    {
        **{"mean_angle": _ANGLE, "median_angle": _ANGLE},
        **{"within_11_25": _SHARE, "within_22_5": _SHARE, "within_30": _SHARE},
    },
)
DEPTH = _record(
    "depth", DepthOptions, _depth_scores, {"abs_rel": _ERROR, "delta_1_25": _SHARE, "si_log": _ERROR}
)
