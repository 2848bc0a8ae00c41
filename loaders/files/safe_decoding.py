"""Decode images and compressed bytes safely: known formats, a limit on memory, verified checksums."""

import io
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from isal import isal_zlib  # takes half the time of zlib for the same bytes
from PIL import Image, UnidentifiedImageError

from candlelight.loaders.errors import InputError

# 8192 x 8192: more than any frame, and less than Pillow's limit for a decompression bomb.
MAX_PIXELS = 2**26
# No other formats: some decoders of Pillow start other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
# The checksum of zip and PNG: a faster `zlib.crc32`.
crc32 = isal_zlib.crc32
RAW, ZLIB = -15, 15  # wrappers of deflate data


@contextmanager
def open_image(data: bytes, formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    """Open an image; its pixels are not decoded yet.

    Args:
        data: the bytes of the file.
        formats: accepted formats, by Pillow's names.

    Raises:
        ValueError: the image has another format, or claims more than `MAX_PIXELS`. Pillow's errors on damaged
            bytes, here or while pixels are decoded, are passed on: wrap the call in
            `candlelight.loaders.errors.blaming`.

    Example:
        >>> from candlelight.loaders.files.layer_codecs import encode_png
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


def inflate(packed: bytes, most: int, wrapper: int = ZLIB) -> bytes:
    """Decompress deflate data of a known size.

    Args:
        packed: the compressed bytes.
        most: expected size of the decompressed bytes.
        wrapper: `ZLIB` (as in HDF5, with a checksum, which is verified) or `RAW` (as in zip, without).

    Returns:
        The decompressed bytes, cut off after `most` + 1 bytes.

    Raises:
        InputError: the compressed bytes end early.
        zlib.error: the compressed bytes are damaged.

    Example:
        >>> import zlib
        >>> inflate(zlib.compress(b"albedo"), 6), inflate(zlib.compress(b"albedo"), 2)
        (b'albedo', b'alb')
    """
    unpacker = isal_zlib.decompressobj(wrapper)
    try:
        data = unpacker.decompress(packed, most + 1)
    except isal_zlib.error as error:  # type: ignore[misc]  # isal's stub does not declare this class
        raise zlib.error(str(error)) from None
    if len(data) <= most and not unpacker.eof:  # the checksum may be missing
        raise InputError("its compressed bytes end early")
    return data
