"""Encode layers as PNG and npz, and decode them safely.

The bytes depend only on the arrays. A damaged or hostile file is refused before memory is allocated for its
claimed content.
"""

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import UInt8, UInt16
from numpy import ndarray

from candlelight.loaders.errors import DAMAGED, InputError, blame
from candlelight.loaders.files.safe_decoding import MAX_PIXELS, RAW, crc32, inflate, open_image
from candlelight.loaders.schema import layer, schema_order

REPAIR = "mend it: candlelight render --repair --out FRAMES"  # next step for a damaged file of a frame
_PNG_HEAD = struct.Struct(">8s4x4sIIBB")
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # of PNG, by channels: gray, RGB, RGBA
_ABOVE = 2  # PNG filter type
_npy: Any = np.lib.format  # numpy 1.26 has no types for it
# Head of a zip entry: magic number, and the lengths of the name and the extra field before the data.
_ZIP_HEAD = struct.Struct("<4s22xHH")
_ENCRYPTED = 1
# Largest npy header of an array with up to three axes, in bytes: numpy pads headers to multiples of 64.
_NPY_HEAD = 128
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def encode_png(array: UInt8[ndarray, "height width ..."] | UInt16[ndarray, "height width ..."]) -> bytes:
    r"""Encode RGB, RGBA or single-channel pixels of 8 or 16 bits as PNG; no colour space is written.

    Every row is stored as its difference from the row above. For renders of 320 x 240 pixels, files are 5 %
    larger than with a filter chosen for each row, but writing and decoding take two thirds of the time.

    Args:
        array: uint8 or uint16 pixels, (H W 3), (H W 4) or (H W).

    Returns:
        The file's bytes, with compression level 3: higher levels take longer and save little.

    Example:
        >>> encode_png(np.zeros((2, 3), np.uint8))[12:26]  # 3 x 2 pixels of 8 bits, colour type 0
        b'IHDR\x00\x00\x00\x03\x00\x00\x00\x02\x08\x00'
    """
    height, width, channels = (*array.shape, 1)[:3]
    rows = np.ascontiguousarray(array, array.dtype.newbyteorder(">")).view(np.uint8).reshape(height, -1)
    filtered = np.empty((height, 1 + rows.shape[1]), np.uint8)
    filtered[:, 0] = _ABOVE
    filtered[:, 1:] = np.diff(rows, axis=0, prepend=np.uint8(0))  # modulo 256
    depth, colour = 8 * array.itemsize, _COLOUR_TYPES[channels]
    return png_file(width, height, depth, colour, zlib.compress(filtered.tobytes(), 3))


def png_file(width: int, height: int, depth: int, colour: int, data: bytes) -> bytes:
    """Build a PNG file from its header fields and its compressed pixels.

    Args:
        width: columns.
        height: rows.
        depth: bits per channel.
        colour: PNG's number of the colour type.
        data: filtered rows, compressed.
    """
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part))
        for name, part in ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
    )


def png_size(path: Path) -> tuple[int, int]:
    """Read height and width of an 8-bit RGB PNG from its first 26 bytes.

    Raises:
        InputError: the file is missing, is not an 8-bit RGB PNG, or claims more than `MAX_PIXELS`.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_PNG_HEAD.size)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(head) < _PNG_HEAD.size:
        raise InputError(f"{path} is damaged: expected a PNG, got {len(head)} bytes; {REPAIR}")
    magic, chunk, width, height, depth, colour = _PNG_HEAD.unpack(head)
    if magic != b"\x89PNG\r\n\x1a\n" or chunk != b"IHDR":
        raise InputError(f"{path} is damaged: it does not start like a PNG; {REPAIR}")
    if (depth, colour) != (8, 2):
        raise InputError(f"{path}: expected a PNG of 8-bit RGB, got {depth} bits of PNG colour type {colour}")
    if not 0 < height * width <= MAX_PIXELS:
        raise InputError(f"{path}: expected at most {MAX_PIXELS} pixels, got {height} x {width}")
    return height, width


def decode_png(path: Path) -> UInt8[ndarray, "height width 3"]:
    """Decode an 8-bit RGB PNG whose header `png_size` accepts.

    Raises:
        InputError: the file is missing, truncated or damaged.
    """
    height, width = png_size(path)
    try:
        return decode_png_bytes(path.read_bytes(), (height, width, 3))
    except DAMAGED as error:
        raise _unreadable(path, error) from None


def decode_png_bytes(data: bytes, shape: tuple[int, ...]) -> UInt8[ndarray, "height width ..."]:
    """Decode an 8-bit PNG of a known shape.

    Args:
        data: the bytes of the PNG.
        shape: (H W 3) for RGB or (H W) for gray.

    Raises:
        InputError: the PNG has another shape. Pillow's errors on damaged bytes are passed on.

    Example:
        >>> decode_png_bytes(encode_png(np.eye(2, dtype=np.uint8)), (2, 2))
        array([[1, 0],
               [0, 1]], dtype=uint8)
    """
    mode = "RGB" if len(shape) == 3 else "L"
    with open_image(data, ("PNG",)) as image:
        if (image.mode, image.height, image.width) != (mode, *shape[:2]):
            raise InputError(
                f"expected a PNG of {shape[0]} x {shape[1]} pixels, {mode}, got {image.height} x "
                f"{image.width}, {image.mode}"
            )
        return np.array(image)


def encode_npy(array: ndarray) -> bytes:
    """Encode an array as an npy file, format 1.0, little-endian, in C order.

    Example:
        >>> np.load(io.BytesIO(encode_npy(np.eye(2, dtype=np.float16))))
        array([[1., 0.],
               [0., 1.]], dtype=float16)
    """
    buffer = io.BytesIO()
    ordered = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    _npy.write_array(buffer, ordered, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def encode_npz(layers: Mapping[str, ndarray]) -> bytes:
    """Encode layers as a zip of npy files that `numpy.load` reads.

    Args:
        layers: arrays by layer name.

    Returns:
        The file's bytes; entries in schema order, deflate level 4, no time stamps.

    Example:
        >>> data = encode_npz({"depth": np.zeros((2, 3), np.float32)})
        >>> np.load(io.BytesIO(data))["depth"].shape
        (2, 3)
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for name in schema_order(layers):
            entry = zipfile.ZipInfo(f"{name}.npy", _FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # the same byte on all systems
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, encode_npy(layers[name]), compresslevel=4)
    return buffer.getvalue()


def decode_npz(path: Path, names: Collection[str], height: int, width: int) -> dict[str, ndarray]:
    """Decode some layers of an npz file; each is checked against the schema before memory is allocated.

    Args:
        path: the file.
        names: layers to read; the others are not decompressed.
        height: rows of the frame.
        width: columns of the frame.

    Raises:
        InputError: the file is missing or damaged, or a layer is missing or does not fit the schema.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            return {
                name: _read_layer(file, entries.get(f"{name}.npy"), name, (height, width))
                for name in schema_order(names)
            }
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except DAMAGED as error:
        raise _unreadable(path, error) from None


def _read_layer(file: BinaryIO, entry: zipfile.ZipInfo | None, name: str, size: tuple[int, int]) -> ndarray:
    if entry is None:
        raise InputError(f"layer `{name}` is missing; delete its folder and render again")
    spec = layer(name)
    shape, dtype = spec.shape(*size), np.dtype(spec.dtype)
    size_due = dtype.itemsize * math.prod(shape)
    data = _entry_bytes(file, entry, _NPY_HEAD + size_due)
    start = len(_npy_header(shape, dtype))
    if data[:start] != _npy_header(shape, dtype):
        start = _check_header(data[:_NPY_HEAD], name, shape, dtype)
    if not len(data) == entry.file_size == start + size_due:
        raise InputError(
            f"layer `{name}` holds too few or too many bytes; delete its folder and render again"
        )
    if crc32(data) != entry.CRC:
        raise zipfile.BadZipFile(f"layer `{name}` differs from its checksum")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()


@cache
def _npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    head = io.BytesIO()
    layout = {"descr": dtype.newbyteorder("<").str, "fortran_order": False, "shape": shape}
    _npy.write_array_header_1_0(head, layout)
    return head.getvalue()


def _check_header(data: bytes, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Check the header of a file that another numpy wrote, or that is damaged; return the header's length.

    All other headers are compared as bytes: numpy parses headers with Python's parser, and Python 3.11
    sometimes raises SystemError when two threads parse at once (python/cpython#106905).
    """
    head = io.BytesIO(data)
    if _npy.read_magic(head) != (1, 0):
        raise InputError(f"layer `{name}`: expected npy format 1.0; delete its folder and render again")
    found = _npy.read_array_header_1_0(head)
    if found != (shape, False, dtype):
        raise InputError(f"layer `{name}`: expected {dtype} {list(shape)}, got {found[2]} {list(found[0])}")
    return head.tell()


def _entry_bytes(file: BinaryIO, entry: zipfile.ZipInfo, most: int) -> bytes:
    """Decompress an entry of a zip at once: zipfile does it in small pieces and takes 1.5 times as long."""
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile(f"{entry.filename} is neither stored nor deflated")
    file.seek(entry_start(file, entry))
    packed = file.read(entry.compress_size)
    if entry.compress_type == zipfile.ZIP_STORED:
        return packed[: most + 1]
    return inflate(packed, most, RAW)


def entry_start(file: BinaryIO, entry: zipfile.ZipInfo) -> int:
    """Return the position of the first data byte of a zip entry, after the entry's own header.

    Raises:
        BadZipFile: the header is not at the position that the directory names.
    """
    file.seek(entry.header_offset)
    magic, name_length, extra_length = _ZIP_HEAD.unpack(file.read(_ZIP_HEAD.size))
    if magic != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"{entry.filename} is not at the position that the directory names")
    return entry.header_offset + _ZIP_HEAD.size + int(name_length) + int(extra_length)


def _unreadable(path: Path, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path} is missing; {REPAIR}")
    return blame(f"{path} cannot be read", error, REPAIR)
