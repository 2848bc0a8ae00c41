"""Open MIT-Adobe FiveK (Bychkovsky, Paris, Chan and Durand, CVPR 2011) as photographs for negatives."""

from pathlib import Path
from typing import Literal

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.image_frames import ImageFolder, ImageFrames
from candlelight.loaders.public.public_files import PublicSource

SOURCE = PublicSource("https://data.csail.mit.edu/graphics/fivek")
Expert = Literal["a", "b", "c", "d", "e"]


def open_fivek(
    root: Path | str, size: tuple[int, int], expert: Expert = "c", limit: int | None = None, seed: int = 0
) -> ImageFrames:
    """Open the photographs as developed by one of the five experts.

    The files are 16-bit TIFF in ProPhoto RGB; their embedded profile converts them to 8-bit sRGB
    (`candlelight.loaders.files.decode_image`). Any other folder of pictures opens with
    `candlelight.loaders.open_image_frames`.

    Args:
        root: the data set's folder; ``tiff16_<expert>`` lies in it, in its ``img`` or in its ``processed``.
        size: height and width of the result in pixels.
        expert: the expert.
        limit: largest number of photographs, chosen by a hash of ``seed`` and name; None for all.
        seed: seed of the choice.

    Returns:
        The photographs, readable like frames, for use as negatives.

    Raises:
        InputError: the folder is missing, or holds only raw photographs, which are not read.

    Example:
        >>> open_fivek("nowhere", (64, 64))  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/tiff16_c is missing; get it
            from https://data.csail.mit.edu/graphics/fivek
    """
    base = Path(root)
    check_choice("expert", expert, Expert)
    folders = [base / place / f"tiff16_{expert}" for place in ("", "img", "processed")]
    if not any(folder.is_dir() for folder in folders) and any(base.glob("raw_photos/*/photos/*.dng")):
        raise InputError(
            f"{base}: has only raw photographs (.dng), which are not read; get tiff16_{expert} from {SOURCE}"
        )
    return ImageFrames(ImageFolder(SOURCE.find(*folders)), size, limit, seed)
