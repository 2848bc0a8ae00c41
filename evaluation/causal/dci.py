"""Disentanglement, completeness and informativeness (Eastwood & Williams 2018)."""

import numpy as np
from jaxtyping import Float, Int, Real
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.causal.dci_from_classifiers import DCI, dci_from_classifiers


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
