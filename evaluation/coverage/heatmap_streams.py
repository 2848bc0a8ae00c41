"""Heatmaps of all images in one pass, of which thresholds and coverage are computed."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.coverage.thresholds import (
    BinariseCompat,
    Explanations,
    Pooling,
    is_dead,
    quantiles,
    resize_heatmap,
    resize_images,
)
from candlelight.evaluation.coverage.waiou import sweep_iou
from candlelight.evaluation.run.batches import check_srgb_image
from candlelight.evaluation.run.named_models import decode, encode
from candlelight.evaluation.views import Images
from candlelight.loaders.errors import InputError

BYTES_IN_MEMORY = 2**25  # largest size in memory of one spool


class ArraySpool:
    """Arrays that are appended and read by number; the temporary file is deleted with the spool.

    Example:
        >>> spool = ArraySpool()
        >>> spool.append(np.ones((2, 3), np.float32))
        >>> spool[0].shape
        (2, 3)
    """

    def __init__(self) -> None:
        self._kept: list[ndarray] = []
        self._room = BYTES_IN_MEMORY
        self._places: list[tuple[int, tuple[int, ...], np.dtype[Any]]] = []

    def __len__(self) -> int:
        """Number of arrays."""
        return len(self._kept) + len(self._places)

    def append(self, array: ndarray) -> None:
        """Append an array, which must not be modified afterwards."""
        if array.nbytes <= self._room and not self._places:
            self._room -= array.nbytes
            self._kept.append(array)
            return
        place = self._file.seek(0, 2)
        self._places.append((place, array.shape, array.dtype))
        self._file.write(np.ascontiguousarray(array).data)

    @cached_property
    def _file(self) -> BinaryIO:
        file = TemporaryFile()
        weakref.finalize(self, file.close)
        return file

    def __getitem__(self, number: int) -> ndarray:
        """Read an array, which must not be modified."""
        if number < len(self._kept):
            return self._kept[number]
        place, shape, dtype = self._places[number - len(self._kept)]
        self._file.seek(place)
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(self._file.read(size), dtype).reshape(shape)


class ResizedImages:
    """A view of images of one size, with the members of `candlelight.evaluation.views.Images`.

    Images are resized in scene-linear colour by antialiased bilinear interpolation, whatever their aspect
    ratio, exactly as by the argument ``size`` of `score_coverage`.

    Args:
        data: images, sRGB-encoded in [0, 1], of any sizes.
        size: height and width in pixels.

    Example:
        >>> import torch
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Board:
        ...     identity, ids, groups = DataIdentity("board", "memory"), ("board",), ("board",)
        ...     known_ids = frozenset(ids)
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row): return torch.tensor([[0.0, 1.0], [1.0, 0.0]]).expand(3, 2, 2)
        >>> ResizedImages(Board(), (1, 1))[0].flatten()  # sRGB of a linear half
        tensor([0.7354, 0.7354, 0.7354])
    """

    def __init__(self, data: Images, size: tuple[int, int]) -> None:
        self._data, self._size = data, size
        self.identity = replace(data.identity, image=f"resized to {size[0]} x {size[1]} pixels")
        self.ids, self.groups, self.known_ids = data.ids, data.groups, data.known_ids

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, row: int) -> Float[Tensor, "3 height width"]:
        linear = decode(check_srgb_image(self._data[row]))[None]
        return encode(resize_images(linear, self._size)[0])


_POINTS = 2**21  # number of heatmap points in memory at a time


class ExplanationStream:
    """Explanation heatmaps of one method for all images, appended batch by batch.

    Attributes:
        name: the method.
        dead: for each image, whether its heatmap is constant.

    Example:
        >>> stream = ExplanationStream("gradient")
        >>> stream.append(Explanations(torch.arange(5.0)[None, None], torch.tensor([[0]])))
        >>> stream.thresholds([0.25], "set", None)
        array([[3.]], dtype=float32)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead: list[bool] = []
        self._heatmaps = ArraySpool()
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
        for heatmap in explanations.heatmap.numpy():
            self._heatmaps.append(heatmap)

    def read(
        self, rows: Int[ndarray, " rows"], size: tuple[int, int] | None
    ) -> Float32[ndarray, "rows height width"]:
        """Read the heatmaps of some images, resized unless ``size`` is None; see `Explanations.resized`."""
        maps = np.stack([self._heatmaps[row] for row in rows.tolist()])
        return maps if size is None else resize_heatmap(torch.from_numpy(maps), *size).numpy()

    def thresholds(
        self, proportions: Sequence[float], pooling: Pooling, size: tuple[int, int] | None
    ) -> Float32[ndarray, "images proportions"]:
        """Compute the thresholds of `set_threshold` for several proportions at once.

        Args:
            proportions: shares of the points.
            pooling: see `set_threshold`.
            size: height and width to which the heatmaps are resized first; None does not resize.
        """
        thresholds = np.empty((len(self._heatmaps), len(proportions)), np.float32)
        height, width = size or self.shape
        points, levels = height * width, [1 - share for share in proportions]
        if pooling == "image":
            for rows in row_chunks(np.arange(len(thresholds)), points):
                # The maps of a chunk are resized at once: for small maps a call is most of the cost.
                maps = self.read(rows, size).reshape(-1, points)
                for row, heatmap in zip(rows.tolist(), maps, strict=True):
                    thresholds[row] = quantiles([heatmap].__iter__, points, levels)
            return thresholds
        for rows in self._sets():
            read = partial(self._pieces, rows, size, points)
            thresholds[rows] = quantiles(read, len(rows) * points, levels)
        return thresholds

    def _pieces(
        self, rows: Int[ndarray, " rows"], size: tuple[int, int] | None, points: int
    ) -> Iterator[Float32[ndarray, " points"]]:
        for piece in row_chunks(rows, points):
            yield self.read(piece, size).reshape(-1)

    def _sets(self) -> list[Int[ndarray, " rows"]]:
        """Group the images whose heatmaps were merged from the same maps."""
        number = torch.unique(torch.cat(self._members), dim=0, return_inverse=True)[1].numpy()
        order = number.argsort(kind="stable")
        return np.split(order, np.bincount(number).cumsum()[:-1])


class MaskStream:
    """Masks of all images, stored with one bit per pixel.

    Attributes:
        annotated: for each image, the names of the parts with a mask.
        shape: height and width of the masks; (0, 0) before the first mask.

    Example:
        >>> stream = MaskStream()
        >>> stream.append({"head": torch.tensor([[True, False]])})
        >>> stream.read(0, ["tail", "head"])
        ([1], array([[ True, False]]))
    """

    def __init__(self) -> None:
        self.annotated: list[tuple[str, ...]] = []
        self._bits = ArraySpool()
        self.shape = (0, 0)

    def append(self, masks: Mapping[str, Bool[Tensor, "height width"]]) -> None:
        """Append the masks of the next image; all masks have one size."""
        self.annotated.append(tuple(masks))
        rows = [np.packbits(mask.numpy()) for mask in masks.values()]
        for mask in masks.values():
            self.shape = (mask.shape[0], mask.shape[1])
        self._bits.append(np.stack(rows) if rows else np.empty((0, 0), np.uint8))

    def read(self, row: int, parts: Sequence[str]) -> tuple[list[int], Bool[ndarray, "shown points"]]:
        """Read the masks of one image; return the numbers of their parts and the masks."""
        shown = [number for number, name in enumerate(parts) if name in self.annotated[row]]
        bits = self._bits[row][[self.annotated[row].index(parts[number]) for number in shown]]
        return shown, np.unpackbits(bits, axis=1, count=self.shape[0] * self.shape[1] if shown else 0).view(
            bool
        )


def stream_iou(
    explained: Sequence[ExplanationStream],
    thresholds: Sequence[Float32[ndarray, "images proportions"]],
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
    images, proportions = thresholds[0].shape
    iou = np.full((len(explained), images, proportions, len(parts)), np.nan)
    for rows in row_chunks(np.arange(images), masks.shape[0] * masks.shape[1]):
        heatmaps = [stream.read(rows, masks.shape) for stream in explained]
        for place, row in enumerate(rows.tolist()):
            shown, shapes = masks.read(row, parts)
            for method, maps in enumerate(heatmaps if shown else []):
                heatmap = maps[place].reshape(-1)
                # Two indexing steps: numpy would pair the two index arrays of a single step.
                iou[method, row][:, shown] = sweep_iou(heatmap, thresholds[method][row], shapes, compat)
    return np.ascontiguousarray(iou.swapaxes(1, 2))


def row_chunks(rows: Int[ndarray, " rows"], points: int) -> list[Int[ndarray, " piece"]]:
    """Cut row numbers into chunks whose heatmaps, each with ``points`` points, fit in memory.

    Example:
        >>> [len(piece) for piece in row_chunks(np.arange(3), 2**20)]
        [2, 1]
    """
    length = max(1, _POINTS // points)
    return [rows[start : start + length] for start in range(0, len(rows), length)]
