"""Find pairs of images that differ in one factor only: a factual image and its rendered counterfactual."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from loaders.errors import InputError
from loaders.selection.factor_index import FactorIndex
from loaders.selection.factor_rows import FactorRows
from loaders.views import Factors

_TRIES = 20  # rows that are tried for each pair that is wanted


class RenderedPairs(NamedTuple):
    """Pairs that differ in one factor only.

    Attributes:
        factual: row numbers of the factual images.
        rendered: row numbers of their counterfactuals, in the view of the counterfactuals.
        same_group: whether both images are of one group, so that they share everything that is drawn.
    """

    factual: Int[ndarray, " pairs"]
    rendered: Int[ndarray, " pairs"]
    same_group: Bool[ndarray, " pairs"]


def find_rendered_pairs(
    data: Factors, counterfactuals: Factors, names: Sequence[str], most: int, seed: int = 0
) -> dict[str, RenderedPairs]:
    """Draw pairs of images that differ in one factor and agree in all others, for each of some factors.

    Images of the same group are preferred: rendered images of one group share every drawn variable, such as
    the position, and so do the frames of a counterfactual set and the frames that they are of. In the pairs
    of one factor, no image occurs twice.

    Args:
        data: the factual images.
        counterfactuals: images among which the counterfactuals are found; may be ``data``.
        names: factors.
        most: largest number of pairs of each factor.
        seed: seed of the draws.

    Returns:
        Pairs by factor; none if no image differs from another in this factor alone, as in sets of continuous
        factors, or of factors that determine each other.

    Raises:
        InputError: the views have different factors.

    Example:
        >>> from loaders.schema import FactorInfo
        >>> class Rows:
        ...     ids = groups = ("a", "b", "c")
        ...     factors = tuple(FactorInfo(name=name, kind="categorical", values=(0, 1)) for name in "xy")
        ...     table = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> found = find_rendered_pairs(Rows(), Rows(), ["x"], most=5)["x"]
        >>> sorted([*found.factual.tolist(), *found.rendered.tolist()])
        [0, 1]
    """
    index = FactorIndex.from_table(counterfactuals.factors, np.asarray(counterfactuals.table))
    positions = _positions(index, data)
    return {name: _draw(index, positions, data, counterfactuals, name, most, seed) for name in names}


def _positions(index: FactorRows, data: Factors) -> Int[ndarray, "rows factors"]:
    """Return the class numbers of the data in the index; -1 for a value that it lacks."""
    infos = {info.name: (info, column) for info, column in zip(data.factors, data.table.T, strict=True)}
    if infos.keys() != set(index.names):
        raise InputError(
            f"counterfactuals: expected the factors of the data ({', '.join(infos)}), got "
            f"{', '.join(index.names)}"
        )
    columns = []
    for classes in index.classes:
        info, column = infos[classes.name]
        known = {value: number for number, value in enumerate(classes.values)}
        found, numbers = np.unique(column, return_inverse=True)
        values = [info.values[int(one)] for one in found] if info.values else found.tolist()
        columns.append(np.array([known.get(value, -1) for value in values])[numbers])
    return np.stack(columns, axis=1)


def _draw(
    index: FactorRows,
    positions: Int[ndarray, "rows factors"],
    data: Factors,
    counterfactuals: Factors,
    name: str,
    most: int,
    seed: int,
) -> RenderedPairs:
    """Draw the pairs of one factor."""
    draws = np.random.default_rng(seed)
    column, kept = index.column(name), index.columns(index.others([name]))
    groups = index.groups(index.names[j] for j in kept)
    found = np.where((positions[:, kept] >= 0).all(1), groups.find(positions[:, kept].clip(min=0)), -1)
    used: set[str] = set()
    pairs = []
    rows = draws.permutation(np.flatnonzero(found >= 0))[: _TRIES * most].tolist()
    for row in rows:
        if data.ids[row] in used:
            continue
        members = groups.members(int(found[row]))
        members = members[index.positions(members)[:, column] != positions[row, column]]
        free = [other for other in members.tolist() if counterfactuals.ids[other] not in used]
        same = [other for other in free if counterfactuals.groups[other] == data.groups[row]]
        if choice := same or free:
            other = choice[int(draws.integers(len(choice)))]
            pairs.append((row, other, bool(same)))
            used |= {data.ids[row], counterfactuals.ids[other]}
        if len(pairs) == most:
            break
    table = np.array(pairs, dtype=np.int64).reshape(-1, 3)
    return RenderedPairs(table[:, 0], table[:, 1], table[:, 2].astype(bool))
