"""Weak supervision: pairs that share or change factors, are ranked by them, and labels of only some.

Pair ``i`` depends on the seed and on ``i`` alone. Where rows were left out of a grid, or drawn, the second of
a pair comes from the rows that agree with the first in what they share, all with equal chances.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped
from numpy import ndarray

from loaders.errors import InputError
from loaders.selection.factor_index import FactorIndex
from loaders.selection.factor_partners import MissingPartner, draw_partners
from loaders.selection.numbered_draws import NumberedDraws

Names = str | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows.

    Attributes:
        first: row number of the first of each pair.
        second: row number of the second; -1 where no such row exists and a mask was asked for.
        drawn: the factors of the second that were drawn anew, by chance perhaps with the same value.
        label: what is known of each pair: the number of its mask, its ranks, or how many factors were drawn.
    """

    first: Int[ndarray, " n"]
    second: Int[ndarray, " n"]
    drawn: Bool[ndarray, "n k"]
    label: Shaped[ndarray, " n *labels"]

    @property
    def exists(self) -> Bool[ndarray, " n"]:
        """Whether each pair has a second row."""
        return self.second >= 0


def match_pairs(
    index: FactorIndex,
    seed: int,
    items: Sequence[int] | Int[ndarray, " n"],
    share: Iterable[Names] = (),
    change: Iterable[Names] = (),
) -> Pairs:
    """Draw pairs that are known to share some factors, or to change no others.

    Match pairing of Shu, Chen, Kumar, Ermon and Poole (2020), section 3: one mask for each entry of ``share``
    (these factors are equal, the others drawn anew) and of ``change`` (these are drawn anew and may come out
    the same, the others are equal), of which each pair draws one; the first row is any.

    Args:
        index: the rows.
        seed: seed of the draws.
        items: numbers of the pairs.
        share: factors that are shared, a name or several of them for each mask.
        change: factors that are drawn anew.

    Returns:
        The pairs; ``label`` is the number of the mask, those of ``share`` first.

    Raises:
        InputError: there is no mask, or no such factor.

    Example:
        >>> from loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> pairs = match_pairs(index, 0, np.arange(4), share=["color"], change=["color"])
        >>> pairs.first, pairs.second, pairs.label
        (array([0, 0, 0, 4]), array([1, 2, 2, 1]), array([0, 0, 0, 1]))
    """
    masks = [_mask(index, names, False) for names in share] + [_mask(index, names, True) for names in change]
    if not masks:
        raise InputError("match pairs: expected factors to share or to change, got none")
    draws = NumberedDraws(seed, np.asarray(items, np.int64))
    label = draws.below("mask", len(masks))
    return replace(_pairs(index, draws, np.stack(masks)[label]), label=label)


def rank_pairs(
    index: FactorIndex, seed: int, items: Sequence[int] | Int[ndarray, " n"], names: Iterable[str]
) -> Pairs:
    """Draw two rows at random, and tell which has more of some factors.

    Rank pairing of Shu et al. (2020), section 3. Categorical factors rank by their order; ties count as not
    more.

    Args:
        index: the rows.
        seed: seed of the draws.
        items: numbers of the pairs.
        names: factors to compare.

    Returns:
        The pairs; ``label`` [n, names] is whether the first has more of each factor, in the order given.

    Raises:
        InputError: there is no such factor.

    Example:
        >>> from loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> pairs = rank_pairs(index, 0, np.array([3, 4, 7]), ["size"])
        >>> pairs.first, pairs.second, pairs.label.ravel()
        (array([4, 2, 0]), array([2, 4, 5]), array([False,  True, False]))
    """
    columns = [index.column(name) for name in names]
    pairs = _pairs(
        index, NumberedDraws(seed, np.asarray(items, np.int64)), np.ones((len(items), len(index.sizes)), bool)
    )
    more = index.numbers(pairs.first) > index.numbers(pairs.second)
    return replace(pairs, label=more[:, columns])


def k_pairs(
    index: FactorIndex,
    seed: int,
    items: Sequence[int] | Int[ndarray, " n"],
    k: int | Literal["uniform", "locatello_code"] = "uniform",
    names: Iterable[str] | None = None,
    distinct: bool = False,
    missing: MissingPartner = "error",
) -> Pairs:
    """Draw pairs that differ in k factors, without saying in which.

    Pairs of Locatello, Poole, Rätsch, Schölkopf, Bachem and Tschannen (2020), section 5: of d factors, any k
    with equal chances are drawn anew. "uniform" draws k from 1..d - 1, as the paper has it; "locatello_code"
    draws it likewise and then takes it or 1 with equal chances, as the released code does.

    Args:
        index: the rows.
        seed: seed of the draws.
        items: numbers of the pairs.
        k: how many factors.
        names: factors that may change; None for all that have more than one value.
        distinct: whether the factors drawn must come out different: then exactly k differ.
        missing: with ``distinct``, what to do where no such row exists: raise an error, or give -1.

    Returns:
        The pairs; ``label`` is k.

    Raises:
        InputError: no such factor; k is more than there are factors; or a pair has no second row.

    Example:
        >>> from loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> pairs = k_pairs(index, 0, np.array([3, 4, 7]), k=1, distinct=True)
        >>> pairs.first, pairs.second
        (array([4, 2, 0]), array([1, 5, 2]))
    """
    names = (
        [n for n, size in zip(index.names, index.sizes, strict=True) if size > 1] if names is None else names
    )
    columns = np.array(index.columns(names), np.int64)
    if not len(columns):
        raise InputError("k pairs: expected at least one factor that may change, got none")
    draws = NumberedDraws(seed, np.asarray(items, np.int64))
    label = _count(draws, k, len(columns))
    # The k factors whose numbers are lowest are a set of k, each set with equal chances.
    lots = np.stack([draws.uniform(f"lot {index.names[j]}") for j in columns], axis=1)
    ranks = np.argsort(np.argsort(lots, axis=1, kind="stable"), axis=1, kind="stable")
    drawn = np.zeros((len(items), len(index.sizes)), bool)
    drawn[:, columns] = ranks < label[:, None]
    return replace(_pairs(index, draws, drawn, distinct, missing), label=label)


def restricted_labels(
    index: FactorIndex, rows: Sequence[int] | Int[ndarray, " n"], names: Iterable[str]
) -> Float64[ndarray, "n k"]:
    """Label rows with some of their factors.

    Restricted labelling of Shu et al. (2020), section 3: every factor standardised by the mean and standard
    deviation of its class numbers (of a continuous factor, of its values in the index), 0 where it is not
    among ``names`` or has one value only.

    Args:
        index: the rows.
        rows: rows to label.
        names: factors that are known.

    Raises:
        InputError: there is no such factor or row.

    Example:
        >>> from loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> restricted_labels(index, np.array([0, 4]), ["color"])
        array([[-1.,  0.],
               [ 1.,  0.]])
    """
    labels = np.zeros((len(rows), len(index.sizes)))
    numbers = index.numbers(np.asarray(rows, np.int64))
    for j in index.columns(names):
        known = index.classes[j].numbers
        if index.classes[j].is_continuous:
            known = index.numbers(np.arange(len(index)))[:, j]
        if spread := float(known.std()):
            labels[:, j] = (numbers[:, j] - known.mean()) / spread
    return labels


def _mask(index: FactorIndex, names: Names, change: bool) -> Bool[ndarray, " k"]:
    columns = index.columns((names,) if isinstance(names, str) else names)
    return np.isin(np.arange(len(index.sizes)), columns) == change


def _count(draws: NumberedDraws, k: int | str, most: int) -> Int[ndarray, " n"]:
    if isinstance(k, int | np.integer) and 0 < k <= most:
        return np.full(len(draws.items), k)
    if k not in ("uniform", "locatello_code") or most < 2:
        raise InputError(
            f"k: expected 1..{most}, or with two factors or more `uniform` or `locatello_code`, got {k!r}"
        )
    count = 1 + draws.below("k", most - 1)
    return count if k == "uniform" else np.where(draws.below("coin", 2), count, 1)


def _pairs(
    index: FactorIndex,
    draws: NumberedDraws,
    drawn: Bool[ndarray, "n k"],
    distinct: bool = False,
    missing: MissingPartner = "error",
) -> Pairs:
    first = draws.below("first", len(index))
    second = np.full(len(first), -1)
    kinds, kind = np.unique(drawn, axis=0, return_inverse=True)
    for number, mask in enumerate(kinds):
        chosen = kind.ravel() == number
        names = list(itertools.compress(index.names, mask))
        second[chosen] = draw_partners(index, first[chosen], names, draws.take(chosen), distinct, missing)
    return Pairs(first, second, drawn, np.zeros(len(first), np.int64))
