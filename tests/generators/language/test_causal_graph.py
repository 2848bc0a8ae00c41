import numpy as np
import pytest

from candlelight.generators.language.causal_graph import causal_graph, causal_order
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
    for _ in range(100):
        names = [f"v{i}" for i in range(7)]
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
