"""Split the rows of image sets: at random, by the values of a factor, or by held-out combinations.

Rows that share a unit, a trace, a concept set, or a counterfactual relation form a *family*. A random split
keeps families together, over all image sets at once, so that training and test data share no draw and no
trace. Splits by a factor and held-out combinations may divide families, whose number they state, but not the
steps of a sequence. The order of families depends only on their names and the seed, by SHA-256. Rows that are
rendered later therefore move other rows only at the border of two splits.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.packs.split_plan import HELD_OUT, TRAIN, SplitPlan
from candlelight.loaders.schema import SetInfo


@dataclass(frozen=True, eq=False)
class SetRows:
    """The rows of an image set: the facts that splitting needs.

    Attributes:
        set_name: name of the image set.
        set_info: its description.
        table: factors of every row, as `candlelight.loaders.samples.Frames.factor_table`.
        links: strings of every row; rows that share a string are one family. The first names the unit.
        has_steps: whether the rows of a unit are the steps of a sequence.
    """

    set_name: str
    set_info: SetInfo
    table: Float64[ndarray, "n k"]
    links: Sequence[tuple[str, ...]]
    has_steps: bool = False


@dataclass(frozen=True, eq=False)
class PackSplit:
    """One split of an image set: name, sorted row numbers, and a line on how they were chosen."""

    name: str
    rows: Int[ndarray, " n"]
    made: str


def split_rows(sets: Sequence[SetRows], plan: SplitPlan) -> dict[str, list[PackSplit]]:
    """Split the rows of image sets that are packed together.

    A random split orders families by a hash of seed and name, and cuts this order at the end of each share,
    rounded by largest remainders. A family that lies across a cut goes to the side of its middle row. Sets
    that share families are cut together.

    Args:
        sets: the image sets.
        plan: the splits of each set.

    Returns:
        Splits by name of the set. Every row is in exactly one split.

    Raises:
        InputError: a set lacks a factor or value of the plan, a split would be empty, or the factor of the
            plan changes from split to split within the steps of a unit.

    Example:
        >>> info = SetInfo(count=10, width=8, height=8, layers=("image",), factors=())
        >>> rows = SetRows("plain", info, np.zeros((10, 0)), [(f"unit {n}",) for n in range(10)])
        >>> halves = split_rows([rows], SplitPlan(shares={"train": 0.7, "test": 0.3}))
        >>> [(split.name, split.rows.tolist()) for split in halves["plain"]]
        [('train', [1, 2, 4, 5, 6, 7, 8]), ('test', [0, 3, 9])]
    """
    families = _families(sets)
    names = (*plan.names, *([HELD_OUT] if plan.held_out else []))
    chosen = [np.zeros(len(rows.links), np.int64) for rows in sets]
    held = [_held_out(rows, plan) for rows in sets]
    if plan.shares:
        _draw(sets, families, held, plan, chosen)
    for rows, numbers, out in zip(sets, chosen, held, strict=True):
        if plan.factor:
            numbers[:] = _by_factor(rows, plan)
            if rows.has_steps:
                _refuse_divided_steps(rows, numbers, plan)
        numbers[out] = len(plan.names)
    splits = {}
    for rows, own, numbers, torn in zip(sets, families, chosen, _torn(families, chosen), strict=True):
        shown = {name: np.flatnonzero(numbers == place) for place, name in enumerate(names)}
        if plan.factor and TRAIN not in plan.values and not len(shown[TRAIN]):
            del shown[TRAIN]  # every value has a split, so no row is left over
        for name in (name for name, found in shown.items() if not len(found)):
            raise InputError(
                f"split `{name}` of set `{rows.set_name}` would be empty: {_why_empty(plan, name, own)}"
            )
        splits[rows.set_name] = [
            PackSplit(name, found, _made(plan, name, int(torn[names.index(name)])))
            for name, found in shown.items()
        ]
    return splits


def _families(sets: Sequence[SetRows]) -> list[ndarray]:
    """Return the family of every row of every set: the number of its first row, counted over all sets."""
    parent: list[int] = []
    seen: dict[object, int] = {}

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = row = parent[parent[row]]
        return row

    for rows in sets:
        info = rows.set_info
        fixed = [place for place, factor in enumerate(info.factors) if factor.name not in info.varies]
        concepts = map(tuple, rows.table[:, fixed].tolist()) if info.varies else iter(())
        for links in rows.links:
            row = len(parent)
            parent.append(row)
            concept = [(rows.set_name, next(concepts))] if info.varies else []
            for link in (*links, *concept):
                one, other = sorted((root(row), root(seen.setdefault(link, row))))
                parent[other] = one
    numbers = np.array([root(row) for row in range(len(parent))], np.int64)
    return np.split(numbers, np.cumsum([len(rows.links) for rows in sets])[:-1])


def _draw(
    sets: Sequence[SetRows],
    families: list[ndarray],
    held: list[ndarray],
    plan: SplitPlan,
    chosen: list[ndarray],
) -> None:
    """Choose the split of every row at random; sets that share families are cut together."""
    clusters: list[tuple[set[int], list[int]]] = []
    for place, numbers in enumerate(families):
        own, members = set(numbers.tolist()), [place]
        for cluster in [cluster for cluster in clusters if cluster[0] & own]:
            clusters.remove(cluster)
            own |= cluster[0]
            members = cluster[1] + members
        clusters.append((own, members))
    for _, members in clusters:
        sizes: dict[int, int] = {}
        names: dict[int, str] = {}
        for place in members:
            rows = zip(families[place].tolist(), sets[place].links, held[place].tolist(), strict=True)
            for family, links, out in rows:
                sizes[family] = sizes.get(family, 0) + (not out)
                names[family] = min(names.get(family, links[0]), links[0])
        cut = _cut(sizes, names, plan)
        for place in members:
            chosen[place][:] = [cut[family] for family in families[place].tolist()]


def _cut(sizes: Mapping[int, int], names: Mapping[int, str], plan: SplitPlan) -> dict[int, int]:
    """Return the split of every family of sets that are cut together."""

    def key(family: int) -> tuple[bytes, str]:
        return hashlib.sha256(f"{plan.seed}\n{names[family]}".encode()).digest(), names[family]

    order = sorted(sizes, key=key)
    ends = np.cumsum(_quotas(sum(sizes.values()), list(plan.shares.values())))
    after = np.cumsum([sizes[family] for family in order])
    middles = after - np.array([sizes[family] for family in order]) / 2
    places = np.minimum(np.searchsorted(ends, middles, side="right"), len(ends) - 1)
    return dict(zip(order, places.tolist(), strict=True))


def _quotas(count: int, shares: Sequence[float]) -> list[int]:
    """Round shares of a count by largest remainders (Hamilton's method); of equal remainders the first wins.

    Example:
        >>> _quotas(10, [0.75, 0.25]), _quotas(3, [0.8, 0.1, 0.1])
        ([8, 2], [3, 0, 0])
    """
    exact = [share * count for share in shares]
    counts = [int(number) for number in exact]
    # Rounded, so that rounding errors of products like 0.7 * 10 move no row.
    rest = [round(number - whole, 9) for number, whole in zip(exact, counts, strict=True)]
    order = sorted(range(len(shares)), key=lambda place: -rest[place])
    for place in order[: count - sum(counts)]:
        counts[place] += 1
    return counts


def _by_factor(rows: SetRows, plan: SplitPlan) -> Int[ndarray, " n"]:
    owner: dict[int, int] = {}
    for name, texts in plan.values.items():
        for text in texts:
            number = _value_number(rows, plan.factor, text)
            if number in owner:
                raise InputError(f"split: value `{text}` of factor `{plan.factor}` is given to two splits")
            owner[number] = plan.names.index(name)
    column = [factor.name for factor in rows.set_info.factors].index(plan.factor)
    values = rows.set_info.factor(plan.factor).values or ()
    missing = sorted({int(number) for number in rows.table[:, column].tolist()} - owner.keys())
    if missing and TRAIN in plan.values:
        raise InputError(
            f"split: value `{values[missing[0]]}` of factor `{plan.factor}` is in no split; add it to a split"
        )
    owner |= dict.fromkeys(missing, plan.names.index(TRAIN) if missing else 0)
    return np.array([owner[int(number)] for number in rows.table[:, column].tolist()], np.int64)


def _held_out(rows: SetRows, plan: SplitPlan) -> Bool[ndarray, " n"]:
    out = np.zeros(len(rows.links), bool)
    names = [factor.name for factor in rows.set_info.factors]
    for combination in plan.held_out:
        shown = np.ones(len(out), bool)
        for name, text in combination.items():
            number = _value_number(rows, name, text)
            shown &= rows.table[:, names.index(name)] == number
        out |= shown
    return np.isin(_units(rows), _units(rows)[out]) if rows.has_steps else out


def _units(rows: SetRows) -> ndarray:
    return np.array([unit for unit, *_ in rows.links])


def _refuse_divided_steps(rows: SetRows, numbers: Int[ndarray, " n"], plan: SplitPlan) -> None:
    split_of: dict[str, int] = {}
    for (unit, *_), number in zip(rows.links, numbers.tolist(), strict=True):
        if split_of.setdefault(unit, number) != number:
            raise InputError(
                f"split by factor `{plan.factor}` of set `{rows.set_name}`: expected all steps of a unit in "
                f"one split, got {unit} in `{plan.names[split_of[unit]]}` and `{plan.names[number]}`; split "
                "at random, or by a factor that no step changes"
            )


def _value_number(rows: SetRows, name: str, text: str) -> int:
    try:
        factor = rows.set_info.factor(name)
    except InputError as error:
        raise InputError(f"split of set `{rows.set_name}`: {error}; or name the sets to pack") from None
    known = [str(value) for value in factor.values or ()]
    if text not in known:
        expected = f"one of {', '.join(known)}" if known else "a categorical factor, this one is continuous"
        raise InputError(
            f"split by factor `{name}` of set `{rows.set_name}`: expected {expected}, got `{text}`"
        )
    return known.index(text)


def _torn(families: list[ndarray], chosen: list[ndarray]) -> list[Int[ndarray, " splits"]]:
    """Count the families of each split of each set that have rows in another split of any set."""
    shown = [np.unique(np.stack(pair), axis=1) for pair in zip(families, chosen, strict=True)]
    every = np.unique(np.concatenate(shown, axis=1), axis=1)
    numbers, places = np.unique(every[0], return_counts=True)
    torn, count = numbers[places > 1], every[1].max() + 1
    return [np.bincount(place[np.isin(family, torn)], minlength=count) for family, place in shown]


def _why_empty(plan: SplitPlan, name: str, families: Int[ndarray, " n"]) -> str:
    if plan.held_out and name == HELD_OUT:
        return "no row shows a held-out combination; hold out another, or name the sets to pack"
    if plan.shares:
        return (
            f"its {len(families)} rows are {len(np.unique(families))} families, which stay together; give it "
            "a larger share, split by a factor, or name the sets to pack"
        )
    if plan.factor:
        return f"only held-out rows show such a value of `{plan.factor}`; name other values"
    return "every row is held out; hold out fewer combinations"


def _made(plan: SplitPlan, name: str, shared: int) -> str:
    if name == HELD_OUT and plan.held_out:
        combinations = (", ".join(f"{key}={value}" for key, value in c.items()) for c in plan.held_out)
        made = f"rows with {'; or '.join(combinations)}"
    elif plan.factor:
        values = plan.values.get(name)
        made = f"rows with {plan.factor}={' or '.join(values)}" if values else "the other rows"
    elif plan.shares:
        made = f"{plan.shares[name]:g} of the rows, whole families at random, seed {plan.seed}"
    else:
        made = "the other rows" if plan.held_out else "every row"
    families = "1 family has" if shared == 1 else f"{shared} families have"
    return made + (f"; {families} rows in other splits too" if shared else "")
