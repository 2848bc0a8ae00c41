"""Mutual information of codes and factors: of histograms, and by nearest neighbours."""

import math

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.code_inputs import standardise, takes_arrays
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

_CELLS = 2**22  # cells of the tables of counts in memory at a time


@takes_arrays
def entropy(classes: Int[Tensor, "samples columns"]) -> Float[Tensor, " columns"]:
    """Compute the entropy of each column from its counts.

    ``H = -sum_v p(v) log p(v)`` with the shares p of the samples (plug-in estimate), in nats.

    Blind to: the order and distance of classes. With few samples it is too small, by about ``(classes - 1) /
    (2 samples)``.

    Args:
        classes: class numbers, from `discretise`.

    Returns:
        Values from 0 (one class) to ``log(samples)``, float64.

    Raises:
        InputError: a dimension is missing, there are no samples, or classes are floats.

    Example:
        >>> entropy(torch.tensor([[0, 5], [1, 5]]))
        tensor([0.6931, 0.0000], dtype=torch.float64)
    """
    check_shapes(classes=(classes, "samples columns"))
    _check_classes("classes", classes)
    values = [classes.new_zeros(0, dtype=torch.float64)]
    for column in classes.unbind(1):
        share = torch.unique(column, return_counts=True)[1].double() / len(column)
        values.append(torch.special.entr(share).sum()[None])
    return torch.cat(values)


@takes_arrays
def mutual_information_matrix(
    codes: Int[Tensor, "samples codes"], factors: Int[Tensor, "samples factors"]
) -> Float[Tensor, "codes factors"]:
    """Compute the mutual information of every code with every factor from their counts.

    ``I(z; g) = sum p(z, g) log(p(z, g) / (p(z) p(g)))`` with the shares p of the samples (plug-in estimate),
    in nats. Columns that are exactly independent give exactly 0.

    Blind to: factors that only several codes together determine (the exclusive or of two codes). With few
    samples it is too large, by about ``(classes_z - 1) (classes_g - 1) / (2 samples)``: random codes have
    information, and most about factors with many classes.

    Args:
        codes: class numbers, from `discretise`.
        factors: class numbers.

    Returns:
        Values from 0 to the smaller of both entropies, float64.

    Raises:
        InputError: a dimension is missing, there are no samples, or classes are floats.

    Example:
        >>> codes = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> mutual_information_matrix(codes, codes[:, :1])
        tensor([[0.6931],
                [0.0000]], dtype=torch.float64)
    """
    check_shapes(codes=(codes, "samples codes"), factors=(factors, "samples factors"))
    codes, factors = numbered_classes("codes", codes), numbered_classes("factors", factors)
    columns = [_information(codes, factor) for factor in factors.unbind(1)]
    empty = torch.empty(codes.shape[1], 0, dtype=torch.float64, device=codes.device)
    return torch.stack(columns, dim=1) if columns else empty


def _check_classes(name: str, classes: Tensor) -> None:
    if classes.is_floating_point():
        raise InputError(f"`{name}` must be class numbers, got {classes.dtype}; call `discretise` first")
    if len(classes) == 0:
        raise InputError(f"`{name}` needs at least one sample, got none")


def numbered_classes(name: str, classes: Real[Tensor, "samples columns"]) -> Int[Tensor, "samples columns"]:
    """Number the classes from 0; numbers below the number of samples stay, because they need no sorting.

    Args:
        name: name of the argument in messages.
        classes: class numbers.

    Raises:
        InputError: classes are floats, or there are no samples.

    Example:
        >>> numbered_classes("factors", torch.tensor([[700], [-1]])).T
        tensor([[1, 0]])
    """
    _check_classes(name, classes)
    if not classes.numel() or (0 <= int(classes.min()) and int(classes.max()) < len(classes)):
        return classes.long()
    columns = [torch.unique(column, return_inverse=True)[1] for column in classes.unbind(1)]
    return torch.stack(columns, dim=1)


def _information(codes: Int[Tensor, "samples codes"], factor: Int[Tensor, " samples"]) -> Tensor:
    """Compute the mutual information of each code with one factor."""
    samples, number = codes.shape
    sizes = int(codes.max()) + 1 if number else 1, int(factor.max()) + 1
    block = max(1, _CELLS // math.prod(sizes))
    found = [torch.empty(0, dtype=torch.float64, device=codes.device)]
    for start in range(0, number, block):
        part = codes[:, start : start + block]
        offsets = torch.arange(part.shape[1], device=codes.device) * sizes[0]
        cells = (part + offsets) * sizes[1] + factor[:, None]
        counts = torch.bincount(cells.flatten(), minlength=part.shape[1] * math.prod(sizes))
        both = counts.view(-1, *sizes).double()
        # Products of counts are exact in float64, so that independent columns have the logarithm of 1.
        expected = both.sum(2, keepdim=True) * both.sum(1, keepdim=True)
        ratio = both * samples / expected.clamp(min=1)
        found.append(torch.xlogy(both, ratio).sum((1, 2)).clamp(min=0) / samples)
    return torch.cat(found)


_JITTER = 1e-10  # of standardised codes, as in scikit-learn: separates equal values


@takes_arrays
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
