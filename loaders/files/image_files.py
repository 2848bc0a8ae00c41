"""Open image files safely: known formats, bounded size, verified checksums."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image, UnidentifiedImageError

# 8192 x 8192: more than any frame, and less than Pillow's limit for a decompression bomb.
MAX_PIXELS = 2**26
# No other formats: some decoders of Pillow start other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


@contextmanager
def open_image(data: bytes, formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    """Open an image; its pixels are not decoded yet.

    Args:
        data: the bytes of the file.
        formats: accepted formats, by Pillow's names.

    Raises:
        ValueError: the image has another format, or claims more than `MAX_PIXELS`. Pillow's errors on damaged
            bytes, here or while pixels are decoded, are passed on: wrap the call in `loaders.errors.blaming`.

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
                image.verify()  # decoding alone does not compare the checksums of a PNG
        except UnidentifiedImageError:  # its own message names an address in memory
            raise ValueError(f"it is none of {', '.join(formats)}") from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise ValueError(f"it claims more than {MAX_PIXELS} pixels") from None
    with Image.open(io.BytesIO(data), formats=formats) as image:
        yield image
