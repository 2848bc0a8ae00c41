"""Kernel ridge regression of factors on codes, with penalty and width chosen by cross-validation."""

import torch
from jaxtyping import Float, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import standardise
from candlelight.loaders.errors import InputError

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
