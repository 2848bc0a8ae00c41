"""Ranks of values, with ties, for correlations of ranks and areas under curves."""

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor
from torch.nn.functional import pad


def mean_ranks(values: Real[Tensor, "samples columns"]) -> Float[Tensor, "samples columns"]:
    """Rank the values of each column from 1; equal values share their mean rank, in float64.

    Example:
        >>> mean_ranks(torch.tensor([[5.0], [2.0], [5.0]])).T
        tensor([[2.5000, 1.0000, 2.5000]], dtype=torch.float64)
    """
    ordered, order = values.T.contiguous().sort(dim=1)
    columns, samples = order.shape
    starts = pad(ordered[:, 1:] != ordered[:, :-1], (1, 0), value=True)
    ranks = torch.arange(1, samples + 1, dtype=torch.float64, device=values.device).expand(columns, samples)
    if not bool(starts.all()):
        # Runs of equal values, numbered through all columns, share the mean of their places.
        counts = torch.bincount(run := starts.flatten().cumsum(0) - 1)
        ranks = (counts.cumsum(0) - (counts - 1).double() / 2).take(run).view(columns, samples)
        ranks = ranks - samples * torch.arange(columns, device=values.device)[:, None]
    return torch.empty_like(order, dtype=torch.float64).scatter_(1, order, ranks).T


def area_under_roc(
    scores: Real[Tensor, "samples classes"], members: Bool[Tensor, "samples classes"]
) -> Float[Tensor, " classes"]:
    """Compute the area under the receiver operating characteristic of each column.

    The share of pairs of a member and another sample in which the member has the larger score; equal scores
    count a half.

    Args:
        scores: larger for samples that are held for members.
        members: true for samples of the class.

    Returns:
        Values in [0, 1], float64; 0.5 by chance, nan without members or without others.

    Example:
        >>> area_under_roc(torch.tensor([[0.9], [0.4], [0.4]]), torch.tensor([[True], [False], [True]]))
        tensor([0.7500], dtype=torch.float64)
    """
    count = members.sum(0).double()
    total = torch.where(members, mean_ranks(scores), 0).sum(0)
    return (total - count * (count + 1) / 2) / (count * (len(members) - count))
