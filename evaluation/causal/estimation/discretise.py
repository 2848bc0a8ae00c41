"""Cut continuous columns into classes, for metrics that count."""

from collections.abc import Collection
from typing import Literal

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument

BinRule = Literal["width", "quantile"]


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
