"""Contact sheets: one picture with samples of an image set as rows and their layers as columns.

A sheet of sequences has a row for each unit and layer, with its steps as columns.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from candlelight.loaders.errors import InputError
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sequence_sheet import (
    ANIMATIONS,
    pick_units,
    sequence_animation,
    sequence_sheet,
)
from candlelight.loaders.looking.sheet_rows import SheetRows, choose_sheet_rows
from candlelight.loaders.looking.sheet_tiles import (
    BACKGROUND,
    HEADING,
    LARGEST_TILE,
    TILE_GAP,
    draw_text,
    factor_text,
    framed,
    scaled_tiles,
    side_by_side,
    tile_scale,
)
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.samples import Frames

_LAYERS = ("image", "albedo", "shading", "depth")
_ROWS = 6  # samples of a sheet that is not by a factor
_TILES = 4  # in a row, if there are not more layers
_Cell = tuple[Sequence[str], Pixels]  # texts of a sample, and its tiles


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

    Of a set with steps it shows whole units: a row for each unit and layer, the steps as columns; or an
    animation, with a picture for each step.

    Args:
        path: a path that `candlelight.loaders.open_frames` opens.
        out: the PNG to write, or the GIF or WebP of an animation; an existing file is replaced.
        set_name: name of the image set; None for the only one.
        split: name of the split; None for the only one, or `train` of several.
        layers: layers to show, left to right; None for image, albedo, shading and depth, if the set has them,
            of a set with steps for the image.
        by: a factor: show samples for each of its values that differ little in other factors; None for
            samples that differ as much as possible.
        rows: number of samples (of a set with steps: units), with ``by`` per value; None for 6, with ``by``
            for 1.
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
    if out.suffix.lower() not in (".png", *ANIMATIONS):
        raise InputError(
            f"{out}: a sheet is a PNG, or a GIF or WebP of a set with steps; name a file that ends in .png"
        )
    frames = open_frames(path, set_name, split)
    if not len(frames):
        raise InputError(f"{path}: set `{frames.set_name}` has no sample of this split to show")
    stepped = frames.metadata(0).step is not None
    # Opened again, so that only the shown layers are decoded.
    shown = _shown_layers(frames, ("image",) if stepped and layers is None else layers)
    frames = open_frames(path, frames.set_name, split, shown)
    if stepped and by is None:
        units = pick_units(frames, rows or _ROWS)
        if out.suffix.lower() == ".png":
            write_png(out, sequence_sheet(frames, units, shown))
        else:
            write_file(out, sequence_animation(frames, units, shown, out.suffix[1:]))
        return out
    if out.suffix.lower() != ".png":
        raise InputError(f"{out}: set `{frames.set_name}` has no steps; name a file that ends in .png")
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
    """Draw samples as rows and their layers as columns; of one or two layers, several samples in a row.

    Each sample is labelled with its factor values, each column with its layer's name. Values that all shown
    samples share stand once, at the top. `show_layer` turns layers into pixels. Small frames are enlarged by
    a whole factor (each pixel a square). Large frames are shown by every n-th pixel, and all frames by fewer
    pixels if the sheet would have more than `MOST_PIXELS`.

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
    scale = tile_scale(frames.set_info, len(rows) * len(layers), largest)
    cells: list[_Cell] = []
    for row in rows:
        frame = frames.frame(row)
        tiles = scaled_tiles(frame, layers, frames.set_info.exposure, scale)
        cells.append((factor_text(frames.set_info, frame.metadata.factors), side_by_side(tiles)))
    common = [text for text in cells[0][0] if len(cells) > 1 and all(text in words for words, _ in cells)]
    groups = _by_heading(cells, headings or {})
    columns = min(max(len(group) for _, group in groups), max(1, _TILES // len(layers)))
    side = cells[0][1].shape[1]
    headers = [draw_text([name], (side - TILE_GAP * (len(layers) - 1)) // len(layers)) for name in layers]
    parts = [side_by_side(headers * columns)]
    width = parts[0].shape[1]
    if common:
        parts.insert(0, draw_text(common, width))
    for heading, group in groups:
        if heading:
            parts.append(draw_text([heading], width, HEADING))
        said = (*common, heading)
        captioned = [([text for text in words if text not in said], tiles) for words, tiles in group]
        parts += [_band(captioned[i : i + columns], columns) for i in range(0, len(group), columns)]
    return framed(parts)


def _by_heading(cells: Sequence[_Cell], headings: Mapping[int, str]) -> list[tuple[str, Sequence[_Cell]]]:
    """Group samples below their headings; without them if each sample has one and its own text says it."""
    if all(place in headings and headings[place] in words for place, (words, _) in enumerate(cells)):
        return [("", cells)]
    starts = sorted({0, *headings})
    ends = [*starts[1:], len(cells)]
    return [(headings.get(start, ""), cells[start:end]) for start, end in zip(starts, ends, strict=True)]


def _band(cells: Sequence[_Cell], columns: int) -> Pixels:
    """Put samples below their texts side by side; columns without a sample are empty."""
    texts = [draw_text(words, tiles.shape[1]) for words, tiles in cells]
    tallest = max(map(len, texts))
    parts = []
    for text, (_, tiles) in zip(texts, cells, strict=True):
        above = np.full((tallest - len(text), tiles.shape[1], 3), BACKGROUND, np.uint8)
        parts.append(np.concatenate([above, text, tiles]))
    return side_by_side(parts + [np.full_like(parts[0], BACKGROUND)] * (columns - len(cells)))


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
