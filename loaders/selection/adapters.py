"""Adapt image sets to the interfaces of disentanglement_lib and disent."""

import math
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float32, Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.factor_rows import FactorRows
from candlelight.loaders.selection.pair_dataset import read_samples

Random = np.random.RandomState | np.random.Generator


class DisentanglementLibData:
    """Image set with the methods of disentanglement_lib's ``GroundTruthData``.

    Observations are float32 in 0..1, [n, height, width, channels]; factors are class numbers. Factors with
    one value are left out, like dSprites' color in that library: metrics divide by their entropy. On a full
    grid, factors are drawn independently. If combinations are missing or repeated, factors are drawn
    with the rows, all rows with equal chances. Factors of requested observations must exist; if several rows
    have them, one of these is drawn.

    Example:
        >>> import torch
        >>> from candlelight.loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> data = [{"image": torch.full((3, 2, 4), 51 * row, dtype=torch.uint8)} for row in range(6)]
        >>> adapted = DisentanglementLibData(data, index)
        >>> factors, observations = adapted.sample(5, np.random.RandomState(0))
        >>> adapted.factors_num_values, observations.shape, observations.dtype
        ([2, 3], (5, 2, 4, 3), dtype('float32'))
    """

    def __init__(self, data: Any, index: FactorIndex | None = None, image: str = "image") -> None:
        """Adapt an image set.

        Args:
            data: frames, or a public data set with factors.
            index: index of the rows; None to make it from the data.
            image: name of the observed tensor of a sample: uint8, or floats in 0..1.

        Raises:
            InputError: no factor has more than one value.
        """
        self._images = _Images(data, image)
        self._index = _varying(FactorIndex.of(data) if index is None else index)

    @property
    def num_factors(self) -> int:
        """Number of factors."""
        return len(self._index.sizes)

    @property
    def factors_num_values(self) -> list[int]:
        """Number of classes of each factor."""
        return list(self._index.sizes)

    @property
    def observation_shape(self) -> list[int]:
        """Height, width and channels."""
        return list(self._images.shape)

    def sample_factors(self, num: int, random_state: Random) -> Int[ndarray, "num k"]:
        """Draw class numbers of all factors."""
        return self._index.positions(_below(random_state, num, len(self._index)))

    def sample_observations_from_factors(
        self, factors: Any, random_state: Random
    ) -> Float32[ndarray, "num height width channels"]:
        """Read images with given class numbers [num, k].

        Raises:
            InputError: no row has these class numbers.
        """
        factors = np.asarray(factors, np.int64)
        if len(missing := factors[self._index.find(factors) < 0]):
            raise InputError(
                f"no sample has the class numbers {missing[0].tolist()}: this set leaves them out"
            )
        groups = self._index.groups(self._index.names)
        found = groups.find(factors)
        rows = groups.member(found, _below(random_state, len(found), groups.counts(found)))
        return self._images.read(rows)

    def sample(self, num: int, random_state: Random) -> tuple[Int[ndarray, "num k"], Float32[ndarray, "..."]]:
        """Draw class numbers, and images with these class numbers."""
        factors = self.sample_factors(num, random_state)
        return factors, self.sample_observations_from_factors(factors, random_state)

    def sample_observations(self, num: int, random_state: Random) -> Float32[ndarray, "..."]:
        """Draw images."""
        return self.sample(num, random_state)[1]


class DisentData:
    """Image set as an array of all combinations, the input of disent's ``ArrayGroundTruthData``.

    ``ArrayGroundTruthData(adapted, adapted.factor_names, adapted.factor_sizes)`` reads images from this array
    on request, and has all methods of disent. Images are numbered like combinations, last factor fastest,
    whatever the order of the data. An item is float32 in 0..1, [height, width, channels]. Factors with one
    value are left out.

    Example:
        >>> import torch
        >>> from candlelight.loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> data = [{"image": torch.full((3, 2, 4), 51 * row, dtype=torch.uint8)} for row in range(6)]
        >>> adapted = DisentData(data, index)
        >>> adapted.factor_names, adapted.factor_sizes, adapted.shape
        (('color', 'size'), (2, 3), (6, 2, 4, 3))
    """

    def __init__(self, data: Any, index: FactorIndex | None = None, image: str = "image") -> None:
        """Adapt an image set.

        Args:
            data: frames, or a public data set with factors.
            index: index of the rows; None to make it from the data.
            image: name of the observed tensor of a sample: uint8, or floats in 0..1.

        Raises:
            InputError: the rows are not all combinations, each once; or no factor has more than one value.
        """
        self._index = _varying(FactorIndex.of(data) if index is None else index)
        if not self._index.is_complete:
            raise InputError(
                f"expected every one of {len(self)} combinations once, got {len(self._index)} rows; "
                "`DisentanglementLibData` draws from the rows that exist"
            )
        self._images = _Images(data, image)

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the factors."""
        return self._index.names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Number of classes of each factor."""
        return self._index.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all images as one array."""
        return len(self), *self._images.shape

    def __len__(self) -> int:
        """Count the combinations."""
        return math.prod(self._index.sizes)

    def __getitem__(self, idx: SupportsIndex) -> Float32[ndarray, "height width channels"]:
        """Read the image of a combination by its number."""
        position = np.unravel_index([range(len(self))[idx]], self.factor_sizes)
        return self._images.read(self._index.find(np.stack(position, axis=-1)))[0]


def _varying(index: FactorIndex) -> FactorRows:
    """Leave out the factors with one value."""
    kept = [j for j, size in enumerate(index.sizes) if size > 1]
    if not kept:
        raise InputError("expected a factor of more than one value, got none")
    codes = None if index.is_grid else index.positions(np.arange(len(index)))[:, kept].astype(np.int32)
    return FactorRows(tuple(index.classes[j] for j in kept), codes, None)


class _Images:
    """The observed tensor of samples, in the format of these libraries."""

    def __init__(self, data: Any, name: str) -> None:
        self._data, self._name = data, name

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Height, width and channels."""
        return self.read(np.array([0])).shape[1:]

    def read(self, rows: Int[ndarray, " n"]) -> Float32[ndarray, "n height width channels"]:
        """Read rows.

        Raises:
            InputError: the samples have no such tensor, or the tensor is not an image in 0..255 or 0..1.
        """
        return np.stack([self._observation(sample) for sample in read_samples(self._data, rows)])

    def _observation(self, sample: dict[str, Any]) -> Float32[ndarray, "height width channels"]:
        if self._name not in sample:
            raise InputError(f"image `{self._name}`: expected one of {', '.join(sample)}")
        array = sample[self._name].numpy()
        if array.ndim == 2:
            array = array[None]
        if array.ndim != 3 or (array.dtype != np.uint8 and array.dtype.kind != "f"):
            raise InputError(
                f"image `{self._name}`: expected uint8 or floats, channels first, "
                f"got {array.dtype} {list(array.shape)}"
            )
        scaled = array.astype(np.float32) / np.float32(255 if array.dtype == np.uint8 else 1)
        if not (scaled >= 0).all() or not (scaled <= 1).all():
            raise InputError(f"image `{self._name}`: expected 0..1, got {scaled.min():g}..{scaled.max():g}")
        return np.ascontiguousarray(np.moveaxis(scaled, 0, 2))


def _below(random: Random, shape: Any, counts: Any) -> Any:
    return (random.random(shape) * counts).astype(np.int64)
