"""Contact sheets: one picture with samples of an image set as rows and their layers as columns."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.looking.layer_pixels import Pixels, show_layer
from candlelight.loaders.looking.sheet_rows import SheetRows, choose_sheet_rows, value_text
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import FactorValue, SetInfo

SMALLEST_TILE, LARGEST_TILE = 128, 384  # pixels of a tile's longer side after scaling by a whole factor
TILE_GAP = 4
MOST_PIXELS = 2**25  # of a sheet: more than any screen shows, and 100 MB in memory
BACKGROUND, HEADING, INK = 45, 90, 235  # gray values; the background differs from black pixels
_FONT_SIZE, _LINE = 12, 15
_LAYERS = ("image", "albedo", "shading", "depth")
_ROWS = 6  # samples of a sheet that is not by a factor


def draw_sheet(
    path: Path | str,
    out: Path | str,
    set_name: str | None = None,
    split: str | None = None,
    *,
    layers: Collection[str] | None = None,
    by: str | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> Path:
    """Draw a contact sheet: samples of an image set as rows, their layers as columns.

    Args:
        path: a path that `candlelight.loaders.open_frames` opens.
        out: the PNG to write; an existing file is replaced.
        set_name: name of the image set; None for the only one.
        split: name of the split; None for the only one, or `train` of several.
        layers: layers to show, left to right; None for image, albedo, shading and depth, if the set has them.
        by: a factor: show samples for each of its values that differ little in other factors; None for
            samples that differ as much as possible.
        rows: number of samples, with ``by`` per value; None for 6, with ``by`` for 1.
        seed: seed of the choice between equally suitable samples.

    Returns:
        ``out``.

    Raises:
        InputError: ``path`` holds no image set, there is no such set, split, layer or factor, the sheet has
            no room for all tiles, or the file cannot be written.

    Example:
        >>> draw_sheet(Path("frames"), Path("sheet.png"), by="color")  # doctest: +SKIP
        PosixPath('sheet.png')
    """
    out = Path(out)
    if out.suffix.lower() != ".png":
        raise InputError(f"{out}: a sheet is a PNG; name a file that ends in .png")
    frames = open_frames(path, set_name, split)
    # Opened again, so that only the shown layers are decoded.
    shown = _shown_layers(frames, layers)
    frames = open_frames(path, frames.set_name, split, shown)
    if not len(frames):
        raise InputError(f"{path}: set `{frames.set_name}` has no sample of this split to show")
    count = rows if rows is not None else _ROWS if by is None else 1
    # Check the room before choosing rows, which takes long for many rows.
    tile_scale(frames.set_info, min(count, len(frames)) * len(shown))
    chosen, headings = choose_sheet_rows(frames, by, count, seed)
    write_png(out, contact_sheet(frames, chosen, shown, headings))
    return out


def _shown_layers(frames: Frames, wanted: Collection[str] | None) -> list[str]:
    if wanted is not None:
        for name in wanted:
            if name not in frames.layers:
                raise InputError(f"layer `{name}` is not in this set; it has {', '.join(frames.layers)}")
        return list(wanted)
    return [name for name in _LAYERS if name in frames.layers] or list(frames.layers[: len(_LAYERS)])


def contact_sheet(
    frames: SheetRows,
    rows: Sequence[int],
    layers: Sequence[str],
    headings: Mapping[int, str] | None = None,
    largest: int = LARGEST_TILE,
) -> Pixels:
    """Draw samples as rows and their layers as columns.

    Each row is labelled with its factor values, each column with its layer's name; `show_layer` turns layers
    into pixels. Small frames are enlarged by a whole factor (each pixel a square). Large frames are shown by
    every n-th pixel, and all frames by fewer pixels if the sheet would have more than `MOST_PIXELS`.

    Args:
        frames: the image set.
        rows: row numbers, top to bottom.
        layers: layer names, left to right.
        headings: text above some rows, by position in ``rows``, counted from 0.
        largest: largest number of pixels of the longer side of a tile.

    Returns:
        uint8 sRGB pixels.

    Raises:
        InputError: there are no rows or layers, or the tiles do not fit.

    Example:
        >>> from candlelight.loaders.frame_folder import FrameFolder
        >>> frames = FrameFolder(Path("frames"), "candle")  # doctest: +SKIP
        >>> sheet = contact_sheet(frames, pick_rows(frames, 4), ["image", "albedo"])  # doctest: +SKIP
    """
    if not len(rows) or not len(layers):
        raise InputError(f"expected at least one row and one layer, got {list(rows)} and {list(layers)}")
    step, factor = tile_scale(frames.set_info, len(rows) * len(layers), largest)
    bands = []
    for row in rows:
        frame = frames.frame(row)
        shown = [show_layer(name, frame.layers[name], frames.set_info.exposure) for name in layers]
        scaled = [tile[::step, ::step].repeat(factor, axis=0).repeat(factor, axis=1) for tile in shown]
        bands.append((factor_text(frames.set_info, frame.metadata.factors), side_by_side(scaled)))
    width = bands[0][1].shape[1]
    headers = [draw_text([name], (width - TILE_GAP * (len(layers) - 1)) // len(layers)) for name in layers]
    parts = [side_by_side(headers)]
    for place, (caption, tiles) in enumerate(bands):
        if headings and place in headings:
            parts.append(draw_text([headings[place]], width, HEADING))
        parts += [draw_text(caption, width), tiles]
    return np.pad(
        np.concatenate(parts),
        ((TILE_GAP, TILE_GAP), (TILE_GAP, TILE_GAP), (0, 0)),
        constant_values=BACKGROUND,
    )


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


def write_png(path: Path, array: Pixels) -> None:
    """Write pixels as a PNG atomically; create the folder if it is missing.

    Args:
        path: the file; an existing file is replaced.
        array: uint8 sRGB pixels.

    Raises:
        InputError: the file cannot be written.
    """
    write_file(path, encode_png(array))


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically; create the folder if it is missing.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_bytes(data)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; name another file") from None


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
