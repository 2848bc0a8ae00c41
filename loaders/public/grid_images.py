"""Read images of a full grid of factors: the common part of dSprites, MPI3D and 3D Shapes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int, UInt8
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.factor_space import FactorSpace
from candlelight.loaders.public.file_rows import ArrayRows
from candlelight.loaders.public.missing_files import require_path
from candlelight.loaders.public.pixel_tensors import image_tensor
from candlelight.loaders.schema import FactorInfo, FactorValue


class GridImages(ABC):
    """Images of every combination of factors in one array; the row number is the grid index.

    ``data[row]`` is a dict of ``id`` (str), ``index`` (int), ``image`` (a tensor, channels first) and
    ``factors`` (name to class number); `candlelight.loaders.collate` batches such dicts. Forked and spawned
    workers may share a reader.

    Attributes:
        factors: the factors with their values, in the order of the grid.
        space: the grid.
    """

    def __init__(self, path: Path, rows: ArrayRows, factors: Sequence[FactorInfo], linear: bool) -> None:
        self.factors = tuple(factors)
        self.space = FactorSpace(
            tuple(factor.name for factor in factors), tuple(factor.values or () for factor in factors)
        )
        if rows.shape[0] != self.space.size:
            raise InputError(
                f"{path}: expected {self.space.size} images, one for each point of the grid "
                f"{' x '.join(map(str, self.space.sizes))}, got {rows.shape[0]}; get the file again"
            )
        self._path, self._rows, self._linear = path, rows, linear

    def __len__(self) -> int:
        """Count the images."""
        return self.space.size

    def __getitem__(self, row: SupportsIndex) -> dict[str, Any]:
        """Read one image as a tensor, and its factors."""
        number = range(len(self))[row]
        position = np.unravel_index(number, self.space.sizes)
        return {
            "id": str(number),
            "index": number,
            "image": image_tensor(self._pixels(self._rows[number]), self._linear),
            "factors": {name: int(p) for name, p in zip(self.space.names, position, strict=True)},
        }

    @cached_property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Class numbers of every row, one column per factor."""
        return self.space.positions(np.arange(len(self))).astype(np.float64)

    @abstractmethod
    def _pixels(self, stored: UInt8[ndarray, "height width ..."]) -> UInt8[ndarray, "height width channels"]:
        """Turn stored values into sRGB pixels."""


def find_file(root: Path, names: Sequence[str], source: str) -> Path:
    """Find the file of a data set.

    Args:
        root: the file itself, or its folder.
        names: possible names of the file.
        source: where to get the data set, for messages.

    Raises:
        InputError: the folder has no file of these names.

    Example:
        >>> find_file(Path("nowhere"), ["3dshapes.h5"], "https://example.org")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/3dshapes.h5 is missing; get it from https://example.org
    """
    if root.is_file():
        return root
    found = [root / name for name in names if (root / name).is_file()]
    return found[0] if found else require_path(root / names[0], source)


def number_values(
    path: Path, labels: Float64[ndarray, "n k"], names: Sequence[str]
) -> list[tuple[FactorValue, ...]]:
    """List the values of each factor from the labels of a full grid, and check that its rows are in order.

    Args:
        path: the file, for messages.
        labels: one row per image, values increasing along the grid, last factor fastest.
        names: names of the columns.

    Returns:
        The values of each factor, in their order.

    Raises:
        InputError: the labels are not a full grid in this order.

    Example:
        >>> labels = np.array([[0.0, 1.0], [0.0, 2.0], [0.5, 1.0], [0.5, 2.0]])
        >>> number_values(Path("3dshapes.h5"), labels, ["hue", "scale"])
        [(0.0, 0.5), (1.0, 2.0)]
    """
    if labels.ndim != 2 or labels.shape[1] != len(names) or not len(labels):
        raise InputError(f"{path}: expected labels of {', '.join(names)}, got {list(labels.shape)}")
    # The labels decide, because the values in papers sometimes differ from the values in files.
    pairs = [np.unique(column, return_inverse=True) for column in labels.T]
    sizes = [len(values) for values, _ in pairs]
    numbers: Int[ndarray, "k n"] = np.stack([inverse.reshape(-1) for _, inverse in pairs])
    ordered = math.prod(sizes) == len(labels) and np.array_equal(
        np.ravel_multi_index(tuple(numbers), sizes), np.arange(len(labels))
    )
    if not ordered:
        raise InputError(f"{path}: its labels are not those of a full grid in order; get the file again")
    return [tuple(values.tolist()) for values, _ in pairs]
