"""Contact sheets: samples of an image set as rows, their layers as columns, in one picture to look at."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, SupportsIndex, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont

from loaders.errors import InputError
from loaders.files.atomic_files import replacing
from loaders.files.layer_codecs import encode_png
from loaders.looking.show import Pixels, show_layer
from loaders.samples import Frame
from loaders.schema import FactorInfo, FactorValue, SetInfo

SMALLEST_TILE, LARGEST_TILE = 128, 384  # pixels of a tile's longer side, which whole factors bring it between
TILE_GAP = 4
FACTOR_PARTS = 4  # of a continuous factor
MOST_PIXELS = 2**25  # of a sheet: more than any screen shows, and 100 MB in memory
BACKGROUND, HEADING, INK = 45, 90, 235  # gray, so that black pixels stand out from what is no pixel
_FONT_SIZE, _LINE = 12, 15


@runtime_checkable
class SheetRows(Protocol):
    """What a sheet takes of an image set: less than all of `loaders.samples.Frames`."""

    @property
    def set_info(self) -> SetInfo:
        """Description of the image set."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that are read."""

    @property
    def factor_table(self) -> Float[ndarray, "n k"]:
        """Factors of every row."""

    def __len__(self) -> int:
        """Count the rows."""

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row as numpy arrays."""


def contact_sheet(
    frames: SheetRows,
    rows: Sequence[int],
    layers: Sequence[str],
    headings: Mapping[int, str] | None = None,
    largest: int = LARGEST_TILE,
) -> Pixels:
    """Lay out samples under one another and their layers beside each other.

    Each row carries its factor values, each column its layer's name; `show_layer` says how layers are shown.
    Small frames are enlarged by a whole factor (each pixel a square), large ones shown by every n-th pixel,
    and by fewer where the sheet would have more than `MOST_PIXELS`.

    Args:
        frames: the image set.
        rows: row numbers, top to bottom.
        layers: layer names, left to right.
        headings: what stands above some places of ``rows``, counted from 0.
        largest: pixels that the longer side of a tile has at most.

    Returns:
        uint8 sRGB pixels.

    Raises:
        InputError: no rows or layers, a row that does not exist, a layer that is not read, or more tiles
            than there is room for.

    Example:
        >>> from loaders.frames import FrameFolder
        >>> frames = FrameFolder(Path("frames"), "candle")  # doctest: +SKIP
        >>> sheet = contact_sheet(frames, pick_rows(frames, 4), ["image", "albedo"])  # doctest: +SKIP
    """
    _check(frames, rows, layers)
    step, factor = tile_scale(frames.set_info, len(rows) * len(layers), largest)
    bands = []
    for row in rows:
        frame = frames.frame(row)
        shown = [show_layer(name, frame.layers[name], frames.set_info.exposure) for name in layers]
        scaled = [tile[::step, ::step].repeat(factor, axis=0).repeat(factor, axis=1) for tile in shown]
        bands.append((factor_text(frames.set_info, frame.metadata.factors), _beside(scaled)))
    width = bands[0][1].shape[1]
    headers = [_text([name], (width - TILE_GAP * (len(layers) - 1)) // len(layers)) for name in layers]
    parts = [_beside(headers)]
    for place, (caption, tiles) in enumerate(bands):
        if headings and place in headings:
            parts.append(_text([headings[place]], width, HEADING))
        parts += [_text(caption, width), tiles]
    return np.pad(
        np.concatenate(parts),
        ((TILE_GAP, TILE_GAP), (TILE_GAP, TILE_GAP), (0, 0)),
        constant_values=BACKGROUND,
    )


def choose_sheet_rows(
    frames: SheetRows, by: str | None, count: int, seed: int = 0
) -> tuple[list[int], dict[int, str]]:
    """Choose rows for a sheet: of each value of a factor as `rows_by_factor` does, else as `pick_rows` does.

    Args:
        frames: the image set.
        by: the factor, or None.
        count: how many rows, with ``by`` for each value.
        seed: decides between rows that would do equally well.

    Returns:
        Row numbers and headings, as `contact_sheet` takes them.

    Raises:
        InputError: no such factor, or a count below 1.
    """
    if by is None:
        return pick_rows(frames, count, seed), {}
    chosen: list[int] = []
    headings: dict[int, str] = {}
    for text, members in rows_by_factor(frames, by, count, seed).items():
        headings[len(chosen)] = text
        chosen += members
    return chosen, headings


def pick_rows(frames: SheetRows, count: int, seed: int = 0) -> list[int]:
    """Choose rows that differ: each next one shows the factor values that were shown least so far.

    Continuous factors are cut into ``count`` parts of equal width.

    Args:
        frames: the image set.
        count: how many rows; all if there are fewer.
        seed: decides between rows that would do equally well.

    Returns:
        Sorted row numbers.

    Raises:
        InputError: a count below 1.
    """
    if count < 1:
        raise InputError(f"`count` must be at least 1, got {count}")
    order = np.random.default_rng(seed).permutation(len(frames))
    classes = [
        _classes(factor, column, count)[order]
        for factor, column in zip(frames.set_info.factors, frames.factor_table.T, strict=True)
    ]
    used = [np.zeros(int(column.max(initial=0)) + 1) for column in classes]
    free = np.zeros(len(order))
    chosen = []
    for _ in range(min(count, len(order))):
        familiar = sum((times[column] for times, column in zip(used, classes, strict=True)), start=free)
        best = int(familiar.argmin())
        chosen.append(int(order[best]))
        free[best] = np.inf
        for times, column in zip(used, classes, strict=True):
            times[column[best]] += 1
    return sorted(chosen)


def rows_by_factor(frames: SheetRows, name: str, count: int, seed: int = 0) -> dict[str, list[int]]:
    """Choose rows for each value of a factor that differ from value to value in little else.

    `pick_rows` chooses as many rows as asked for to begin with; for each value, the rows that agree with
    these in most other factors are taken. Every continuous factor is cut into `FACTOR_PARTS` parts of equal
    width.

    Args:
        frames: the image set.
        name: the factor.
        count: how many rows for each value; fewer where there are fewer.
        seed: decides between rows that would do equally well.

    Returns:
        Rows by name, value and unit of the factor; values that no row has are left out.

    Raises:
        InputError: no such factor, or a count below 1.
    """
    factor = frames.set_info.factor(name)
    place = frames.set_info.factors.index(factor)
    columns = [
        _classes(other, column, FACTOR_PARTS)
        for other, column in zip(frames.set_info.factors, frames.factor_table.T, strict=True)
    ]
    order = np.random.default_rng(seed).permutation(len(frames))
    chosen: dict[str, list[int]] = {}
    for start in pick_rows(frames, count, seed):
        others = [column for number, column in enumerate(columns) if number != place]
        agree = sum((column == column[start] for column in others), start=np.zeros(len(frames), np.int64))
        for value in np.unique(columns[place]):
            rows = chosen.setdefault(_value_name(factor, frames.factor_table[:, place], int(value)), [])
            free = order[(columns[place][order] == value) & ~np.isin(order, rows)]
            if len(free):
                rows.append(int(free[agree[free].argmax()]))
    return chosen


def _value_name(factor: FactorInfo, column: Float[ndarray, " n"], value: int) -> str:
    """Name a value of a categorical factor, or a part of a continuous one."""
    if factor.kind == "categorical":
        return f"{factor.name} {value_text((factor.values or ())[value])} {factor.unit}".rstrip()
    low, width = float(column.min()), float(np.ptp(column)) / FACTOR_PARTS
    ends = (value_text(low + part * width) for part in (value, value + 1))
    return f"{factor.name} {' to '.join(ends)} {factor.unit}".rstrip()


def factor_text(set_info: SetInfo, factors: dict[str, FactorValue]) -> list[str]:
    """Name each factor of a sample with its value and unit, in the order of the set.

    Example:
        >>> size = FactorInfo(name="size", kind="categorical", values=(1.5, 2), unit="m")
        >>> factor_text(SetInfo(count=1, width=1, height=1, layers=(), factors=(size,)), {"size": 2})
        ['size 2 m']
    """
    return [
        f"{factor.name} {value_text(factors[factor.name])} {factor.unit}".rstrip()
        for factor in set_info.factors
        if factor.name in factors
    ]


def value_text(value: FactorValue) -> str:
    """Write a factor's value, fractions with five digits at most.

    Example:
        >>> value_text("red"), value_text(2), value_text(0.123456)
        ('red', '2', '0.12346')
    """
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def write_png(path: Path, array: Pixels) -> None:
    """Write pixels as a PNG in one step, making the folder if need be.

    Args:
        path: the file; one that is there is replaced.
        array: uint8 sRGB pixels.

    Raises:
        InputError: the file cannot be written.
    """
    write_file(path, encode_png(array))


def write_file(path: Path, data: bytes) -> None:
    """Write a file in one step, making the folder if need be.

    Raises:
        InputError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_bytes(data)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; name a file that can be") from None


def _check(frames: SheetRows, rows: Sequence[int], layers: Sequence[str]) -> None:
    if not len(rows) or not len(layers):
        raise InputError(f"expected at least one row and one layer, got {list(rows)} and {list(layers)}")
    for row in rows:
        if not 0 <= row < len(frames):
            raise InputError(f"`rows` must be from 0 to {len(frames) - 1}, got {row}")
    for name in layers:
        if name not in frames.layers:
            raise InputError(f"layer `{name}` is not read; expected some of {', '.join(frames.layers)}")


def _classes(factor: FactorInfo, column: Float[ndarray, " n"], bins: int) -> Int[ndarray, " n"]:
    """Class index of a factor's values, continuous ones in bins of equal width."""
    if factor.kind == "categorical" or not len(column):
        return column.astype(np.int64)
    low, span = column.min(), np.ptp(column)
    return np.minimum((column - low) / (span or 1) * bins, bins - 1).astype(np.int64)


def tile_scale(set_info: SetInfo, tiles: int, largest: int = LARGEST_TILE) -> tuple[int, int]:
    """Choose to show every n-th pixel, and each so many times in both directions, so that all tiles fit.

    Raises:
        InputError: they would be smaller than half of `SMALLEST_TILE`.

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


def _beside(tiles: Sequence[Pixels]) -> UInt8[ndarray, "height columns 3"]:
    """Put tiles of one height next to each other, a gap between them."""
    gap = np.full((len(tiles[0]), TILE_GAP, 3), BACKGROUND, np.uint8)
    parts = [part for tile in tiles for part in (gap, tile)]
    return np.concatenate(parts[1:], axis=1)


def _text(words: Sequence[str], width: int, background: int = BACKGROUND) -> Pixels:
    """Draw words apart from each other in as many lines as they need; what is too long is cut off."""
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
