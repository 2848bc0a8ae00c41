"""Cost strata: the trace groups of a plan, parted by what decides their time and size."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from generators.plan import Plan
from generators.scene import Floor, Material, SamplePlan, Thing

MOST = 32  # strata; rendering a few groups of each should take minutes at most

Group = tuple[SamplePlan, ...]
Traits = tuple[str, ...]
TRAITS = ("set", "scene", "floor", "objects", "samples")


@dataclass(frozen=True)
class Stratum:
    """Trace groups that cost about the same.

    Attributes:
        traits: image set, surroundings, floor, objects and samples per trace, as `TRAITS` names them.
        groups: positions of the groups in the plan.
        arrivals: how many of them come after a group of other surroundings, which have to be set up.
    """

    traits: Traits
    groups: tuple[int, ...]
    arrivals: int

    @property
    def arriving(self) -> float:
        """Share of the groups that come after one of other surroundings."""
        return self.arrivals / len(self.groups)


def place_of(group: Group) -> tuple[str, str]:
    """Name what a renderer sets up and keeps while it lasts: the image set and its surroundings."""
    surroundings = group[0].trace.environment
    return group[0].set, surroundings.map if surroundings else ""


def cost_strata(plan: Plan, most: int = MOST) -> list[Stratum]:
    """Part the trace groups of a plan into cost strata.

    Where there would be too many, the sets that have most are parted less finely: their scenes by kind alone,
    their objects no more, in the end not at all.

    Args:
        plan: the plan.
        most: how many strata to make at most, unless there are more image sets.

    Returns:
        The strata, in the order in which the plan comes to them; every group is in one.

    Example:
        >>> from generators import load_recipe, make_plan
        >>> plan = make_plan(load_recipe("negatives", ["sets.negatives.draws=50"]))
        >>> [stratum.traits for stratum in cost_strata(plan, most=1)]
        [('negatives', '14 kinds', '2 kinds', '10 kinds', '1')]
    """
    groups = list(plan.groups.values())
    levels = dict.fromkeys((group[0].set for group in groups), 0)
    while len(parted := _part(groups, levels)) > most:
        # Of the set that has the most strata, of those that can be parted less finely.
        counts = Counter(groups[members[0]][0].set for members in parted)
        finest = next((name for name, _ in counts.most_common() if levels[name] < len(_LEVELS) - 1), None)
        if finest is None:
            break
        levels[finest] += 1
    places = [place_of(group) for group in groups]
    after = [i == 0 or places[i] != places[i - 1] for i in range(len(groups))]
    return [
        Stratum(_shared_traits([groups[i] for i in members]), tuple(members), sum(after[i] for i in members))
        for members in parted
    ]


def _part(groups: Sequence[Group], levels: Mapping[str, int]) -> list[list[int]]:
    parted: dict[Traits, list[int]] = {}
    for i, group in enumerate(groups):
        name = group[0].set
        parted.setdefault((name, *_LEVELS[levels[name]](group)), []).append(i)
    return list(parted.values())


def _scene(group: Group) -> Traits:
    trace = group[0].trace
    scene = trace.environment.map if trace.environment else "none"
    if trace.leaves is not None:
        scene = f"leaves: {trace.leaves.shape}"
    things = f"{len(trace.objects)}{' textured' if any(map(_is_textured, trace.objects)) else ''}"
    return scene, _floor(trace.floor), things, str(len(group))


def _kind(group: Group) -> Traits:
    surroundings = group[0].trace.environment
    scene, *others = _scene(group)
    kind = ("modelled" if surroundings.modelled else "map") if surroundings else scene
    return kind, *others


def _crowd(group: Group) -> Traits:
    kind, floor, _, samples = _kind(group)
    return kind, floor, samples


def _count(group: Group) -> Traits:
    return (str(len(group)),)


def _nothing(group: Group) -> Traits:
    del group
    return ()


# From the finest to the coarsest.
_LEVELS: tuple[Callable[[Group], Traits], ...] = (_scene, _kind, _crowd, _count, _nothing)


def _is_textured(thing: Thing) -> bool:
    return any(map(_is_texture, (thing.material, *(part.material for part in thing.parts))))


def _is_texture(material: Material) -> bool:
    return material.image or material.color_a is not None


def _floor(floor: Floor | None) -> str:
    if floor is None:
        return "none"
    if floor.catcher:
        return "catcher"
    return "plain" if floor.material is None or not _is_texture(floor.material) else "textured"


def _shared_traits(groups: Sequence[Group]) -> Traits:
    """Describe groups by what they have in common, and by how many kinds there are of the rest."""
    found = [dict.fromkeys(values) for values in zip(*map(_scene, groups), strict=True)]
    return groups[0][0].set, *(
        next(iter(values)) if len(values) == 1 else f"{len(values)} kinds" for values in found
    )
