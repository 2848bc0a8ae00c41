"""A contact sheet of an image set, whichever way it is stored, as a PNG."""

from collections.abc import Collection
from pathlib import Path

from loaders.errors import InputError
from loaders.looking.sheet import choose_sheet_rows, contact_sheet, tile_scale, write_png
from loaders.open_frames import open_frames
from loaders.samples import Frames

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
    """Draw samples of an image set under one another and their layers beside each other.

    Args:
        path: what `loaders.open_frames` opens.
        out: the PNG to write; one that is there is replaced.
        set_name: name of the image set; may be left out where there is only one.
        split: name of the split; None for the only one, or `train` of several.
        layers: layers to show, left to right; None for those of image, albedo, shading and depth that there
            are.
        by: a factor, for each value of which samples are shown that differ in little else; None for samples
            that differ as much as possible.
        rows: how many samples, with ``by`` for each value; None for 6, with ``by`` for 1.
        seed: decides between samples that would do equally well.

    Returns:
        ``out``.

    Raises:
        InputError: there is nothing of the kind at ``path``, no such set, split, layer or factor, or more to
            show than there is room for, or the file cannot be written.

    Example:
        >>> draw_sheet(Path("frames"), Path("sheet.png"), by="color")  # doctest: +SKIP
        PosixPath('sheet.png')
    """
    out = Path(out)
    if out.suffix.lower() != ".png":
        raise InputError(f"{out}: a sheet is a PNG; name a file that ends in .png")
    frames = open_frames(path, set_name, split)
    # Opened again, so that only what is shown is decoded.
    shown = _shown_layers(frames, layers)
    frames = open_frames(path, frames.set_name, split, shown)
    if not len(frames):
        raise InputError(f"{path}: set `{frames.set_name}` has no sample of this split to show")
    count = rows if rows is not None else _ROWS if by is None else 1
    # So many are shown at least; choosing more than there is room for would take long.
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
