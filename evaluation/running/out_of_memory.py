"""Smaller batches where memory ends."""

import gc
from collections.abc import Callable

import torch
from torch import Tensor

from loaders.errors import InputError


class OutOfMemory(InputError):
    """Memory ended while a model ran."""


def run_in_halves(run: Callable[[slice], tuple[Tensor, ...]], count: int) -> tuple[Tensor, ...]:
    """Run on all rows of a batch, or on each half where memory ends, down to one row.

    Args:
        run: from a choice of rows to tensors with one row for each.
        count: rows of the batch.

    Returns:
        The tensors of all rows.

    Raises:
        OutOfMemory: memory does not suffice for one row.

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
    # After the handler, for the traceback of the exception holds the tensors of the model.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = (start + stop) // 2
    halves = _run(run, start, middle), _run(run, middle, stop)
    return tuple(torch.cat(parts) for parts in zip(*halves, strict=True))
