"""Contact sheets: samples of an image set as rows, their layers as columns, in one picture to look at."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont

from loaders.colour import to_display
from loaders.disk import replacing
from loaders.errors import InputError
from loaders.samples import Frames
from loaders.schema import LAYERS, FactorInfo, FactorValue, SetInfo

Pixels = UInt8[ndarray, "height width 3"]

# Colours of instance and part indices from 1 on, starting over after the last: the palette of Okabe and Ito,
# which colour-blind readers tell apart. Index 0, nothing, is black.
PALETTE = np.array(
    [
        *((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66)),
        *((0, 114, 178), (213, 94, 0), (204, 121, 167), (187, 187, 187)),
    ],
    np.uint8,
)
SMALLEST, LARGEST = 128, 384  # pixels of a tile's longer side, which whole factors bring it between
GAP = 4
BACKGROUND, INK = 45, 235  # gray, so that black pixels of a layer stand out from what is no pixel
_FONT_SIZE, _LINE = 12, 15
_FARTHEST = 64  # gray of the farthest point that is hit, apart from the black of nothing


def contact_sheet(frames: Frames, rows: Sequence[int], layers: Sequence[str]) -> Pixels:
    """Lay out samples under one another and their layers beside each other.

    Each row carries its factor values, each column its layer's name; `show_layer` says how layers are shown.
    Small frames are enlarged by a whole factor (each pixel a square), large ones shown by every n-th pixel.

    Args:
        frames: the image set.
        rows: row numbers, top to bottom.
        layers: layer names, left to right.

    Returns:
        uint8 sRGB pixels.

    Raises:
        InputError: no rows or layers, a row that does not exist, or a layer that is not read.

    Example:
        >>> from loaders.frames import FrameFolder
        >>> frames = FrameFolder(Path("frames"), "candle")  # doctest: +SKIP
        >>> sheet = contact_sheet(frames, pick_rows(frames, 4), ["image", "albedo"])  # doctest: +SKIP
    """
    _check(frames, rows, layers)
    bands = []
    for row in rows:
        frame = frames.frame(row)
        shown = [show_layer(name, frame.layers[name], frames.set_info.exposure) for name in layers]
        tiles = _beside([_resize(pixels) for pixels in shown])
        bands.append((factor_text(frames.set_info, frame.metadata.factors), tiles))
    width = bands[0][1].shape[1]
    headers = [_text([name], (width - GAP * (len(layers) - 1)) // len(layers)) for name in layers]
    parts = [_beside(headers)]
    for caption, tiles in bands:
        parts += [_text(caption, width), tiles]
    return np.pad(np.concatenate(parts), ((GAP, GAP), (GAP, GAP), (0, 0)), constant_values=BACKGROUND)


def show_layer(name: str, array: ndarray, exposure: float) -> Pixels:
    """Turn a layer into pixels that can be looked at.

    Radiances (``radiance``, ``shading*``, ``residual``, ``light/*``) are multiplied by the exposure and
    ``albedo`` by nothing before the sRGB curve. Of ``depth`` the nearest point of the frame is white, the
    farthest dark gray, what is not hit black. A normal n is (n + 1) / 2 as red, green, blue: x right, y
    down, z forward. ``position`` is x, y, z as red, green, blue, each from the least to the greatest of
    the frame. ``object`` and ``part`` take the colours of `PALETTE`; ``roughness`` and ``metallic`` are gray.

    Args:
        name: layer name.
        array: the layer as the schema says.
        exposure: the set's exposure.

    Returns:
        uint8 pixels of the same height and width.

    Example:
        >>> show_layer("depth", np.array([[1, 2, 3, np.inf]], np.float32), 1.0)[0, :, 0]
        array([255, 160,  64,   0], dtype=uint8)
    """
    if name == "image":
        return array
    if name == "depth":
        return _show_depth(array)
    if name == "normal":
        return np.rint((array.astype(np.float32) + 1) / 2 * 255).clip(0, 255).astype(np.uint8)
    if name == "position":
        return _show_position(array)
    if name in ("roughness", "metallic"):
        gray = np.rint(array.astype(np.float32) * 255).astype(np.uint8)
        return np.repeat(gray[..., None], 3, axis=2)
    if name in LAYERS and not LAYERS[name].channels:
        return _show_indices(array)
    return to_display(array.astype(np.float32) * np.float32(1 if name == "albedo" else exposure))


def pick_rows(frames: Frames, count: int, seed: int = 0) -> list[int]:
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


def png_bytes(array: Pixels) -> bytes:
    """Encode pixels as a PNG that is as small as Pillow makes it."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def write_png(path: Path, array: Pixels) -> None:
    """Write pixels as a PNG in one step, making the folder if need be.

    Args:
        path: the file; one that is there is replaced.
        array: uint8 sRGB pixels.

    Raises:
        InputError: the file cannot be written.
    """
    write_file(path, png_bytes(array))


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


def _check(frames: Frames, rows: Sequence[int], layers: Sequence[str]) -> None:
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


def _show_depth(depth: Float[ndarray, "height width"]) -> Pixels:
    hit = np.isfinite(depth)
    gray = np.zeros(depth.shape, np.uint8)
    if hit.any():
        away = depth[hit] - depth[hit].min()
        gray[hit] = np.rint(255 - (255 - _FARTHEST) * away / (away.max() or 1))
    return np.repeat(gray[..., None], 3, axis=2)


def _show_position(position: Float[ndarray, "height width 3"]) -> Pixels:
    shown = np.zeros(position.shape, np.uint8)
    if (hit := (position != 0).any(axis=-1)).any():
        away = position[hit] - position[hit].min(axis=0)
        span = away.max(axis=0)
        shown[hit] = np.rint(255 * away / np.where(span > 0, span, 1))
    return shown


def _show_indices(indices: UInt8[ndarray, "height width"]) -> Pixels:
    return np.where(
        indices[..., None] > 0, PALETTE[(indices.astype(np.int64) - 1) % len(PALETTE)], np.uint8(0)
    )


def _resize(pixels: Pixels) -> UInt8[ndarray, "rows columns 3"]:
    side = max(pixels.shape[:2])
    step = -(-side // LARGEST)
    factor = -(-SMALLEST // side)
    return pixels[::step, ::step].repeat(factor, axis=0).repeat(factor, axis=1)


def _beside(tiles: Sequence[Pixels]) -> UInt8[ndarray, "height columns 3"]:
    """Put tiles of one height next to each other, a gap between them."""
    gap = np.full((len(tiles[0]), GAP, 3), BACKGROUND, np.uint8)
    parts = [part for tile in tiles for part in (gap, tile)]
    return np.concatenate(parts[1:], axis=1)


def _text(words: Sequence[str], width: int) -> Pixels:
    """Draw words apart from each other in as many lines as they need; what is too long is cut off."""
    font = ImageFont.load_default(_FONT_SIZE)
    lines = [""]
    for word in (" ".join(word.split()) for word in words):
        longer = f"{lines[-1]}  ·  {word}" if lines[-1] else word
        if font.getlength(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    image = Image.new("RGB", (width, _LINE * len(lines) + 6), (BACKGROUND,) * 3)
    ImageDraw.Draw(image).multiline_text((1, 4), "\n".join(lines), (INK,) * 3, font, spacing=2)
    return np.asarray(image)
