"""Which trace groups to render for an estimate: some of every stratum, then where they tell most."""

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence

import numpy as np

from generators.extrapolation import Reading
from generators.strata import Group, Stratum, place_of

FIRST, LATER = 2, 3  # groups of one visit to surroundings that a plan stays in
LEAST_SPREAD = 0.1  # of the mean, that a stratum is taken to have when it is asked where to look again
TRIES = 3  # visits to a stratum of which nothing was rendered
STAYS = 0.5  # share of arrivals below which a plan stays


class Visits:
    """Chooses groups of a plan, each at most once.

    A visit is a few groups of one stratum in the same surroundings, as they follow each other in the plan, of
    which the first pays for setting these up. Where a plan changes them from group to group, a visit is one
    group.

    Args:
        groups: all groups of the plan.
        strata: how they are parted.
        rng: where choices come from.
    """

    def __init__(self, groups: Sequence[Group], strata: Sequence[Stratum], rng: np.random.Generator) -> None:
        self._groups, self._strata = groups, strata
        self._order = [rng.permutation(len(stratum.groups)).tolist() for stratum in strata]
        self._next = [0] * len(strata)
        self._used: set[int] = set()
        self._chosen, self._visits = [0] * len(strata), [0] * len(strata)
        self._stratum = {group: i for i, stratum in enumerate(strata) for group in stratum.groups}

    def warm_up(self) -> tuple[int, ...]:
        """Choose one group of the stratum that has most left, for a process that has rendered nothing yet."""
        left = [
            len(stratum.groups) - count for stratum, count in zip(self._strata, self._chosen, strict=True)
        ]
        return self._take(left.index(max(left)), 1)

    def first_round(self) -> Iterator[tuple[int, ...]]:
        """Visit every stratum once, in the plan's order."""
        for i in range(len(self._strata)):
            if visit := self._take(i, FIRST):
                yield visit

    def most_telling(self, readings: Sequence[Reading]) -> tuple[int, ...]:
        """Visit the stratum whose share of the uncertainty shrinks most for the time that it takes.

        Returns:
            Positions of groups; none if all have been chosen.
        """
        costs: list[list[float]] = [[] for _ in self._strata]
        for one in readings:
            if not (one.arrived and self._stays(one.stratum)):
                costs[one.stratum].append(one.cost.cpu)
        gains = {i: self._gain(i, costs[i]) for i in range(len(self._strata)) if self._left(i)}
        best = max(gains, key=lambda i: gains[i], default=-1)
        return self._take(best, LATER) if best >= 0 and gains[best] > 0 else ()

    def stratum_of(self, group: int) -> int:
        """Return the number of the stratum that a group belongs to."""
        return self._stratum[group]

    def _gain(self, i: int, costs: Sequence[float]) -> float:
        if len(costs) < 2:  # what fails again and again is given up
            return math.inf if costs or self._visits[i] < TRIES else 0.0
        count, mean = len(costs), max(statistics.fmean(costs), 1e-9)
        # Two that happen to agree do not prove that all do.
        variance = max(statistics.variance(costs), (LEAST_SPREAD * mean) ** 2)
        # The variance of a total is proportional to 1/n over n readings: one more takes 1/(n(n+1)) of it.
        return len(self._strata[i].groups) ** 2 * variance / (count * (count + 1)) / mean

    def _beside(self, group: int, others: Sequence[int], count: int) -> list[int]:
        """Take the first unused groups of some that are in the surroundings of another."""
        place = place_of(self._groups[group])
        near = itertools.takewhile(lambda other: place_of(self._groups[other]) == place, others)
        return list(itertools.islice((other for other in near if other not in self._used), count))

    def _stays(self, i: int) -> bool:
        return self._strata[i].arriving < STAYS

    def _left(self, i: int) -> bool:
        groups, order = self._strata[i].groups, self._order[i]
        while self._next[i] < len(order) and groups[order[self._next[i]]] in self._used:
            self._next[i] += 1
        return self._next[i] < len(order)

    def _take(self, i: int, length: int) -> tuple[int, ...]:
        if not self._left(i):
            return ()
        stratum, start = self._strata[i], self._order[i][self._next[i]]
        visit = [stratum.groups[start]]
        if self._stays(i):
            visit += self._beside(visit[0], stratum.groups[start + 1 :], length - len(visit))
            # One that is the last in its surroundings is visited with those before it.
            visit += self._beside(visit[0], stratum.groups[:start][::-1], length - len(visit))
            visit.sort()
        self._used.update(visit)
        self._chosen[i] += len(visit)
        self._visits[i] += 1
        return tuple(visit)
