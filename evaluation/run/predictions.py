"""Results of other programs in files: predictions, heatmaps and codes, matched with the data by ids."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64
from torch import Tensor

from candlelight.evaluation.run.array_files import (
    Curve,
    channels_first,
    describe_array,
    list_files,
    npz_names,
    read_layer,
    read_npy,
    read_npz,
    read_parquet,
)
from candlelight.evaluation.run.array_files import MissingResults as MissingResults
from candlelight.evaluation.run.array_files import match_ids as match_ids
from candlelight.evaluation.run.model_outputs import LAYER_CHANNELS, PREDICTED_LAYERS, layer_name
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument, did_you_mean, nearest_file
from candlelight.loaders.verification.checksums import file_sha256

_COLOURS = ("reflectance", "shading", "residual")  # PNG files of other layers have no transfer curve


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted layers in files; `open_predictions` makes them.

    Attributes:
        folder: folder of the files.
        files: by id, the files of its layers by name, or one npz file of all of them under "".
        png: transfer curve of the pixels of PNG files of colours.
        missing: "fail" counts an id as failed that lacks a file of a layer which other ids have.
    """

    folder: Path
    files: Mapping[str, Mapping[str, Path]]
    png: Curve | None
    missing: MissingResults | None = field(default="error", kw_only=True)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Names of the files below the folder, without their suffix."""
        return tuple(self.files)

    @cached_property
    def layers(self) -> frozenset[str]:
        """Layers of which there is a file of their own, of any id."""
        return frozenset(layer for files in self.files.values() for layer in files if layer)

    def fails(self, name: str, layers: Sequence[str]) -> bool:
        """Tell whether an id counts as failed, because a file is missing.

        Args:
            name: id of an image.
            layers: the layers that are read.
        """
        files = self.files.get(name)
        if files is None or "" in files or self.missing != "fail":
            return files is None
        return not self.layers.intersection(layers) <= files.keys()

    def read(
        self, name: str, layers: Sequence[str] = PREDICTED_LAYERS
    ) -> dict[str, Float32[Tensor, "channels height width"]]:
        """Read layers of one image.

        Args:
            name: one of `ids`.
            layers: the layers to read; one that the files lack is left out.

        Returns:
            The layers by name, scene-linear; gray ones have one channel.

        Raises:
            InputError: the id is unknown; a file is damaged, holds no floating-point image, or is missing
                where other ids have one of that layer; or ``png`` is None and a colour is a PNG file.
        """
        files, found = _known(self.files, name, self.folder), {}
        if whole := files.get(""):
            stored = {layer_name(one): one for one in npz_names(whole)}
        for layer in layers:
            path, array = (whole, stored.get(layer)) if whole else (files.get(layer), layer)
            where = f"{self.folder}: `{name}`: {layer}"
            if path is None or array is None:
                if path is None and layer in self.layers:
                    cure = f"add it, or count it as failed ({argument('missing')} fail)"
                    raise InputError(f"{where}: expected a file for each id, there is none; {cure}")
                continue
            picture = path.suffix.lower() == ".png"
            if picture and layer in _COLOURS and self.png is None:
                raise InputError(f"{path}: name the colour space of PNG: {argument('png')} srgb or linear")
            values = read_layer(path, array, self.png if layer in _COLOURS else "linear")
            values = 2 * values - 1 if picture and layer == "normal" else values
            if LAYER_CHANNELS[layer] == (1,) and (picture or path.suffix.lower() == ".exr"):
                values = _one_channel(values)
            found[layer] = channels_first(values, sorted(LAYER_CHANNELS[layer]), where)
        return found


@dataclass(frozen=True, eq=False)
class Heatmaps:
    """Heatmaps in files; `open_heatmaps` makes them.

    Attributes:
        folder: folder of the files.
        files: files by id.
    """

    folder: Path
    files: Mapping[str, Path]

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Names of the files below the folder, without their suffix."""
        return tuple(self.files)

    def read(self, name: str) -> Float32[Tensor, "maps height width"]:
        """Read the heatmaps of one image.

        Args:
            name: one of `ids`.

        Raises:
            InputError: the id is unknown, the file is damaged, or the file holds no floating-point maps.
        """
        path = _known(self.files, name, self.folder)
        maps = read_layer(path, "heatmaps", "linear")
        if maps.ndim not in (2, 3) or not maps.size or (maps.ndim == 3 and path.suffix.lower() == ".png"):
            raise InputError(f"{path}: expected heatmaps [maps, h, w] or [h, w], got {describe_array(maps)}")
        return torch.from_numpy(maps if maps.ndim == 3 else maps[None])

    def read_batch(
        self, names: Sequence[str]
    ) -> tuple[Float32[Tensor, "batch maps height width"], Bool[Tensor, " batch"]]:
        """Read the heatmaps of several images.

        Args:
            names: ids of the images; an id without a file counts as failed.

        Returns:
            Heatmaps, and a flag for each row: whether it failed, because the file is missing or a value is
            not finite. A failed row is 0 everywhere.

        Raises:
            InputError: the heatmaps differ in shape, or see `read`.
        """
        read = {name: self.read(name) for name in names if name in self.files}
        first, shape = next(iter(read), ""), next(iter(read.values())).shape if read else self._shape
        for name, maps in read.items():
            if maps.shape != shape:
                raise InputError(
                    f"{self.folder}: expected heatmaps of one shape, got {list(shape)} for `{first}` and "
                    f"{list(maps.shape)} for `{name}`; resize them"
                )
        stacked = torch.stack([read.get(name, torch.full(shape, torch.nan)) for name in names])
        failed = ~stacked.isfinite().flatten(1).all(1)
        return stacked.masked_fill(failed[:, None, None, None], 0), failed

    @cached_property
    def _shape(self) -> torch.Size:
        return self.read(self.ids[0]).shape


@dataclass(frozen=True, eq=False)
class Codes:
    """Codes of another program; `open_codes` and `codes_of_array` make them.

    Attributes:
        path: the file, or a name for messages.
        ids: ids of the rows; None for rows in the order of the data.
        codes: one row for each image.
    """

    path: Path
    ids: tuple[str, ...] | None
    codes: Float64[Tensor, "rows codes"]

    @property
    def sha256(self) -> str:
        """Hash of the file, or of the values of an array."""
        if self.path.is_file():
            return file_sha256(self.path)
        return hashlib.sha256(self.codes.numpy().tobytes()).hexdigest()

    def matched(
        self, scored_ids: Sequence[str], known_ids: Collection[str], missing: MissingResults | None = "error"
    ) -> Float64[Tensor, "samples codes"]:
        """Return the codes in the order of the data.

        Args:
            scored_ids: ids of the images that will be scored.
            known_ids: see `match_ids`.
            missing: see `match_ids`; a missing row is nan.

        Raises:
            InputError: the ids do not match; or a file without ids has another number of rows than the data.

        Example:
            >>> codes = Codes(Path("codes.npz"), ("b", "a"), torch.tensor([[2.0], [1.0]]).double())
            >>> codes.matched(["a", "b"], {"a", "b"}).flatten().tolist()
            [1.0, 2.0]
        """
        if self.ids is None:
            if len(self.codes) != len(scored_ids):
                raise InputError(
                    f"{self.path}: expected {len(scored_ids)} rows in the order of the data, got "
                    f"{len(self.codes)}; an npy file has no ids: write npz with `ids` and `codes`"
                )
            return self.codes
        match_ids(self.ids, scored_ids, known_ids, missing, str(self.path))
        rows = {name: row for row, name in enumerate(self.ids)}
        padded = torch.cat([self.codes, torch.full_like(self.codes[:1], torch.nan)])
        return padded[[rows.get(name, -1) for name in scored_ids]]


def open_predictions(folder: str | Path, png: Curve | None = None) -> Predictions:
    """Open a folder of layers that another program wrote: albedo, shading, normals, depth and so on.

    The folder holds ``<id>.npz`` with arrays named as `LAYER_CHANNELS`, or ``<layer>/<id>`` with the suffix
    .npy, .exr or .png, for all layers or some; ``albedo`` is another name of ``reflectance``. An id may
    contain folders: ``set/000000.npz``. The values are scene-linear, floating-point, with the channels first
    or last; a layer of one channel needs no channel axis. PNG files hold values from 0 to 1, and normals n as
    (n + 1) / 2.

    Args:
        folder: the folder.
        png: transfer curve of PNG files of 8 or 16 bits; required if there are any of reflectance, shading
            or residual.

    Raises:
        InputError: the folder does not exist, holds no such file, or has both ``albedo`` and ``reflectance``.
    """
    folder = _folder(folder)
    if png is not None:
        check_choice("png", png, Curve)
    files: dict[str, dict[str, Path]] = {}
    found = [name for name in ("albedo", *LAYER_CHANNELS) if (folder / name).is_dir()]
    if {"albedo", "reflectance"} <= set(found):
        raise InputError(f"{folder}: expected one of the folders albedo and reflectance, got both")
    for name in found:
        for one, path in list_files(folder / name, (".npy", ".exr", ".png")).items():
            files.setdefault(one, {})[layer_name(name)] = path
    if not found:
        files = {name: {"": path} for name, path in list_files(folder, (".npz",)).items()}
    return Predictions(folder, files, png)


def open_heatmaps(folder: str | Path) -> Heatmaps:
    """Open a folder of heatmaps that another program wrote.

    The folder holds ``<id>.npy``, ``<id>.npz`` with the array ``heatmaps``, or gray ``<id>.png``. A heatmap
    array is [maps, h, w] or [h, w], floating-point; larger values are more relevant. The values of a PNG are
    divided by the largest value of its bit depth.

    Args:
        folder: the folder.

    Raises:
        InputError: the folder does not exist, or holds no such file.
    """
    folder = _folder(folder)
    return Heatmaps(folder, list_files(folder, (".npy", ".npz", ".png")))


def open_codes(path: str | Path) -> Codes:
    """Read codes that another program wrote.

    Args:
        path: npz with the arrays ``ids`` and ``codes`` [n, d]; Parquet with a column ``id`` and columns of
            numbers or one column ``codes`` of lists; or npy [n, d], whose rows are in the order of the data.

    Raises:
        InputError: the file does not exist, is damaged, holds something else, or has an id twice.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: expected a file of codes, there is none{nearest_file(path)}")
    ids: list[str] | None = None
    kind = path.suffix.lower()
    if kind == ".npy":
        codes = read_npy(path)
    elif kind == ".npz":
        names, codes = read_npz(path, "ids", "codes")
        if names.dtype.kind not in "USiu" or names.ndim != 1:
            raise InputError(f"{path}: expected `ids` [n], texts or integers, got {describe_array(names)}")
        ids = [
            str(one.decode("utf-8", "replace") if isinstance(one, bytes) else one) for one in names.tolist()
        ]
    elif kind == ".parquet":
        ids, codes = read_parquet(path)
    else:
        raise InputError(f"{path}: expected codes as .npz, .parquet or .npy, got {kind or 'no suffix'}")
    return _codes(path, codes, ids)


def codes_of_array(name: str, codes: Any) -> Codes:
    """Take an array or tensor of codes [n, d], whose rows are in the order of the data.

    Args:
        name: name for messages.
        codes: the codes.

    Raises:
        InputError: the array has another shape, or holds no real numbers.

    Example:
        >>> codes_of_array("mine", np.zeros((2, 3))).codes.shape
        torch.Size([2, 3])
    """
    return _codes(Path(name), codes.numpy(force=True) if isinstance(codes, Tensor) else codes, None)


def _codes(path: Path, codes: Any, ids: list[str] | None) -> Codes:
    if codes.ndim != 2 or not codes.size or codes.dtype.kind not in "fiu":
        raise InputError(f"{path}: expected codes [n, d], real numbers, got {describe_array(codes)}")
    if ids is not None and (len(ids) != len(codes) or len(set(ids)) != len(ids)):
        raise InputError(f"{path}: expected {len(codes)} different ids, got {len(set(ids))} in {len(ids)}")
    numbers = torch.from_numpy(np.ascontiguousarray(codes, np.float64))
    return Codes(path, None if ids is None else tuple(ids), numbers)


def _one_channel(values: Float32[np.ndarray, "*shape"]) -> Float32[np.ndarray, "*given"]:
    """Take one channel of a gray picture whose three are equal."""
    gray = values[..., :1]
    same = values.ndim == 3 and np.array_equal(values, np.broadcast_to(gray, values.shape), equal_nan=True)
    return gray if same else values


_File = TypeVar("_File")


def _known(files: Mapping[str, _File], name: str, folder: Path) -> _File:
    if name not in files:
        raise InputError(f"{folder}: expected an id of its files, got `{name}`{did_you_mean(name, files)}")
    return files[name]


def _folder(folder: str | Path) -> Path:
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder of results, there is none{nearest_file(folder)}")
    return folder
