"""Order of the rows in each training epoch, split over ranks, with a position to resume from."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.selection.numbered_draws import NumberedDraws

Uneven = Literal["pad", "drop", "keep"]
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class EpochOrder:
    """Order of the rows that one rank reads in each epoch.

    The order depends only on `rows`, `seed` and the number of the epoch, under any version of numpy. Rank
    ``r`` takes every ``world_size``-th row of the order, starting with the ``r``-th, so all ranks together
    read each row once.

    Attributes:
        rows: number of rows.
        batch_size: rows in a batch.
        shuffle: whether each epoch has an order of its own; otherwise rows come in order of their numbers.
        seed: 0 or more.
        rank: number of this process among the processes that share the rows.
        world_size: number of processes that share the rows.
        uneven: how to share rows whose number is no multiple of `world_size`. "pad": rows from the beginning
            of the order are read once more; "drop": the last rows of the order are left out; "keep": the
            first ranks read one row more, which stalls training that waits for all ranks in each step.
        drop_last: whether to leave out a last batch that is not full.

    Example:
        >>> order = EpochOrder(5, batch_size=2, shuffle=True)
        >>> list(order.batches(epoch=0)), list(order.batches(epoch=1))
        ([[2, 4], [3, 1], [0]], [[0, 1], [2, 4], [3]])
        >>> [EpochOrder(5, rank=rank, world_size=2).epoch_rows(0).tolist() for rank in range(2)]
        [[0, 2, 4], [1, 3, 0]]
    """

    rows: int
    batch_size: int = 1
    shuffle: bool = False
    seed: int = 0
    rank: int = 0
    world_size: int = 1
    uneven: Uneven = "pad"
    drop_last: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and an order without a batch."""
        if self.batch_size < 1:
            raise InputError(f"batch_size: expected 1 or more, got {self.batch_size}")
        if self.seed < 0:
            raise InputError(f"seed: expected 0 or more, got {self.seed}")
        if not 0 <= self.rank < self.world_size:
            raise InputError(f"rank: expected 0..world_size - 1 = {self.world_size - 1}, got {self.rank}")
        if self.uneven not in ("pad", "drop", "keep"):
            raise InputError(f"uneven: expected pad, drop or keep, got {self.uneven!r}")
        if self.rows < self.world_size:
            raise InputError(
                f"world_size: expected at most one rank for each of {self.rows} rows, got {self.world_size}"
            )
        if not len(self):
            raise InputError(
                f"batch_size: expected at most the {self._share()} rows of a rank with drop_last, got "
                f"{self.batch_size}; lower it"
            )

    def __len__(self) -> int:
        """Count the batches of this rank in an epoch."""
        share = self._share()
        return share // self.batch_size if self.drop_last else -(-share // self.batch_size)

    def _share(self) -> int:
        if self.uneven == "keep":
            return len(range(self.rank, self.rows, self.world_size))
        return self.rows // self.world_size + (self.uneven == "pad" and self.rows % self.world_size > 0)

    def epoch_rows(self, epoch: int) -> Int[ndarray, " n"]:
        """List the rows of this rank in an epoch, in order."""
        order = np.arange(self.rows)
        if self.shuffle:
            # Sorted keys rather than `Generator.permutation`, whose result numpy may change.
            keys = NumberedDraws(self.seed, order).uniform(f"order of epoch {epoch}")
            order = np.argsort(keys, kind="stable")
        if self.uneven != "keep":
            order = np.resize(order, self._share() * self.world_size)  # repeats or cuts at the end
        return order[self.rank :: self.world_size]

    def batches(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        """Yield the batches of this rank in an epoch, from batch number ``start`` on."""
        rows = self.epoch_rows(epoch)
        for number in range(start, len(self)):
            first = number * self.batch_size
            yield rows[first : first + self.batch_size].tolist()


class ResumableSampler:
    """Batches of row numbers, for ``DataLoader(frames, batch_sampler=...)`` with any number of workers.

    The sampler counts the batches that a training run has read, so that another process can resume there.

    Example:
        >>> sampler = ResumableSampler(6, batch_size=2)
        >>> batches = sampler.track(sampler)
        >>> next(batches), sampler.state_dict()["done"]
        ([0, 1], 1)
        >>> other = ResumableSampler(6, batch_size=2)
        >>> other.load_state_dict(sampler.state_dict())
        >>> list(other.track(other)), other.epoch
        ([[2, 3], [4, 5]], 1)
    """

    def __init__(
        self,
        rows: int,
        batch_size: int = 1,
        *,
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
            rows: number of rows.
            batch_size: rows in a batch.
            shuffle: whether each epoch has an order of its own, which depends on `seed` and its number.
            seed: 0 or more.
            epoch: number of the epoch, 0 or more.
            rank: number of this process among the processes that share the rows.
            world_size: number of processes that share the rows.
            uneven: "pad", "drop" or "keep", see `EpochOrder`.
            drop_last: whether to leave out a last batch that is not full.

        Raises:
            InputError: a number is out of its range, or an epoch would have no batch.
        """
        self.order = EpochOrder(rows, batch_size, shuffle, seed, rank, world_size, uneven, drop_last)
        self._tracked = False
        self.set_epoch(epoch)

    def __len__(self) -> int:
        """Count the batches of this rank in a whole epoch."""
        return len(self.order)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of the epoch that the run has not read yet."""
        self._uncounted |= not self._tracked
        yield from self.order.batches(self.epoch, self._done)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, 0 or more."""
        if epoch < 0:
            raise InputError(f"epoch: expected 0 or more, got {epoch}")
        self._move(epoch, 0)

    def _move(self, epoch: int, done: int) -> None:
        self.epoch, self._done, self._uncounted = epoch, done, False

    def track(self, loader: Iterable[_Item]) -> Iterator[_Item]:
        """Iterate over the rest of the epoch and count its batches; then go to the next epoch.

        Worker processes read ahead, so only batches that arrive here count as read.

        Args:
            loader: a `torch.utils.data.DataLoader` made with this sampler, or this sampler itself.

        Yields:
            The loader's batches.

        Raises:
            InputError: the loader was made with another sampler or with ``in_order=False``.
        """
        if not getattr(loader, "in_order", True):
            raise InputError("in_order: expected True, because batches in another order cannot be resumed")
        if getattr(loader, "batch_sampler", self) is not self:
            raise InputError("batch_sampler: expected a DataLoader made with this sampler, got another")
        return self._counted(loader)

    def _counted(self, loader: Iterable[_Item]) -> Iterator[_Item]:
        self._tracked, self._uncounted = True, False
        try:
            for item in loader:
                self._done += 1
                yield item
        finally:
            self._tracked = False
        self.set_epoch(self.epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the run: numbers and strings only, for JSON or `torch.save`.

        Raises:
            InputError: batches were read without `track`, so they were not counted.
        """
        if self._uncounted:
            raise InputError("state_dict: batches were not counted; iterate over `track(loader)` instead")
        return {"epoch": self.epoch, "done": self._done, "order": self._order_of_all()}

    def _order_of_all(self) -> dict[str, Any]:
        """Return the fields that all ranks share, so that every rank can load the state of any rank."""
        return {name: value for name, value in asdict(self.order).items() if name != "rank"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the position of another run: the next batch is the next batch of that run.

        Args:
            state: result of `state_dict`, from this rank or any other.

        Raises:
            InputError: that run read the rows in another order, or the state is malformed.
        """
        try:
            found, epoch, done = dict(state["order"]), int(state["epoch"]), int(state["done"])
        except (KeyError, TypeError, ValueError):
            raise InputError("state: expected a result of `state_dict`, got something else") from None
        order = self._order_of_all()
        if odd := [name for name in order if found.get(name) != order[name]]:
            raise InputError(
                f"state: expected {odd[0]} {order[odd[0]]!r}, got {found.get(odd[0])!r}; use the arguments "
                "of that run, or start a new epoch"
            )
        most = len(replace(self.order, rank=0))  # no rank has more
        if epoch < 0 or not 0 <= done <= most:
            raise InputError(f"state: expected up to {most} batches of an epoch, got {done} of {epoch}")
        self._move(epoch, done)
