"""Read one layer of one image, such as its reflectance, from an npy, npz, EXR or PNG file."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.inputs.array_files import describe_array, read_npy, read_npz, read_png
from candlelight.evaluation.inputs.match_ids import first_three
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.exr import read_exr

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
        return read_exr(path, "the program that wrote it")
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
