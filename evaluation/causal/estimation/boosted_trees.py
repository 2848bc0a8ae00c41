"""Gradient boosted classification trees on numpy arrays, with the splits of scikit-learn and less work.

J. H. Friedman: Greedy Function Approximation: A Gradient Boosting Machine, Annals of Statistics 2001,
algorithms 5 and 6. scikit-learn's GradientBoostingClassifier sorts the rows of every node by every feature.
Here values are replaced once by the numbers of cells, and a node needs sums of gradients over cells only; the
sums of the larger of two nodes are those of the parent less those of the smaller one. A cell is one value of
a feature where it has at most 2048 values, and the splits are then those of scikit-learn. Otherwise
neighbouring values share a cell, fewer of them near the smallest and the largest value.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int
from numpy import ndarray
from scipy.special import expit, softmax

# The defaults and the tolerances of scikit-learn.
_STAGES, _DEPTH, _LEARNING_RATE = 100, 3, 0.1
_SEPARATION = np.float32(1e-7)  # no threshold lies between values that are closer
_PURE = np.finfo(float).eps  # a node with a smaller variance is a leaf
_FLAT = 1e-150  # a leaf with a smaller mean curvature takes no step

_CELLS = 2048


class _Node(NamedTuple):
    """Numbers of the training and the test rows of a node; sums over its training rows, [features, cells]."""

    train: Int[ndarray, " rows"]
    test: Int[ndarray, " test_rows"]
    counts: Int[ndarray, "features cells"]
    sums: Float[ndarray, "features cells"]


class _Split(NamedTuple):
    """Values of a feature up to the threshold go to the first of two nodes."""

    feature: int
    threshold: np.float64
    decrease: float


def boost_trees(
    train: Float32[ndarray, "train features"],
    classes: Int[ndarray, " train"],
    test: Float32[ndarray, "test features"],
    seed: int,
) -> tuple[Float[ndarray, " features"], Int[ndarray, " train"], Int[ndarray, " test"]]:
    """Train 100 stages of trees of depth 3 with log loss and learning rate 0.1, and classify all rows.

    A stage has one tree for each of K classes, or a single tree for two. A tree is grown on the gradients y -
    p. A split is the midpoint between two values of a feature with the largest decrease of squared error,
    ``(n_l n_r / n) (mean_l - mean_r)^2``. A leaf adds a Newton step, ``mean(y - p) / mean(p (1 - p))``, times
    the learning rate, and for K > 2 times ``(K - 1) / K``.

    Args:
        train: features of the training rows, finite.
        classes: classes of the training rows, at least two different ones.
        test: features of other rows, finite.
        seed: seed of the draws between features whose best splits are equally good.

    Returns:
        Importances, the share of each feature in the decrease of squared error by all splits; 0 if there is
        none. Predicted classes of the training rows, and of the test rows.

    Example:
        >>> codes = np.array([[0, 5], [1, 5], [2, 5], [3, 5]], dtype=np.float32)
        >>> boost_trees(codes, np.array([4, 4, 9, 9]), codes[2:], seed=0)
        (array([1., 0.]), array([4, 4, 9, 9]), array([9, 9]))
    """
    names, index = np.unique(classes, return_inverse=True)
    importances, *scores = _boost(train, index == np.arange(len(names))[:, None], test, seed)
    found = ((one[0] >= 0).astype(int) if len(one) == 1 else one.argmax(0) for one in scores)
    return importances, *(names[one] for one in found)


def _boost(
    train: ndarray, members: ndarray, test: ndarray, seed: int
) -> tuple[Float[ndarray, " features"], Float[ndarray, "trees train"], Float[ndarray, "trees test"]]:
    """Return importances, and the scores of the classes before expit or softmax."""
    binary = len(members) == 2
    members = members[binary:].astype(float)
    share = members.mean(1)
    start = np.log(share) - (np.log1p(-share) if binary else np.log(share).mean())
    known, unknown = (np.repeat(start[:, None], len(rows), axis=1) for rows in (train, test))
    rate = _LEARNING_RATE * (1 if binary else 1 - 1 / len(members))
    grower = _Grower(train.T.copy(), test.T.copy(), np.random.default_rng(seed))
    for _ in range(_STAGES):
        probability = expit(known) if binary else softmax(known, axis=0)
        for tree, gradient in enumerate(members - probability):
            curvature = probability[tree] * (1 - probability[tree])
            for train_rows, test_rows in grower.leaves(gradient):
                bend = curvature.take(train_rows).sum()
                if bend > _FLAT * len(train_rows):
                    step = rate * gradient.take(train_rows).sum() / bend
                    known[tree, train_rows] += step
                    unknown[tree, test_rows] += step
    return grower.used / (grower.used.sum() or 1), known, unknown


class _Grower:
    """Rows with their cells, and the decrease of squared error by each feature in all trees so far."""

    def __init__(self, train: ndarray, test: ndarray, rng: np.random.Generator) -> None:
        self.train, self.test, self.rng = train, test, rng
        self.used = np.zeros(len(train))
        self.tables = [_Cells.of(values) for values in train]
        self.width = max(len(table.lowest) for table in self.tables)
        # Cells of all features are numbered on, so that one pass sums over the cells of each feature.
        self.cells = np.stack([table.numbers + self.width * place for place, table in enumerate(self.tables)])
        self.counts = self._count(self.cells)

    def leaves(self, gradient: Float[ndarray, " train"]) -> Iterator[tuple[ndarray, ndarray]]:
        """Grow a tree, and return the training and the test rows of each leaf."""
        rows, test = np.arange(self.train.shape[1]), np.arange(self.test.shape[1])
        root = _Node(rows, test, self.counts, self._sum(self.cells, gradient))
        return self._grow(root, _DEPTH, gradient)

    def _grow(self, node: _Node, depth: int, gradient: ndarray) -> Iterator[tuple[ndarray, ndarray]]:
        split = self._best_split(node, gradient.take(node.train)) if depth else None
        if split is None:
            yield node.train, node.test
            return
        self.used[split.feature] += split.decrease
        below = self.train[split.feature].take(node.train) <= split.threshold
        test_below = self.test[split.feature].take(node.test) <= split.threshold
        rows = [
            (node.train[side], node.test[other])
            for side, other in ((below, test_below), (~below, ~test_below))
        ]
        if depth == 1:
            yield from rows
            return
        small = int(len(rows[1][0]) < len(rows[0][0]))
        cells = self.cells.take(rows[small][0], axis=1)
        counts, sums = self._count(cells), self._sum(cells, gradient.take(rows[small][0]))
        for side in (0, 1):
            own = (counts, sums) if side == small else (node.counts - counts, node.sums - sums)
            yield from self._grow(_Node(*rows[side], *own), depth - 1, gradient)

    def _count(self, cells: Int[ndarray, "features rows"]) -> Int[ndarray, "features cells"]:
        return np.bincount(cells.ravel(), minlength=self.width * len(cells)).reshape(len(cells), -1)

    def _sum(
        self, cells: Int[ndarray, "features rows"], weights: ndarray
    ) -> Float[ndarray, "features cells"]:
        sums = np.bincount(cells.ravel(), np.tile(weights, len(cells)), self.width * len(cells))
        return sums.reshape(len(cells), -1)

    def _best_split(self, node: _Node, gradient: Float[ndarray, " rows"]) -> _Split | None:
        """Return the split that decreases the squared error most; None if the node is pure or constant."""
        rows = len(gradient)
        mean = gradient.sum() / rows
        if np.square(gradient - mean).sum() <= _PURE * rows:
            return None
        left = node.counts.cumsum(axis=1)
        # Of the gradients less their mean, the sums of both sides differ in the sign only.
        decrease = np.square(node.sums.cumsum(axis=1) - mean * left)
        products = left * (rows - left)
        decrease = np.divide(decrease, products, out=np.full_like(decrease, -1), where=products > 0)
        places = decrease.argmax(axis=1)
        best = decrease[np.arange(len(places)), places]
        largest = best.max()
        if largest < 0:
            return None
        # A draw between equals: otherwise the first of equal features would hide the others.
        equal = (best == largest).nonzero()[0]
        feature = int(equal[self.rng.integers(len(equal))])
        threshold = self.tables[feature].threshold(node.counts[feature].nonzero()[0], int(places[feature]))
        return _Split(feature, threshold, float(largest * rows))


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells of one feature: the cell of each row, and the smallest and the largest value in each cell."""

    numbers: Int[ndarray, " rows"]
    lowest: Float[ndarray, " cells"]
    highest: Float[ndarray, " cells"]

    @classmethod
    def of(cls, values: Float32[ndarray, " rows"]) -> "_Cells":
        order = values.argsort(kind="stable")
        ordered = values[order]
        is_new = np.concatenate([[True], ordered[1:] > ordered[:-1] + _SEPARATION])
        if is_new.sum() > _CELLS:
            # A cell starts at the first new value after each quantile. Quantiles are denser at both ends,
            # because many splits isolate few rows there.
            first = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
            quantile = (_CELLS * 2 / np.pi * np.arcsin(np.sqrt(first / len(order)))).astype(int)
            is_new[1:] = quantile[1:] > quantile[:-1]
        starts = is_new.nonzero()[0]
        numbers = np.empty(len(order), np.intp)
        numbers[order] = is_new.cumsum() - 1
        ends = np.append(starts[1:], len(order)) - 1
        return cls(numbers, ordered[starts].astype(float), ordered[ends].astype(float))

    def threshold(self, cells: Int[ndarray, " cells"], place: int) -> np.float64:
        """Return the midpoint after cell ``place``, between the neighbours of ``cells``, which have rows."""
        after = cells.searchsorted(place, side="right")
        return self.highest[cells[after - 1]] / 2 + self.lowest[cells[after]] / 2
