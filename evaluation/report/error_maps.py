"""Pictures of chosen rows: predictions beside the truth, with maps of their errors in one scale."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.catalogue.record import direction
from candlelight.evaluation.report.blocks import PicturesBlock, number, png_picture, unbroken
from candlelight.evaluation.report.tiles import join_horizontally, scale_for_page
from candlelight.evaluation.run.evaluate import Run
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sheet_tiles import BACKGROUND

SHOWN_ROWS = ("worst", "median", "best")
_BAR = 6  # pixels of the height of a colour bar


class ComparedRow(NamedTuple):
    """One row as pixels of a page, and maps of errors, at least 0, of each model; only the mask is read."""

    image: Pixels
    truth: Pixels
    predictions: Mapping[str, Pixels]
    errors: Mapping[str, Sequence[Float[Tensor, "height width"]]]
    mask: Bool[Tensor, "height width"]


_Results = Mapping[str, Any]  # means by model


def prediction_blocks(
    run: Run[Any], results: _Results, columns: Sequence[str], draw: Callable[[int], ComparedRow]
) -> list[PicturesBlock]:
    """Show the rows of ``run.shown``: by the first score of the first model, or by their ids.

    Args:
        run: the run.
        results: its results.
        columns: scores below the predictions.
        draw: makes the pictures of a row of the data.

    Returns:
        A block for each row, once: image, truth, and each model's prediction and errors. All maps of a row
        have one scale: from 0, dark blue, to the largest 99th percentile of a map, yellow.
    """
    (model, first), ids = next(iter(results.items())), run.data.ids
    column, values = next(iter(first.columns.items()))
    losses = np.array(values) * (-1 if direction(first.about.better, column) == "higher" else 1)
    order = np.argsort(losses, kind="stable")[: len(losses) - np.isnan(losses).sum()].tolist()
    rows: dict[int, str] = {}
    for one in run.shown or SHOWN_ROWS:
        if one in ids:
            rows.setdefault(ids.index(one), f"{column} of {model} {number(values[ids.index(one)])}")
        elif order:
            place = {"worst": -1, "median": (len(order) - 1) // 2, "best": 0}[one]
            rows.setdefault(order[place], f"{one} {column} of {model}")
    return [_block(draw(row), row, f"{ids[row]}: {label}", results, columns) for row, label in rows.items()]


def _block(
    shown: ComparedRow, row: int, caption: str, results: _Results, columns: Sequence[str]
) -> PicturesBlock:
    name = next(iter(results.values())).ids[row]
    inside = [one[shown.mask].numpy() for maps in shown.errors.values() for one in maps]
    most = max((float(np.quantile(one, 0.99)) for one in inside if one.size), default=0.0)
    pictures = [png_picture(shown.image, f"Image {name}.", "image")]
    pictures.append(png_picture(shown.truth, f"Truth of {name}.", "ground truth"))
    for model, tile in shown.predictions.items():
        failed = "failed, " if name in results[model].failed else ""
        scores = (f"{column} {number(results[model].columns[column][row])}" for column in columns)
        pictures.append(png_picture(tile, f"{name} by {model}.", f"{model}: {failed}{', '.join(scores)}"))
        maps = reduce(join_horizontally, (_error_map(one, shown.mask, most) for one in shown.errors[model]))
        reach = unbroken(f"0 to {number(most)}")
        pictures.append(png_picture(maps, f"Errors of {model} on {name}.", f"errors, {reach}"))
    return PicturesBlock(tuple(pictures), caption)


def _error_map(errors: Tensor, mask: Tensor, most: float) -> Pixels:
    """Draw errors in colour above a bar of the colours, and pixels outside the mask gray."""
    colours = matplotlib.colormaps["viridis"]
    shares = errors.masked_fill(~mask, 0).numpy() / (most or 1.0)
    tile = scale_for_page(np.rint(255 * colours(shares)[..., :3]).astype(np.uint8), mask)
    bar = np.rint(255 * colours(np.linspace(0, 1, tile.shape[1]))[None, :, :3]).astype(np.uint8)
    return np.concatenate([tile, *[np.full_like(bar, BACKGROUND)] * _BAR, *[bar] * _BAR])
