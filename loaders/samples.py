"""The frame in memory, the protocol of all readers of frames, and samples, batches and groups of rows."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, SupportsIndex, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.captions import caption
from candlelight.loaders.errors import InputError, require_module
from candlelight.loaders.schema import DatasetInfo, FactorInfo, FactorValue, Metadata, ObjectRecord, SetInfo

Sample = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Frame:
    """One sample in memory: its metadata, and its arrays by layer name in the form of the schema."""

    metadata: Metadata
    layers: dict[str, ndarray]


@runtime_checkable
class Frames(Protocol):
    """An image set that can be read by row number: the protocol of all readers.

    Rows are numbered 0..len - 1 in order of ``indices``, the samples' numbers in the set. ``frames[row]``
    returns a sample in the form of `to_sample`; `torch.utils.data.DataLoader` takes the reader together with
    `collate`. ``factor_table`` holds one row per sample and one column per factor of ``set_info.factors``:
    the class index of a categorical factor, the value of a continuous factor.
    """

    @property
    def info(self) -> DatasetInfo:
        """Description of the data set that the image set belongs to."""

    @property
    def set_info(self) -> SetInfo:
        """Description of the image set."""

    @property
    def set_name(self) -> str:
        """Name of the image set."""

    @property
    def indices(self) -> Int[ndarray, " n"]:
        """Sorted sample numbers, one per row."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that are read, in schema order."""

    @property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Factors of every row."""

    def __len__(self) -> int:
        """Count the rows."""

    def __getitem__(self, row: SupportsIndex) -> Sample:
        """Read one row as tensors."""

    def __getitems__(self, rows: Sequence[SupportsIndex]) -> list[Sample]:
        """Read several rows as tensors, in the order of ``rows``."""

    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read the metadata of one row."""

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row as numpy arrays."""


def row_number(row: SupportsIndex, rows: int) -> int:
    """Turn a row number, negative ones counted from the end, into a number from 0.

    Raises:
        IndexError: the row does not exist.

    Example:
        >>> row_number(-1, 5)
        4
    """
    return range(rows)[operator.index(row)]  # `index` refuses slices


def factor_number(factor: FactorInfo, metadata: Metadata) -> int | float:
    """Encode one factor of a sample: the class index of a categorical, the value of a continuous factor.

    Raises:
        InputError: the sample lacks the factor, or has a value that the set does not list.
    """
    if factor.name not in metadata.factors:
        raise InputError(f"sample `{metadata.id}` has no factor `{factor.name}`, which its set lists")
    value = metadata.factors[factor.name]
    if factor.kind == "continuous" and not isinstance(value, str):
        return float(value)
    if factor.kind == "categorical" and factor.values and value in factor.values:
        return factor.values.index(value)
    expected = "a number" if factor.kind == "continuous" else f"one of {factor.values}"
    raise InputError(f"sample `{metadata.id}`, factor `{factor.name}`: expected {expected}, got {value!r}")


def factor_value(factor: FactorInfo, number: float) -> FactorValue:
    """Turn the number of a factor back into its value: the inverse of `factor_number`.

    Example:
        >>> factor_value(FactorInfo(name="color", kind="categorical", values=("red", "blue")), 1.0)
        'blue'
    """
    return factor.values[int(number)] if factor.kind == "categorical" and factor.values else number


def to_sample(frame: Frame, set_info: SetInfo, objects: bool = False, captions: bool = False) -> Sample:
    """Turn a frame into tensors.

    Args:
        frame: the frame.
        set_info: its image set; tells which factors are categorical.
        objects: whether to add the objects.
        captions: whether to add the caption.

    Returns:
        A dict of ``id`` (str), ``index`` (int), ``set`` (str), each layer as a tensor of its stored dtype
        (three-channel layers channels first), ``factors`` (name to class index or value) and, if requested,
        ``objects`` (a list of dicts with the fields of `candlelight.loaders.schema.ObjectRecord`) and
        ``caption`` (str).

    Raises:
        InputError: the frame lacks a factor, or has a value that the set does not list.
    """
    metadata = frame.metadata
    factors = {factor.name: factor_number(factor, metadata) for factor in set_info.factors}
    names = metadata.id, metadata.index, metadata.set
    tensors = {name: to_tensors([array])[0] for name, array in frame.layers.items()}
    text = caption(metadata, set_info) if captions else None
    return make_sample(*names, tensors, factors, metadata.objects if objects else None, text)


def make_sample(
    identifier: str,
    index: int,
    set_name: str,
    tensors: Mapping[str, Any],
    factors: Mapping[str, float],
    objects: Iterable[ObjectRecord] | None = None,
    text: str | None = None,
) -> Sample:
    """Build a sample in the form of `to_sample` from its parts, without metadata.

    Args:
        identifier: id of the sample.
        index: number of the sample in the set.
        set_name: name of the set.
        tensors: layers by name.
        factors: class indices and values by factor name.
        objects: objects of the sample; None to leave them out.
        text: caption of the sample; None to leave it out.
    """
    sample: Sample = {"id": identifier, "index": index, "set": set_name, **tensors, "factors": factors}
    if objects is not None:
        sample["objects"] = [record.model_dump() for record in objects]
    if text is not None:
        sample["caption"] = text
    return sample


def to_tensors(arrays: Sequence[ndarray]) -> list[Any]:
    """Turn arrays of one layer into tensors: channels first, contiguous, with memory of their own.

    Args:
        arrays: at least one, all of one shape and dtype.
    """
    require_module("torch", "torch")
    import torch  # not at module level: planning and rendering import this module without torch

    # Arrays from `datasets` already have their channels first in memory.
    moved = [array.transpose(2, 0, 1) if array.ndim == 3 else array for array in arrays]
    if arrays[0].ndim < 3 or moved[0].flags.c_contiguous:
        batch = torch.from_numpy(np.stack(moved))
    else:
        alone = len(arrays) == 1 and arrays[0].flags.carray
        pixels = torch.from_numpy(arrays[0][None] if alone else np.stack(arrays))
        # Torch permutes channels up to three times as fast as numpy.
        batch = pixels.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
    return list(batch.unbind())


def collate(samples: Sequence[Sample]) -> Sample:
    """Batch samples for `torch.utils.data.DataLoader` (``collate_fn=collate``).

    Args:
        samples: at least one sample of frames or of a set of `candlelight.loaders.public`, all with the same
            names.

    Returns:
        A dict with the same names. Tensors are stacked; ``index``, factors and other numbers become a tensor
        [batch] (int64, float64 or bool); all other values (``id``, ``set``, ``objects``, ``parts``) lists.

    Raises:
        InputError: the samples differ in names, factors or image size.

    Example:
        >>> collate([{"id": "a", "frontal": True}, {"id": "b", "frontal": False}])
        {'id': ['a', 'b'], 'frontal': tensor([ True, False])}
    """
    require_module("torch", "torch")
    first = samples[0]
    names, factors = first.keys(), first.get("factors", {}).keys()
    for sample in samples:
        if sample.keys() != names or sample.get("factors", {}).keys() != factors:
            raise InputError(
                f"samples `{first.get('id', 0)}` and `{sample.get('id', '?')}` differ in layers or factors: "
                "put them into separate batches, or pass `layers` to the readers"
            )
    return {name: _join(name, [sample[name] for sample in samples]) for name in first}


def _join(name: str, column: list[Any]) -> Any:
    import torch

    first = column[0]
    if name == "factors":
        return {factor: _join(factor, [factors[factor] for factors in column]) for factor in first}
    if isinstance(first, torch.Tensor):
        return _stack(name, column)
    if all(issubclass(kind, int | float | np.number | np.bool_) for kind in set(map(type, column))):
        return torch.from_numpy(np.array(column))
    return column


def _stack(name: str, tensors: list[Any]) -> Any:
    import torch

    if len(shapes := {tensor.shape for tensor in tensors}) > 1:
        sizes = sorted(map(tuple, shapes))
        raise InputError(f"layer `{name}` has several sizes in one batch, {sizes}: crop or resize first")
    return torch.stack(tensors)


def group_rows(
    frames: Frames, names: Sequence[str]
) -> dict[tuple[FactorValue, ...], Int[ndarray, " members"]]:
    """Group rows by the values of some factors.

    The concept sets of an image set are ``group_rows(frames, [every factor not in set_info.varies])``.

    Args:
        frames: the image set.
        names: factors that are equal within a group; if empty, all rows form one group.

    Returns:
        Sorted row numbers by the factors' values, in order of class index or value. Values of continuous
        factors are compared exactly.

    Raises:
        InputError: the set has no such factor.
    """
    factors = [frames.set_info.factor(name) for name in names]
    columns = [frames.set_info.factors.index(factor) for factor in factors]
    groups: dict[tuple[float, ...], list[int]] = {}
    for row, key in enumerate(frames.factor_table[:, columns].tolist()):
        groups.setdefault(tuple(key), []).append(row)
    return {
        tuple(factor_value(f, number) for f, number in zip(factors, key, strict=True)): np.array(groups[key])
        for key in sorted(groups)
    }
