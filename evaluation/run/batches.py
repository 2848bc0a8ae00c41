"""Batches of rows, halved when memory runs out, and repeatable sums."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.views import View
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Batch(Generic[_Item]):
    """Neighbouring rows whose images have one size."""

    rows: tuple[int, ...]
    ids: tuple[str, ...]
    items: tuple[_Item, ...]

    def stack(self, pick: Callable[[_Item], Tensor]) -> Tensor:
        """Stack one tensor of each item.

        Example:
            >>> Batch((0, 1), ("a", "b"), (torch.zeros(2), torch.ones(2))).stack(lambda item: item).shape
            torch.Size([2, 2])
        """
        return torch.stack([pick(item) for item in self.items])


def read_batches(
    view: View[_Item], batch_size: int, image: Callable[[_Item], Tensor], fingerprint: Fingerprint, label: str
) -> Iterator[Batch[_Item]]:
    """Read all rows of a view in order, in batches whose images have one size.

    Args:
        view: the rows.
        batch_size: maximal number of rows in a batch.
        image: returns the image of an item; all images of a batch have one shape.
        fingerprint: every row is added to it.
        label: label of the progress bar.

    Raises:
        InputError: there is no row, or the batch size is below 1.
    """
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")
    if not len(view) == len(view.ids) == len(view.groups):
        counts = f"{len(view)} rows, {len(view.ids)} ids and {len(view.groups)} groups"
        raise InputError(f"`{view.identity.name}`: expected an id and a group for each row, got {counts}")
    if not len(view.ids):
        raise InputError(
            f"no rows to read: `{view.identity.name}` is empty, or {argument('rows')} chooses none"
        )
    pending: list[tuple[int, _Item]] = []
    shape: tuple[int, ...] = ()
    for row, name in enumerate(progress_bar(view.ids, desc=label, unit="row")):
        item = view[row]
        fingerprint.add(name, item)
        before, shape = shape, tuple(image(item).shape)  # of every row, because `image` may check it
        if pending and (len(pending) == batch_size or before != shape):
            yield _batch(view, pending)
            pending = []
        pending.append((row, item))
    yield _batch(view, pending)


def _batch(view: View[_Item], read: Sequence[tuple[int, _Item]]) -> Batch[_Item]:
    rows = tuple(row for row, _ in read)
    return Batch(rows, tuple(view.ids[row] for row in rows), tuple(item for _, item in read))


@contextmanager
def repeatable(device: str | torch.device) -> Iterator[None]:
    """Let a GPU compute in full float32, and sum in the same order each time where torch can.

    By itself, cuDNN rounds the factors of convolutions to 10 bits (TF32), which changes scores by 0.1 %.
    """
    if torch.device(device).type != "cuda":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as cuBLAS needs it to repeat its sums
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    exact = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    with exact, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*deterministic", UserWarning)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])


class OutOfMemory(InputError):
    """Error: memory ran out while a model ran."""


def run_in_halves(run: Callable[[slice], tuple[Tensor, ...]], count: int) -> tuple[Tensor, ...]:
    """Run on all rows of a batch; when memory runs out, run on each half, down to single rows.

    Args:
        run: maps a slice of rows to tensors with one entry for each of these rows.
        count: number of rows in the batch.

    Returns:
        The tensors of all rows.

    Raises:
        OutOfMemory: a single row does not fit in memory.

    Example:
        >>> def run(rows):
        ...     if rows.stop - rows.start > 2:
        ...         raise OutOfMemory("too many")
        ...     return (torch.arange(rows.start, rows.stop),)
        >>> run_in_halves(run, 5)
        (tensor([0, 1, 2, 3, 4]),)
    """
    return _run(run, 0, count)


def _run(run: Callable[[slice], tuple[Tensor, ...]], start: int, stop: int) -> tuple[Tensor, ...]:
    try:
        return run(slice(start, stop))
    except OutOfMemory:
        if stop - start <= 1:
            raise
    # Outside the except block, because the traceback of the exception keeps the model's tensors alive.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = (start + stop) // 2
    halves = _run(run, start, middle), _run(run, middle, stop)
    return tuple(torch.cat(parts) for parts in zip(*halves, strict=True))
