"""Mutual information of continuous codes and classes, by nearest neighbours (Ross 2014)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import standardise
from candlelight.evaluation.causal.estimation.mutual_information import numbered_classes
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

_JITTER = 1e-10  # of standardised codes, as in scikit-learn: separates equal values


def neighbour_information(
    codes: Float[Tensor, "samples codes"], factors: Int[Tensor, "samples factors"], neighbours: int = 10
) -> Float[Tensor, "codes factors"]:
    """Estimate the mutual information of every continuous code with every factor of classes.

    ``I = psi(N) + mean psi(k) - mean psi(N_v) - mean psi(m)``: Ross 2014 (Mutual Information between Discrete
    and Continuous Data Sets, PLoS ONE), eq. 2. N is the number of samples, N_v that of the sample's class, k
    the neighbours (at most N_v - 1), and m the number of samples within the distance of the k-th neighbour
    of the sample's class, itself included. Samples that are alone in their class are left out. Without
    repeated values it equals `sklearn.feature_selection.mutual_info_classif`, except that program's rounding
    of distances in classes of up to ``2 k`` samples.

    Blind to: factors that only several codes together determine. Equal codes are separated at random, so that
    a code of few distinct values has too little information: use `mutual_information_matrix`. Precision
    is lost in classes of few samples.

    Args:
        codes: one code vector per sample.
        factors: class numbers, from `discretise`.
        neighbours: k, at least 1. Large values have less variance and more bias.

    Returns:
        Values of at least 0 in nats, float64; negative estimates become 0.

    Raises:
        InputError: a dimension is missing, there are no samples, codes are not finite, factors are floats,
            or ``neighbours`` is below 1.

    Example:
        >>> factors = torch.arange(200)[:, None] % 2
        >>> codes = factors + torch.rand(200, 1, generator=torch.Generator().manual_seed(0)) / 2
        >>> neighbour_information(codes, factors)  # exact: 0.6931
        tensor([[0.6957]], dtype=torch.float64)
    """
    check_shapes(codes=(codes, "samples codes"), factors=(factors, "samples factors"))
    if not bool(codes.isfinite().all()):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    if neighbours < 1:
        raise InputError(f"`neighbours` must be at least 1, got {neighbours}")
    numbers = numbered_classes("factors", factors)
    values = standardise(codes).T
    noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(0), dtype=values.dtype)
    values = values + _JITTER * noise.to(values.device)
    columns = [_estimates(values, factor, neighbours) for factor in numbers.unbind(1)]
    return torch.stack(columns, dim=1) if columns else values.new_empty(len(values), 0)


def _estimates(
    values: Float[Tensor, "codes samples"], factor: Int[Tensor, " samples"], neighbours: int
) -> Float[Tensor, " codes"]:
    """Estimate the information of each code about one factor."""
    sizes = torch.bincount(factor)
    kept = sizes[factor] > 1
    factor, values = factor[kept], values[:, kept]
    samples = len(factor)
    if samples == 0:
        return values.new_zeros(len(values))
    classes = (sizes > 1).nonzero().flatten().tolist()
    total = values.new_zeros(len(values))
    ordered = values.sort(dim=1).values
    for number in classes:
        members = values[:, factor == number].sort(dim=1).values
        size = members.shape[1]
        count = min(neighbours, size - 1)
        low, high = _neighbour_bounds(members, count)
        within = torch.searchsorted(ordered, high) - torch.searchsorted(ordered, low, right=True)
        digamma = torch.special.digamma
        fixed = digamma(members.new_tensor(count)) - digamma(members.new_tensor(size))
        total += size * fixed - digamma(within.clamp(min=1).double()).sum(1)
    return (torch.special.digamma(values.new_tensor(samples)) + total / samples).clamp(min=0)


def _neighbour_bounds(members: Float[Tensor, "codes size"], count: int) -> tuple[Tensor, Tensor]:
    """Return the interval around each of the sorted values that its neighbour number ``count`` bounds.

    The neighbour's own value is a bound, without rounding, because it must not count itself.
    """
    size = members.shape[1]
    distance = torch.full_like(members, torch.inf)
    low, high = members.clone(), members.clone()
    # The nearest neighbours and the value itself are a run of count + 1 values in order.
    first, last = members[:, : size - count], members[:, count:]
    for before in range(count + 1):
        place = slice(before, size - count + before)
        middle = members[:, place]
        left, right = middle - first, last - middle
        farther = torch.maximum(left, right)
        nearer = farther < distance[:, place]
        low[:, place] = torch.where(nearer, torch.where(left >= right, first, middle - right), low[:, place])
        high[:, place] = torch.where(nearer, torch.where(left >= right, middle + left, last), high[:, place])
        distance[:, place] = torch.where(nearer, farther, distance[:, place])
    return low, high
