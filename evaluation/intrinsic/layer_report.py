"""The page of the scores of one layer: tables, bars, and pictures with maps of the errors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from candlelight.evaluation.catalogue.intrinsic_options import Space
from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.intrinsic.alignment import in_space
from candlelight.evaluation.intrinsic.layer_records import compared_layers, stack_layers
from candlelight.evaluation.report.blocks import Block, Section, TextBlock
from candlelight.evaluation.report.error_maps import ComparedRow, prediction_blocks
from candlelight.evaluation.report.plain_section import plain_section
from candlelight.evaluation.report.tiles import linear_pixels, scale_for_page
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.result import Result, competing
from candlelight.loaders.looking.layer_pixels import Pixels, show_layer

_TITLES = {"layer": "Errors of one layer", "normals": "Angles of normals", "depth": "Errors of depth"}
_ERRORS = {"normal": "angle in degrees", "depth": "relative error |p - t| / t"}
_HOW = (
    "Predictions are shown in the size and after the alignment of the settings; shading and residual are "
    "divided by the 99th percentile of the truth. Pixels that are not scored are gray. Maps show the {}; all "
    "maps of an image have one scale, that of the bar below: from 0 to the largest 99th percentile of a map."
)


def layer_pictures(run: Run[Any], results: Mapping[str, Any]) -> list[Block]:
    """Show predictions of the user's models, which run again, beside the truth, with maps of their errors."""
    layer, predict = run.options.layer, run.evaluation.reads.predict
    assert predict is not None  # the records of layers have it
    models = {name: run.scored[name] for name, one in results.items() if competing(one, 0) is not None}

    def draw(row: int) -> ComparedRow:
        batch, given = on_device(stack_layers([run.data[row]]), run.device), {}
        for model, named in models.items():
            predicted = predict(named, [run.data.ids[row]], batch, run.device)
            ((_, *parts),) = compared_layers(predicted, batch, run.options)
            given[model], true, weights = (part[0].cpu() for part in parts)
        mask = weights > 0
        truth, *tiles = _tiles(layer, [true, *given.values()], mask)
        errors = {model: [_errors(layer, one, true, run.options)] for model, one in given.items()}
        image = scale_for_page(linear_pixels(batch.image[0].cpu()))
        return ComparedRow(image, truth, dict(zip(given, tiles, strict=True)), errors, mask)

    how = TextBlock(_HOW.format(_ERRORS.get(layer, "absolute error, mean of the channels")), quiet=True)
    return [how, *prediction_blocks(run, results, list(next(iter(results.values())).columns)[:1], draw)]


_Values = Float[Tensor, "channels rows columns"]


def _errors(layer: str, given: _Values, true: _Values, options: Any) -> Float[Tensor, "rows columns"]:
    if layer == "normal":  # one of length 0 is at 90 degrees
        return torch.rad2deg(cosine_similarity(given, true, dim=0).clamp(-1, 1).acos())
    if layer == "depth":
        return ((given - true).abs() / true)[0]
    space: Space = getattr(options, "space", "linear")
    return (in_space(given, space) - in_space(true, space)).abs().mean(0)


def _tiles(layer: str, images: Sequence[_Values], mask: Bool[Tensor, "rows columns"]) -> list[Pixels]:
    """Draw the truth, which comes first, and predictions alike: depth in the range of the truth."""
    arrays = [torch.where(mask, one, 0.0).permute(1, 2, 0).numpy() for one in images]
    inside = arrays[0][mask.numpy()]
    if layer == "depth":
        clipped = [one.clip(inside.min(initial=np.inf), inside.max(initial=0))[..., 0] for one in arrays]
        tiles = np.split(show_layer(layer, np.concatenate(clipped), 1.0), len(arrays))
    elif layer == "normal":
        lengths = [np.linalg.norm(one, axis=2, keepdims=True).clip(1e-6) for one in arrays]
        tiles = [show_layer(layer, one / length, 1.0) for one, length in zip(arrays, lengths, strict=True)]
    elif layer in ("roughness", "metallic"):
        tiles = [show_layer(layer, one.clip(0, 1)[..., 0], 1.0) for one in arrays]
    else:
        scaled = layer in ("shading", "residual") and inside.size
        white = max(float(np.quantile(inside, 0.99)), 1e-6) if scaled else 1.0
        tiles = [linear_pixels(torch.where(mask, one, 0.0) / white) for one in images]
    return [scale_for_page(tile, mask) for tile in tiles]


def _section(results: Sequence[Result], pictures: Sequence[Block]) -> Section:
    metric = results[0].about.metric
    return plain_section(metric, _TITLES[metric], results, pictures)


_READING = (
    TextBlock(
        "The errors of one layer of an image against the truth, over the scored pixels. Of normals: angles "
        "in degrees, and shares of pixels below an angle. Of depth p with the truth t: AbsRel, the mean of "
        "|p - t| / t; the share of pixels where p / t and t / p are below 1.25; and SI-log, the standard "
        "deviation of log p - log t."
    ),
    TextBlock(
        "↓ Lower, or ↑ higher, is better. A model should be better than `constant`, the same value "
        "everywhere.",
        term="How to read",
    ),
    TextBlock("pixels outside the mask, and what the alignment in the settings takes away.", term="Blind to"),
)
LAYER_PAGE = Page(section=_section, reading=_READING, pictures=layer_pictures)
