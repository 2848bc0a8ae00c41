"""Base class of the readers of packs: samples are made from columns, without parsing metadata."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from math import prod
from typing import SupportsIndex

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.captions import caption
from candlelight.loaders.errors import InputError
from candlelight.loaders.samples import Sample, make_sample, row_number, to_tensors
from candlelight.loaders.schema import Metadata, SetInfo, layer

CHECK = "check it with `candlelight info --verify`, and pack it again"
# Tensors of successive rows are made with one call up to this size: for small images, the call itself takes
# longer than its work.
_RUN_BYTES = 2**20


class PackedFrames(ABC):
    """Samples of a pack by row number; subclasses read layers, ids, factors and metadata."""

    set_info: SetInfo
    set_name: str
    layers: tuple[str, ...]
    indices: Int[ndarray, " n"]
    objects: bool
    captions: bool

    @property
    @abstractmethod
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Factors of every row."""

    @abstractmethod
    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read the metadata of one row."""

    @abstractmethod
    def _views(self, numbers: Sequence[int]) -> list[dict[str, ndarray]]:
        """Read the layers of rows; the arrays may be read-only and not contiguous."""

    @abstractmethod
    def _id(self, number: int) -> str:
        """Return the id of the sample of one row."""

    @abstractmethod
    def _stored_caption(self, number: int) -> str | None:
        """Return the caption of one row; None in packs of earlier versions."""

    def caption(self, row: SupportsIndex) -> str:
        """Describe the sample of one row in words, as the pack has it."""
        found = self._stored_caption(row_number(row, len(self)))
        return caption(self.metadata(row), self.set_info) if found is None else found

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.indices)

    def __getitem__(self, row: SupportsIndex) -> Sample:
        """Read one row as tensors."""
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[SupportsIndex]) -> list[Sample]:
        """Read several rows as tensors, in the order of ``rows``."""
        numbers = [row_number(row, len(self)) for row in rows]
        # In file order, one row at a time: h5py takes two hundred times as long for a list of rows.
        order, run, samples = sorted(set(numbers)), self._run(), dict[int, Sample]()
        for start in range(0, len(order), run):
            samples.update(self._read(order[start : start + run]))
        if len(order) < len(numbers):  # copies, so that repeated rows share no memory
            return [_copied(samples[number]) for number in numbers]
        return [samples[number] for number in numbers]

    def _read(self, numbers: Sequence[int]) -> dict[int, Sample]:
        """Read rows, given in file order, column by column to save calls."""
        views, table = self._views(numbers), self.factor_table[numbers]
        names = [factor.name for factor in self.set_info.factors]
        columns = [
            table[:, place].astype(np.int64 if factor.kind == "categorical" else np.float64).tolist()
            for place, factor in enumerate(self.set_info.factors)
        ]
        layers = [to_tensors([arrays[name] for arrays in views]) for name in self.layers]
        nothing = [()] * len(numbers)  # `zip` of no columns would give no rows
        rows = zip(
            numbers,
            map(self._id, numbers),
            self.indices[numbers].tolist(),
            list(zip(*layers, strict=True)) or nothing,
            list(zip(*columns, strict=True)) or nothing,
            strict=True,
        )
        return {
            number: make_sample(
                identifier,
                index,
                self.set_name,
                dict(zip(self.layers, tensors, strict=True)),
                dict(zip(names, values, strict=True)),
                self.metadata(number).objects if self.objects else None,
                self.caption(number) if self.captions else None,
            )
            for number, identifier, index, tensors, values in rows
        }

    def _run(self) -> int:
        size, specs = (self.set_info.height, self.set_info.width), map(layer, self.layers)
        row_bytes = sum(np.dtype(spec.dtype).itemsize * prod(spec.shape(*size)) for spec in specs)
        return max(1, _RUN_BYTES // max(1, row_bytes))


def check_factors(table: Float64[ndarray, "n k"], set_info: SetInfo) -> None:
    """Refuse factors that their image set does not list, as in a pack that somebody edited.

    Raises:
        InputError: the number of a value is unknown, or a value is not finite.
    """
    for factor, column in zip(set_info.factors, table.T, strict=True):
        last = len(factor.values or ()) - 1
        known = np.isfinite(column) if factor.kind == "continuous" else np.isin(column, np.arange(last + 1))
        if not known.all():
            expected = "finite numbers" if factor.kind == "continuous" else f"numbers from 0 to {last}"
            raise InputError(
                f"factor `{factor.name}`: expected {expected}, got {column[~known][0]:g} in row "
                f"{np.flatnonzero(~known)[0]}; {CHECK}"
            )


def check_indices(indices: ndarray) -> None:
    """Refuse rows without a sample, and samples with two rows, as in a pack that somebody edited.

    Raises:
        InputError: there is such a row.
    """
    if indices.dtype != np.int64:
        raise InputError(f"column `index`: expected int64, got {indices.dtype}, so there are nulls; {CHECK}")
    order = np.argsort(indices, kind="stable")
    twice = np.flatnonzero(np.diff(indices[order]) == 0)
    if len(twice):
        first, second = order[twice[0] : twice[0] + 2]
        raise InputError(
            f"column `index`: expected each sample once, got {indices[first]} in rows {first} and {second}; "
            f"{CHECK}"
        )


def _copied(sample: Sample) -> Sample:
    return {
        name: value.clone() if hasattr(value, "clone") else deepcopy(value) for name, value in sample.items()
    }
