"""Unpack deflate, the compression of PNG, zip and HDF5's gzip, without taking more memory than is due."""

import zlib

from isal import isal_zlib  # half the time of zlib for the same bytes

from loaders.errors import InputError

# The checksum of zip and PNG, as `zlib.crc32`.
crc32 = isal_zlib.crc32
RAW = -15
ZLIB = 15


def inflate(packed: bytes, most: int, wrapper: int = ZLIB) -> bytes:
    """Unpack data whose size should be known.

    Args:
        packed: the compressed bytes.
        most: how many bytes they may unpack to.
        wrapper: `ZLIB` (as in HDF5, with a checksum, which is compared) or `RAW` (as in zip, without).

    Returns:
        The bytes: one more than `most` where there would be more, whatever that would have come to.

    Raises:
        InputError: the compressed bytes end early.
        zlib.error: they are damaged.

    Example:
        >>> import zlib
        >>> inflate(zlib.compress(b"albedo"), 6), inflate(zlib.compress(b"albedo"), 2)
        (b'albedo', b'alb')
    """
    unpacker = isal_zlib.decompressobj(wrapper)
    try:
        data = unpacker.decompress(packed, most + 1)
    except isal_zlib.error as error:  # type: ignore[misc]  # a class of its own, which its stub does not say
        raise zlib.error(str(error)) from None
    if len(data) <= most and not unpacker.eof:  # a checksum comes last
        raise InputError("its compressed bytes end early")
    return data
