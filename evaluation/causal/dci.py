"""Disentanglement, completeness and informativeness (DCI) by several classifiers."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from numpy import ndarray
from torch import Tensor
from torch.nn.functional import one_hot

from candlelight.evaluation.causal.code_inputs import (
    check_codes_and_factors,
    equal_width_classes,
    find_categorical,
    split_samples,
    standardise,
    takes_arrays,
)
from candlelight.evaluation.causal.estimators import boost_trees, r2_score_of_factors
from candlelight.evaluation.views.check_shapes import check_shapes
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


@takes_arrays
def dci(
    codes: Float[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    train: Int[Tensor, " train"],
    test: Int[Tensor, " test"],
    seed: int = 0,
    bins: int | None = None,
) -> DCI:
    """Measure which codes a classifier of each factor uses, and how well it predicts the factor.

    R_ci is the importance of code c for factor i: the share of the code in the decrease of impurity by the
    trees of scikit-learn's ``GradientBoostingClassifier(random_state=seed)``, which is trained on the
    ``train`` rows for each factor, as in disentanglement_lib. With the entropy H_K in base K (Eastwood &
    Williams 2018, sec. 2):

    ``D = sum_c rho_c (1 - H_K(R_c / sum_i R_ci))``, ``rho_c = sum_i R_ci / sum R``, K factors;
    ``C = sum_i w_i (1 - H_M(R_i / sum_c R_ci))``, ``w_i = sum_c R_ci / sum R``, M codes.

    Informativeness is the accuracy on ``train`` and on ``test`` rows, as in disentanglement_lib; the paper
    has the error of a regression instead. A constant code has importance 0, so its weight is 0 and its
    ``code_disentanglement`` 0. If no code varies, D and C are 0 and the accuracy is that of the most frequent
    class.

    Blind to: a factor that no code represents. Its importances sum to 1 too and come from chance, on a full
    grid even from rounding; compare its test accuracy with the share of its most frequent class. Blind also
    to confounding (factors that change together share their codes) and to all that the trees cannot separate:
    they read codes in float32 and set no threshold between values that are closer than 1e-7, so multiply
    codes of a smaller range. If codes are copies of each other, each split draws one of them.

    Args:
        codes: one code vector per sample; for convolutional maps, the means over rows and columns.
        factors: integers are class indices; floats are continuous and are cut into ``bins``.
        train: numbers of the rows to train on; published values use 10,000.
        test: numbers of other rows; published values use 5,000.
        seed: ``random_state`` of the classifier of each factor. It matters only where splits are equally
            good.
        bins: number of classes of a continuous factor, of equal width between its extremes among all samples.

    Returns:
        Scores in float64. Codes and factors are in the order of the arguments.

    Raises:
        InputError: a dimension is missing, there are fewer than two codes or factors, codes or factors are
            not finite, factors are floats and ``bins`` is None or below 2, ``train`` or ``test`` is empty,
            out of range or no row numbers, they share rows, or a factor has a single class among the train
            rows.

    Example:
        >>> import torch
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(3)).repeat(9, 1)
        >>> found = dci(factors.float(), factors, torch.arange(0, 36), torch.arange(36, 54))
        >>> found.disentanglement, found.completeness
        (tensor(1.0000, dtype=torch.float64), tensor(1.0000, dtype=torch.float64))
        >>> found.test_accuracy
        tensor([1., 1.], dtype=torch.float64)
    """
    return dci_from_classifiers(_fit, codes, factors, train, test, seed, bins)


def _fit(train: ndarray, classes: ndarray, test: ndarray, seed: int) -> tuple[ndarray, ndarray, ndarray]:
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(random_state=seed).fit(train, classes)
    with np.errstate(invalid="ignore"):  # 0 / 0 if no split decreases the impurity
        importances = np.nan_to_num(model.feature_importances_)
    return np.abs(importances), model.predict(train), model.predict(test)


_FEATURES = (0, 4, 16, 64, 256, 1024)  # random features of each probe beside the codes
_BANDWIDTH = 2.0  # standard deviation of a projection of standardised codes
_PENALTIES = tuple(10.0**power for power in range(-3, 5))


@dataclass(frozen=True)
class DCIES:
    """Explicitness and size, and the loss-capacity curves.

    Attributes:
        explicitness: E, mean of ``per_factor`` over the factors that vary, in [-1, 1]; higher is better.
        size: S, factors that vary for each code; 1 if there are as many, below 1 for more codes.
        informativeness: mean over the factors that vary of the share of the baseline loss that the best probe
            removes, in [0, 1]; higher is better.
        per_factor: explicitness of each factor; nan if the factor has one value among the rows to fit on or
            to score.
        losses: smallest loss of each factor up to each capacity; nan as above.
        baselines: loss of each factor without codes; nan as above.
        capacities: logarithm of the number of features of each probe.
    """

    explicitness: Float[Tensor, ""]
    size: Float[Tensor, ""]
    informativeness: Float[Tensor, ""]
    per_factor: Float[Tensor, " factors"]
    losses: Float[Tensor, "capacities factors"]
    baselines: Float[Tensor, " factors"]
    capacities: Float[Tensor, " capacities"]


@takes_arrays
def dci_es(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    training: Bool[Tensor, " samples"],
    categorical: Collection[int] = (),
    seed: int = 0,
) -> DCIES:
    """Measure how simple a predictor of the factors from the codes may be, and how many codes there are.

    Probes of growing capacity k predict each factor from all codes. With the smallest held-out loss l(k) up
    to a capacity, the smallest of all l* and the loss without codes l_b, explicitness is 1 less twice the
    area between the curve and l* as a share of the largest area, by trapezia, and size is factors per code:

        E = 1 - 2 integral (l(k) - l*) dk / ((k_max - k_min) l_b),  S = factors / codes

    Eastwood et al. 2023 (DCI-ES: An Extended Disentanglement Framework with Connections to Identifiability,
    ICLR), sec. 4, as in the authors' program. E is 1 if the smallest probe is as good as the largest, and 0
    if the loss falls from l_b to 0 in proportion to k. D, C and I are those of `dci`.

    A probe here is ridge regression on the standardised codes and 0, 4, 16, 64, 256 or 1024 random Fourier
    features of them, ``cos(w z + b)`` with w normal and b uniform; k is the logarithm of the number of
    features, codes included. The penalty is chosen by leave-one-out. The loss is 1 - R2 for continuous
    factors, with l_b = 1, and otherwise the share of wrong classes, with l_b that of the most frequent class.
    No loss exceeds l_b, because a probe may ignore the codes. The paper's probes are networks, forests or
    random features without the codes: values of other probes are not comparable.

    Holds for dependent factors: dependence does not lower E or S of the factors themselves as codes.

    Blind to: lost factors, for which all probes are equally bad and E is 1, also for random codes; read
    ``informativeness`` beside. Blind also to mixing by a linear map, and to duplicates but for S. If factors
    depend on each other, the code of one makes the others predictable. Many codes start at a larger k, and
    need more rows. Ridge regression does not find the middle ones of many classes in a row, so that a class
    number as a code is not explicit, while the same factor as a continuous one is. Curves that 1024 features
    do not fit count as lost, not as inexplicit.

    Args:
        codes: one code vector per sample.
        factors: integers are classes, floats are continuous.
        training: true for rows to fit on, the others are scored.
        categorical: columns of float factors that hold classes.
        seed: seed of the random features.

    Returns:
        Values in float64.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``training`` is not boolean or leaves no varying factor, or ``categorical`` is out of range.

    Example:
        >>> factors = torch.rand(400, 2, generator=torch.Generator().manual_seed(0)) - 0.5
        >>> training = torch.arange(400) % 2 == 0
        >>> found = dci_es(factors @ torch.tensor([[1.0, 1.0], [1.0, -1.0]]), factors, training)
        >>> found.explicitness.round(decimals=2), found.size
        (tensor(1., dtype=torch.float64), tensor(1., dtype=torch.float64))
        >>> product = dci_es(factors, factors.prod(1, keepdim=True), training)
        >>> product.explicitness < 0.9, product.informativeness > 0.99
        (tensor(True), tensor(True))
    """
    check_codes_and_factors(codes, factors)
    fitted, scored, varies = split_samples(training, factors)
    is_class = find_categorical(factors, categorical)
    table = _features(standardise(codes, codes[fitted]), seed)
    targets = [
        one_hot(torch.unique(factor, return_inverse=True)[1]) if known else factor[:, None]
        for factor, known in zip(factors.unbind(1), is_class.tolist(), strict=True)
    ]
    sizes = codes.shape[1] + torch.tensor(_FEATURES, device=codes.device)
    losses = torch.stack([_losses(table[:, :size], targets, fitted, scored) for size in sizes.tolist()])
    baselines = torch.stack([_baseline(target[scored]) for target in targets]).where(varies, torch.nan)
    losses = torch.minimum(losses, baselines).cummin(0).values
    capacities = sizes.double().log()
    above = losses - losses[-1]
    area = torch.trapezoid(above, capacities, dim=0) / (capacities[-1] - capacities[0])
    per_factor = 1 - 2 * area / baselines
    return DCIES(
        per_factor[varies].mean(),
        varies.sum().double() / codes.shape[1],
        (1 - losses[-1] / baselines)[varies].mean(),
        per_factor,
        losses,
        baselines,
        capacities,
    )


def _features(codes: Float[Tensor, "samples codes"], seed: int) -> Float[Tensor, "samples features"]:
    """Append random Fourier features, the same for each device."""
    draws = torch.Generator().manual_seed(seed)
    weights = torch.randn(max(_FEATURES), codes.shape[1], generator=draws, dtype=torch.float64).T
    phases = 2 * torch.pi * torch.rand(max(_FEATURES), generator=draws, dtype=torch.float64)
    weights = weights.to(codes.device) * _BANDWIDTH / codes.shape[1] ** 0.5
    return torch.cat([codes, torch.cos(codes @ weights + phases.to(codes.device))], dim=1)


def _baseline(target: Real[Tensor, "scored classes"]) -> Float[Tensor, ""]:
    """Return the loss of the most frequent class, or of the mean of a continuous factor."""
    share = (
        target.double().mean(0).max() if target.shape[1] > 1 else target.new_zeros((), dtype=torch.float64)
    )
    return 1 - share


def _losses(
    table: Float[Tensor, "samples features"],
    targets: Sequence[Real[Tensor, "samples _"]],
    fitted: Tensor | slice,
    scored: Tensor | slice,
) -> Float[Tensor, " factors"]:
    """Fit a probe of each factor, and return the losses in the rows to score."""
    from sklearn.linear_model import RidgeCV

    known = torch.cat([target[fitted].double() for target in targets], dim=1)
    rows, others = table[fitted].numpy(force=True), table[scored].numpy(force=True)
    model = RidgeCV(_PENALTIES, alpha_per_target=True).fit(rows, known.numpy(force=True))
    found = torch.from_numpy(model.predict(others).reshape(len(others), -1)).to(table.device)
    losses = []
    for target in targets:
        own, found = found[:, : target.shape[1]], found[:, target.shape[1] :]
        if target.shape[1] > 1:
            losses.append((own.argmax(1) != target[scored].argmax(1)).double().mean())
        else:
            losses.append(1 - r2_score_of_factors(own, target[scored])[0])
    return torch.stack(losses)


@takes_arrays
def dci_fast(
    codes: Float[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    train: Int[Tensor, " train"],
    test: Int[Tensor, " test"],
    seed: int = 0,
    bins: int | None = None,
) -> DCI:
    """Compute `dci` with `boost_trees`, which search thresholds among at most 2048 cells of each code.

    Stages, depth, learning rate, loss, criterion, leaf values and importances are those of scikit-learn's
    GradientBoostingClassifier. The trees are equal, apart from splits that are equally good, if no code has
    more than 2048 different values among the train rows. Otherwise a threshold lies only between cells of
    several rows, fewer at both ends of the range, and scores differ: report values as those of `dci_fast`.
    The script ``benchmarks/metrics/dci.py`` compares times and scores.

    Among copies of a code each split draws one, from another generator than scikit-learn's, so completeness
    of such codes differs by chance.

    Blind to: everything that `dci` is blind to, and differences of values within a cell.

    Args:
        codes: see `dci`.
        factors: see `dci`.
        train: see `dci`.
        test: see `dci`.
        seed: seed of the draws between codes whose best splits are equally good.
        bins: see `dci`.

    Returns:
        See `dci`.

    Raises:
        InputError: see `dci`.

    Example:
        >>> import torch
        >>> factors = torch.cartesian_prod(torch.arange(2), torch.arange(3)).repeat(9, 1)
        >>> found = dci_fast(factors.float(), factors, torch.arange(0, 36), torch.arange(36, 54))
        >>> found.disentanglement, found.completeness
        (tensor(1.0000, dtype=torch.float64), tensor(1.0000, dtype=torch.float64))
    """
    return dci_from_classifiers(boost_trees, codes, factors, train, test, seed, bins)
