"""Draw a contact sheet of an image set to a PNG file."""

from collections.abc import Collection
from pathlib import Path

from candlelight.loaders.errors import InputError
from candlelight.loaders.looking.sheet import contact_sheet, tile_scale, write_png
from candlelight.loaders.looking.sheet_rows import choose_sheet_rows
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.samples import Frames

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
