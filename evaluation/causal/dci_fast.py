"""Disentanglement, completeness and informativeness, faster than with scikit-learn."""

from jaxtyping import Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.dci_from_classifiers import DCI, dci_from_classifiers
from candlelight.evaluation.causal.estimation.boosted_trees import boost_trees


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
