"""Partners of rows: equal in some factors, drawn anew in the others."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from loaders.errors import InputError
from loaders.selection.factor_groups import RowGroups
from loaders.selection.factor_rows import FactorRows
from loaders.selection.numbered_draws import NumberedDraws

MissingPartner = Literal["error", "mask"]
_ROUNDS = 16  # of drawing from a group before its members are listed


def draw_partners(
    index: FactorRows,
    rows: Int[ndarray, " n"],
    names: Iterable[str],
    draws: NumberedDraws,
    distinct: bool = False,
    missing: MissingPartner = "error",
) -> Int[ndarray, " n"]:
    """Draw some factors of rows anew and keep the others.

    The partner of a row is drawn with equal chances from the rows that agree with it in all other factors:
    on a full grid, this is to draw each of the factors anew; where rows are left out, it is to draw them
    from what there is beside the others. The row itself is among them unless ``distinct``.

    Args:
        index: the rows.
        rows: rows that want a partner, one for each item of ``draws``.
        names: factors to draw anew.
        draws: the random numbers.
        distinct: whether each of the factors must differ between a row and its partner.
        missing: what to do where no such row exists: raise an error, or give -1.

    Raises:
        InputError: there is no such factor or row, or a row has no partner.

    Example:
        >>> from loaders.selection.factor_index import FactorIndex
        >>> from loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> draw_partners(index, np.array([0, 5]), ["color"], NumberedDraws(0, np.arange(2)), distinct=True)
        array([3, 2])
    """
    columns = index.columns(names)
    if not distinct or not columns:
        names = [index.names[j] for j in columns]
        groups = index.groups(index.others(names))
        found = _groups_of(index, groups, rows, names)
        return groups.member(found, draws.below("partner", groups.counts(found)))
    partners = (_redrawn if index.is_grid else _picked)(index, rows, columns, draws)
    if missing == "error" and (partners < 0).any():
        listed = ", ".join(index.names[j] for j in columns)
        row = rows[int((partners < 0).argmax())]
        raise InputError(
            f"row {row} has no partner that differs in exactly {listed or 'nothing'}; ask for a mask, "
            "or for partners that may coincide"
        )
    return partners


def _groups_of(
    index: FactorRows, groups: RowGroups, rows: Int[ndarray, " n"], names: Sequence[str]
) -> Int[ndarray, " n"]:
    return groups.find(index.positions(rows)[:, index.columns(index.others(names))])


def _redrawn(
    index: FactorRows, rows: Int[ndarray, " n"], columns: Sequence[int], draws: NumberedDraws
) -> Int[ndarray, " n"]:
    """Draw each factor among its other values: on a full grid all of these exist."""
    if not all(index.sizes[j] > 1 for j in columns):
        return np.full(len(rows), -1)
    positions = index.positions(rows)
    for j in columns:
        new = draws.below(f"partner {index.names[j]}", index.sizes[j] - 1)
        positions[:, j] = new + (new >= positions[:, j])
    return index.find(positions)


def _picked(
    index: FactorRows, rows: Int[ndarray, " n"], columns: Sequence[int], draws: NumberedDraws
) -> Int[ndarray, " n"]:
    """Draw from those that agree until one differs as wanted; where none soon does, list all and choose."""
    names = [index.names[j] for j in columns]
    groups = index.groups(index.others(names))
    found = _groups_of(index, groups, rows, names)
    counts = groups.counts(found)
    partners = np.full(len(rows), -1)
    left = counts > 1
    for turn in range(_ROUNDS):
        drawn = groups.member(found[left], draws.take(left).below(f"partner {turn}", counts[left]))
        differs = _differ(index, rows[left], drawn, columns)
        partners[left] = np.where(differs, drawn, -1)
        left = (partners < 0) & (counts > 1)
    uniform = draws.uniform("partner of few")
    listed: dict[tuple[int, ...], Int[ndarray, " m"]] = {}
    own = index.positions(rows)[:, columns]
    for place in np.flatnonzero(left).tolist():
        key = (int(found[place]), *own[place].tolist())
        if key not in listed:
            members = groups.members(key[0])
            listed[key] = members[_differ(index, rows[place : place + 1], members, columns)]
        if len(listed[key]):
            partners[place] = listed[key][int(uniform[place] * len(listed[key]))]
    return partners


def _differ(
    index: FactorRows, rows: Int[ndarray, " n"], others: Int[ndarray, " m"], columns: Sequence[int]
) -> Bool[ndarray, " m"]:
    different = index.positions(rows)[:, columns] != index.positions(others)[:, columns]
    return different.all(axis=1)
