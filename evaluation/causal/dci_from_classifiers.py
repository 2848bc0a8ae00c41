"""Disentanglement, completeness and informativeness from the importances of any classifier."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.estimation.discretise import equal_width_classes
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

# From train codes, their classes, test codes and a seed, to importances and classes of train and test rows.
FitFactor = Callable[[ndarray, ndarray, ndarray, int], tuple[ndarray, ndarray, ndarray]]

_SMALLEST = 1e-11  # added to importances, as in disentanglement_lib: entropies of zeros are then defined


@dataclass(frozen=True)
class DCI:
    """Scores from 0 to 1, higher is better, and their parts.

    Attributes:
        disentanglement: mean of ``code_disentanglement`` with ``weights``.
        completeness: mean of ``factor_completeness`` with the share of each factor in all importances.
        informativeness_train: mean of ``train_accuracy``.
        informativeness_test: mean of ``test_accuracy``.
        importance: importance of each code for the classes of each factor; columns sum to 1, or to 0 if no
            code is used.
        code_disentanglement: 1 if a code is important for one factor only, 0 if for all factors alike.
        factor_completeness: 1 if one code only is important for a factor, 0 if all codes are alike.
        weights: share of each code in all importances, rho in the paper.
        train_accuracy: share of train rows with the right class, for each factor.
        test_accuracy: share of test rows with the right class.
    """

    disentanglement: Float[Tensor, ""]
    completeness: Float[Tensor, ""]
    informativeness_train: Float[Tensor, ""]
    informativeness_test: Float[Tensor, ""]
    importance: Float[Tensor, "codes factors"]
    code_disentanglement: Float[Tensor, " codes"]
    factor_completeness: Float[Tensor, " factors"]
    weights: Float[Tensor, " codes"]
    train_accuracy: Float[Tensor, " factors"]
    test_accuracy: Float[Tensor, " factors"]


def dci_from_classifiers(
    fit: FitFactor,
    codes: Float[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    train: Int[Tensor, " train"],
    test: Int[Tensor, " test"],
    seed: int = 0,
    bins: int | None = None,
) -> DCI:
    """Compute `dci` with another classifier, such as a random forest.

    Args:
        fit: function of float32 train codes [train, codes], int64 classes [train], test codes [test, codes]
            and ``seed``, that returns importances of the codes, of any sum, and the classes that it predicts
            for the train and the test codes. It is called for each factor.
        codes: see `dci`.
        factors: see `dci`.
        train: see `dci`.
        test: see `dci`.
        seed: see `dci`.
        bins: see `dci`.

    Returns:
        See `dci`.

    Raises:
        InputError: see `dci`.

    Example:
        >>> def first_code(train, classes, test, seed):
        ...     return np.array([1.0, 0.0]), train[:, 0].astype(int), test[:, 0].astype(int)
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(2))
        >>> rows = torch.arange(4)
        >>> found = dci_from_classifiers(first_code, factors.float(), factors, rows[:3], rows[3:])
        >>> found.disentanglement, found.completeness
        (tensor(0., dtype=torch.float64), tensor(1.0000, dtype=torch.float64))
    """
    check_shapes(
        codes=(codes, "samples codes"),
        factors=(factors, "samples factors"),
        train=(train, "train"),
        test=(test, "test"),
    )
    _check_codes(codes)
    train_rows, test_rows = (
        _rows(name, rows, len(codes)) for name, rows in (("train", train), ("test", test))
    )
    if shared := np.intersect1d(train_rows, test_rows).size:
        raise InputError(f"`train` and `test` must be different rows, got {shared} in both")
    classes = _classes(factors, bins)
    for number, known in enumerate(classes[train_rows].T):
        if (known == known[0]).all():
            raise InputError(f"column {number} of `factors` has one class in the train rows; leave it out")
    values = codes.float().numpy(force=True)
    columns, train_accuracy, test_accuracy = [], [], []
    for known, unseen in zip(classes[train_rows].T, classes[test_rows].T, strict=True):
        importances, *predicted = fit(values[train_rows], known, values[test_rows], seed)
        columns.append(importances / (importances.sum() or 1))
        train_accuracy.append(np.mean(predicted[0] == known))
        test_accuracy.append(np.mean(predicted[1] == unseen))
    return _scores(np.stack(columns, axis=1), np.array(train_accuracy), np.array(test_accuracy), codes.device)


def _check_codes(codes: Tensor) -> None:
    if codes.shape[1] < 2:
        raise InputError(f"`codes` needs at least 2 codes to compare, got {codes.shape[1]}")
    if not bool(codes.float().isfinite().all()):
        raise InputError("`codes` must be finite in float32, got nan or inf; check the encoder")


def _rows(name: str, rows: Tensor, samples: int) -> Int[ndarray, " rows"]:
    """Return row numbers as an array."""
    if rows.dtype == torch.bool or rows.is_floating_point():
        raise InputError(f"`{name}` must be row numbers, got {rows.dtype}; use mask.nonzero().flatten()")
    numbers = rows.numpy(force=True)
    if not len(numbers):
        raise InputError(f"`{name}` needs at least one row, got none")
    if numbers.min() < 0 or numbers.max() >= samples:
        raise InputError(
            f"`{name}` must be row numbers from 0 to {samples - 1}, got {numbers.min()} to {numbers.max()}"
        )
    return numbers


def _classes(factors: Tensor, bins: int | None) -> Int[ndarray, "samples factors"]:
    """Return the class of each sample in each factor."""
    if factors.shape[1] < 2:
        raise InputError(f"`factors` needs at least 2 factors to compare, got {factors.shape[1]}")
    if not bool(factors.isfinite().all()):
        raise InputError("`factors` must be finite, got nan or inf; leave out samples without a value")
    if not factors.is_floating_point():
        return factors.numpy(force=True)
    if bins is None or bins < 2:
        raise InputError(
            "`factors` of floats are continuous and need `bins` of at least 2, such as 20, "
            f"got {bins}; cast class indices with .long()"
        )
    return equal_width_classes(factors.T, bins).T.numpy(force=True)


def _scores(
    importance: Float[ndarray, "codes factors"],
    train_accuracy: Float[ndarray, " factors"],
    test_accuracy: Float[ndarray, " factors"],
    device: torch.device,
) -> DCI:
    """Compute the scores from importances and accuracies."""
    by_code, by_factor = _one_sidedness(importance), _one_sidedness(importance.T)
    # Without any importance, all codes and factors count alike.
    shares = (
        importance / importance.sum() if importance.any() else np.full(importance.shape, 1 / importance.size)
    )
    weights = shares.sum(1)
    parts = (
        weights @ by_code,
        shares.sum(0) @ by_factor,
        train_accuracy.mean(),
        test_accuracy.mean(),
        importance,
        by_code,
        by_factor,
        weights,
        train_accuracy,
        test_accuracy,
    )
    return DCI(*(torch.as_tensor(part, dtype=torch.float64, device=device) for part in parts))


def _one_sidedness(importance: Float[ndarray, "rows columns"]) -> Float[ndarray, " rows"]:
    """Compute 1 minus the entropy of each row, in units of the entropy of equal entries."""
    shares = importance + _SMALLEST
    shares = shares / shares.sum(1, keepdims=True)
    return 1 + (shares * np.log(shares)).sum(1) / np.log(importance.shape[1])
