import itertools

import numpy as np
import pytest

from candlelight.generators.language.causal_graph import causal_graph, causal_order
from candlelight.generators.language.factors import Categorical, Continuous, Rule
from candlelight.generators.reports.graph_picture import draw_graph


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


def test_the_picture_has_every_node_below_its_parents_and_every_arrow():
    graph = {"kind": ("toy",), "color": ("toy", "kind"), "toy": (), "a<b": ()}
    svg = draw_graph(graph, ["kind", "color", "a<b"])
    assert (
        svg.count('<path d="M') - 1 == 3 + 4
    )  # arrows, and one from each to the image; the tip is a path too
    assert "a&lt;b" in svg
    assert svg.count("stroke-dasharray") == 1
    heights = {}
    for part in svg.split("<rect")[1:]:
        heights[part.split("</text>")[0].rpartition(">")[2]] = float(part.split(' y="')[1].split('"')[0])
    assert heights["toy"] < heights["kind"] < heights["color"] < heights["the image"]
    corners = {tuple(part.split('"')[1:4:2]) for part in svg.split("<rect")[1:]}
    assert len(corners) == 5


def test_the_picture_of_one_factor_alone():
    assert draw_graph({"a": ()}, ["a"]).count("<rect") == 2


def test_the_picture_has_room_for_any_name():
    svg = draw_graph({"image": (), "selection": ("image",), "w" * 40: ()}, ["selection"])
    assert svg.count("<rect") == 4
    assert svg.count("textLength") == 1


def test_selections_are_drawn_below_their_factors():
    rule = Rule(exclude={"a": 1, "b": 2}, selection=True)
    svg = draw_graph({"a": (), "b": ()}, ["a", "b"], [rule])
    assert "selection 1" in svg
    assert svg.count('<path d="M') - 1 == 2 + 2


def test_all_small_graphs_can_be_drawn():
    for arrows in itertools.product([False, True], repeat=3):
        graph = {
            "a": (),
            "b": ("a",) if arrows[0] else (),
            "c": tuple(p for p, on in zip("ab", arrows[1:], strict=True) if on),
        }
        assert draw_graph(graph, ["a"]).count("<rect") == 4
