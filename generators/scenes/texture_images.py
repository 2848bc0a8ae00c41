"""Read image files as textures of linear colour; a broken file is refused in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import blaming
from candlelight.loaders.files.safe_decoding import open_image

LONGEST_TEXTURE_SIDE = 2048  # pixels; a larger image fills memory and shows no more detail


@cache
def check_texture_image(path: Path) -> None:
    """Check that an image can be read, at a small part of the cost of reading it.

    Raises:
        InputError: it is damaged, neither JPEG nor PNG, or claims more pixels than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    with _opened(path) as image:
        image.draft("RGB", (16, 16))  # a JPEG is decoded at an eighth of its size
        image.load()


def read_texture(path: Path) -> Float32[ndarray, "side side 3"]:
    """Read the central square of an image as linear colour.

    The file is taken to be sRGB, whatever profile it carries. A side above `LONGEST_TEXTURE_SIDE` is
    divided by the smallest whole number that brings it below; each pixel is the mean of a square of encoded
    values. Transparency and the orientation in EXIF data are ignored.

    Args:
        path: a JPEG or PNG file.

    Returns:
        Scene-linear Rec.709 values in [0, 1], first row on top.

    Raises:
        InputError: it is damaged, neither JPEG nor PNG, or claims more pixels than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    with _opened(path) as image:
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        square = image.convert("RGB").crop((left, top, left + side, top + side))
        encoded = np.asarray(square.reduce(-(-side // LONGEST_TEXTURE_SIDE)), np.float32) / np.float32(255)
    return srgb_to_linear(encoded)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open an image file; refuse a broken one in one line."""
    with (
        blaming(f"texture {path}: cannot be read", "replace or remove it"),
        open_image(path.read_bytes(), ("JPEG", "PNG")) as image,
    ):
        yield image
