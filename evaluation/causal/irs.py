"""Interventional Robustness Score (Suter et al. 2019)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from evaluation.inputs.check_choice import check_choice
from evaluation.inputs.check_shapes import check_shapes
from loaders.errors import InputError

Binning = Literal["exact", "disentanglement_lib"]

_LIBRARY_BINS = 20


@dataclass(frozen=True)
class IRS:
    """The score and what it is made of; rows are the codes that vary, in order of ``codes``.

    Attributes:
        score: weighted mean over codes of their best entry, at most 1; higher is better.
        matrix: 1 where a code stays put as long as that factor does, whatever the others do.
        weights: largest deviation of each code from its mean.
        parents: factor with the largest entry for each code.
        codes: numbers of the codes that vary, as columns of the input.
    """

    score: Float[Tensor, ""]
    matrix: Float[Tensor, "codes factors"]
    weights: Float[Tensor, " codes"]
    parents: Int[Tensor, " codes"]
    codes: Int[Tensor, " codes"]


def irs(
    codes: Float[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    quantile: float = 0.99,
    bins: int | None = None,
    compat: Binning = "exact",
) -> IRS:
    """Measure how little each code moves when everything but one factor changes.

    ``M_li = 1 - mean_v Q(|z_l - E[z_l | g_i = v]| given g_i = v) / max|z_l - E z_l|`` and
    ``IRS = sum_l w_l max_i M_li / sum_l w_l``, ``w_l = max|z_l - E z_l|`` (Suter et al. 2019, sec. 4, with
    the largest deviation in place of Q; as a 0.99 quantile in disentanglement_lib). Each value of a factor
    counts alike, however many samples have it. A code without variance is left out: it is robust to
    everything and says nothing.

    Blind to: confounding. Where two factors always change together a code that mixes them is as robust as
    a pure one (the score is close to 1; `unconfoundedness` is not fooled). Blind too to information that is
    lost, and to a factor that several codes share. Classes of few samples flatter every code: within a
    class of one sample nothing deviates.

    Args:
        codes: one code vector per sample; of convolutional maps, their means over rows and columns.
        factors: integers are class indices; floats are continuous and are cut into ``bins``.
        quantile: Q's level in (0, 1], linearly interpolated; 1 is the largest deviation, as in the paper.
        bins: classes of a continuous factor, of equal width between its extremes.
        compat: "exact" bins floats only. "disentanglement_lib" bins every factor as that program does, into
            20 unless ``bins`` says otherwise: a factor of more classes loses some, as does one whose class
            indices are far apart.

    Returns:
        Scores in float64; without any code that varies the score is 0 and the matrix has no row.

    Raises:
        InputError: a dimension is missing, no sample or factor, codes or factors that are not finite,
            floats as factors without ``bins``, a factor with as many classes as samples, a quantile or
            bins out of range, or a misspelt ``compat``.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(3), torch.arange(3))
        >>> result = irs(factors.double() @ torch.tensor([[2.0, 0.0], [0.0, 1.0]]).double(), factors)
        >>> result.score, result.parents
        (tensor(1., dtype=torch.float64), tensor([0, 1]))
    """
    check_choice("compat", compat, Binning)
    check_shapes(codes=(codes, "samples codes"), factors=(factors, "samples factors"))
    if not 0 < quantile <= 1:
        raise InputError(f"`quantile` must be above 0 and at most 1, got {quantile}")
    if len(codes) == 0:
        raise InputError("`codes` needs at least one sample, got none")
    # A nan is both extremes.
    if codes.numel() and not bool(torch.stack(codes.aminmax()).isfinite().all()):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    _check_factors(factors, bins)
    groups = group_by_class(_classes(factors, bins, compat))
    for number, group in enumerate(groups):
        if has_single_rows(group):
            raise InputError(
                f"column {number} of `factors` has as many classes as samples, {len(factors)}, which makes "
                "any code robust; cast it to float and give `bins`, or leave it out"
            )
    return grouped_irs(codes, groups, quantile)


@dataclass(frozen=True)
class ClassGroups:
    """Rows in order of their class, the classes in order of their size, so that equal sizes make a block.

    Attributes:
        order: row numbers.
        blocks: for each size of a class, that size and how many classes have it.
    """

    order: Int[Tensor, " samples"]
    blocks: tuple[tuple[int, int], ...]


def group_by_class(classes: Real[Tensor, "samples factors"]) -> list[ClassGroups]:
    """Order rows by class, once for each factor and all codes.

    Example:
        >>> group_by_class(torch.tensor([[7], [3], [7]]))[0]
        ClassGroups(order=tensor([1, 0, 2]), blocks=((1, 1), (2, 1)))
    """
    groups = []
    for factor in classes.unbind(1):
        _, index, counts = torch.unique(factor, return_inverse=True, return_counts=True)
        sizes, classes_of_size = torch.unique(counts, return_counts=True)
        order = (counts[index] * len(counts) + index).argsort(stable=True)
        blocks = zip(sizes.tolist(), classes_of_size.tolist(), strict=True)
        groups.append(ClassGroups(order, tuple(blocks)))
    return groups


def has_single_rows(groups: ClassGroups) -> bool:
    """Tell whether each class has one row: nothing deviates within it.

    Example:
        >>> has_single_rows(group_by_class(torch.tensor([[7], [3]]))[0])
        True
    """
    return all(size == 1 for size, _ in groups.blocks)


def grouped_irs(codes: Float[Tensor, "samples codes"], groups: Sequence[ClassGroups], quantile: float) -> IRS:
    """Compute `irs` of rows that are grouped by each factor; nothing is checked.

    Args:
        codes: finite, at least one row.
        groups: from `group_by_class`, of one factor each.
        quantile: see `irs`.
    """
    values = codes.double().T.contiguous()
    low, high = values.amin(1), values.amax(1)
    active = (low < high).nonzero().flatten()
    values = values[active]
    mean = values.mean(1)
    weights = torch.maximum(high[active] - mean, mean - low[active])
    columns = [_mean_deviation(values, group, quantile) for group in groups]
    matrix = 1 - torch.stack(columns, dim=1) / weights[:, None]
    best, parents = matrix.max(dim=1)
    score = (weights * best).sum() / weights.sum() if len(active) else weights.sum()
    return IRS(score, matrix, weights, parents, active)


def _check_factors(factors: Tensor, bins: int | None) -> None:
    if factors.shape[1] == 0:
        raise InputError("`factors` needs at least one factor, got none")
    if not bool(factors.isfinite().all()):
        raise InputError("`factors` must be finite, got nan or inf; leave out samples without a value")
    if bins is not None and bins < 2:
        raise InputError(f"`bins` must be at least 2, got {bins}")


def _classes(factors: Tensor, bins: int | None, compat: Binning) -> Tensor:
    """Class indices of each factor, [samples, factors]."""
    if compat == "disentanglement_lib":
        bins = _LIBRARY_BINS if bins is None else bins
    elif not factors.is_floating_point():
        return factors
    elif bins is None:
        raise InputError(
            "`factors` of floats are continuous and need `bins`, such as 20; cast class indices with .long()"
        )
    return torch.stack([bin_values(factor.double(), bins) for factor in factors.unbind(1)], dim=1)


def bin_values(values: Float[Tensor, " samples"], bins: int) -> Int[Tensor, " samples"]:
    """Cut a continuous factor into classes of equal width between its extremes, as numpy.histogram does.

    Args:
        values: finite.
        bins: number of classes.

    Returns:
        Classes, 1 to ``bins``.

    Example:
        >>> bin_values(torch.tensor([0.0, 0.4, 0.6, 1.0]), 2)
        tensor([1, 1, 2, 2])
    """
    column = values.double().cpu().numpy()
    edges = np.linspace(column.min(), column.max(), bins + 1)
    return torch.from_numpy(np.digitize(column, edges[:-1])).to(values.device)


def _mean_deviation(
    values: Float[Tensor, "codes samples"], groups: ClassGroups, quantile: float
) -> Float[Tensor, " codes"]:
    """Mean over the classes of a factor of the deviation's quantile among the samples that have it."""
    # A gather is several times as fast as an index of columns.
    ordered = values.gather(1, groups.order.expand(len(values), -1))
    total, start = values.new_zeros(len(values)), 0
    for size, classes in groups.blocks:
        block = ordered[:, start : start + size * classes].view(len(values), classes, size)
        start += size * classes
        deviation = block.sub_(block.mean(2, keepdim=True)).abs_()
        position = (size - 1) * quantile
        lower = math.floor(position)
        # The largest ones from the quantile upwards; a partial sort of so few beats a partition of all.
        top = deviation.topk(size - lower, dim=2).values
        low, high = top[:, :, -1], top[:, :, max(0, size - lower - 2)]
        total += torch.lerp(low, high, position - lower).sum(1)
    return total / sum(classes for _, classes in groups.blocks)
