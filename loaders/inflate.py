"""Unpack deflate, the compression of PNG, zip and HDF5's gzip, without taking more memory than is due."""

from typing import Any

try:  # the extra `fast`: half the time of zlib for the same bytes
    from isal import isal_zlib as _zlib

    FAST = True
except ImportError:
    import zlib as _zlib  # type: ignore[no-redef]

    FAST = False

from loaders.errors import InputError

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
        InputError: the compressed bytes end early. What the library raises on damaged ones is passed on.

    Example:
        >>> import zlib
        >>> inflate(zlib.compress(b"albedo"), 6), inflate(zlib.compress(b"albedo"), 2)
        (b'albedo', b'alb')
    """
    unpacker: Any = _zlib.decompressobj(wrapper)
    data: bytes = unpacker.decompress(packed, most + 1)
    if len(data) <= most and not unpacker.eof:  # a checksum comes last
        raise InputError("its compressed bytes end early")
    return data
