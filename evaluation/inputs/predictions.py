"""Results of other programs, read from files and matched by the ids of the data."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64
from torch import Tensor

from evaluation.inputs.array_files import describe_array, read_npy, read_npz, read_parquet
from evaluation.inputs.check_choice import check_choice
from evaluation.inputs.layer_files import Curve, channels_first, list_files, read_layer
from evaluation.inputs.match_ids import MissingResults as MissingResults
from evaluation.inputs.match_ids import first_three
from evaluation.inputs.match_ids import match_ids as match_ids
from loaders.errors import InputError, did_you_mean, nearest_file

_LAYERS = ("reflectance", "shading")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Decompositions in files; made by `open_predictions`.

    Attributes:
        folder: where they lie.
        files: reflectance and shading by id; one npz has both.
        png: transfer curve of the pixels of PNG files.
    """

    folder: Path
    files: Mapping[str, tuple[Path, Path]]
    png: Curve | None

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Names of the files below the folder, without their suffix."""
        return tuple(self.files)

    def read(
        self, name: str
    ) -> tuple[Float32[Tensor, "3 height width"], Float32[Tensor, "channels height width"]]:
        """Read one decomposition.

        Args:
            name: one of `ids`.

        Returns:
            Reflectance and shading, scene-linear; gray shading has one channel.

        Raises:
            InputError: there is no such id; a file is damaged, or no image of floating-point numbers.
        """
        reflectance, shading = (
            read_layer(path, layer, self.png)
            for path, layer in zip(_known(self.files, name, self.folder), _LAYERS, strict=True)
        )
        where = f"{self.folder}: `{name}`"
        return (
            channels_first(reflectance, (3,), f"{where}: reflectance"),
            channels_first(shading, (1, 3), f"{where}: shading"),
        )


@dataclass(frozen=True, eq=False)
class Heatmaps:
    """Heatmaps in files; made by `open_heatmaps`.

    Attributes:
        folder: where they lie.
        files: by id.
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
            InputError: there is no such id; the file is damaged, or holds no maps of floating-point numbers.
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
            names: ids; those that are not there have failed.

        Returns:
            Heatmaps, and which rows have failed: missing ones, and those that are not finite. These are 0.

        Raises:
            InputError: their shapes differ, or see `read`.
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
    """Codes in a file; made by `open_codes`.

    Attributes:
        path: the file.
        ids: of the rows; None where the file has none.
        codes: a row for each image.
    """

    path: Path
    ids: tuple[str, ...] | None
    codes: Float64[Tensor, "rows codes"]

    def matched(
        self, wanted: Sequence[str], known: Collection[str], missing: MissingResults | None = "error"
    ) -> Float64[Tensor, "samples codes"]:
        """Codes in the order of the data.

        Args:
            wanted: ids that are going to be scored.
            known: see `match_ids`.
            missing: see `match_ids`; rows that are missing are nan.

        Raises:
            InputError: ids do not fit; without ids, there are not exactly as many rows as ``wanted``.

        Example:
            >>> codes = Codes(Path("codes.npz"), ("b", "a"), torch.tensor([[2.0], [1.0]]).double())
            >>> codes.matched(["a", "b"], {"a", "b"}).flatten().tolist()
            [1.0, 2.0]
        """
        if self.ids is None:
            if len(self.codes) != len(wanted):
                raise InputError(
                    f"{self.path}: expected {len(wanted)} rows in the order of the data, for an npy file has "
                    f"no ids, got {len(self.codes)}; write npz with `ids` and `codes`"
                )
            return self.codes
        match_ids(self.ids, wanted, known, missing, str(self.path))
        rows = {name: row for row, name in enumerate(self.ids)}
        padded = torch.cat([self.codes, torch.full_like(self.codes[:1], torch.nan)])
        return padded[[rows.get(name, -1) for name in wanted]]


def open_predictions(folder: str | Path, png: Curve | None = None) -> Predictions:
    """Open a folder with the decompositions that another program wrote.

    Either ``<id>.npz`` with the arrays ``reflectance`` and ``shading``, or ``reflectance/<id>`` and
    ``shading/<id>`` with the suffix .npy, .exr or .png. An id may name folders: ``set/000000.npz``. Values
    are scene-linear, floating-point, of the height and width of the image, with the channels first or last;
    gray shading may have one channel or no such axis.

    Args:
        folder: the folder.
        png: transfer curve of PNG files of 8 or 16 bits; must be named if there are any.

    Raises:
        InputError: there is no such folder, no such file in it, reflectance without shading or the other way
            round, or PNG without ``png``.
    """
    folder = _folder(folder)
    if png is not None:
        check_choice("png", png, Curve)
    files: dict[str, tuple[Path, Path]]
    if any((folder / name).is_dir() for name in _LAYERS):
        found = [list_files(folder / name, (".npy", ".exr", ".png")) for name in _LAYERS]
        for one, other, has, lacks in ((*found, *_LAYERS), (*found[::-1], *_LAYERS[::-1])):
            alone = [name for name in one if name not in other]
            if alone:
                raise InputError(
                    f"{folder}: expected {lacks} wherever there is {has}, got none of {first_three(alone)}"
                )
        files = {name: (path, found[1][name]) for name, path in found[0].items()}
    else:
        files = {name: (path, path) for name, path in list_files(folder, (".npz",)).items()}
    pictures = [path for pair in files.values() for path in pair if path.suffix.lower() == ".png"]
    if pictures and png is None:
        raise InputError(f"{pictures[0]}: name the colour space of PNG: --png srgb, or --png linear")
    return Predictions(folder, files, png)


def open_heatmaps(folder: str | Path) -> Heatmaps:
    """Open a folder with the heatmaps that another program wrote.

    ``<id>.npy``, ``<id>.npz`` with the array ``heatmaps``, or gray ``<id>.png``: [maps, h, w] or [h, w],
    floating-point, larger is more relevant; of PNG, the values over the largest that its bits can hold.

    Args:
        folder: the folder.

    Raises:
        InputError: there is no such folder, or no such file in it.
    """
    folder = _folder(folder)
    return Heatmaps(folder, list_files(folder, (".npy", ".npz", ".png")))


def open_codes(path: str | Path) -> Codes:
    """Read the codes that another program wrote.

    Args:
        path: npz with the arrays ``ids`` and ``codes`` [n, d]; Parquet with a column ``id`` and columns of
            numbers, or one column ``codes`` of lists; or npy [n, d], with the rows of the data in order.

    Raises:
        InputError: there is no such file, it is damaged, holds something else, or an id twice.
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
    if codes.ndim != 2 or not codes.size or codes.dtype.kind not in "fiu":
        raise InputError(f"{path}: expected codes [n, d], real numbers, got {describe_array(codes)}")
    if ids is not None and (len(ids) != len(codes) or len(set(ids)) != len(ids)):
        raise InputError(f"{path}: expected {len(codes)} different ids, got {len(set(ids))} in {len(ids)}")
    numbers = torch.from_numpy(np.ascontiguousarray(codes, np.float64))
    return Codes(path, None if ids is None else tuple(ids), numbers)


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
