"""Frames as a stream for `torch.utils.data.DataLoader`."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, SupportsIndex, runtime_checkable

import torch
from torch.utils.data import IterableDataset, get_worker_info

from loaders.epochs import Resumable, Uneven
from loaders.errors import InputError
from loaders.samples import collate as collate_frames


@runtime_checkable
class Rows(Protocol):
    """What has a length and rows: `loaders.samples.Frames`, a public data set, a list."""

    def __len__(self) -> int:
        """Count the rows."""

    def __getitem__(self, row: SupportsIndex, /) -> Any:
        """Read one row."""


class FrameStream(Resumable, IterableDataset[Any]):
    """The rows of an image set one after another, for ``DataLoader(stream, batch_size=None)``.

    The stream makes the batches itself. Worker ``w`` of ``n`` reads every ``n``-th batch from batch ``w`` on,
    and the loader takes from the workers in turn, so that what comes out does not depend on how many there
    are. Where a run is in the epoch is what `track` has counted, not what workers have read ahead; a run may
    go on with another number of workers. Between iterations nothing but the reader is kept.

    Example:
        >>> rows = ["first", "second", "third"]  # or frames
        >>> stream = FrameStream(rows, shuffle=True, seed=4)
        >>> samples = stream.track(stream)
        >>> next(samples)
        'third'
        >>> state = stream.state_dict()
        >>> other = FrameStream(rows, shuffle=True, seed=4)
        >>> other.load_state_dict(state)
        >>> list(other.track(other)) == list(samples)
        True
    """

    def __init__(
        self,
        frames: Rows,
        batch_size: int | None = None,
        *,
        collate: Callable[[list[Any]], Any] = collate_frames,
        shuffle: bool = False,
        seed: int = 0,
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        uneven: Uneven = "pad",
        drop_last: bool = False,
    ) -> None:
        """Start at the beginning of an epoch.

        Args:
            frames: the image set; its ``__getitems__`` reads batches if it has one.
            batch_size: samples in a batch; None for single samples.
            collate: what puts a batch together, `loaders.samples.collate` unless said otherwise.
            shuffle: whether each epoch has an order of its own, which depends on `seed` and its number.
            seed: 0 or more.
            epoch: number of the epoch, 0 or more.
            rank: number of this process among those that share the rows.
            world_size: how many share them.
            uneven: "pad", "drop" or "keep", see `loaders.epochs.EpochOrder`.
            drop_last: whether to leave out a last batch that is not full.

        Raises:
            InputError: a number is out of its range, or an epoch would have no batch.
        """
        super().__init__(
            len(frames),
            1 if batch_size is None else batch_size,
            shuffle=shuffle,
            seed=seed,
            epoch=epoch,
            rank=rank,
            world_size=world_size,
            uneven=uneven,
            drop_last=drop_last,
        )
        self.frames = frames
        self._collate = None if batch_size is None else collate

    def _make_shared(self) -> Any:
        # In shared memory, because persistent workers keep their copy of the stream over epochs.
        place: Any = torch.zeros(4, dtype=torch.int64)
        return place.share_memory_()

    def __iter__(self) -> Iterator[Any]:
        """Read the rest of the epoch; in a worker process, this worker's batches of it."""
        epoch, start = self._start()
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        for rows in self.order.batches(epoch, start + number, count):
            yield self._collate(self._read(rows)) if self._collate else self.frames[rows[0]]

    def _read(self, rows: list[int]) -> list[Any]:
        read: Callable[[list[int]], list[Any]] | None = getattr(self.frames, "__getitems__", None)
        return read(rows) if read else [self.frames[row] for row in rows]

    def _check_loader(self, loader: Any) -> None:
        super()._check_loader(loader)
        if getattr(loader, "dataset", self) is not self:
            raise InputError("dataset: expected a DataLoader of this stream, got one of other data")
        if getattr(loader, "batch_size", None) is not None:
            raise InputError("batch_size: give it to FrameStream, and `batch_size=None` to the DataLoader")
