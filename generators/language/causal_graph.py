"""The causal graph of an image set: the parents of every factor and variable."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Any

from candlelight.generators.language.factors import (
    Categorical,
    Continuous,
    Factor,
    Rule,
    first_mechanism,
)
from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from candlelight.loaders.errors import InputError
from candlelight.loaders.records import FactorValue

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


def describe_graph(
    factors: Mapping[str, Factor],
    variables: Mapping[str, Factor],
    rules: Sequence[Rule],
    grid: Collection[str],
    interventions: Sequence[Mapping[str, FactorValue | Factor]] = ({},),
    drawn: Collection[str] = (),
) -> CausalGraph:
    """Return the causal graph of an image set as data.

    Args:
        factors: factors by name.
        variables: hidden variables by name.
        rules: the rules of the set.
        grid: names of the factors of the grid.
        interventions: for each intervention of the set the values that it sets, and the mechanisms that it
            puts in place, by name.
        drawn: names that may be drawn as targets.

    Example:
        >>> color = Categorical(values=("red", "blue"))
        >>> describe_graph({"color": color}, {}, [], ["color"]).node("color").mechanism
        'uniform(red, blue)'
        >>> describe_graph({"color": color}, {}, [], [], [{"color": "red"}]).node("color").mechanism
        'do(red)'
    """
    always, placed = _common(interventions, drawn)
    sometimes = set().union(drawn, *interventions) - always.keys() - placed.keys()
    mechanisms = {**factors, **variables, **placed}
    kept = [rule for rule in rules if rule.target not in placed]
    graph = causal_graph(mechanisms, kept, always)
    nodes = []
    for name in causal_order(graph):
        mechanism = mechanisms[name]
        text = always[name] if name in always else mechanism_text(mechanism)
        fields: dict[str, Any] = {"mechanism": f"do({text})" if name in {*always, *placed} else text}
        if isinstance(mechanism, Categorical):
            fields["values"] = mechanism.values or ()
        if name not in always:
            fields["rules"] = tuple(rule.exclude for rule in kept if rule.target == name)
            fields["previous"] = mechanism.lagged_parents()
            fields["every"] = "step" if mechanism.lagged_parents() else mechanism.every
            if mechanism.lagged_parents() and mechanism.first is not None:
                fields["first"] = mechanism_text(first_mechanism(mechanism))
            if isinstance(mechanism, Categorical):
                fields |= mechanism.model_dump(include={"weights", "given", "table", "strength"})
        nodes.append(
            CausalNode(
                name=name,
                kind="factor" if name in factors else "hidden",
                type="categorical" if isinstance(mechanism, Categorical) else "continuous",
                parents=graph[name],
                grid=name in grid,
                intervened="some" if name in sometimes else "all" if name in {*always, *placed} else "none",
                **fields,
            )
        )
    return CausalGraph(nodes=tuple(nodes), selections=tuple(rule.exclude for rule in rules if rule.selection))


def _common(
    interventions: Sequence[Mapping[str, FactorValue | Factor]], drawn: Collection[str]
) -> tuple[dict[str, str], dict[str, Factor]]:
    """Return the texts of what all interventions set, and the mechanisms that all of them put in place.

    Names whose interventions differ, in one of which they have parents, are in neither.
    """
    always, placed = {}, {}
    for name in interventions[0]:
        changes = [one[name] for one in interventions if name in one]
        soft = [one for one in changes if isinstance(one, Categorical | Continuous)]
        if len(changes) < len(interventions):
            continue
        if all(one == changes[0] for one in changes) and name not in drawn:
            if soft:
                placed[name] = soft[0]
            else:
                always[name] = str(changes[0])
        elif not any(one.parents() or one.lagged_parents() for one in soft):
            always[name] = "..."
    return always, placed


def mechanism_text(mechanism: Factor) -> str:
    """Write a mechanism as text.

    Example:
        >>> mechanism_text(Continuous(low=-180, high=180, mean="120 * x", std=40))
        'normal(120 * x, 40, -180, 180)'
    """
    if isinstance(mechanism, Continuous):
        if mechanism.low is None or mechanism.high is None:  # an expression alone has no range
            return str(mechanism.value)
        bounds = f"{_text(mechanism.low)}, {_text(mechanism.high)}"
        if mechanism.value is not None:
            return f"{_text(mechanism.value)} in [{bounds}]"
        if mechanism.mean is None or mechanism.std is None:
            return f"uniform({bounds})"
        return f"normal({_text(mechanism.mean)}, {_text(mechanism.std)}, {bounds})"
    if mechanism.values is not None:
        listed = ", ".join(map(str, mechanism.values))
    else:
        listed = f"0, ..., {mechanism.count - 1}" if mechanism.count else f"all {mechanism.assets}"
    weights = mechanism.weights
    if isinstance(weights, dict):
        listed = ", ".join(f"{value}: {weight:g}" for value, weight in weights.items())
    elif weights is not None and mechanism.values is not None:
        pairs = zip(mechanism.values, weights, strict=False)
        listed = ", ".join(f"{value}: {weight:g}" for value, weight in pairs)
    alone = f"{'uniform' if weights is None else 'weights'}({listed})"
    if mechanism.table is None:
        return alone
    table = f"table({', '.join(mechanism.given)})"
    mixed = f", strength {mechanism.strength:g}, else {alone}"
    return table if mechanism.strength == 1 else table + mixed


def _text(quantity: float | str) -> str:
    return quantity if isinstance(quantity, str) else f"{quantity:.12g}"


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
    """Return each name's direct and indirect causes, and itself; causes at earlier steps may form cycles."""
    causes = {name: {name, *parents} for name, parents in graph.items()}
    size = -1
    while size < (size := sum(map(len, causes.values()))):
        for found in causes.values():
            found.update(*(causes[cause] for cause in tuple(found)))
    return causes
