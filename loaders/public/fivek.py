"""MIT-Adobe FiveK (Bychkovsky, Paris, Chan and Durand, CVPR 2011) as pictures without objects of interest."""

from pathlib import Path
from typing import Literal

from loaders.errors import InputError
from loaders.image_frames import ImageFolder, ImageFrames
from loaders.public.missing_files import require

SOURCE = "https://data.csail.mit.edu/graphics/fivek"
Expert = Literal["a", "b", "c", "d", "e"]


def open_fivek(
    root: Path | str, size: tuple[int, int], expert: Expert = "c", limit: int | None = None, seed: int = 0
) -> ImageFrames:
    """Open the photographs as one of the five experts developed them.

    The files are 16-bit TIFF in ProPhoto RGB; they come out as sRGB of 8 bits by the profile that they carry
    (`loaders.files.image_codec`). Any other folder of pictures opens with `loaders.open_pictures`.

    Args:
        root: the data set's folder, with ``tiff16_<expert>`` in it, in ``img`` or in ``processed``.
        size: height and width that pictures are brought to, pixels.
        expert: whose version.
        limit: at most so many, chosen by a hash of ``seed`` and name; all if None.
        seed: of the choice.

    Returns:
        The pictures, which read like frames and serve as negatives.

    Raises:
        InputError: the folder is missing, or holds raw photographs alone, which are not read.

    Example:
        >>> open_fivek("nowhere", (64, 64))  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        loaders.errors.InputError: nowhere/tiff16_c is missing; get it
            from https://data.csail.mit.edu/graphics/fivek
    """
    base = Path(root)
    if expert not in ("a", "b", "c", "d", "e"):
        raise InputError(f"`expert`: expected a, b, c, d or e, got {expert!r}")
    folders = [base / place / f"tiff16_{expert}" for place in ("", "img", "processed")]
    found = next((folder for folder in folders if folder.is_dir()), None)
    if found is None and any(base.glob("raw_photos/*/photos/*.dng")):
        raise InputError(
            f"{base}: has raw photographs (.dng) alone, which are not read; get tiff16_{expert} from {SOURCE}"
        )
    return ImageFrames(ImageFolder(found or require(folders[0], SOURCE)), size, limit, seed)
