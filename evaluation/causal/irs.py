"""Interventional robustness (IRS) and unconfoundedness (UC) of codes."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from candlelight.evaluation.causal.code_inputs import all_finite, equal_width_classes, takes_arrays
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
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


@takes_arrays
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


@takes_arrays
def irs_by_interventions(
    codes: Float[Tensor, "samples codes"],
    counterfactual_codes: Float[Tensor, "pairs codes"],
    samples: Int[Tensor, " pairs"],
    changed: Bool[Tensor, "pairs factors"],
) -> IRS:
    """Measure how little each code changes when interventions change other factors of the same unit.

    With the counterfactuals c of a sample n, which share with it all that was drawn,

    ``M_li = 1 - mean_n max_c |z_l(c) - z_l(n)| / max_{n, c} |z_l(c) - z_l(n)|``, over the c that keep factor
    i and change others, and ``IRS = sum_l w_l max_i M_li / sum_l w_l`` with the denominator of M as w_l.

    Suter et al. 2019, definitions 3 and 4, by true interventions: the largest deviation over what other
    factors are set to, averaged over the values of factor i, as a share of the largest deviation of all.
    `irs` conditions on factor i among samples in its place, which is the same for independent factors. If
    factors are confounded, the others hardly change while factor i is fixed, so that `irs` takes a mixed code
    for a robust one; interventions do change them. A code that does not change at all is left out.

    Blind to: lost information, and a factor that several codes share, as `irs` is; changes that no
    counterfactual makes. So a code that mixes a factor with its cause seems robust, unless interventions on
    both change the cause and keep the factor. A factor that every counterfactual changes has no entries. More
    counterfactuals of a sample raise the largest deviation, so that the score of noise falls.

    Args:
        codes: codes of factual samples.
        counterfactual_codes: codes of counterfactuals, each paired with a sample.
        samples: row of the sample of each pair in ``codes``.
        changed: factors whose value differs within the pair, those that follow from the intervention too.
            Pairs without any difference do not count.

    Returns:
        Scores in float64; matrix entries are nan for a factor that no pair keeps. ``class_sizes`` has the
        number of samples that count for each factor. If no code varies, the score is 0 and the matrix has no
        row.

    Raises:
        InputError: a dimension is missing or differs, codes are not finite, ``changed`` is not boolean,
            ``samples`` are no rows of ``codes``, or no pair keeps a factor and changes another.

    Example:
        >>> codes = torch.tensor([[0.0, 0.0]])  # x, and x + y
        >>> others = torch.tensor([[1.0, 1.0], [0.0, 1.0]])  # after do(x = 1), and after do(y = 1)
        >>> changed = torch.tensor([[True, False], [False, True]])
        >>> irs_by_interventions(codes, others, torch.tensor([0, 0]), changed).matrix
        tensor([[1., 0.],
                [0., 0.]], dtype=torch.float64)
    """
    pairs = {"counterfactual_codes": (counterfactual_codes, "pairs codes"), "samples": (samples, "pairs")}
    check_shapes(codes=(codes, "samples codes"), **pairs, changed=(changed, "pairs factors"))
    check_bool(changed=changed)
    if not (all_finite(codes) and all_finite(counterfactual_codes)):
        raise InputError("codes must be finite, got nan or inf; check the encoder")
    if len(samples) and not 0 <= int(samples.min()) <= int(samples.max()) < len(codes):
        raise InputError(f"`samples` must be rows of the {len(codes)} codes, got {samples.tolist()[:9]}")
    kept = ~changed & changed.any(1, keepdim=True)
    if not bool(kept.any()):
        raise InputError("expected counterfactuals that keep a factor and change another, got none")
    moved = (counterfactual_codes.double() - codes[samples].double()).abs() * changed.any(1, keepdim=True)
    active = moved.amax(0).nonzero().flatten()
    moved = moved[:, active]
    weights, columns, sizes = moved.amax(0), [], []
    for keeps in kept.T:
        rows, place = torch.unique(samples[keeps], return_inverse=True)
        largest = moved.new_zeros(len(rows), len(active))
        largest.scatter_reduce_(0, place[:, None].expand(-1, len(active)), moved[keeps], "amax")
        columns.append(largest.mean(0))
        sizes.append((len(rows),))
    matrix = 1 - torch.stack(columns, dim=1) / weights[:, None]
    best, parents = matrix.nan_to_num(-torch.inf).max(dim=1)
    score = (weights * best).sum() / weights.sum() if len(active) else weights.sum()
    return IRS(score, matrix, weights, parents, active, tuple(sizes))


SelectionCompat = Literal["exact", "candle2021"]

_SORTED_LENGTH = 3  # numpy sorts columns of up to three entries instead of partitioning them


@takes_arrays
def select_codes(
    matrix: Float[Tensor, "codes factors"] | IRS, rho: int = 1, compat: SelectionCompat = "exact"
) -> Int[Tensor, "factors selected"]:
    """Select the ``rho`` codes with the largest entries for each factor: Z_I of Reddy et al. 2022.

    Args:
        matrix: how strongly each code represents each factor, larger is stronger; or the result of `irs`.
        rho: codes per factor, 1 to the number of codes.
        compat: "exact" selects the ``rho`` largest entries of each column, in descending order; the first of
            equal ones. "candle2021" selects like the authors' program,
            ``argpartition(column, -1)[::-rho][:rho]`` under numpy up to 1.26: the largest entry (the last of
            equal ones) changes places with the last entry, the others stay in place (three codes or fewer are
            sorted instead), and every rho-th code from the end is selected. This gives fewer than ``rho``
            codes if there are at most rho (rho - 1). For ``rho = 1`` both agree except for ties; for ``rho =
            2`` the second code is the third from the end for almost all factors.

    Returns:
        Row numbers of the matrix; of a result of `irs`, columns of the codes that `irs` was given.

    Raises:
        InputError: a dimension is missing, entries are not finite, ``rho`` is out of range, or ``compat`` is
            misspelt.

    Example:
        >>> select_codes(torch.tensor([[0.9, 0.1], [0.1, 0.2], [0.2, 0.7]]), rho=2)
        tensor([[0, 2],
                [2, 1]])
    """
    table = matrix.matrix if isinstance(matrix, IRS) else matrix
    check_choice("compat", compat, SelectionCompat)
    check_shapes(matrix=(table, "codes factors"))
    if not 1 <= rho <= len(table):
        raise InputError(f"`rho` must be 1 to {len(table)}, the number of codes that vary, got {rho}")
    if not bool(table.isfinite().all()):
        raise InputError("`matrix` must be finite, got nan or inf; check the codes that it was made from")
    if compat == "exact":
        order = table.argsort(dim=0, descending=True, stable=True)[:rho]
    else:
        order = _partition_largest(table).flip(0)[::rho][:rho]
    return (matrix.codes[order] if isinstance(matrix, IRS) else order).T


def _partition_largest(table: Tensor) -> Int[Tensor, "codes factors"]:
    """Return the order of rows to which numpy up to 1.26 partitions each column by its largest entry."""
    codes = len(table)
    order = torch.arange(codes, device=table.device)[:, None].repeat(1, table.shape[1])
    if codes <= _SORTED_LENGTH:
        for place in range(codes):
            smallest = place + table.gather(0, order)[place:].argmin(0)  # the first of equal entries
            _swap(order, place, smallest)
    else:
        largest = codes - 1 - table.flip(0).argmax(0)  # the last of equal entries
        _swap(order, codes - 1, largest)
    return order


def _swap(order: Int[Tensor, "codes factors"], place: int, others: Int[Tensor, " factors"]) -> None:
    """Exchange a row of ``order`` with another row of each column."""
    moved = order.gather(0, others[None])
    order.scatter_(0, others[None], order[place : place + 1].clone())
    order[place] = moved[0]


ScoreTransform = Literal["none", "exponential"]


@takes_arrays
def unconfoundedness(
    matrix: Float[Tensor, "codes factors"] | IRS,
    rho: int = 1,
    compat: SelectionCompat = "exact",
    transform: ScoreTransform = "none",
) -> Float[Tensor, ""]:
    """Measure how disjoint the sets of codes are that represent different factors.

    ``UC = 1 - (1 / C(k, 2)) sum_{I<J} |Z_I n Z_J| / |Z_I u Z_J|``, where Z_I are the ``rho`` codes with the
    largest entries for factor I (CANDLE, Reddy et al. 2022, Algorithm 1 of the supplement; Z_I from the
    columns of the IRS matrix). With k factors and "exact", the values are multiples of ``1 / C(k, 2)`` for
    ``rho = 1``, and of ``1 / (3 C(k, 2))`` for ``rho = 2``.

    Blind to: the size of the entries. Each factor gets ``rho`` codes even if no code represents it, so random
    codes often score high. Two codes may both mix two factors and still score 1. For ``rho > 1`` most values
    are near 1: compare them, but do not interpret a single one. With fewer than rho k codes it cannot be 1.

    Args:
        matrix: how strongly each code represents each factor, larger is stronger; or the result of `irs`.
        rho: codes per factor, 1 to the number of codes.
        compat: how `select_codes` selects them. With "candle2021", ``rho = 2`` and more than two codes, the
            second code is the same for all factors but those that have it as their first. Therefore a value
            is at most 2/3, and without such factors 2/3 of the value for ``rho = 1``; 28 of the 48 published
            pairs have this ratio.
        transform: "exponential" returns ``exp(2 (UC - 1))``, which spreads values near 1 (section 9 of the
            supplement), from exp(-2) = 0.135 to 1; for ``rho > 1`` only. The order of values stays the same,
            and published values are without it.

    Returns:
        A number in [0, 1], higher is better; 1 if no code represents two factors.

    Raises:
        InputError: a dimension is missing, entries are not finite, there are fewer than two factors or fewer
            codes than ``rho``, ``compat`` or ``transform`` is misspelt, or a single code for each factor is
            to be transformed.

    Example:
        >>> unconfoundedness(torch.tensor([[0.9, 0.8, 0.1], [0.1, 0.2, 0.7]]))
        tensor(0.6667, dtype=torch.float64)
    """
    table = matrix.matrix if isinstance(matrix, IRS) else matrix
    check_choice("transform", transform, ScoreTransform)
    check_shapes(matrix=(table, "codes factors"))
    factors = table.shape[1]
    if factors < 2:
        raise InputError(f"`matrix` needs at least 2 factors to compare, got {factors}")
    if transform == "exponential" and rho == 1:
        raise InputError("`transform` is for `rho` above 1, got `rho` 1; leave it out")
    chosen = select_codes(table, rho, compat).T
    member = torch.zeros_like(table, dtype=torch.float64).scatter(0, chosen, 1)
    shared = member.T @ member
    size = member.sum(0)
    jaccard = shared / (size[:, None] + size[None, :] - shared)
    first, second = torch.triu_indices(factors, factors, offset=1, device=table.device)
    score = 1 - jaccard[first, second].mean()
    return score if transform == "none" else torch.exp(2 * (score - 1))
