"""Pictures of sequences: a sheet with the steps of each unit from left to right, or an animation."""

import io
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image

from candlelight.loaders.causal_columns import causal_columns
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sheet_rows import value_text
from candlelight.loaders.looking.sheet_tiles import (
    HEADING,
    draw_text,
    factor_text,
    framed,
    scaled_tiles,
    side_by_side,
    tile_scale,
)
from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import Metadata

ANIMATIONS = (".gif", ".webp")
_MILLISECONDS = 400  # that an animation shows each step
_STEPS = 12  # of a unit that a sheet shows


def pick_units(frames: Frames, count: int) -> list[list[int]]:
    """Choose units of a set with steps, spread evenly over the set.

    Args:
        frames: the image set.
        count: number of units; all if there are fewer.

    Returns:
        The row numbers of each unit, in order of its steps.
    """
    columns = causal_columns(frames)
    assert columns.steps is not None
    units: dict[int, list[int]] = {}
    for row, start in enumerate((columns.indices - columns.steps).tolist()):
        units.setdefault(start, []).append(row)
    found = list(units.values())
    chosen = np.unique(np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int))
    return [found[place] for place in chosen]


def sequence_sheet(frames: Frames, units: Sequence[Sequence[int]], layers: Sequence[str]) -> Pixels:
    """Draw units as rows and their first steps as columns; each further layer is a row below.

    The factors of the first step stand above a unit, and the number of a step with the names that an
    intervention changed above a tile.

    Args:
        frames: a set with steps.
        units: row numbers of each unit, as `pick_units` returns them.
        layers: layer names, top to bottom.

    Returns:
        uint8 sRGB pixels.

    Raises:
        InputError: the tiles do not fit.
    """
    columns = min(_STEPS, max(map(len, units)))
    scale = tile_scale(frames.set_info, len(units) * columns * len(layers), 192)
    parts = []
    for rows in units:
        shown = [frames.frame(row) for row in rows[:columns]]
        tiles = [scaled_tiles(frame, layers, frames.set_info.exposure, scale) for frame in shown]
        blank = [np.zeros_like(tile) for tile in tiles[0]]  # for steps that are not rendered yet
        tiles += [blank] * (columns - len(tiles))
        width = blank[0].shape[1]
        texts = [draw_text(_step_words(frame.metadata), width) for frame in shown]
        texts += [draw_text([""], width)] * (columns - len(texts))
        bands = [side_by_side(band) for band in zip(*tiles, strict=True)]
        heading = [shown[0].metadata.unit, *factor_text(frames.set_info, shown[0].metadata.factors)]
        parts += [draw_text(heading, bands[0].shape[1], HEADING), side_by_side(_same_height(texts)), *bands]
    return framed(parts)


def sequence_animation(
    frames: Frames, units: Sequence[Sequence[int]], layers: Sequence[str], form: str
) -> bytes:
    """Draw one picture for each step, with units as rows and layers as columns, as an animation.

    Args:
        frames: a set with steps.
        units: row numbers of each unit, as `pick_units` returns them.
        layers: layer names, left to right.
        form: "gif" or "webp".

    Returns:
        The bytes of the file.

    Raises:
        InputError: the tiles do not fit.
    """
    scale = tile_scale(frames.set_info, len(units) * len(layers), 192)
    bands = []
    for rows in units:
        shown = [frames.frame(row) for row in rows]
        tiles = [side_by_side(scaled_tiles(one, layers, frames.set_info.exposure, scale)) for one in shown]
        texts = _same_height([draw_text(_step_words(one.metadata), tiles[0].shape[1]) for one in shown])
        bands.append([np.concatenate(pair) for pair in zip(texts, tiles, strict=True)])
    steps = range(max(map(len, bands)))
    first, *others = [
        Image.fromarray(framed([band[min(step, len(band) - 1)] for band in bands])) for step in steps
    ]
    file = io.BytesIO()
    first.save(file, form, save_all=True, append_images=others, duration=_MILLISECONDS, loop=0)
    return file.getvalue()


def _step_words(metadata: Metadata) -> list[str]:
    words = [f"step {metadata.step}"]
    for name, value in metadata.intervention.items():
        text = f"do {name} = {value_text(value)}"
        # A line of the smallest tile has room for about twenty letters.
        words += [text] if len(text) <= 20 else [f"do {name}", f"= {value_text(value)}"]
    return words


def _same_height(texts: Sequence[UInt8[ndarray, "_ width 3"]]) -> list[UInt8[ndarray, "_ width 3"]]:
    height = max(map(len, texts))
    return [np.pad(text, ((0, height - len(text)), (0, 0), (0, 0)), mode="edge") for text in texts]
