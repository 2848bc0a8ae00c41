"""Draw pairs for weak supervision that share, change or rank factors, and label rows by some factors.

Pair ``i`` depends on the seed and on ``i`` alone. If the rows are not a full grid, the second row of a pair
is drawn with equal chances from the rows that agree with the first row in the shared factors.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int, Shaped
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.factor_partners import MissingPartner, draw_partners
from candlelight.loaders.selection.numbered_draws import NumberedDraws

Names = str | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows.

    Attributes:
        first: first row of each pair.
        second: second row of each pair; -1 if no such row exists and ``missing`` is "mask".
        drawn: whether each factor of the second row was redrawn, possibly with the same value.
        label: supervision of each pair: the number of its mask, its ranks, or the number of redrawn factors.
    """

    first: Int[ndarray, " n"]
    second: Int[ndarray, " n"]
    drawn: Bool[ndarray, "n k"]
    label: Shaped[ndarray, "n ..."]

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
    """Draw pairs that share given factors, or change only given factors.

    Match pairing of Shu, Chen, Kumar, Ermon and Poole (2020), section 3. Each entry of ``share`` is a mask
    that keeps these factors and redraws the others; each entry of ``change`` is a mask that redraws these
    factors, possibly with the same value, and keeps the others. Each pair draws its mask and its first row.

    Args:
        index: the rows.
        seed: seed of the draws.
        items: numbers of the pairs.
        share: shared factors of each mask, a name or several names.
        change: redrawn factors of each mask, a name or several names.

    Returns:
        The pairs; ``label`` is the number of the mask; the masks of ``share`` come first.

    Raises:
        InputError: there is no mask, or a factor is unknown.

    Example:
        >>> from candlelight.loaders.factor_space import FactorSpace
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
    """Draw two rows at random, and compare their values of some factors.

    Rank pairing of Shu et al. (2020), section 3. The values of a categorical factor rank in their listed
    order.

    Args:
        index: the rows.
        seed: seed of the draws.
        items: numbers of the pairs.
        names: factors to compare.

    Returns:
        The pairs; ``label`` [n, names] says whether the first row has the larger value of each factor; false
        for ties.

    Raises:
        InputError: a factor is unknown.

    Example:
        >>> from candlelight.loaders.factor_space import FactorSpace
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
    """Draw pairs that differ in k unknown factors.

    Pairs of Locatello, Poole, Rätsch, Schölkopf, Bachem and Tschannen (2020), section 5: k of d factors are
    redrawn, all sets of k with equal chances. "uniform" draws k from 1..d - 1, as in the paper;
    "locatello_code" uses this draw or 1 with equal chances, as in the released code.

    Args:
        index: the rows.
        seed: seed of the draws.
        items: numbers of the pairs.
        k: number of redrawn factors.
        names: factors that may change; None for all factors with more than one value.
        distinct: whether redrawn factors must change, so that exactly k differ.
        missing: with ``distinct``, "error" raises an error if no second row exists, "mask" sets it to -1.

    Returns:
        The pairs; ``label`` is k.

    Raises:
        InputError: a factor is unknown; k exceeds the number of factors; or a pair has no second row.

    Example:
        >>> from candlelight.loaders.factor_space import FactorSpace
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
    # The k factors with the lowest draws are a set of k, all sets with equal chances.
    order = np.stack([draws.uniform(f"lot {index.names[j]}") for j in columns], axis=1)
    ranks = np.argsort(np.argsort(order, axis=1, kind="stable"), axis=1, kind="stable")
    drawn = np.zeros((len(items), len(index.sizes)), bool)
    drawn[:, columns] = ranks < label[:, None]
    return replace(_pairs(index, draws, drawn, distinct, missing), label=label)


def restricted_labels(
    index: FactorIndex, rows: Sequence[int] | Int[ndarray, " n"], names: Iterable[str]
) -> Float64[ndarray, "n k"]:
    """Label rows with some of their factors.

    Restricted labelling of Shu et al. (2020), section 3: each factor of ``names`` is standardised by the mean
    and standard deviation of its class numbers, or of its values in the index if it is continuous. Other
    factors, and factors with one value, are 0.

    Args:
        index: the rows.
        rows: rows to label.
        names: factors to label.

    Raises:
        InputError: a factor or row does not exist.

    Example:
        >>> from candlelight.loaders.factor_space import FactorSpace
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
