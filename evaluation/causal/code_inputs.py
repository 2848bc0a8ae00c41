"""Codes and factors as the metrics take them: checked, standardised, ranked and discretised."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from torch.nn.functional import pad

from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument

BinRule = Literal["width", "quantile"]
_P = ParamSpec("_P")
_T = TypeVar("_T")


def takes_arrays(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a function of tensors take numpy arrays, too.

    Example:
        >>> takes_arrays(find_varying)(np.array([[0, 3], [1, 3]]))
        tensor([ True, False])
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        given: Any = [*map(_tensor, args)], {name: _tensor(one) for name, one in kwargs.items()}
        return function(*given[0], **given[1])

    return call


def _tensor(value: object) -> object:
    return torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value


@takes_arrays
def discretise(
    values: Real[Tensor, "samples columns"],
    bins: int = 20,
    rule: BinRule = "width",
    categorical: Collection[int] = (),
) -> Int[Tensor, "samples columns"]:
    """Cut each continuous column into ``bins`` classes; categorical columns stay as they are.

    With "width", the bins of a column have equal width between its extremes, as in disentanglement_lib (20
    bins); with "quantile", a value with the share q of the samples below it is in class ``floor(q bins)``, so
    that classes have equal counts up to ties. "quantile" depends only on the order of the values.

    Blind to: differences within a bin. A single outlier makes all other values share few bins of equal width.
    Scores of metrics that count depend on the number of bins: state it.

    Args:
        values: integers are classes; floats are continuous.
        bins: number of classes of a continuous column, 2 to the number of samples.
        rule: "width" or "quantile".
        categorical: columns of floats that hold classes nevertheless, for tables of both kinds.

    Returns:
        Class numbers from 0, in the order of the values. A bin without samples keeps its number. A constant
        column is one class.

    Raises:
        InputError: a dimension is missing, values are not finite, ``bins`` or ``categorical`` is out of
            range, or ``rule`` is misspelt.

    Example:
        >>> table = torch.tensor([[0.0, 3.0], [0.1, 7.0], [0.2, 3.0], [1.0, 9.0]])
        >>> discretise(table, 2, categorical=[1]).T
        tensor([[0, 0, 0, 1],
                [0, 1, 0, 2]])
        >>> discretise(table[:, :1], 2, "quantile").T
        tensor([[0, 0, 1, 1]])
    """
    check_choice("rule", rule, BinRule)
    check_shapes(values=(values, "samples columns"))
    if not bool(values.isfinite().all()):
        raise InputError("`values` must be finite, got nan or inf; leave out samples without a value")
    is_class = find_categorical(values, categorical)
    classes = torch.empty(values.shape, dtype=torch.int64, device=values.device)
    for column in is_class.nonzero().flatten().tolist():
        classes[:, column] = torch.unique(values[:, column], return_inverse=True)[1]
    if bool(is_class.all()):
        return classes
    if not 2 <= bins <= len(values):
        raise InputError(f"{argument('bins')} must be 2 to {len(values)}, the number of samples, got {bins}")
    columns = values[:, ~is_class].double().T.contiguous()
    cut = equal_width_classes if rule == "width" else _equal_count
    classes[:, ~is_class] = cut(columns, bins).T
    return classes


def equal_width_classes(
    columns: Real[Tensor, "columns samples"], bins: int
) -> Int[Tensor, "columns samples"]:
    """Cut columns, here as rows of a tensor, into classes of equal width between the extremes of each.

    Args:
        columns: finite values.
        bins: number of classes, which may exceed that of the samples.

    Returns:
        Class numbers from 0 to ``bins - 1``.

    Example:
        >>> equal_width_classes(torch.tensor([[0.0, 0.4, 0.6, 1.0]]), 2)
        tensor([[0, 0, 1, 1]])
    """
    numbers = columns.double().contiguous()
    low, high = numbers.aminmax(dim=1, keepdim=True)
    step = (high - low) / bins
    # The lower edges of numpy.histogram, so that values on an edge fall into the same bins.
    edges = torch.arange(bins, dtype=torch.float64, device=columns.device) * step + low
    return torch.searchsorted(edges, numbers, right=True) - 1


def find_categorical(values: Real[Tensor, "samples columns"], categorical: Collection[int]) -> Tensor:
    """Tell for each column whether it holds classes: integers do, and the listed columns of floats.

    Raises:
        InputError: ``categorical`` lists a column that does not exist.

    Example:
        >>> find_categorical(torch.rand(4, 3), [1])
        tensor([False,  True, False])
    """
    number = values.shape[1]
    if unknown := [column for column in categorical if not 0 <= column < number]:
        raise InputError(f"`categorical` must list columns from 0 to {number - 1}, got {unknown[0]}")
    listed = [not values.is_floating_point() or column in categorical for column in range(number)]
    return torch.tensor(listed, dtype=torch.bool, device=values.device)


def _equal_count(columns: Float[Tensor, "columns samples"], bins: int) -> Int[Tensor, "columns samples"]:
    below = torch.searchsorted(columns.sort(dim=1).values, columns)
    return below * bins // columns.shape[1]


_ROUNDING = 64 * torch.finfo(torch.float64).eps


def check_codes_and_factors(codes: Tensor, factors: Tensor, least: int = 1) -> Bool[Tensor, " factors"]:
    """Refuse codes and factors that cannot be compared, and tell which factors vary.

    Args:
        codes: one code vector per sample, [samples, codes].
        factors: one row of factors per sample, [samples, factors].
        least: number of factors that must vary.

    Raises:
        InputError: a dimension is missing, there are no codes, values are not finite, or fewer than
            ``least`` factors vary.

    Example:
        >>> check_codes_and_factors(torch.rand(2, 1), torch.tensor([[0, 3], [1, 3]]))
        tensor([ True, False])
    """
    check_shapes(codes=(codes, "samples codes"), factors=(factors, "samples factors"))
    if codes.shape[1] == 0:
        raise InputError("`codes` needs at least one code, got none")
    if not all_finite(codes):
        raise InputError("`codes` must be finite, got nan or inf; check the encoder")
    if not all_finite(factors):
        raise InputError("`factors` must be finite, got nan or inf; leave out samples without a value")
    varies = find_varying(factors)
    if int(varies.sum()) < least:
        raise InputError(
            f"at least {least} of the factors must vary among the {len(factors)} samples, got "
            f"{int(varies.sum())}"
        )
    return varies


def all_finite(values: Real[Tensor, "samples columns"]) -> bool:
    """Tell whether no value is nan or infinite, from the sum, which is faster than a test of each value.

    Example:
        >>> all_finite(torch.tensor([[0.0, torch.nan]]))
        False
    """
    # A sum of finite values may overflow.
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())


def find_varying(values: Real[Tensor, "samples columns"]) -> Bool[Tensor, " columns"]:
    """Tell for each column whether it has different values, all of which are finite.

    Example:
        >>> find_varying(torch.tensor([[0, 3], [1, 3]]))
        tensor([ True, False])
    """
    if not len(values):
        return torch.zeros(values.shape[1], dtype=torch.bool, device=values.device)
    low, high = values.aminmax(dim=0)
    return low < high


def factor_classes(
    codes: Tensor,
    factors: Tensor,
    bins: int,
    rule: BinRule,
    categorical: Collection[int],
    least: int = 1,
) -> tuple[Int[Tensor, "samples factors"], Bool[Tensor, " factors"]]:
    """Check codes and factors, cut the factors into classes, and tell which have more than one class.

    Args:
        codes: one code vector per sample, [samples, codes].
        factors: one row of factors per sample, [samples, factors].
        bins: see `discretise`.
        rule: see `discretise`.
        categorical: see `discretise`.
        least: number of factors that must have more than one class.

    Raises:
        InputError: see `check_codes_and_factors` and `discretise`.

    Example:
        >>> factor_classes(torch.rand(3, 1), torch.tensor([[0.0], [0.1], [1.0]]), 2, "width", [])[0].T
        tensor([[0, 0, 1]])
    """
    check_codes_and_factors(codes, factors, least)
    classes = discretise(factors, bins, rule, categorical)
    # Quantile bins merge rare values, so that a factor that varies may have one class.
    return classes, check_codes_and_factors(codes, classes, least)


def split_samples(
    training: Bool[Tensor, " samples"] | None, factors: Real[Tensor, "samples factors"]
) -> tuple[Tensor | slice, Tensor | slice, Bool[Tensor, " factors"]]:
    """Return the rows to fit on and the rows to score, as indices, and tell which factors vary in both.

    Args:
        training: true for rows to fit on, the others are scored; None fits and scores all rows.
        factors: one row of factors per sample.

    Raises:
        InputError: ``training`` is not boolean or has another length, or no factor varies among both parts.

    Example:
        >>> split_samples(torch.tensor([True, False, True, False]), torch.tensor([[0], [0], [1], [1]]))
        (tensor([0, 2]), tensor([1, 3]), tensor([True]))
    """
    if training is None:
        return slice(None), slice(None), find_varying(factors)
    check_shapes(training=(training, "samples"), factors=(factors, "samples factors"))
    check_bool(training=training)
    fitted, scored = (part.nonzero().flatten() for part in (training, ~training))
    parts = (factors[fitted], factors[scored])
    varies = torch.stack([find_varying(part) for part in parts]).all(0)
    if not bool(varies.any()):
        raise InputError(
            f"no factor varies both among the {len(fitted)} rows of `training` and the {len(scored)} others"
        )
    return fitted, scored, varies


def standardise(
    values: Real[Tensor, "rows columns"], like: Real[Tensor, "fitted columns"] | None = None
) -> Float[Tensor, "rows columns"]:
    """Shift and scale columns to mean 0 and variance 1, in float64; constant columns become 0.

    Args:
        values: finite values.
        like: rows whose means and standard deviations to use; ``values`` by default.

    Example:
        >>> standardise(torch.tensor([[1.0, 7.0], [3.0, 7.0]]))
        tensor([[-1.,  0.],
                [ 1.,  0.]], dtype=torch.float64)
    """
    rows = (values if like is None else like).double()
    mean = rows.mean(0)
    centred = rows - mean
    scale = torch.linalg.vector_norm(centred, dim=0) / len(rows) ** 0.5
    # The mean of a constant column is its value up to rounding.
    scale[scale <= _ROUNDING * mean.abs()] = torch.inf
    # In place, because memory for another table takes longer than the division itself.
    return (centred if like is None else values.double() - mean).div_(scale)


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
