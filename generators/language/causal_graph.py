"""The causal graph of an image set: the parents of every factor and variable."""

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from candlelight.generators.language.factors import Factor, Rule

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
        ValueError: the graph has a cycle; the message names it.

    Example:
        >>> causal_order({"color": ("kind",), "kind": ()})
        ('kind', 'color')
    """
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError(f"expected a graph without cycles, got {' -> '.join(error.args[1])}") from None
    place = {name: i for i, name in enumerate(graph)}
    order: list[str] = []
    ready = sorted(sorter.get_ready(), key=place.__getitem__)
    while ready:
        first, *ready = ready
        order.append(first)
        sorter.done(first)
        ready = sorted([*ready, *sorter.get_ready()], key=place.__getitem__)
    return tuple(order)
