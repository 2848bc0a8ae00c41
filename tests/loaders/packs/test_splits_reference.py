"""Splits against a slow reference that was written only from docs/packs.md."""

import hashlib
from fractions import Fraction

import numpy as np
import pytest

from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.packs.splits import SetRows, split_rows
from candlelight.loaders.schema import FactorInfo, SetInfo

SHARES = {"train": "0.7", "val": "0.1", "test": "0.2"}
VALUES = {"color": ("red", "green", "blue"), "size": (1, 2.5), "scene": tuple(f"s{n}" for n in range(99))}
FACTORS = tuple(FactorInfo(name=n, kind="categorical", values=v) for n, v in VALUES.items())


def draw_set(rng, name, count, varies=()):
    """Draw units of one to four rows, groups that join some units, and counterfactuals of some rows."""
    units = np.sort(rng.integers(0, count // 2, count))
    links = []
    for row, unit in enumerate(units.tolist()):
        link = [
            f"unit {name}/{unit}",
            f"group {name}/{unit // 2 if unit % 6 < 2 else -unit}",
        ]
        link.append(f"sample {name}-{row}")
        if row and rng.random() < 0.03:
            link.append(f"sample {name}-{rng.integers(row)}")
        links.append(tuple(link))
    table = np.stack([rng.integers(0, len(values), count) for values in VALUES.values()], axis=1)
    table[:, 2] = units // 2 if varies else table[:, 2] % 9
    info = SetInfo(count=count, width=8, height=8, layers=("image",), factors=FACTORS, varies=varies)
    return SetRows(name, info, table.astype(np.float64), links)


def relatives(sets):
    """Map each row of all sets to its family: the rows reached from it through shared links."""
    shared = {}
    marks = []
    for rows in sets:
        fixed = [place for place, f in enumerate(rows.set_info.factors) if f.name not in rows.set_info.varies]
        for links, values in zip(rows.links, rows.table, strict=True):
            mine = set(links)
            if rows.set_info.varies:
                mine.add((rows.set_name, *values[fixed]))
            for mark in mine:
                shared.setdefault(mark, []).append(len(marks))
            marks.append(mine)
    families = {}
    for start in range(len(marks)):
        found, todo = {start}, [start]
        while todo:
            for row in {other for mark in marks[todo.pop()] for other in shared[mark]} - found:
                found.add(row)
                todo.append(row)
        families[start] = frozenset(found)
    return families


def places(sets, plan):
    """Name the split of each row of all sets as one list."""
    owners = [(rows, row) for rows in sets for row in range(len(rows.links))]
    splits = split_rows(sets, plan)
    name = {(s, row): split.name for s in splits for split in splits[s] for row in split.rows.tolist()}
    assert len(name) == len(owners) == sum(len(split.rows) for s in splits for split in splits[s])
    return [name[rows.set_name, row] for rows, row in owners]


def expected(sets, seed):
    """Order the families of one cluster of sets by SHA-256, and cut where the shares of the rows end."""
    links = [links for rows in sets for links in rows.links]
    families = sorted(
        set(relatives(sets).values()),
        key=lambda family: hashlib.sha256(
            f"{seed}\n{min(links[row][0] for row in family)}".encode()
        ).hexdigest(),
    )
    exact = {name: Fraction(share) * len(links) for name, share in SHARES.items()}
    counts = {name: int(number) for name, number in exact.items()}
    rest = sorted(SHARES, key=lambda name: counts[name] - exact[name])
    for name in rest[: len(links) - sum(counts.values())]:
        counts[name] += 1
    of_place = [name for name in SHARES for _ in range(counts[name])]
    found, before = {}, 0
    for family in families:
        # The middle of an odd number of rows lies in a row, of an even number at the start of a row.
        found |= dict.fromkeys(family, of_place[before + len(family) // 2])
        before += len(family)
    return [found[row] for row in range(len(links))]


PLAN = {name: float(share) for name, share in SHARES.items()}


@pytest.mark.parametrize("seed", range(6))
def test_random_splits_match_the_reference(seed):
    rng = np.random.default_rng(seed)
    varies = ((), ("color",), ("color", "size"))[seed % 3]
    sets = [draw_set(rng, "one", 190 + seed, varies)]
    assert places(sets, SplitPlan(shares=PLAN, seed=seed)) == expected(sets, seed)


@pytest.mark.parametrize("seed", range(4))
def test_sets_that_share_units_are_split_together_and_other_sets_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    one = draw_set(rng, "one", 180)
    twin = SetRows(
        "twin", one.set_info, one.table[::2], [(links[0], f"group t{links[0]}") for links in one.links[::2]]
    )
    far = draw_set(rng, "far", 170, ("size",))
    plan = SplitPlan(shares=PLAN, seed=seed)
    assert places([one, twin], plan) == expected([one, twin], seed)
    assert places([one, far, twin], plan) == [
        *expected([one, twin], seed)[:180],
        *expected([far], seed),
        *expected([one, twin], seed)[180:],
    ]


@pytest.mark.parametrize("random", [True, False])
def test_held_out_rows_are_exactly_the_split_test_ood(random):
    rows = draw_set(np.random.default_rng(3), "one", 200)
    held = ({"color": "red", "size": "2.5"}, {"scene": "s4"})
    plan = SplitPlan(shares=PLAN if random else {}, held_out=held)
    for row, name in enumerate(places([rows], plan)):
        color, size, scene = (VALUES[key][int(v)] for key, v in zip(VALUES, rows.table[row], strict=True))
        assert (name == "test_ood") == ((color == "red" and size == 2.5) or scene == "s4")


def test_values_follow_the_plan_and_other_rows_are_train():
    rows = draw_set(np.random.default_rng(4), "one", 120)
    plan = SplitPlan(factor="scene", values={"test": ("s1", "s8"), "val": ("s0",)})
    owner = {"s1": "test", "s8": "test", "s0": "val"}
    scenes = [VALUES["scene"][int(number)] for number in rows.table[:, 2]]
    assert places([rows], plan) == [owner.get(scene, "train") for scene in scenes]
