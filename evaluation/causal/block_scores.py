"""Matrices of R2 and rank correlation of blocks of codes and factors."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.code_inputs import (
    check_codes_and_factors,
    discretise,
    mean_ranks,
    split_samples,
    standardise,
    takes_arrays,
)
from candlelight.evaluation.causal.effects import check_columns
from candlelight.evaluation.causal.estimators import predict_by_line, predict_by_network, r2_score_of_factors
from candlelight.evaluation.causal.information import entropy, mutual_information_matrix
from candlelight.loaders.check_choice import check_choice

BlockRegression = Literal["linear", "mlp"]
LEAST_SHARE = 0.05  # of the entropy of a factor that a code of its block tells
_BINS = 10


@takes_arrays
def find_blocks(
    codes: Real[Tensor, "samples codes"], factors: Real[Tensor, "samples factors"]
) -> list[list[int]]:
    """Assign each code to the factor of which it tells most, or to none.

    A code tells the share ``I(z_l; g_i) / H(g_i)`` of a factor, with the code in ten bins of equal count and
    floats of factors in ten of equal width (fewer for less than 200 samples). Of the information I, its mean
    for independent variables, ``(bins - 1) (classes - 1) / (2 samples)``, is subtracted. A code goes to the
    factor with the largest share, or to none if all shares are below `LEAST_SHARE`.

    Blind to: codes that tell a factor only together. Of factors that determine each other, the first gets all
    codes.

    Args:
        codes: one code vector per sample.
        factors: integers are classes.

    Returns:
        Codes of each factor.

    Raises:
        InputError: see `check_codes_and_factors`.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(4), torch.arange(5)).repeat(6, 1)
        >>> noise = torch.rand(120, 1, generator=torch.Generator().manual_seed(0))
        >>> find_blocks(torch.cat([factors[:, [1, 0]].exp(), noise, factors[:, :1]], dim=1), factors)
        [[1, 3], [0]]
    """
    check_codes_and_factors(codes, factors)
    bins = min(_BINS, max(2, len(codes) // 20))
    parts = discretise(codes.double(), bins, "quantile"), discretise(factors, bins)
    known, classes = (torch.tensor([len(column.unique()) for column in part.T]) for part in parts)
    chance = ((known[:, None] - 1) * (classes - 1)).to(codes.device) / (2 * len(codes))
    shares = (mutual_information_matrix(*parts) - chance) / entropy(parts[1])
    best, parents = shares.nan_to_num(0, 0, 0).max(1)
    parents[best < LEAST_SHARE] = -1
    return [(parents == factor).nonzero().flatten().tolist() for factor in range(factors.shape[1])]


@takes_arrays
def block_matrices(
    codes: Real[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    blocks: Mapping[int, Sequence[int]] | Sequence[Sequence[int]],
    training: Bool[Tensor, " samples"] | None = None,
    regression: BlockRegression = "linear",
    unordered: Collection[int] = (),
    turning: Collection[int] = (),
    seed: int = 0,
) -> tuple[Float[Tensor, "blocks factors"], Float[Tensor, "blocks factors"]]:
    """Predict each factor from each block of codes, the codes that are meant for one factor.

    Entry (i, j) is the R2, or Spearman's rank correlation, of factor j as predicted from block i, on rows
    that the regression did not see: Lippe et al. 2022 (CITRIS, ICML), 2023 (iCITRIS and BISCUIT). With exact
    blocks the diagonal is 1 and all else 0; `diagonal_scores` reduces a matrix to the two published numbers.

    Angles count as sine and cosine, and values without an order as a column of zeros and ones for each; the
    entry is the mean over these columns. (CITRIS takes distances of angles and shares of errors for R2.)

    Blind to: what a block holds beside factors, such as noise; where in the block a factor is; whether
    factors depend on each other, which raises entries beside the diagonal of exact blocks, too. The rank
    correlation stays below 1 where predictions differ within equal values of a factor of few values.

    Args:
        codes: one code vector per sample.
        factors: numbers.
        blocks: codes of each factor, or of some factors by column; `find_blocks` finds them, among the rows
            to fit on.
        training: true for rows to fit on, the others are scored; None fits and scores all rows.
        regression: "linear" is least squares; "mlp" scikit-learn's network of two layers of 64 units,
            stopped early, one for each block and factor.
        unordered: columns whose values have no order.
        turning: columns of angles in degrees.
        seed: seed of the networks.

    Returns:
        R2, at most 1, and Spearman's correlation, in [-1, 1], in float64. A block without codes has 0, a
        factor of one value among the rows to score nan; so has the correlation of values without an order.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, no factor varies,
            ``training`` is not boolean or leaves no varying factor, a block or a column is not there,
            ``regression`` is misspelt, or "mlp" has too few rows to fit on.

    Example:
        >>> factors = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
        >>> codes = torch.stack([factors[:, 0], -factors[:, 0], factors.sum(1)], dim=1)
        >>> held_in = torch.arange(200) % 2 == 0
        >>> block_matrices(codes, factors, [[0, 1], [2]], held_in)[0].round(decimals=1)
        tensor([[1.0000, -0.0000],
                [0.5000, 0.5000]], dtype=torch.float64)
    """
    check_choice("regression", regression, BlockRegression)
    check_codes_and_factors(codes, factors)
    fitted, scored, _ = split_samples(training, factors)
    known = dict(blocks if isinstance(blocks, Mapping) else enumerate(blocks))
    check_columns("blocks", [0, *chain(*known.values())], codes.shape[1])
    count = factors.shape[1]
    check_columns("columns of factors", [0, *known, *unordered, *turning], count)
    columns, owners = _columns(factors, unordered, turning)
    truth = columns[scored]
    table = columns.new_zeros(count, 2, len(owners))
    for block, members in known.items():
        if len(members):
            given = codes[fitted][:, members], columns[fitted], codes[scored][:, members]
            made = predict_by_line(*given) if regression == "linear" else _by_networks(*given, owners, seed)
            ranks = standardise(mean_ranks(made)) * standardise(mean_ranks(truth))
            table[block] = torch.stack([r2_score_of_factors(made, truth), ranks.mean(0)])
    table[:, :, (truth == truth[:1]).all(0)] = torch.nan
    found = torch.stack([table[:, :, owners == factor].nanmean(2) for factor in range(count)], dim=2)
    found[:, 1, list(unordered)] = torch.nan
    return found[:, 0], found[:, 1]


def _by_networks(codes: Tensor, columns: Tensor, scored: Tensor, owners: Tensor, seed: int) -> Tensor:
    """Predict each factor by a network of its own, so that no other factor decides when its training ends."""
    parts = [columns[:, owners == factor] for factor in torch.unique(owners).tolist()]
    return torch.cat([predict_by_network(codes, part, scored, seed) for part in parts], dim=1)


def diagonal_scores(matrix: Float[Tensor, "blocks factors"]) -> tuple[float, float]:
    """Return the mean of the diagonal, and the mean over blocks of the largest entry of another factor.

    nan where all entries are nan.

    Example:
        >>> diagonal_scores(torch.tensor([[1.0, 0.5], [0.0, 0.75]]))
        (0.875, 0.25)
    """
    others = matrix.clone().fill_diagonal_(torch.nan).nan_to_num(-torch.inf).amax(1)
    return float(matrix.diagonal().nanmean()), float(others[others.isfinite()].mean())


def _columns(
    factors: Tensor, unordered: Collection[int], turning: Collection[int]
) -> tuple[Float[Tensor, "samples columns"], Int[Tensor, " columns"]]:
    """Return the columns that are predicted, and the factor of each."""
    found = list(factors.double()[:, :, None].unbind(1))
    for column in turning:
        angle = found[column].deg2rad()
        found[column] = torch.cat([angle.sin(), angle.cos()], dim=1)
    for column in unordered:
        found[column] = (found[column] == torch.unique(found[column])).double()
    owners = [factor for factor, part in enumerate(found) for _ in range(part.shape[1])]
    return torch.cat(found, dim=1), torch.tensor(owners)
