"""Unpack deflate, the compression of PNG, zip and HDF5's gzip, without taking more memory than is due."""

import zlib
from contextlib import suppress
from typing import Any

from loaders.errors import InputError

_zlib: Any = zlib
FAST = False
with suppress(ImportError):  # the extra `fast`: half the time of zlib for the same bytes
    from isal import isal_zlib as _zlib

    FAST = True

# The checksum of zip and PNG, as `zlib.crc32`.
crc32 = _zlib.crc32
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
    unpacker: Any = _zlib.decompressobj(wrapper)
    try:
        data: bytes = unpacker.decompress(packed, most + 1)
    except _zlib.error as error:  # which of ISA-L is a class of its own
        raise zlib.error(str(error)) from None
    if len(data) <= most and not unpacker.eof:  # a checksum comes last
        raise InputError("its compressed bytes end early")
    return data
