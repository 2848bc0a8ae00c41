"""Decompress deflate data (PNG, zip, HDF5's gzip) with a limit on memory."""

import zlib

from isal import isal_zlib  # takes half the time of zlib for the same bytes

from loaders.errors import InputError

# The checksum of zip and PNG: a faster `zlib.crc32`.
crc32 = isal_zlib.crc32
RAW = -15
ZLIB = 15


def inflate(packed: bytes, most: int, wrapper: int = ZLIB) -> bytes:
    """Decompress data of a known size.

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
