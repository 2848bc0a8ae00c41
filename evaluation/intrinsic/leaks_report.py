"""The section of a report on leaks, and its lines on the terminal."""

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.intrinsic.leaks import COLUMNS, LEAK_CONTROLS, decompose_grids, stack_grids
from candlelight.evaluation.report.blocks import (
    UNDEFINED,
    Block,
    PicturesBlock,
    Section,
    TextBlock,
    png_picture,
)
from candlelight.evaluation.report.plain_section import plain_section, score_bars
from candlelight.evaluation.report.tiles import join_horizontally, linear_pixels, scale_for_page
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.result import Result, align_columns, model_name
from candlelight.loaders.looking.layer_pixels import Pixels

READING = (
    TextBlock(
        "Over grids of all paints of a scene in all lights: the share of the variance of log reflectance "
        "that the light explains, and of log shading that the paint explains."
    ),
    TextBlock(
        "↓ Lower is better; 0 and 0 are ideal. The controls are made of the truth: `leak 10 %` is R S^0.1 "
        "and S R^0.1. Noise that differs from image to image raises all shares, the interaction most; "
        "columns above noise leave it out. A low share with a high interaction is noise, not merit.",
        term="How to read",
    ),
    TextBlock(
        "all that is equal in all images of a scene, and how much of the contrast is kept.", term="Blind to"
    ),
)


def leak_section(results: Sequence[Result], pictures: Sequence[Block]) -> Section:
    """Report leaks on the same data, with bars of both."""
    bars = [score_bars(results, column) for column in COLUMNS[:2]]
    return plain_section("leaks", "Leaks of light and paint", results, pictures, bars)


def leak_lines(results: Sequence[Result]) -> list[str]:
    """Write a line for each model, and compare the first model with the user's others in both leaks."""
    rest = "above noise", "interaction"
    titles = "model", "light in reflectance ↓", *rest, "paint in shading ↓", *rest, "failed"
    rows: list[tuple[str, ...]] = [titles]
    for result in results:
        shares = [result.scores[name] for name in (*COLUMNS[0::2], *COLUMNS[1::2])]
        cells = [_share(share.value) for share in shares]
        for place in (0, 3):
            low, high = shares[place].low, shares[place].high
            cells[place] += "" if math.isnan(low) else f" ({_share(low)} to {_share(high)})"
        rows.append((model_name(result), *cells, str(len(result.failed))))
    own = [result for result in results if model_name(result) not in LEAK_CONTROLS]
    pairs = [compare(own[0], other, column) for other in own[1:] for column in COLUMNS[:2]]
    return [align_columns(rows), *map(str, pairs)]


def _share(value: float) -> str:
    return UNDEFINED if math.isnan(value) else f"{round(value, 4) + 0:.4f}"  # not -0.0000


def leak_pictures(run: Run[Any], results: Mapping[str, Any]) -> list[Block]:
    """Show the first grid: reflectance of one paint in all lights, and shading of all paints in one light.

    Args:
        run: the run, whose models decompose this grid again.
        results: its results.
    """
    name = run.data.ids[0]
    grids = on_device(stack_grids([run.data[0]]), run.device)
    rows = {name: ("image", grids.image[0, 0], "image", grids.image[0, :, 0])}
    for model in results:
        found = decompose_grids(run.scored[model], [name], grids, run.device)
        rows[model] = "reflectance", found.reflectance[0, 0], "shading", found.shading[0, :, 0]
    blocks: list[Block] = [TextBlock(_HOW, quiet=True)]
    for label, (left, lit, right, painted) in rows.items():
        shown = {f"{left} in all lights": lit, f"{right} in all paints": painted}
        pictures = (png_picture(_row(some), f"{text}, {label}.", text) for text, some in shown.items())
        blocks.append(PicturesBlock(tuple(pictures), label))
    return blocks


_HOW = (
    "Left: predicted reflectance of one paint in all lights. Right: predicted shading of all paints in one "
    "light. Without leaks a row has equal pictures. Each is divided by its 99th percentile."
)


def _row(images: Float[Tensor, "images 3 rows columns"]) -> Pixels:
    """Join images, each divided by its 99th percentile."""
    white = [float(np.quantile(np.nan_to_num(image.cpu().numpy()), 0.99)) for image in images]
    tiles = [linear_pixels(image.cpu() / max(most, 1e-6)) for image, most in zip(images, white, strict=True)]
    return scale_for_page(reduce(join_horizontally, tiles))


LEAKS_PAGE = Page(
    section=leak_section,
    reading=READING,
    needs=COLUMNS,
    pictures=leak_pictures,
    lines=leak_lines,
)
