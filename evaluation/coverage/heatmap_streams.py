"""Heatmaps of all images in one pass, of which thresholds and coverage are computed."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int, UInt8
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.catalogue.coverage_options import BinariseCompat, Pooling
from candlelight.evaluation.coverage.thresholds import (
    Explanations,
    is_dead,
    quantiles,
    resize_heatmap,
    row_quantiles,
)
from candlelight.evaluation.coverage.waiou import sweep_iou
from candlelight.loaders.errors import InputError

BYTES_IN_MEMORY = 2**25  # largest size in memory of one spool on the CPU
BYTES_ON_DEVICE = 2**28  # and on another device


class TensorSpool:
    """Tensors that are appended and read by number, on the device of the first.

    Tensors beyond `BYTES_IN_MEMORY` or `BYTES_ON_DEVICE` go to a temporary file, which is deleted with the
    spool.

    Example:
        >>> spool = TensorSpool()
        >>> spool.append(torch.ones(2, 3))
        >>> spool[0].shape
        torch.Size([2, 3])
    """

    def __init__(self) -> None:
        self._kept: list[Tensor] = []
        self._used = 0
        self._places: list[tuple[int, tuple[int, ...], np.dtype[Any]]] = []
        self.device = torch.device("cpu")

    def __len__(self) -> int:
        """Number of tensors."""
        return len(self._kept) + len(self._places)

    def append(self, tensor: Tensor) -> None:
        """Append a tensor, which must not be modified afterwards."""
        if not len(self):
            self.device = tensor.device
        self._used += tensor.numel() * tensor.element_size()
        room = BYTES_IN_MEMORY if tensor.device.type == "cpu" else BYTES_ON_DEVICE
        if self._used <= room and not self._places:
            self._kept.append(tensor)
            return
        array = tensor.cpu().numpy()
        place = self._file.seek(0, 2)
        self._places.append((place, array.shape, array.dtype))
        self._file.write(np.ascontiguousarray(array).data)

    @cached_property
    def _file(self) -> BinaryIO:
        file = TemporaryFile()
        weakref.finalize(self, file.close)
        return file

    def __getitem__(self, number: int) -> Tensor:
        """Read a tensor, which must not be modified."""
        if number < len(self._kept):
            return self._kept[number]
        place, shape, dtype = self._places[number - len(self._kept)]
        self._file.seek(place)
        read = bytearray(self._file.read(int(np.prod(shape)) * dtype.itemsize))
        return torch.from_numpy(np.frombuffer(read, dtype).reshape(shape)).to(self.device)


_POINTS = 2**21  # number of heatmap points in memory at a time


class ExplanationStream:
    """Explanation heatmaps of one method for all images, appended batch by batch, on the device of the first.

    Attributes:
        name: the method.
        dead: for each image, whether its heatmap is constant.

    Example:
        >>> stream = ExplanationStream("gradient")
        >>> stream.append(Explanations(torch.arange(5.0)[None, None], torch.tensor([[0]])))
        >>> stream.thresholds([0.25], "set", None)
        tensor([[3.]])
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead: list[bool] = []
        self._heatmaps = TensorSpool()
        self._members: list[Int[Tensor, "images k"]] = []
        self._shape: tuple[int, int] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the heatmaps; (0, 0) before the first."""
        return self._shape or (0, 0)

    def append(self, explanations: Explanations) -> None:
        """Append the float32 heatmaps of the next images.

        Raises:
            InputError: the heatmaps differ in size from the earlier ones.
        """
        shape = (explanations.heatmap.shape[1], explanations.heatmap.shape[2])
        self._shape = self._shape or shape
        if shape != self._shape:
            shapes = [list(self._shape), list(shape)]
            raise InputError(f"{self.name}: expected heatmaps of one size, got {shapes}; resize them")
        self._members.append(explanations.members)
        self.dead += is_dead(explanations.heatmap).tolist()
        for heatmap in explanations.heatmap:
            self._heatmaps.append(heatmap)

    def read(self, rows: Sequence[int], size: tuple[int, int] | None) -> Float32[Tensor, "rows height width"]:
        """Read the heatmaps of some images, resized unless ``size`` is None; see `Explanations.resized`."""
        maps = torch.stack([self._heatmaps[row] for row in rows])
        return maps if size is None else resize_heatmap(maps, *size)

    def thresholds(
        self, proportions: Sequence[float], pooling: Pooling, size: tuple[int, int] | None
    ) -> Float32[Tensor, "images proportions"]:
        """Compute the thresholds of `set_threshold` for several proportions at once.

        Args:
            proportions: shares of the points.
            pooling: see `set_threshold`.
            size: height and width to which the heatmaps are resized first; None does not resize.
        """
        height, width = size or self.shape
        points, levels = height * width, [1 - share for share in proportions]
        if pooling == "image":
            pieces = row_chunks(range(len(self.dead)), points)
            return torch.cat([row_quantiles(self.read(rows, size).flatten(1), levels) for rows in pieces])
        thresholds = torch.empty(len(self.dead), len(proportions), device=self._heatmaps.device)
        for chosen in self._sets():
            read = partial(self._pieces, chosen, size, points)
            thresholds[chosen] = quantiles(read, len(chosen) * points, levels)
        return thresholds

    def _pieces(
        self, rows: Sequence[int], size: tuple[int, int] | None, points: int
    ) -> Iterator[Float32[Tensor, " points"]]:
        for piece in row_chunks(rows, points):
            yield self.read(piece, size).reshape(-1)

    def _sets(self) -> list[list[int]]:
        """Group the images whose heatmaps were merged from the same maps."""
        number = torch.unique(torch.cat(self._members), dim=0, return_inverse=True)[1]
        sets: dict[int, list[int]] = {}
        for row, one in enumerate(number.tolist()):
            sets.setdefault(one, []).append(row)
        return list(sets.values())


class MaskStream:
    """Masks of all images, stored with one bit per pixel, on the device of the first.

    Attributes:
        annotated: for each image, the names of the parts with a mask.
        shape: height and width of the masks; (0, 0) before the first mask.

    Example:
        >>> stream = MaskStream()
        >>> stream.append({"head": torch.tensor([[True, False]])})
        >>> stream.read([0], ["tail", "head"])[0]
        tensor([[False, False],
                [ True, False]])
    """

    def __init__(self) -> None:
        self.annotated: list[tuple[str, ...]] = []
        self._bits = TensorSpool()
        self.shape = (0, 0)

    def append(self, masks: Mapping[str, Bool[Tensor, "height width"]]) -> None:
        """Append the masks of the next image; all masks have one size."""
        self.annotated.append(tuple(masks))
        for mask in masks.values():
            self.shape = (mask.shape[0], mask.shape[1])
        rows = [mask.flatten() for mask in masks.values()]
        self._bits.append(pack_bits(torch.stack(rows)) if rows else torch.zeros(0, 0, dtype=torch.uint8))

    def read(self, rows: Sequence[int], parts: Sequence[str]) -> Bool[Tensor, "rows parts points"]:
        """Read the masks of some images; a part that is not annotated has no pixels."""
        points = self.shape[0] * self.shape[1]
        masks = torch.zeros(len(rows), len(parts), points, dtype=torch.bool, device=self._bits.device)
        for place, row in enumerate(rows):
            names = self.annotated[row]
            shown = [number for number, name in enumerate(parts) if name in names]
            if shown:
                bits = self._bits[row][[names.index(parts[number]) for number in shown]]
                masks[place, shown] = unpack_bits(bits, points)
        return masks


def pack_bits(bits: Bool[Tensor, "rows points"]) -> UInt8[Tensor, "rows bytes"]:
    """Pack 8 flags into a byte, each from another eighth of the row.

    Example:
        >>> pack_bits(torch.tensor([[True, False, True]]))
        tensor([[5]], dtype=torch.uint8)
    """
    planes = functional.pad(bits.to(torch.uint8), (0, -bits.shape[1] % 8)).reshape(len(bits), 8, -1)
    return reduce(torch.bitwise_or, (plane << bit for bit, plane in enumerate(planes.unbind(1))))


def unpack_bits(packed: UInt8[Tensor, "rows bytes"], count: int) -> Bool[Tensor, "rows points"]:
    """Unpack the first flags of each row of `pack_bits`.

    Example:
        >>> unpack_bits(torch.tensor([[5]], dtype=torch.uint8), 3)
        tensor([[ True, False,  True]])
    """
    return torch.stack([packed >> bit & 1 for bit in range(8)], 1).flatten(1)[:, :count].bool()


def stream_iou(
    explained: Sequence[ExplanationStream],
    thresholds: Sequence[Float32[Tensor, "images proportions"]],
    masks: MaskStream,
    parts: Sequence[str],
    compat: BinariseCompat,
) -> Float64[ndarray, "methods proportions images parts"]:
    """Compute the IoU of each image with each part for every method and proportion.

    Args:
        explained: heatmaps of each method.
        thresholds: thresholds of each method, from `ExplanationStream.thresholds`.
        masks: masks of the same images.
        parts: names of the parts.
        compat: see `binarise`.

    Returns:
        IoU in [0, 1]; nan if the image does not show the part. See `part_iou`.
    """
    images, points = len(masks.annotated), masks.shape[0] * masks.shape[1]
    found: list[list[Tensor]] = [[] for _ in explained]
    for rows in row_chunks(range(images), points):
        shapes = masks.read(rows, parts)
        for stream, limits, pieces in zip(explained, thresholds, found, strict=True):
            heatmaps = stream.read(rows, masks.shape).flatten(1)
            pieces.append(sweep_iou(heatmaps, limits[rows], shapes, compat))
    iou = torch.stack([torch.cat(pieces) for pieces in found])
    return np.ascontiguousarray(iou.cpu().numpy().swapaxes(1, 2))


def row_chunks(rows: Sequence[int], points: int) -> list[list[int]]:
    """Cut row numbers into chunks whose heatmaps, each with ``points`` points, fit in memory.

    Example:
        >>> row_chunks(range(3), 2**20)
        [[0, 1], [2]]
    """
    length = max(1, _POINTS // max(1, points))
    return [list(rows[start : start + length]) for start in range(0, len(rows), length)]
