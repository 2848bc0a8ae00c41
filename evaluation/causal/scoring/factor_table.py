"""The factors of scored images as numbers and as classes, chosen by name."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from candlelight.evaluation.causal.estimation.discretise import equal_width_classes
from candlelight.loaders.errors import InputError, argument, did_you_mean
from candlelight.loaders.schema import FactorInfo
from candlelight.loaders.views import Factors


@dataclass(frozen=True)
class FactorTable:
    """Factors of images, all of which vary.

    Attributes:
        names: name of each factor.
        values: numbers of each image; for values without an order, such as colours, their places in the list
            of values.
        classes: class of each image, from 0; continuous factors are cut into bins of equal width.
        categorical: columns whose factor is categorical.
        unordered: columns whose values are more than two and have no order; they are no numbers.
        turning: columns that are an angle over a full turn, whose values jump at its end.
    """

    names: tuple[str, ...]
    values: Float[Tensor, "images factors"]
    classes: Int[Tensor, "images factors"]
    categorical: tuple[int, ...]
    unordered: tuple[int, ...]
    turning: tuple[int, ...]

    @property
    def ordered(self) -> list[int]:
        """Columns whose values are numbers."""
        return [column for column in range(len(self.names)) if column not in self.unordered]

    def take(self, rows: Int[Tensor, " rows"]) -> "FactorTable":
        """Choose images, some of which may repeat."""
        return replace(self, values=self.values[rows], classes=self.classes[rows])


def tabulate_factors(data: Factors, names: Sequence[str] = (), bins: int = 20) -> FactorTable:
    """Choose factors of images by name, and make numbers and classes of them.

    Args:
        data: images with factors.
        names: factors in the order of the table; none chooses all that vary.
        bins: number of classes of a continuous factor.

    Raises:
        InputError: the table of the data has another shape or is not finite, a name is unknown, given twice
            or that of a factor with one value, fewer than two factors vary, or a factor has as many classes
            as images, or ``bins`` is below 2.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> from candlelight.loaders.views import DataIdentity
        >>> class Rows:
        ...     identity, ids, groups = DataIdentity("rows", "memory"), tuple("abcd"), tuple("abcd")
        ...     known_ids = frozenset(ids)
        ...     factors = (
        ...         FactorInfo(name="size", kind="categorical", values=(1.5, 2, 2.5)),
        ...         FactorInfo(name="light", kind="continuous", low=0, high=1),
        ...     )
        ...     table = np.array([[0, 0.0], [1, 0.5], [2, 1.0], [2, 0.0]])
        ...     def __len__(self): return 4
        ...     def __getitem__(self, row): return torch.zeros(3, 8, 8)
        >>> found = tabulate_factors(Rows(), bins=2)
        >>> found.values.T.tolist(), found.classes.T.tolist(), found.ordered
        ([[1.5, 2.0, 2.5, 2.5], [0.0, 0.5, 1.0, 0.0]], [[0, 1, 2, 2], [0, 1, 1, 0]], [0, 1])
    """
    if bins < 2:
        raise InputError(f"`bins` must be at least 2, got {bins}")
    numbers = torch.from_numpy(np.array(data.table, dtype=np.float64))
    if numbers.shape != (len(data.ids), len(data.factors)) or not bool(numbers.isfinite().all()):
        raise InputError(
            f"`{data.identity.name}`: expected a table of {len(data.ids)} rows, {len(data.factors)} factors, "
            f"finite, got {list(numbers.shape)}"
            + ("" if bool(numbers.isfinite().all()) else ", some nan or inf")
        )
    varies = (numbers != numbers[:1]).any(0).tolist()
    columns = _columns(data.factors, names, varies)
    infos = [data.factors[column] for column in columns]
    chosen = [(info, numbers[:, column]) for info, column in zip(infos, columns, strict=True)]
    classes = torch.stack([_classes(info, column, bins) for info, column in chosen], dim=1)
    for info, column in zip(infos, classes.T, strict=True):
        if int(column.max()) + 1 == len(column):
            cure = f"give fewer {argument('bins')} than {bins}, or " if info.kind == "continuous" else ""
            raise InputError(
                f"`{info.name}` has another value, or bin, in each of the {len(column)} images, which makes "
                f"any code robust; {cure}leave it out ({argument('factors')})"
            )
    return FactorTable(
        tuple(info.name for info in infos),
        torch.stack([_values(info, column) for info, column in chosen], dim=1),
        classes,
        *(
            tuple(place for place, info in enumerate(infos) if holds(info))
            for holds in (_is_categorical, _is_unordered, _is_turning)
        ),
    )


def _columns(factors: Sequence[FactorInfo], names: Sequence[str], varies: Sequence[bool]) -> list[int]:
    """Find the columns of the named factors, or all that vary."""
    known = [info.name for info in factors]
    for place, name in enumerate(names):
        if name not in known:
            raise InputError(
                f"{argument('factors')}: expected factors of the data ({', '.join(known)}), got `{name}`"
                f"{did_you_mean(name, known)}"
            )
        if name in names[:place]:
            raise InputError(f"{argument('factors')}: `{name}` is given twice")
        if not varies[known.index(name)]:
            raise InputError(f"{argument('factors')}: `{name}` has one value among the images; leave it out")
    columns = [known.index(name) for name in names] or [
        column for column, several in enumerate(varies) if several
    ]
    if len(columns) < 2:
        found = [known[column] for column in columns]
        raise InputError(f"at least two factors must vary among the images, got {found}")
    return columns


def _is_categorical(info: FactorInfo) -> bool:
    return info.kind == "categorical"


def _is_unordered(info: FactorInfo) -> bool:
    values = info.values or ()
    return len(values) > 2 and any(isinstance(value, str | bool) for value in values)


def _is_turning(info: FactorInfo) -> bool:
    if info.unit != "degrees" or info.low is None or info.high is None:
        return False
    return info.kind == "continuous" and info.high - info.low >= 360


def _values(info: FactorInfo, column: Float[Tensor, " images"]) -> Float[Tensor, " images"]:
    """Return the values of a factor as numbers."""
    if not info.values or any(isinstance(value, str | bool) for value in info.values):
        return column
    return torch.tensor(info.values, dtype=torch.float64)[column.long()]


def _classes(info: FactorInfo, column: Float[Tensor, " images"], bins: int) -> Int[Tensor, " images"]:
    """Return classes numbered from 0 without gaps."""
    classes = column if info.kind == "categorical" else equal_width_classes(column[None], bins)[0]
    return torch.unique(classes, return_inverse=True)[1]
