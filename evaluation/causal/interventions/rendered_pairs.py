"""Find pairs of images that differ in one factor only: a factual image and its rendered counterfactual."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from candlelight.evaluation.models.named_streams import named_stream
from candlelight.loaders.errors import InputError
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.selection.factor_rows import FactorRows
from candlelight.loaders.views import Factors

_TRIES = 20  # rows that are tried for each pair that is wanted


class RenderedPairs(NamedTuple):
    """Pairs that differ in one factor only.

    Attributes:
        factual: row numbers of the factual images.
        rendered: row numbers of their counterfactuals, in the view of the counterfactuals.
        donors: row numbers of other images with the value that the factor has in the counterfactuals, in the
            same view; drawn among the images of other groups than those of the pair, if there are some.
        same_group: whether both images are of one group, so that they share everything that is drawn.
    """

    factual: Int[ndarray, " pairs"]
    rendered: Int[ndarray, " pairs"]
    donors: Int[ndarray, " pairs"]
    same_group: Bool[ndarray, " pairs"]


def find_rendered_pairs(
    data: Factors, counterfactuals: Factors, names: Sequence[str], most: int, seed: int = 0
) -> dict[str, RenderedPairs]:
    """Draw pairs of images that differ in one factor and agree in all others, for each of some factors.

    Pairs of one group are drawn first: rendered images of one group share every drawn variable, such as the
    position, and so do the frames of a counterfactual set and the frames that they are of. Groups and ids of
    both views are compared by name. In the pairs of one factor, no image occurs twice.

    Args:
        data: the factual images.
        counterfactuals: images among which the counterfactuals are found; may be ``data``.
        names: factors.
        most: largest number of pairs of each factor.
        seed: seed of the draws, of which each factor has its own.

    Returns:
        Pairs by factor; none if no image differs from another in this factor alone, as in sets of continuous
        factors, or of factors that determine each other. A pair without a third image that has the new value
        is left out.

    Raises:
        InputError: the views have different factors.

    Example:
        >>> from candlelight.loaders.schema import FactorInfo
        >>> from candlelight.loaders.views import DataIdentity
        >>> class Rows:
        ...     identity, ids, groups = DataIdentity("rows", "memory"), tuple("abcd"), tuple("abcd")
        ...     known_ids = frozenset(ids)
        ...     factors = tuple(FactorInfo(name=name, kind="categorical", values=(0, 1)) for name in "xy")
        ...     table = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        ...     def __len__(self): return 4
        ...     def __getitem__(self, row): return np.zeros((3, 8, 8))
        >>> found = find_rendered_pairs(Rows(), Rows(), ["x"], most=5)["x"]
        >>> sorted(zip(found.factual.tolist(), found.rendered.tolist()))
        [(1, 0), (3, 2)]
    """
    check_same_factors(data, counterfactuals)
    index = FactorIndex.from_table(counterfactuals.factors, np.asarray(counterfactuals.table))
    positions = _positions(index, data)
    return {name: _draw(index, positions, data, counterfactuals, name, most, seed) for name in names}


def check_same_factors(data: Factors, counterfactuals: Factors) -> None:
    """Refuse counterfactuals that have other factors than the data.

    Raises:
        InputError: a factor of one view is missing in the other.
    """
    wanted, got = ([info.name for info in view.factors] for view in (data, counterfactuals))
    if set(wanted) != set(got):
        raise InputError(
            f"counterfactuals: expected the factors of the data ({', '.join(wanted)}), got {', '.join(got)}"
        )


def _positions(index: FactorRows, data: Factors) -> Int[ndarray, "rows factors"]:
    """Return the class numbers of the data in the index; -1 for a value that it lacks."""
    infos = {info.name: (info, column) for info, column in zip(data.factors, data.table.T, strict=True)}
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
    """Draw the pairs of one factor: of one group as long as there are some, then of any."""
    draws = named_stream(seed, f"pairs {name}")
    column, kept = index.column(name), index.columns(index.others([name]))
    classes = index.groups(index.names[j] for j in kept)
    found = np.where((positions[:, kept] >= 0).all(1), classes.find(positions[:, kept].clip(min=0)), -1)
    rows_of = _rows_of_groups(counterfactuals)
    order = draws.permutation(np.flatnonzero(found >= 0))
    known = [row for row in order.tolist() if data.groups[row] in rows_of]
    used: set[str] = set()
    pairs: list[tuple[int, int, bool]] = []
    for same, rows in ((True, known), (False, order.tolist())):
        for row in rows[: _TRIES * most]:
            if len(pairs) == most:
                break
            if data.ids[row] in used:
                continue
            members = rows_of[data.groups[row]] if same else classes.members(int(found[row]))
            others = index.positions(members)
            fits = (others[:, kept] == positions[row, kept]).all(1) & (
                others[:, column] != positions[row, column]
            )
            free = [other for other in members[fits].tolist() if counterfactuals.ids[other] not in used]
            if free:
                other = free[int(draws.integers(len(free)))]
                pairs.append((row, other, counterfactuals.groups[other] == data.groups[row]))
                used |= {data.ids[row], counterfactuals.ids[other]}
    donors = _donors(index, data, counterfactuals, name, [pair[:2] for pair in pairs], seed)
    complete = [(*pair, donor) for pair, donor in zip(pairs, donors, strict=True) if donor is not None]
    table = np.array(complete, dtype=np.int64).reshape(-1, 4)
    return RenderedPairs(table[:, 0], table[:, 1], table[:, 3], table[:, 2].astype(bool))


def _donors(
    index: FactorRows,
    data: Factors,
    counterfactuals: Factors,
    name: str,
    pairs: Sequence[tuple[int, int]],
    seed: int,
) -> list[int | None]:
    """Draw for each pair another row with the value of the counterfactual; None if there is none."""
    draws = named_stream(seed, f"donors {name}")
    values = index.positions(np.arange(len(counterfactuals)))[:, index.column(name)]
    groups = np.array(counterfactuals.groups)
    donors: list[int | None] = []
    for row, other in pairs:
        alike = np.flatnonzero(values == values[other])
        others = alike[alike != other]
        foreign = others[(groups[others] != groups[other]) & (groups[others] != data.groups[row])]
        some = foreign if len(foreign) else others
        donors.append(int(some[draws.integers(len(some))]) if len(some) else None)
    return donors


def _rows_of_groups(view: Factors) -> dict[str, Int[ndarray, " rows"]]:
    """Return the row numbers of each group."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, group in enumerate(view.groups):
        rows[group].append(row)
    return {group: np.array(some) for group, some in rows.items()}
