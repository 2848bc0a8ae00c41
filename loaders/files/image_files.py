"""The one door for image files: they are of known kinds and bounded size, and their checksums are right."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image, UnidentifiedImageError

# 8192 x 8192: more than any frame, and less than what makes Pillow warn of a decompression bomb.
MAX_PIXELS = 2**26
# No other kinds are tried: Pillow's list has some that start other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


@contextmanager
def open_image(data: bytes, formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    """Open an image; its pixels are not decoded yet.

    Args:
        data: the bytes of the file.
        formats: the kinds that are taken, as Pillow names them.

    Raises:
        ValueError: it is of no such kind, or claims more than `MAX_PIXELS`. What Pillow raises on damaged
            bytes, here or while pixels are decoded, is passed on: `loaders.errors.blaming` makes it a line.

    Example:
        >>> from loaders.files.layer_codecs import encode_png
        >>> import numpy as np
        >>> with open_image(encode_png(np.zeros((2, 3), np.uint8))) as image:
        ...     image.size
        (3, 2)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(data), formats=formats) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise ValueError(f"{image.width} x {image.height} pixels are more than {MAX_PIXELS}")
                image.verify()  # decoding alone does not compare a PNG's checksums: a flipped bit would pass
        except UnidentifiedImageError:  # whose own message names an address in memory
            raise ValueError(f"it is none of {', '.join(formats)}") from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise ValueError(f"it claims more than {MAX_PIXELS} pixels") from None
    with Image.open(io.BytesIO(data), formats=formats) as image:
        yield image
