"""The causal graph of an image set: the parents of every factor and variable."""

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from candlelight.generators.language.factors import Factor, Rule
from candlelight.loaders.errors import InputError

Graph = dict[str, tuple[str, ...]]


def causal_graph(
    mechanisms: Mapping[str, Factor], rules: Iterable[Rule], intervened: Collection[str] = ()
) -> Graph:
    """Return the parents of every factor and variable, by its mechanism and by the rules that target it.

    A selection adds no parent, because it rejects whole samples after they are drawn.

    Args:
        mechanisms: factors and variables by name.
        rules: the rules of the set.
        intervened: names that an intervention sets; they have no parents.

    Returns:
        Name to the names of its parents, in the order of ``mechanisms``.

    Example:
        >>> from candlelight.generators.language.factors import Categorical
        >>> color = Categorical(values=("red", "blue"))
        >>> rule = Rule(exclude={"kind": ["cube"], "color": ["red"]}, target="color")
        >>> causal_graph({"kind": Categorical(values=("cube", "cone")), "color": color}, [rule])
        {'kind': (), 'color': ('kind',)}
    """
    found = {name: list(mechanism.parents()) for name, mechanism in mechanisms.items()}
    for rule in rules:
        if rule.target in found:
            found[rule.target] += rule.parents()
    return {
        name: () if name in intervened else tuple(dict.fromkeys(parents)) for name, parents in found.items()
    }


def causal_order(graph: Graph) -> tuple[str, ...]:
    """Order the names so that parents come before children, and otherwise as they are written.

    Raises:
        InputError: the graph has a cycle; the message names it.

    Example:
        >>> causal_order({"color": ("kind",), "kind": ()})
        ('kind', 'color')
    """
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        raise InputError(f"expected a graph without cycles, got {' -> '.join(error.args[1])}") from None
    place = {name: i for i, name in enumerate(graph)}
    order: list[str] = []
    ready = sorted(sorter.get_ready(), key=place.__getitem__)
    while ready:
        first, *ready = ready
        order.append(first)
        sorter.done(first)
        ready = sorted([*ready, *sorter.get_ready()], key=place.__getitem__)
    return tuple(order)


def connected_pairs(
    graph: Graph, selections: Iterable[Collection[str]] = (), intervened: Collection[str] = ()
) -> set[frozenset[str]]:
    """Find the pairs that can depend on each other: as cause and effect, by a common cause or by a selection.

    Args:
        graph: name to its parents, before the intervention.
        selections: for each selection, the names whose values before the intervention decide.
        intervened: names that an intervention sets.

    Example:
        >>> graph = {"toy": (), "kind": ("toy",), "color": ("toy",), "size": ()}
        >>> sorted(map(sorted, connected_pairs(graph)))
        [['color', 'kind'], ['color', 'toy'], ['kind', 'toy']]
        >>> sorted(map(sorted, connected_pairs(graph, [("color", "size")], intervened=["color"])))
        [['kind', 'size'], ['kind', 'toy'], ['size', 'toy']]
    """
    before = _causes(graph)
    causes = _causes({name: () if name in intervened else parents for name, parents in graph.items()})
    for names in selections:
        # All causes of a selection depend on each other, and what they cause does too.
        deciding = set().union(*(before[name] for name in names)).difference(intervened)
        joint = set().union(*(causes[name] for name in deciding))
        for found in causes.values():
            if found & joint:
                found |= joint
    return {frozenset(pair) for pair in combinations(graph, 2) if causes[pair[0]] & causes[pair[1]]}


def _causes(graph: Graph) -> dict[str, set[str]]:
    """Return each name's direct and indirect causes, and itself."""
    causes: dict[str, set[str]] = {}
    for name in causal_order(graph):
        causes[name] = {name}.union(*(causes[parent] for parent in graph[name]))
    return causes
