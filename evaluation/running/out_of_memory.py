"""Halve a batch when memory runs out, and try again."""

import gc
from collections.abc import Callable

import torch
from torch import Tensor

from candlelight.loaders.errors import InputError


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
