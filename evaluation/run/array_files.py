"""Arrays and image layers in the files of other programs, and their ids."""

import math
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float32
from numpy import ndarray
from torch import Tensor

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError, argument, blaming
from candlelight.loaders.files.png16 import decode_png16, is_png16
from candlelight.loaders.files.safe_decoding import open_image
from candlelight.loaders.public.exr import read_exr
from candlelight.loaders.public.public_files import PublicSource

MissingResults = Literal["error", "fail"]


def match_ids(
    result_ids: Collection[str],
    scored_ids: Sequence[str],
    known_ids: Collection[str],
    missing: MissingResults | None = "error",
    source: str = "results",
) -> set[str]:
    """Match the ids of results with the ids of the data.

    Args:
        result_ids: ids of the results.
        scored_ids: ids of the images that will be scored.
        known_ids: ids of all images of the data, scored or not.
        missing: "fail" counts a missing result as a failed prediction; "error" refuses it. None refuses it
            too, for metrics without failed predictions; the message then does not offer "fail".
        source: origin of the results for messages.

    Returns:
        The scored ids without a result.

    Raises:
        InputError: a result belongs to no known image, or a result is missing and that is an error.

    Example:
        >>> sorted(match_ids(["a"], ["a", "b"], ["a", "b", "c"], "fail"))
        ['b']
        >>> match_ids(["a"], ["a", "b"], ["a", "b", "c"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: results: expected a result for each of 2 images, 1 is \
missing: `b`; add it, or count it as failed (`missing` fail)
    """
    if missing is not None:
        check_choice("missing", missing, MissingResults)
    there, all_known = set(result_ids), set(known_ids)
    unknown = [name for name in result_ids if name not in all_known]
    if unknown:
        example = f"; ids of the data look like `{scored_ids[0]}`" if len(scored_ids) else ""
        raise InputError(
            f"{source}: {len(unknown)} of {len(there)} results belong to no image of the data: "
            f"{first_three(unknown)}{example}"
        )
    lacking = [name for name in scored_ids if name not in there]
    if lacking and missing != "fail":
        are, them = ("is", "it") if len(lacking) == 1 else ("are", "them")
        raise InputError(
            f"{source}: expected a result for each of {len(scored_ids)} images, {len(lacking)} {are} "
            f"missing: {first_three(lacking)}; add {them}"
            + (f", or count {them} as failed ({argument('missing')} fail)" if missing == "error" else "")
        )
    return set(lacking)


def first_three(names: Sequence[str]) -> str:
    """List the first three names, and the number of the others.

    Example:
        >>> first_three(["a", "b", "c", "d"])
        '`a`, `b`, `c` and 1 more'
    """
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more


MAX_BYTES = 2**32  # largest size of one array
_CURE = "write it again"
_npy: Any = np.lib.format  # numpy 1.26 has no type annotations for this module
_HEADERS = {(1, 0): _npy.read_array_header_1_0, (2, 0): _npy.read_array_header_2_0}


def read_npy(path: Path) -> ndarray:
    """Read an npy file, in C or Fortran order.

    Args:
        path: the file.

    Raises:
        InputError: the file is damaged or pickled, or holds more than `MAX_BYTES`.
    """
    with blaming(f"{path}: cannot be read", _CURE):
        mapped = _npy.open_memmap(path, "r")  # raises an error for pickled arrays
        _check_bytes(mapped.nbytes)
        return np.array(mapped)


def read_npz(path: Path, *names: str) -> list[ndarray]:
    """Read arrays of an npz file by name.

    Args:
        path: the file.
        names: names of the arrays.

    Raises:
        InputError: an array is missing, or see `read_npy`.
    """
    with blaming(f"{path}: cannot be read", _CURE), zipfile.ZipFile(path) as archive:
        known = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for name in names:
            if name not in known:
                raise InputError(f"expected an array `{name}`, got {', '.join(known) or 'none'}")
        return [_read_member(archive, known[name]) for name in names]


def npz_names(path: Path) -> list[str]:
    """List the names of the arrays in an npz file.

    Args:
        path: the file.

    Raises:
        InputError: the file is damaged.
    """
    with blaming(f"{path}: cannot be read", _CURE), zipfile.ZipFile(path) as archive:
        return [info.filename.removesuffix(".npy") for info in archive.infolist()]


def read_png(path: Path) -> ndarray:
    """Read a gray, RGB or opaque RGBA PNG of 8 or 16 bits as float32 in [0, 1]: (H W) or (H W 3).

    Args:
        path: the file.

    Raises:
        InputError: the file is damaged, or holds another kind of image.
    """
    with blaming(f"{path}: cannot be read as PNG", _CURE):
        data = path.read_bytes()
        if is_png16(data):
            return decode_png16(data).astype(np.float32) / np.float32(65535)
        with open_image(data, ("PNG",)) as image:
            pixels = np.asarray(image).astype(np.float32) / np.float32(255)
            if image.mode == "RGBA" and (pixels[..., 3] == 1).all():  # many programs write an opaque channel
                return pixels[..., :3]
            if image.mode not in ("L", "RGB"):
                raise ValueError(f"expected gray, RGB or opaque RGBA, got {image.mode}")
            return pixels


def read_parquet(path: Path) -> tuple[list[str], ndarray]:
    """Read a column ``id``, and numeric columns or one column ``codes`` of lists of equal length.

    Args:
        path: the file.

    Returns:
        The ids, and the numbers in float64, one row for each id; nan for an empty cell.

    Raises:
        InputError: the file is damaged, lacks the column ``id``, or has columns of other kinds.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    reading = blaming(f"{path}: cannot be read as Parquet", _CURE)
    with reading, path.open("rb") as opened, pq.ParquetFile(opened) as file:
        _check_bytes(sum(file.metadata.row_group(one).total_byte_size for one in range(file.num_row_groups)))
        table = file.read()
        names = [name for name in table.column_names if name != "id"]
        if "id" not in table.column_names or not names:
            raise InputError(f"expected a column `id` and columns of numbers, got {table.column_names}")
        ids = [str(value) for value in table["id"].to_pylist()]
        if names == ["codes"] and not _is_number(pa, table["codes"].type):
            return ids, _lists(table["codes"].combine_chunks(), len(ids))
        for name in names:
            if not _is_number(pa, table[name].type) or name.startswith("__index_level_"):
                raise InputError(f"expected `id` and columns of numbers, got `{name}`; remove that column")
        return ids, np.stack([table[name].to_numpy().astype(np.float64) for name in names], axis=1)


def describe_array(array: ndarray) -> str:
    """Describe the dtype and shape of an array for a message.

    Example:
        >>> describe_array(np.zeros((2, 3)))
        'float64 [2, 3]'
    """
    return f"{array.dtype} {list(array.shape)}"


def _lists(column: Any, count: int) -> ndarray:
    import pyarrow.compute

    # Raises an error unless the column holds lists.
    lengths = set(pyarrow.compute.list_value_length(column).to_pylist())
    if not _is_number(pyarrow, column.type.value_type):
        raise InputError(f"expected `codes` as lists of numbers, got {column.type}")
    if len(lengths) != 1 or None in lengths:
        raise InputError(f"expected `codes` of one length, got {', '.join(sorted(map(str, lengths))[:3])}")
    return column.flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(count, lengths.pop())


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ndarray:
    with archive.open(info) as member:
        form = _npy.read_magic(member)
        if form not in _HEADERS:
            raise ValueError(f"expected npy format 1.0 or 2.0, got {form}")
        shape, _, dtype = _HEADERS[form](member)
        if dtype.hasobject:
            raise ValueError(f"`{info.filename}` is pickled, which is refused; write texts as a text array")
        _check_bytes(info.file_size)
        if member.tell() + dtype.itemsize * math.prod(shape) != info.file_size:
            raise ValueError(f"the header of `{info.filename}` does not fit its size")
    with archive.open(info) as member:
        return _npy.read_array(member, allow_pickle=False)


def _check_bytes(count: int) -> None:
    if count > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes, got {count}")


Curve = Literal["srgb", "linear"]


def list_files(folder: Path, suffixes: Collection[str]) -> dict[str, Path]:
    """List the files below a folder by their names without suffix; hidden files are skipped.

    Args:
        folder: the folder.
        suffixes: suffixes to list, in lower case.

    Raises:
        InputError: there is no such file, or two files have the same name without suffix.
    """
    files: dict[str, Path] = {}
    other = set()
    for path in sorted(folder.rglob("*")):
        if path.name.startswith(".") or not path.is_file():
            continue
        if path.suffix.lower() not in suffixes:
            other.add(path.suffix.lower())
            continue
        name = path.relative_to(folder).with_suffix("").as_posix()
        if name in files:
            raise InputError(f"{path}: expected one file for `{name}`, there is {files[name].name} too")
        files[name] = path
    if not files:
        got = f"got files of {first_three(sorted(other))}" if other else "got none"
        raise InputError(f"{folder}: expected files named <id> with {', '.join(suffixes)}; {got}")
    return files


def read_layer(path: Path, name: str, png: Curve | None) -> Float32[ndarray, "*shape"]:
    """Read one layer.

    Args:
        path: the file; its suffix decides how it is read.
        name: name of the array in an npz file.
        png: transfer curve of the pixels of a PNG file.

    Returns:
        The stored values, float32; values of a PNG file are converted to scene-linear in [0, 1].

    Raises:
        InputError: the file is damaged, or does not hold floating-point numbers.
    """
    kind = path.suffix.lower()
    if kind == ".exr":
        return read_exr(path, PublicSource("the program that wrote it"), lone=True)
    if kind == ".png":
        return srgb_to_linear(read_png(path)) if png == "srgb" else read_png(path)
    array = read_npy(path) if kind == ".npy" else read_npz(path, name)[0]
    if array.dtype.kind != "f":
        raise InputError(f"{path}: expected `{name}` as floating-point numbers, got {describe_array(array)}")
    with np.errstate(over="ignore"):  # float64 values beyond float32 become inf: the prediction has failed
        return np.ascontiguousarray(array, np.float32)


def channels_first(
    layer: Float32[ndarray, "*shape"], channels: Collection[int], where: str
) -> Float32[Tensor, "channels height width"]:
    """Move the channel axis to the front.

    Args:
        layer: [channels, height, width] or [height, width, channels]; or [height, width] if 1 is in
            ``channels``.
        channels: allowed numbers of channels.
        where: description of the layer for messages.

    Raises:
        InputError: neither the first nor the last axis has an allowed length, or both have.

    Example:
        >>> channels_first(np.zeros((4, 5, 3), np.float32), (3,), "a").shape
        torch.Size([3, 4, 5])
        >>> channels_first(np.zeros((3, 5, 3), np.float32), (3,), "a")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: a: expected 3 channels first or last, got both in \
[3, 5, 3]; crop or pad the image
    """
    if layer.ndim == 2 and 1 in channels:
        return torch.from_numpy(layer[None])
    expected = f"{where}: expected {' or '.join(map(str, channels))} channels first or last, got"
    ends = [axis for axis in (0, 2) if layer.ndim == 3 and layer.shape[axis] in channels]
    if len(ends) == 2:
        raise InputError(f"{expected} both in {list(layer.shape)}; crop or pad the image")
    if not ends:
        raise InputError(f"{expected} {list(layer.shape)}")
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(layer, ends[0], 0)))
