"""Read the pairs of samples that `candlelight.loaders.selection.supervision` draws, as a torch data set."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from candlelight.loaders.errors import InputError, require_module
from candlelight.loaders.samples import collate
from candlelight.loaders.selection.supervision import Pairs


class PairDataset:
    """Pairs of samples for `torch.utils.data.DataLoader`, independent of workers, order and batches.

    An item is a dict of ``first`` and ``second`` (samples of the data), and of the tensors ``drawn`` (bool
    [factors]) and ``label``. Its pickle holds the data and the arguments alone.

    Example:
        >>> from functools import partial
        >>> from candlelight.loaders.selection.factor_index import FactorIndex
        >>> from candlelight.loaders.factor_space import FactorSpace
        >>> from candlelight.loaders.selection.supervision import k_pairs
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> data = [{"id": str(row)} for row in range(6)]
        >>> pairs = PairDataset(data, partial(k_pairs, index, 0, k=1), length=100)
        >>> pairs[7]["first"], pairs[7]["label"]
        ({'id': '0'}, tensor(1))
    """

    def __init__(
        self,
        data: Any,
        draw: Callable[[Int[ndarray, " n"]], Pairs],
        length: int,
        start: int = 0,
    ) -> None:
        """Take pairs of samples from data.

        Args:
            data: image set or public data set with the rows of the pairs.
            draw: draws the pairs of given numbers, such as ``partial(k_pairs, index, seed)``.
            length: number of pairs.
            start: number of the first pair; use other numbers for another epoch.

        Raises:
            InputError: the length is not positive.
        """
        if length < 1:
            raise InputError(f"length: expected at least one pair, got {length}")
        self.data, self.draw, self.length, self.start = data, draw, length, start

    def __len__(self) -> int:
        """Count the pairs."""
        return self.length

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Read one pair."""
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Read several pairs, in the requested order.

        Raises:
            InputError: a pair has no second row.
        """
        require_module("torch", "torch")
        import torch

        requested = np.array(numbers, np.int64)
        if not ((requested >= 0) & (requested < self.length)).all():
            raise IndexError(
                f"pairs are numbered 0..{self.length - 1}, got {requested.min()} to {requested.max()}"
            )
        pairs = self.draw(self.start + requested)
        if not pairs.exists.all():
            number = requested[~pairs.exists][0]
            raise InputError(f"pair {number} has no second row; first choose existing pairs by their mask")
        firsts, seconds = (read_samples(self.data, rows) for rows in (pairs.first, pairs.second))
        drawn, labels = torch.from_numpy(pairs.drawn), torch.from_numpy(pairs.label)
        return [
            {"first": first, "second": second, "drawn": drawn[i], "label": labels[i]}
            for i, (first, second) in enumerate(zip(firsts, seconds, strict=True))
        ]


def collate_pairs(
    pairs: Sequence[dict[str, Any]], collate: Callable[[list[Any]], Any] = collate
) -> dict[str, Any]:
    """Batch the items of a `PairDataset` or of `SampleTuples` (``collate_fn=collate_pairs``).

    Args:
        pairs: at least one item.
        collate: batches samples.

    Returns:
        A dict with the same keys: batches of samples, and stacked tensors; ``samples`` is a list of batches.
    """
    import torch

    batch: dict[str, Any] = {name: [pair[name] for pair in pairs] for name in pairs[0]}
    for name, values in batch.items():
        if name == "samples":
            batch[name] = [collate(list(samples)) for samples in zip(*values, strict=True)]
        else:
            batch[name] = collate(values) if name in ("first", "second") else torch.stack(values)
    return batch


def read_samples(data: Any, rows: Int[ndarray, " n"]) -> list[Any]:
    """Read rows of any data, in one call if the data support it.

    Example:
        >>> read_samples(["a", "b"], np.array([1, 0]))
        ['b', 'a']
    """
    numbers = rows.tolist()
    return data.__getitems__(numbers) if hasattr(data, "__getitems__") else [data[row] for row in numbers]
