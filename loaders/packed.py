"""What readers of packs have in common: samples made of columns, without metadata where none are due."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from loaders.samples import Sample, make_sample, row_number, to_tensors
from loaders.schema import Metadata, SetInfo, layer

# Rows whose layers take no more than this are read before tensors are made of them, all with one call: for
# small images a call takes longer than its work.
_RUN_BYTES = 2**20


class PackedFrames(ABC):
    """Samples of a pack by row number: its readers add how layers, names, factors and metadata are read."""

    set_info: SetInfo
    set_name: str
    layers: tuple[str, ...]
    indices: Int[ndarray, " n"]
    objects: bool

    @property
    @abstractmethod
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Factors of every row."""

    @abstractmethod
    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read what is known of one row."""

    @abstractmethod
    def _views(self, numbers: Sequence[int]) -> list[dict[str, ndarray]]:
        """Read the layers of rows as arrays that may be read-only and not contiguous."""

    @abstractmethod
    def _id(self, number: int) -> str:
        """Name the sample of one row."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.indices)

    def __getitem__(self, row: SupportsIndex) -> Sample:
        """Read one row as tensors."""
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[SupportsIndex]) -> list[Sample]:
        """Read several rows as tensors, in the order asked for."""
        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(row_number(row, len(self)), []).append(place)
        samples: list[Sample] = [{}] * len(rows)
        # In file order, each row once: h5py is two hundred times slower when given a list of rows.
        order, run = sorted(places), self._run()
        for start in range(0, len(order), run):
            numbers = order[start : start + run]
            read = self._views(numbers)
            layers = [to_tensors([arrays[name] for arrays in read]) for name in self.layers]
            ids, indices = map(self._id, numbers), self.indices[numbers].tolist()
            rows_read = zip(numbers, ids, indices, self.factor_table[numbers].tolist(), *layers, strict=True)
            for number, identifier, index, factors, *tensors in rows_read:
                first, *others = places[number]
                samples[first] = self._sample(number, identifier, index, factors, tensors)
                for place in others:
                    copies = [tensor.clone() for tensor in tensors]
                    samples[place] = self._sample(number, identifier, index, factors, copies)
        return samples

    def _run(self) -> int:
        size, specs = (self.set_info.height, self.set_info.width), map(layer, self.layers)
        row_bytes = sum(np.dtype(spec.dtype).itemsize * prod(spec.shape(*size)) for spec in specs)
        return max(1, _RUN_BYTES // max(1, row_bytes))

    def _sample(
        self, number: int, identifier: str, index: int, factors: Sequence[float], tensors: Sequence[Any]
    ) -> Sample:
        objects = self.metadata(number).objects if self.objects else None
        layers = dict(zip(self.layers, tensors, strict=True))
        return make_sample(identifier, index, self.set_name, layers, self.set_info, factors, objects)
