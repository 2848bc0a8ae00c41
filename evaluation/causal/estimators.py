"""Estimators between codes and factors.

Boosted trees, kernel ridge and linear regression, covariance measure.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32, Int, Real
from numpy import ndarray
from scipy.special import expit, softmax
from torch import Tensor

from candlelight.evaluation.causal.code_inputs import standardise
from candlelight.loaders.errors import InputError

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


PENALTIES = (1.0, 0.1, 0.01, 0.001)
WIDTHS = tuple(10.0**power for power in (-2, -2 / 3, 2 / 3, 2))
KERNEL_FOLDS = 3


def predict_by_kernel(
    codes: Real[Tensor, "fitted codes"],
    factors: Real[Tensor, "fitted factors"],
    scored: Real[Tensor, "scored codes"],
    separate: bool = False,
) -> Float[Tensor, "scored factors"]:
    """Fit kernel ridge regression to rows and predict the factors of other rows.

    The kernel is ``exp(-gamma |z - z'|^2)`` of standardised codes; ``gamma`` and the penalty are the pair of
    the grid with the largest mean R2 in three-fold cross-validation, one pair for all factors. Grid, folds
    and standardising are those of von Kuegelgen et al. 2021 (Self-Supervised Learning with Data Augmentations
    Provably Isolates Content from Style, NeurIPS), but the folds interleave, because rows may be in order.

    Memory is 8 bytes for each pair of fitted rows, several times; time grows with the cube of their number.
    The paper fits 4096 rows.

    Args:
        codes: codes to fit on, finite.
        factors: their factors, finite.
        scored: codes to predict for.
        separate: choose a pair for each factor instead of one for all.

    Returns:
        Predicted factors in their own units, float64.

    Raises:
        InputError: there are fewer than three rows to fit on.

    Example:
        >>> grid = torch.linspace(-2, 2, 30)[:, None]
        >>> (predict_by_kernel(grid, grid.square(), grid) - grid.square()).abs().max() < 0.1
        tensor(True)
    """
    if len(codes) < KERNEL_FOLDS:
        raise InputError(f"kernel regression needs at least {KERNEL_FOLDS} rows to fit on, got {len(codes)}")
    rows, targets = standardise(codes), standardise(factors)
    distances = _squared_distances(rows, rows)
    folds = torch.arange(len(rows), device=rows.device) % KERNEL_FOLDS
    scores = []
    for gamma in WIDTHS:
        kernel = torch.exp(-gamma * distances)
        by_fold = [_fold_scores(kernel, targets, folds == fold, separate) for fold in range(KERNEL_FOLDS)]
        scores.append(torch.stack(by_fold).mean(0))
    best = torch.cat(scores).argmax(0).expand(targets.shape[1])
    between = _squared_distances(standardise(scored, codes), rows)
    found = targets.new_empty(len(scored), targets.shape[1])
    for pair in torch.unique(best).tolist():
        gamma, penalty = WIDTHS[pair // len(PENALTIES)], PENALTIES[pair % len(PENALTIES)]
        dual = _solve(torch.exp(-gamma * distances), targets[:, best == pair], penalty)
        found[:, best == pair] = torch.exp(-gamma * between) @ dual
    exact = factors.double()
    return found * exact.std(0, correction=0) + exact.mean(0)


def r2_score_of_factors(
    predicted: Float[Tensor, "samples factors"], factors: Real[Tensor, "samples factors"]
) -> Float[Tensor, " factors"]:
    """Compute the coefficient of determination of each factor, ``1 - sum (g - p)^2 / sum (g - mean g)^2``.

    Returns:
        Values of at most 1 in float64; 0 for the mean, below 0 for worse. nan for a factor with one value.

    Example:
        >>> r2_score_of_factors(torch.tensor([[1.0], [3.0]]), torch.tensor([[0], [4]]))
        tensor([0.7500], dtype=torch.float64)
    """
    exact = factors.double()
    varies = (factors != factors[:1]).any(0)
    total = (exact - exact.mean(0)).square().sum(0)
    return torch.where(varies, 1 - (exact - predicted).square().sum(0) / total, torch.nan)


def _fold_scores(
    kernel: Tensor, targets: Tensor, held: Tensor, separate: bool
) -> Float[Tensor, "penalties groups"]:
    """Compute R2 of held-out rows for each penalty, of each factor or its mean over all as one group.

    A factor with one value there does not count.
    """
    inner, outer = kernel[~held][:, ~held], kernel[held][:, ~held]
    scores = []
    for penalty in PENALTIES:
        score = r2_score_of_factors(outer @ _solve(inner, targets[~held], penalty), targets[held])
        scores.append((score if separate else score.nanmean(0, keepdim=True)).nan_to_num(0))
    return torch.stack(scores)


def _solve(kernel: Tensor, targets: Tensor, penalty: float) -> Tensor:
    ridge = kernel.clone()
    ridge.diagonal().add_(penalty)
    return torch.cholesky_solve(targets, torch.linalg.cholesky(ridge))


def _squared_distances(first: Tensor, second: Tensor) -> Tensor:
    products = first @ second.T
    return (first.square().sum(1)[:, None] + second.square().sum(1) - 2 * products).clamp(min=0)


def predict_by_line(
    codes: Real[Tensor, "fitted codes"],
    factors: Real[Tensor, "fitted factors"],
    scored: Real[Tensor, "scored codes"],
) -> Float[Tensor, "scored factors"]:
    """Fit least squares with an intercept to rows and predict the factors of other rows.

    Of equally good weights of the standardised codes, as for collinear codes, those of least norm count.

    Args:
        codes: codes to fit on, finite.
        factors: their factors, finite.
        scored: codes to predict for.

    Returns:
        Predicted factors in their own units, float64.

    Example:
        >>> codes, factors = torch.tensor([[0.0], [1.0]]), torch.tensor([[1], [3]])
        >>> predict_by_line(codes, factors, torch.tensor([[2.0]])).round(decimals=6)
        tensor([[5.]], dtype=torch.float64)
    """
    targets = factors.double()
    basis, triangle = torch.linalg.qr(standardise(codes))
    weights = torch.linalg.pinv(triangle) @ (basis.T @ (targets - targets.mean(0)))
    return standardise(scored, codes) @ weights + targets.mean(0)


LEAST_ROWS = 11  # to fit a network on


def predict_by_network(
    codes: Real[Tensor, "fitted codes"],
    factors: Real[Tensor, "fitted factors"],
    scored: Real[Tensor, "scored codes"],
    seed: int,
) -> Float[Tensor, "scored factors"]:
    """Fit a network of two layers of 64 units to rows, on the CPU, and predict the factors of other rows.

    scikit-learn's `MLPRegressor` of standardised codes and factors; training ends once a tenth of the rows
    is predicted no better for 20 passes, or after 300.

    Args:
        codes: codes to fit on, finite.
        factors: their factors, finite.
        scored: codes to predict for.
        seed: seed of the network.

    Returns:
        Predicted factors in their own units, float64.

    Raises:
        InputError: there are fewer than `LEAST_ROWS` rows to fit on.

    Example:
        >>> grid = torch.linspace(-1, 1, 400)[:, None]
        >>> (predict_by_network(grid, grid.square(), grid, seed=0) - grid.square()).abs().mean() < 0.05
        tensor(True)
    """
    from sklearn.neural_network import MLPRegressor

    if len(codes) < LEAST_ROWS:
        raise InputError(f"a network needs at least {LEAST_ROWS} rows to fit on, got {len(codes)}")
    stop = {"early_stopping": True, "n_iter_no_change": 20, "max_iter": 300}
    state = seed % 2**32  # larger seeds are refused
    network = MLPRegressor(hidden_layer_sizes=(64, 64), learning_rate_init=0.005, random_state=state, **stop)
    given = (part.numpy(force=True) for part in (standardise(codes), standardise(factors)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the last pass was reached
        network.fit(*given)
    exact, others = factors.double(), standardise(scored, codes).numpy(force=True)
    made = torch.from_numpy(network.predict(others)).reshape(len(scored), -1).to(exact.device)
    return made * exact.std(0, correction=0) + exact.mean(0)


def covariance_measure_test(
    first: Float[Tensor, "samples columns"], second: Float[Tensor, " samples"]
) -> Float[Tensor, " columns"]:
    """Test whether variables are independent given others, from residuals of regressions on the others.

    With the products ``r_n = first_n second_n`` of the residuals of N samples, ``T = sqrt(N) mean(r) /
    std(r)`` is standard normal for large N if both are independent given the others: Shah and Peters 2020
    (The Hardness of Conditional Independence Testing and the Generalised Covariance Measure, Annals of
    Statistics 48), sec. 3. The p-value is two-sided.

    Blind to: dependence without covariance of the residuals, such as that of a variable and its square if it
    is symmetric about 0, or of effects with opposite signs. It rejects too often if both regressions leave
    out the same part of the other variables.

    Args:
        first: residuals of some variables, each tested by itself.
        second: residuals of the variable that they are tested with.

    Returns:
        p-values, float64; 1 if the products are all 0, as for a variable that the others determine.

    Example:
        >>> first = torch.tensor([[1.0, 1.0], [2.0, -1.0]])
        >>> covariance_measure_test(first, torch.tensor([1.0, 1.0])).round(decimals=3)
        tensor([0., 1.], dtype=torch.float64)
    """
    products = first.double() * second.double()[:, None]
    mean = products.mean(0)
    spread = (products - mean).square().mean(0).sqrt()
    statistic = math.sqrt(len(products)) * mean / spread
    return torch.special.erfc(statistic.abs() / math.sqrt(2)).nan_to_num(1)
