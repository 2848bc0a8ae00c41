"""Interventional Robustness Score (Suter et al. 2019)."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.estimation.code_inputs import all_finite
from candlelight.evaluation.causal.estimation.discretise import equal_width_classes
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

Binning = Literal["exact", "disentanglement_lib"]

_LIBRARY_BINS = 20


@dataclass(frozen=True)
class IRS:
    """The score and its parts. Codes that do not vary are left out.

    Attributes:
        score: weighted mean over codes of their largest entry in ``matrix``, at most 1; higher is better.
        matrix: robustness of each code to all other factors while one factor is fixed; 1 means that the code
            does not change.
        weights: largest deviation of each code from its mean.
        parents: factor with the largest entry for each code.
        codes: columns of the input that vary; the fields above are in this order.
        class_sizes: for each factor, the number of samples of each of its classes, smallest class first.
            Small classes raise ``matrix``.
    """

    score: Float[Tensor, ""]
    matrix: Float[Tensor, "codes factors"]
    weights: Float[Tensor, " codes"]
    parents: Int[Tensor, " codes"]
    codes: Int[Tensor, " codes"]
    class_sizes: tuple[tuple[int, ...], ...]


def irs(
    codes: Float[Tensor, "samples codes"],
    factors: Real[Tensor, "samples factors"],
    quantile: float = 0.99,
    bins: int | None = None,
    compat: Binning = "exact",
) -> IRS:
    """Measure how little each code changes when one factor is fixed and all other factors change.

    ``M_li = 1 - mean_v Q(|z_l - E[z_l | g_i = v]| given g_i = v) / max|z_l - E z_l|`` and
    ``IRS = sum_l w_l max_i M_li / sum_l w_l``, ``w_l = max|z_l - E z_l|``. Q is a quantile; Suter et al.
    2019, sec. 4, use the largest deviation, disentanglement_lib the 0.99 quantile. Each value of a factor has
    the same weight, whatever its number of samples. A constant code is left out, because it is robust to
    everything without information.

    Blind to: confounding. If two factors always change together, a code that mixes them is as robust as a
    pure code (the score is close to 1; `unconfoundedness` detects this). Blind also to lost information, and
    to a factor that several codes share. A code with a few large errors scores near 0, or
    below. Classes of few samples raise the score of every code: a class of one sample has no deviation.
    ``class_sizes`` tells how many there are.

    Args:
        codes: one code vector per sample; for convolutional maps, the means over rows and columns.
        factors: integers are class indices; floats are continuous and are cut into ``bins``.
        quantile: level of Q in (0, 1], linearly interpolated; 1 is the largest deviation, as in the paper.
        bins: number of classes of a continuous factor, of equal width between its extremes.
        compat: "exact" bins floats only. "disentanglement_lib" bins every factor as that program does, into
            20 classes unless ``bins`` is given: this merges classes of a factor that has more of them, or
            whose class indices are far apart.

    Returns:
        Scores in float64. If no code varies, the score is 0 and the matrix has no row.

    Raises:
        InputError: a dimension is missing, there is no sample or factor, codes or factors are not finite,
            factors are floats and ``bins`` is None, a factor has as many classes as samples, ``quantile`` or
            ``bins`` is out of range, or ``compat`` is misspelt.

    Example:
        >>> factors = torch.cartesian_prod(torch.arange(3), torch.arange(3))
        >>> result = irs(factors.double() @ torch.tensor([[2.0, 0.0], [0.0, 1.0]]).double(), factors)
        >>> result.score, result.parents, result.class_sizes
        (tensor(1., dtype=torch.float64), tensor([0, 1]), ((3, 3, 3), (3, 3, 3)))
    """
    check_choice("compat", compat, Binning)
    check_shapes(codes=(codes, "samples codes"), factors=(factors, "samples factors"))
    if not 0 < quantile <= 1:
        raise InputError(f"`quantile` must be above 0 and at most 1, got {quantile}")
    if len(codes) == 0:
        raise InputError("`codes` needs at least one sample, got none")
    if not all_finite(codes):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    _check_factors(factors, bins)
    groups = [_group_by_class(factor) for factor in _classes(factors, bins, compat).unbind(1)]
    for number, group in enumerate(groups):
        if len(group.sizes) == len(factors):
            raise InputError(
                f"column {number} of `factors` has as many classes as samples, {len(factors)}, which makes "
                "any code robust; cast it to float and give `bins`, or leave it out"
            )
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
    return IRS(score, matrix, weights, parents, active, tuple(group.sizes for group in groups))


@dataclass(frozen=True)
class _ClassGroups:
    """Rows of the samples, sorted by class; the classes are sorted by size, so equal sizes form a block.

    Attributes:
        order: sorted row numbers.
        blocks: for each class size, the size and the number of classes of that size.
    """

    order: Int[Tensor, " samples"]
    blocks: tuple[tuple[int, int], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of samples of each class, in ascending order."""
        return tuple(size for size, classes in self.blocks for _ in range(classes))


def _group_by_class(classes: Real[Tensor, " samples"]) -> _ClassGroups:
    """Sort rows by the class of one factor."""
    _, index, counts = torch.unique(classes, return_inverse=True, return_counts=True)
    sizes, classes_of_size = torch.unique(counts, return_counts=True)
    order = (counts[index] * len(counts) + index).argsort(stable=True)
    return _ClassGroups(order, tuple(zip(sizes.tolist(), classes_of_size.tolist(), strict=True)))


def _check_factors(factors: Tensor, bins: int | None) -> None:
    if factors.shape[1] == 0:
        raise InputError("`factors` needs at least one factor, got none")
    if not bool(factors.isfinite().all()):
        raise InputError("`factors` must be finite, got nan or inf; leave out samples without a value")
    if bins is not None and bins < 2:
        raise InputError(f"`bins` must be at least 2, got {bins}")


def _classes(factors: Tensor, bins: int | None, compat: Binning) -> Tensor:
    """Return class indices of each factor, [samples, factors]."""
    if compat == "disentanglement_lib":
        bins = _LIBRARY_BINS if bins is None else bins
    elif not factors.is_floating_point():
        return factors
    elif bins is None:
        raise InputError(
            "`factors` of floats are continuous and need `bins`, such as 20; cast class indices with .long()"
        )
    return equal_width_classes(factors.T, bins).T


def _mean_deviation(
    values: Float[Tensor, "codes samples"], groups: _ClassGroups, quantile: float
) -> Float[Tensor, " codes"]:
    """Average the quantile of the deviations within each class over the classes of a factor."""
    # `gather` is several times as fast as indexing columns.
    ordered = values.gather(1, groups.order.expand(len(values), -1))
    total, start = values.new_zeros(len(values)), 0
    for size, classes in groups.blocks:
        block = ordered[:, start : start + size * classes].view(len(values), classes, size)
        start += size * classes
        deviation = block.sub_(block.mean(2, keepdim=True)).abs_()
        position = (size - 1) * quantile
        lower = math.floor(position)
        # Only the values from the quantile upwards: a partial sort of few values is faster than a partition.
        top = deviation.topk(size - lower, dim=2).values
        low, high = top[:, :, -1], top[:, :, max(0, size - lower - 2)]
        total += torch.lerp(low, high, position - lower).sum(1)
    return total / sum(classes for _, classes in groups.blocks)
