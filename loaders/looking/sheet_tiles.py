"""Tiles of sheets: their scale, their arrangement, and the texts between them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont

from candlelight.loaders.errors import InputError
from candlelight.loaders.looking.layer_pixels import Pixels, show_layer
from candlelight.loaders.looking.sheet_rows import value_text
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import FactorValue, SetInfo

SMALLEST_TILE, LARGEST_TILE = 128, 384  # pixels of a tile's longer side after scaling by a whole factor
TILE_GAP = 4
MOST_PIXELS = 2**25  # of a sheet: more than any screen shows, and 100 MB in memory
BACKGROUND, HEADING, INK = 45, 90, 235  # gray values; the background differs from black pixels
_FONT_SIZE, _LINE = 12, 15


def tile_scale(set_info: SetInfo, tiles: int, largest: int = LARGEST_TILE) -> tuple[int, int]:
    """Choose the scale at which all tiles fit the sheet.

    Returns:
        n to show every n-th pixel, and how many times each of them is repeated in both directions.

    Raises:
        InputError: tiles would be smaller than half of `SMALLEST_TILE`.

    Example:
        >>> tile_scale(SetInfo(count=9, width=80, height=60, layers=(), factors=()), 4)
        (1, 2)
    """
    side = max(set_info.width, set_info.height)
    step, factor = -(-side // largest), -(-SMALLEST_TILE // side)

    def shown() -> int:
        return -(-set_info.width // step) * -(-set_info.height // step) * factor**2

    while tiles * shown() > MOST_PIXELS:
        step, factor = (step, factor - 1) if factor > 1 else (step + 1, 1)
        if -(-side // step) * factor < SMALLEST_TILE // 2:
            raise InputError(f"a sheet has no room for {tiles} tiles: show fewer samples or layers")
    return step, factor


def side_by_side(tiles: Sequence[Pixels]) -> UInt8[ndarray, "height columns 3"]:
    """Put tiles of the same height side by side, with gaps between them.

    Example:
        >>> tile = np.zeros((2, 3, 3), np.uint8)
        >>> side_by_side([tile, tile])[0, :, 0]
        array([ 0,  0,  0, 45, 45, 45, 45,  0,  0,  0], dtype=uint8)
    """
    gap = np.full((len(tiles[0]), TILE_GAP, 3), BACKGROUND, np.uint8)
    parts = [part for tile in tiles for part in (gap, tile)]
    return np.concatenate(parts[1:], axis=1)


def draw_text(words: Sequence[str], width: int, background: int = BACKGROUND) -> Pixels:
    """Draw labels with separators in as many lines as needed; labels longer than a line are cut off.

    Args:
        words: the labels.
        width: width of a line, pixels.
        background: gray value behind the text.

    Returns:
        uint8 sRGB pixels, as wide as a line.

    Example:
        >>> draw_text(["color red", "size 2 m"], 400).shape, draw_text(["color red", "size 2 m"], 80).shape
        ((21, 400, 3), (36, 80, 3))
    """
    font = ImageFont.load_default(_FONT_SIZE)
    lines = [""]
    for word in (" ".join(word.split()) for word in words):
        longer = f"{lines[-1]}  ·  {word}" if lines[-1] else word
        if font.getlength(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    image = Image.new("RGB", (width, _LINE * len(lines) + 6), (background,) * 3)
    ImageDraw.Draw(image).multiline_text((1, 4), "\n".join(lines), (INK,) * 3, font, spacing=2)
    return np.asarray(image)


def factor_text(set_info: SetInfo, factors: dict[str, FactorValue]) -> list[str]:
    """Name each factor of a sample with its value and unit, in the order of the set.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> size = FactorInfo(name="size", kind="categorical", values=(1.5, 2), unit="m")
        >>> factor_text(SetInfo(count=1, width=1, height=1, layers=(), factors=(size,)), {"size": 2})
        ['size 2 m']
    """
    return [
        f"{factor.name} {value_text(factors[factor.name])} {factor.unit}".rstrip()
        for factor in set_info.factors
        if factor.name in factors
    ]


def scaled_tiles(
    frame: Frame, layers: Sequence[str], exposure: float, scale: tuple[int, int]
) -> list[Pixels]:
    """Turn layers of a frame into tiles at the scale of `tile_scale`."""
    step, factor = scale
    shown = [show_layer(name, frame.layers[name], exposure) for name in layers]
    return [tile[::step, ::step].repeat(factor, axis=0).repeat(factor, axis=1) for tile in shown]


def framed(parts: Sequence[UInt8[ndarray, "_ width 3"]]) -> UInt8[ndarray, "_ _ 3"]:
    """Put parts of the same width below each other, within a frame."""
    gap = TILE_GAP
    return np.pad(np.concatenate(parts), ((gap, gap), (gap, gap), (0, 0)), constant_values=BACKGROUND)
