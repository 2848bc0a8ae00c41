"""The picture of an image set on its card: one factor changes and, if possible, no other."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int, UInt8
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont

from loaders.hub.facts import decode_layer, read_rows
from loaders.hub.table import layer_column
from loaders.looking.show import show_layer
from loaders.packs.manifest import Shard
from loaders.samples import factor_value
from loaders.schema import FactorInfo, SetInfo

LARGEST = 300_000  # bytes of a picture
COLUMNS, BANDS = 6, 3  # values of a factor, and factors
SMALLEST, TILE = 96, 144  # pixels of a tile's longer side; what is smaller is enlarged by a whole factor
_GAP, _LINE, _GUTTER, _FONT = 4, 16, 84, 12
_BACKGROUND, _INK = (45, 45, 45), (235, 235, 235)
_SHOWN = ("image", "albedo", "shading", "depth", "normal", "object")
_MASKS = ("object", "part")

Picture = UInt8[ndarray, "_ _ 3"]
# A factor's name, and by text of a value the row that shows it.
Band = tuple[str, list[tuple[str, int]]]


def draw_picture(
    folder: Path, set_info: SetInfo, shards: Sequence[Shard], table: Float64[ndarray, "n k"]
) -> bytes:
    """Draw a picture of an image set from its Parquet files.

    Of the first factor three layers are shown, of the others one. Layers are shown as `show_layer` says.

    Args:
        folder: folder of the pack.
        set_info: the image set.
        shards: its files, in order.
        table: factors of every row.

    Returns:
        A JPEG of at most `LARGEST` bytes.
    """
    layers = [name for name in dict.fromkeys((*_SHOWN, *set_info.layers)) if name in set_info.layers][:3]
    strips = []
    for number, (factor, tiles) in enumerate(choose_bands(set_info, table)):
        names = layers if number == 0 else layers[:1]
        wanted = sorted({row for _, row in tiles})
        tables = read_rows(folder, shards, wanted, [layer_column(name) for name in names])
        # Decoded one by one: a table of one row keeps all of its row group in memory.
        shown = {
            row: [_tile(name, decode_layer(one, name, set_info), set_info.exposure) for name in names]
            for row, one in zip(wanted, tables, strict=True)
        }
        strips.append(_labels(factor, [text for text, _ in tiles], shown[wanted[0]][0].shape[1]))
        for place, name in enumerate(names):
            strips.append(_strip(name, [shown[row][place] for _, row in tiles]))
    return _encode(_stack(strips))


def choose_bands(set_info: SetInfo, table: Float64[ndarray, "n k"]) -> list[Band]:
    """Choose the factors to show, and rows that show values of each.

    Factors that change within a concept set come first, then categorical, then continuous ones; those that
    have one value in all rows are left out. Of the rows that show a value that one is taken that agrees with
    the first row in most other factors; of a continuous factor, rows at even distances in its order.

    Args:
        set_info: the image set.
        table: factors of every row; at least one row.

    Returns:
        At most `BANDS` factors with at most `COLUMNS` values each; the first rows where no factor varies.

    Example:
        >>> color = FactorInfo(name="color", kind="categorical", values=("red", "blue"))
        >>> info = SetInfo(count=3, width=8, height=8, layers=("image",), factors=(color,))
        >>> choose_bands(info, np.array([[1.0], [1.0], [0.0]]))
        [('color', [('red', 2), ('blue', 0)])]
    """
    places = [place for place in range(table.shape[1]) if np.ptp(table[:, place]) > 0]
    factors = set_info.factors
    places.sort(
        key=lambda place: (factors[place].name not in set_info.varies, factors[place].kind == "continuous")
    )
    bands = []
    for place in places[:BANDS]:
        factor = factors[place]
        rows = _spread(table[:, place]) if factor.kind == "continuous" else _alike(table, place)
        tiles = [(_text(factor, table[row, place]), int(row)) for row in rows]
        bands.append((factor.name, tiles))
    return bands or [("samples", [(f"row {row}", row) for row in range(min(COLUMNS, len(table)))])]


def _spread(column: Float64[ndarray, " n"]) -> Int[ndarray, " rows"]:
    order = np.argsort(column, kind="stable")
    return order[np.linspace(0, len(order) - 1, min(COLUMNS, len(order))).astype(np.int64)]


def _alike(table: Float64[ndarray, "n k"], place: int) -> list[int]:
    """For each value of a factor, find the row that differs from the first in the fewest other factors."""
    others = np.delete(table, place, axis=1)
    differ = (others != others[0]).sum(axis=1)
    rows = []
    for value in np.unique(table[:, place])[:COLUMNS]:
        showing = np.flatnonzero(table[:, place] == value)
        rows.append(int(showing[differ[showing].argmin()]))
    return rows


def _text(factor: FactorInfo, number: float) -> str:
    value = factor_value(factor, float(number))
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{text} {factor.unit}".rstrip()


def _tile(name: str, array: ndarray, exposure: float) -> Picture:
    """Show a layer in a size fit for the picture: averaged, but for masks; enlarged by a whole factor."""
    # Traced radiance may hold what is no number; depth is inf where nothing is hit.
    shown = array if name == "depth" else np.nan_to_num(array)
    pixels = Image.fromarray(np.ascontiguousarray(show_layer(name, shown, exposure)))
    side = max(pixels.size)
    if side > TILE:
        size = tuple(max(1, round(length * TILE / side)) for length in pixels.size)
        kept = Image.Resampling.NEAREST if name in _MASKS else Image.Resampling.BOX
        return np.asarray(pixels.resize((size[0], size[1]), kept))
    factor = -(-SMALLEST // side)
    return np.asarray(pixels).repeat(factor, axis=0).repeat(factor, axis=1)


def _labels(factor: str, texts: Sequence[str], width: int) -> Picture:
    """Name a factor at the left and a value above each tile, cut short where they are too long."""
    canvas = Image.new("RGB", (_GUTTER + COLUMNS * (width + _GAP), _LINE), _BACKGROUND)
    draw = ImageDraw.Draw(canvas)
    for place, text in enumerate((factor, *texts)):
        left = 0 if place == 0 else _GUTTER + (place - 1) * (width + _GAP)
        _write(draw, left, text, (_GUTTER if place == 0 else width) - _GAP)
    return np.asarray(canvas)


def _strip(name: str, tiles: Sequence[Picture]) -> Picture:
    """Put tiles beside each other, the name of their layer at the left."""
    height, width = tiles[0].shape[:2]
    canvas = Image.new("RGB", (_GUTTER + COLUMNS * (width + _GAP), height), _BACKGROUND)
    _write(ImageDraw.Draw(canvas), 0, name, _GUTTER - _GAP)
    for place, tile in enumerate(tiles):
        canvas.paste(Image.fromarray(tile), (_GUTTER + place * (width + _GAP), 0))
    return np.asarray(canvas)


def _write(draw: ImageDraw.ImageDraw, left: int, text: str, width: int) -> None:
    font = ImageFont.load_default(_FONT)
    shown = text
    while draw.textlength(shown, font) > width and len(shown) > 1:
        shown = shown[: -2 if shown.endswith("…") else -1].rstrip() + "…"
    draw.text((left, 1), shown, _INK, font)


def _stack(strips: Sequence[Picture]) -> Picture:
    gap = np.full((_GAP, strips[0].shape[1], 3), _BACKGROUND[0], np.uint8)
    parts = np.concatenate([part for strip in strips for part in (strip, gap)])
    return np.pad(parts, ((_GAP, 0), (_GAP, 0), (0, 0)), constant_values=_BACKGROUND[0])


def _encode(pixels: Picture) -> bytes:
    for quality in (90, 75, 55, 30):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= LARGEST:
            break
    return buffer.getvalue()
