from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from candlelight.generators.language.causal_graph import (
    causal_graph,
    causal_order,
    connected_pairs,
    describe_graph,
)
from candlelight.generators.language.factors import Categorical, Continuous, Rule


def test_arrows_come_from_tables_expressions_and_targets_but_not_from_selections():
    mechanisms = {
        "kind": Categorical(values=("a", "b")),
        "color": Categorical(values=("r", "g"), given="kind", table={"a": {"r": 1}, "b": [0, 1]}),
        "size": Continuous(low=0, high="2 * x", mean="x + 1", std=1),
        "x": Continuous(low=0, high=1),
        "tone": Categorical(values=(1, 2)),
    }
    rules = [
        Rule(exclude={"tone": 1, "kind": ["a"]}, target="tone"),
        Rule(exclude={"color": "r", "tone": 2}, selection=True),
    ]
    assert causal_graph(mechanisms, rules) == {
        "kind": (),
        "color": ("kind",),
        "size": ("x",),
        "x": (),
        "tone": ("kind",),
    }


def test_parents_come_before_their_children():
    rng = np.random.default_rng(0)
    names = [f"v{i}" for i in range(7)]
    for _ in range(100):
        shuffled = list(rng.permutation(names))
        graph = {
            name: tuple(p for p in shuffled[: shuffled.index(name)] if rng.random() < 0.35) for name in names
        }
        order = causal_order(graph)
        assert sorted(order) == sorted(names)
        assert all(order.index(parent) < order.index(name) for name in names for parent in graph[name])


def test_without_arrows_the_order_is_as_written():
    assert causal_order({"b": (), "a": (), "c": ()}) == ("b", "a", "c")


def test_a_cycle_is_named():
    with pytest.raises(ValueError, match=r"without cycles, got .*a.* -> .*b"):
        causal_order({"a": ("b",), "b": ("a",), "c": ()})


def test_connected_pairs_are_those_that_no_d_separation_tells_apart():
    rng = np.random.default_rng(0)
    for trial in range(300):
        names = [f"v{i}" for i in range(rng.integers(2, 8))]
        graph = {name: tuple(p for p in names[:i] if rng.random() < 0.25) for i, name in enumerate(names)}
        selections = [rng.choice(names, 2, replace=False).tolist() for _ in range(trial % 4)]
        drawn = nx.DiGraph((parent, name) for name, parents in graph.items() for parent in parents)
        drawn.add_nodes_from(names)
        drawn.add_edges_from((name, i) for i, chosen in enumerate(selections) for name in chosen)
        assert connected_pairs(graph, selections) == {
            frozenset(pair)
            for pair in combinations(names, 2)
            if not nx.is_d_separator(drawn, {pair[0]}, {pair[1]}, set(range(len(selections))))
        }


def test_a_described_graph_has_mechanisms_in_words_and_tables_as_data():
    color = Categorical(values=("r", "g"), given="kind", table={"a": {"r": 1}, "b": [0, 1]}, strength=0.8)
    rule = Rule(exclude={"kind": "a", "size": 1}, target="kind")
    factors = {"color": color, "kind": Categorical(values=("a", "b"), weights={"a": 3, "b": 1})}
    variables = {"size": Categorical(count=3), "x": Continuous(low=0, high=1, mean="size / 4", std=0.5)}
    graph = describe_graph(factors, variables, [rule], ["size"])
    assert graph.names == ("size", "kind", "color", "x")
    assert {node.name: node.mechanism for node in graph.nodes} == {
        "size": "uniform(0, ..., 2)",
        "kind": "weights(a: 3, b: 1)",
        "color": "table(kind), strength 0.8, else uniform(r, g)",
        "x": "normal(size / 4, 0.5, 0, 1)",
    }
    assert graph.node("color").table == {"a": {"r": 1.0}, "b": [0, 1]}
    assert graph.node("kind").rules == ({"kind": ("a",), "size": (1,)},)
    assert [node.name for node in graph.nodes if node.kind == "hidden"] == ["size", "x"]


def test_a_described_graph_shows_the_interventions():
    color = Categorical(values=("r", "g"), given="kind", table={"a": {"r": 1}, "b": [0, 1]})
    factors = {"kind": Categorical(values=("a", "b")), "color": color}
    graph = describe_graph(factors, {}, [], ["kind"], [{"color": "r"}, {"color": "g", "kind": "a"}])
    color_node, kind_node = graph.node("color"), graph.node("kind")
    assert (color_node.parents, color_node.mechanism, color_node.table) == ((), "do(...)", None)
    assert (color_node.intervened, kind_node.intervened) == ("all", "some")
