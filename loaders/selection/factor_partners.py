"""Draw partners of rows: rows with some factors redrawn and the others equal."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.selection.factor_groups import RowGroups
from candlelight.loaders.selection.factor_rows import FactorRows
from candlelight.loaders.selection.numbered_draws import NumberedDraws

MissingPartner = Literal["error", "mask"]
_ROUNDS = 16  # draws from a group before its members are listed


def draw_partners(
    index: FactorRows,
    rows: Int[ndarray, " n"],
    names: Iterable[str],
    draws: NumberedDraws,
    distinct: bool = False,
    missing: MissingPartner = "error",
) -> Int[ndarray, " n"]:
    """Redraw some factors of rows and keep the others.

    The partner of a row is drawn with equal chances from the rows that agree with it in all other factors.
    On a full grid, each of the factors is redrawn independently; if rows are left out, the factors are
    redrawn from the combinations that exist. The row itself may be drawn unless ``distinct``.

    Args:
        index: the rows.
        rows: rows to find partners for, one for each item of ``draws``.
        names: factors to redraw.
        draws: the random numbers.
        distinct: whether each of the factors must differ between a row and its partner.
        missing: "error" raises an error if a row has no partner, "mask" returns -1.

    Raises:
        InputError: a factor or row does not exist, or a row has no partner.

    Example:
        >>> from candlelight.loaders.selection.factor_index import FactorIndex
        >>> from candlelight.loaders.factor_space import FactorSpace
        >>> index = FactorIndex.of(FactorSpace(("color", "size"), (("red", "blue"), (1, 2, 3))))
        >>> draw_partners(index, np.array([0, 5]), ["color"], NumberedDraws(0, np.arange(2)), distinct=True)
        array([3, 2])
    """
    columns = index.columns(names)
    if not distinct or not columns:
        groups, found = _shared_groups(index, rows, columns)
        return groups.member(found, draws.below("partner", groups.counts(found)))
    partners = (_redrawn if index.is_grid else _picked)(index, rows, columns, draws)
    if missing == "error" and (partners < 0).any():
        listed = ", ".join(index.names[j] for j in columns)
        row = rows[int((partners < 0).argmax())]
        raise InputError(
            f'row {row} has no partner that differs in exactly {listed or "nothing"}; pass missing="mask" '
            "or distinct=False"
        )
    return partners


def _shared_groups(
    index: FactorRows, rows: Int[ndarray, " n"], redrawn: Sequence[int]
) -> tuple[RowGroups, Int[ndarray, " n"]]:
    """Group all rows by the factors that are not redrawn, and return the group of each of ``rows``."""
    kept = [j for j in range(len(index.sizes)) if j not in redrawn]
    groups = index.groups(index.names[j] for j in kept)
    return groups, groups.find(index.positions(rows)[:, kept])


def _redrawn(
    index: FactorRows, rows: Int[ndarray, " n"], columns: Sequence[int], draws: NumberedDraws
) -> Int[ndarray, " n"]:
    """Draw each factor from its other values: on a full grid every combination exists."""
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
    """Draw rows that agree until all factors differ; after some rounds, list all partners and choose one."""
    groups, found = _shared_groups(index, rows, columns)
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
