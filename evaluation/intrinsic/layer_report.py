"""The page of the scores of one layer: tables, bars, and pictures with maps of the errors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.intrinsic.layer_records import compared_layers, stack_layers
from candlelight.evaluation.intrinsic.layer_scores import normal_angles
from candlelight.evaluation.report.blocks import Block, PicturesBlock, Section, TextBlock, number, png_picture
from candlelight.evaluation.report.error_maps import SHOWN_BY_SCORE, error_tiles, shown_rows
from candlelight.evaluation.report.plain_section import plain_section
from candlelight.evaluation.report.tiles import (
    encoded_pixels,
    linear_pixels,
    scale_for_page,
    scale_mask_for_page,
)
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.result import MeanResult, is_control, model_name
from candlelight.loaders.looking.layer_pixels import Pixels, show_layer
from candlelight.loaders.looking.sheet_tiles import BACKGROUND

_TITLES = {"layer": "Errors of one layer", "normals": "Angles of normals", "depth": "Errors of depth"}
_ERRORS = {"normal": "angle in degrees", "depth": "relative error |p - t| / t"}
_HOW = (
    "Values are shown as they are compared: in the size, after the alignment and in the colour space of the "
    "settings; shading and residual are divided by the 99th percentile of the truth. Pixels that are not "
    "scored are gray. Maps show the {}; all maps of an image have one scale, that of the bar below: from 0 "
    "to the largest 99th percentile of the models."
)


def layer_section(results: Sequence[MeanResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of one layer on the same data."""
    metric = results[0].about.metric
    return plain_section(metric, _TITLES[metric], results, pictures)


def layer_pictures(run: Run[Any], results: Mapping[str, MeanResult]) -> list[Block]:
    """Show predictions beside the truth, with maps of their errors, of the rows that were asked for.

    Args:
        run: the run, whose models run on these rows again.
        results: its results; controls are not shown.

    Returns:
        A text, and a block of pictures for each row: worst, median and best by the first score of the first
        model unless the run names others.
    """
    layer, first = run.options.layer, next(iter(results.values()))
    column = next(iter(first.columns))
    what, ids = f"{column} of {model_name(first)}", run.data.ids
    better = run.evaluation.better[column]  # type: ignore[index]
    error = _ERRORS.get(layer, "absolute error, mean of the channels")
    blocks: list[Block] = [TextBlock(_HOW.format(error), quiet=True)]
    for label, row in shown_rows(run.shown or SHOWN_BY_SCORE, ids, first.columns[column], better, what):
        batch, name = on_device(stack_layers([run.data[row]]), run.device), ids[row]
        given: dict[str, Tensor] = {}
        for model, result in results.items():
            if not is_control(result):
                predicted = run.evaluation.reads.predict(run.scored[model], [name], batch, run.device)  # type: ignore[misc]
                ((_, *parts),) = compared_layers(predicted, batch, run.options)
                given[model], true, mask = (part[0].cpu() for part in parts)
        inside, space = mask > 0, getattr(run.options, "space", "linear")
        tiles = _tiles(layer, [true, *given.values()], inside, space)
        maps, reach = error_tiles([_errors(layer, one, true) for one in given.values()], inside)
        image = scale_for_page(linear_pixels(batch.image[0].cpu()))
        pictures = [png_picture(image, f"Image {name}.", "image")]
        pictures.append(png_picture(tiles[0], f"True {layer} of {name}.", "ground truth"))
        for place, model in enumerate(given):
            failed = "failed, " if name in results[model].failed else ""
            caption = f"{model}: {failed}{column} {number(results[model].columns[column][row])}"
            pictures.append(png_picture(tiles[place + 1], f"{layer} of {name} by {model}.", caption))
            pictures.append(png_picture(maps[place], f"Errors of {model} on {name}.", f"error, {reach}"))
        blocks.append(PicturesBlock(tuple(pictures), f"{name}: {label}"))
    return blocks


def _errors(
    layer: str, given: Float[Tensor, "channels height width"], true: Float[Tensor, "channels height width"]
) -> Float[Tensor, "height width"]:
    if layer == "normal":
        return normal_angles(given[None], true[None])[0]
    difference = (given - true).abs()
    return (difference / true)[0] if layer == "depth" else difference.mean(0)


def _tiles(
    layer: str,
    images: Sequence[Float[Tensor, "channels height width"]],
    mask: Bool[Tensor, "height width"],
    space: str,
) -> list[Pixels]:
    """Draw the truth, which comes first, and predictions alike: depth in the range of the truth."""
    arrays = [torch.where(mask, one, 0.0).permute(1, 2, 0).numpy() for one in images]
    inside = arrays[0][mask.numpy()]
    if layer == "depth":
        reach = (inside.min(), inside.max()) if inside.size else (1.0, 1.0)
        joined = np.concatenate([one.clip(*reach)[..., 0] for one in arrays])
        tiles = np.split(show_layer("depth", joined, 1.0), len(arrays))
    elif layer == "normal":
        lengths = [np.linalg.norm(one, axis=2, keepdims=True).clip(1e-6) for one in arrays]
        tiles = [show_layer("normal", one / length, 1.0) for one, length in zip(arrays, lengths, strict=True)]
    elif layer in ("roughness", "metallic"):
        tiles = [show_layer(layer, one.clip(0, 1)[..., 0], 1.0) for one in arrays]
    elif space != "linear":  # encoded, and cut to [0, 1]
        tiles = [encoded_pixels(torch.from_numpy(one).permute(2, 0, 1)) for one in arrays]
    else:
        bright = layer in ("shading", "residual") and inside.size
        white = max(float(np.quantile(inside, 0.99)), 1e-6) if bright else 1.0
        tiles = [linear_pixels(torch.from_numpy(one / white).permute(2, 0, 1)) for one in arrays]
    shown = [scale_for_page(tile) for tile in tiles]
    for tile in shown:
        tile[~scale_mask_for_page(mask)] = BACKGROUND
    return shown


_READING = (
    TextBlock("Each prediction is compared with the truth of one layer, over the pixels that are scored."),
    TextBlock(
        "arrows show whether lower or higher is better. The control `constant` gives one value for every "
        "image: a model is worth something if it is better.",
        term="How to read",
    ),
    TextBlock("all other layers, and what the alignment of the settings takes away.", term="Blind to"),
)
LAYER_PAGE = Page(section=layer_section, reading=_READING, pictures=layer_pictures)
