"""The picture of a causal graph: each arrow once, and none behind a node."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from candlelight.generators.language.causal_graph import describe_graph
from candlelight.generators.language.factors import Categorical, Rule
from candlelight.generators.language.field_types import references
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.language.recipe_files import shipped_recipes
from candlelight.generators.reports.graph_picture import draw_graph
from candlelight.generators.reports.plan_report import SetReport
from candlelight.loaders.causal_graphs import CausalGraph, CausalNode

IMAGE = "the image"
SVG = "{http://www.w3.org/2000/svg}"


def read(svg):
    """Return the names of the boxes, and the points along each arrow by its ends.

    Check that the arrows lead from box to box past all other boxes, downwards, and that nothing overlaps.
    """
    root = ElementTree.fromstring(svg)
    names = [re.sub(r"do\((.*)\)", r"\1", text.text) for text in root.findall(f"{SVG}text")]
    corners = [
        [float(rect.get(key)) for key in ("x", "y", "width", "height")] for rect in root.findall(f"{SVG}rect")
    ]
    boxes = {name: (x, y, x + w, y + h) for name, (x, y, w, h) in zip(names, corners, strict=True)}
    assert len(boxes) == len(names)
    arrows = {}
    for path in root.findall(f"{SVG}path"):
        ends = tuple(path.find(f"{SVG}title").text.split(" to "))
        assert ends not in arrows
        arrows[ends] = along(path.get("d"))
    for (parent, child), points in arrows.items():
        first, last = boxes[parent], boxes[child]
        assert first[0] < points[0, 0] < first[2]
        assert points[0, 1] == first[3] < last[1] == points[-1, 1]
        assert last[0] < points[-1, 0] < last[2]
        for left, top, right, bottom in (boxes[name] for name in boxes.keys() - {parent, child}):
            inside = (points > [left - 5, top - 5]) & (points < [right + 5, bottom + 5])
            assert not inside.all(1).any()
    for a, b in pairwise(sorted(boxes.values(), key=lambda box: (box[1], box[0]))):
        assert a[1] != b[1] or a[2] < b[0]
    left, top, width, height = map(float, root.get("viewBox").split())
    every = np.concatenate([*arrows.values(), *(np.reshape(box, (2, 2)) for box in boxes.values())])
    assert (every > [left, top]).all()
    assert (every < [left + width, top + height]).all()
    return boxes.keys(), arrows


def along(way):
    """Return points along a path of cubic and vertical parts."""
    parts = [
        (part[0], [float(number) for number in part[1:].split()]) for part in re.findall("[MCV][^MCV]*", way)
    ]
    points, t = [parts[0][1]], np.linspace(0, 1, 50)[:, None]
    for kind, numbers in parts[1:]:
        start = points[-1]
        a, b, c = np.reshape(numbers, (3, 2)) if kind == "C" else ([start[0], numbers[0]],) * 3
        points.extend((1 - t) ** 3 * start + 3 * (1 - t) ** 2 * t * a + 3 * (1 - t) * t**2 * b + t**3 * c)
    return np.array(points)


def graph_of(parents, factors=(), selections=(), **fields):
    """Make a graph of names and their parents; other fields are given by name."""
    nodes = [
        CausalNode(
            name=name,
            kind="factor" if name in factors else "hidden",
            type="continuous",
            parents=above,
            mechanism="uniform(0, 1)",
            **fields.get(name, {}),
        )
        for name, above in parents.items()
    ]
    return CausalGraph(nodes=nodes, selections=selections)


def arrows_of(graph):
    return {(parent, name) for name, parents in graph.items() for parent in parents}


def test_three_nodes_that_all_depend_on_each_other_are_no_chain():
    graph = {"mood": (), "color": ("mood",), "shape": ("mood", "color")}
    svg = draw_graph(graph_of(graph, ["color", "shape"]), ["shape"])
    _, arrows = read(svg)
    assert arrows.keys() == arrows_of({**graph, IMAGE: ("shape",)})
    assert svg.count('stroke-dasharray="5 4"') == 1


@pytest.mark.parametrize("name", shipped_recipes())
def test_arrows_to_the_image_are_those_of_the_layout_and_of_units(name):
    for set_name, image_set in load_recipe(name).sets.items():
        names, arrows = read(SetReport(set_name, image_set, 1, 1, image_set.graph, [], [], []).picture())
        assert names >= image_set.mechanisms().keys()
        used = {*references(image_set.layout), *(image_set.unit_factors or ())}
        assert {parent for parent, child in arrows if child == IMAGE} == used


@pytest.mark.parametrize("seed", range(25))
def test_no_arrow_is_behind_a_node(seed):
    rng = np.random.default_rng(seed)
    names = [f"v{i}" for i in range(rng.integers(1, 12))]
    density = rng.random()
    graph = {
        name: tuple(names[j] for j in range(i) if rng.random() < density) for i, name in enumerate(names)
    }
    shown = [name for name in names if rng.random() < 0.7]
    boxes, arrows = read(draw_graph(graph_of(graph, names[::2]), shown))
    assert boxes == {*names, IMAGE}
    assert arrows.keys() == arrows_of({**graph, IMAGE: shown})


def test_few_arrows_cross():
    # Written in this order, all three arrows cross.
    graph = {"a": (), "b": (), "c": (), "z": ("c",), "y": ("b",), "x": ("a",)}
    _, arrows = read(draw_graph(graph_of(graph), []))
    assert all(np.ptp(points[:, 0]) < 1 for points in arrows.values())


def test_selections_are_boxes_to_which_their_factors_point():
    graph = {"a": (), "b": ("a",)}
    svg = draw_graph(graph_of(graph, ["a"], [{"a": (1,), "b": (2, 3)}]), ["a"])
    _, arrows = read(svg)
    assert "<title>never a in [1] and b in [2, 3]</title>" in svg
    assert arrows.keys() == arrows_of({**graph, "selection 1": ("a", "b"), IMAGE: ("a",)})


def test_the_picture_has_room_for_any_name():
    graph = {"image": (), "selection": ("image",), "w" * 40: ()}
    svg = draw_graph(graph_of(graph), ["selection"])
    _, arrows = read(svg)
    assert arrows.keys() == arrows_of({**graph, IMAGE: ("selection",)})
    assert svg.count("textLength") == 1
    assert "a&lt;b" in draw_graph(graph_of({"a<b": ()}), [])


def test_an_intervened_node_has_no_parents_and_a_thick_frame():
    mechanisms = {
        "kind": Categorical(count=2),
        "tone": Categorical(count=2, given="kind", table={0: [1], 1: [1]}),
    }
    rules = [Rule(exclude={"kind": 1, "tone": 1}, target="tone")]
    svg = draw_graph(describe_graph(mechanisms, {}, rules, [], [{"tone": 1}]), mechanisms)
    assert svg.count('stroke-width="3"') == svg.count("<title>do(1)</title>") == 1
    assert read(svg)[1].keys() == {("kind", IMAGE), ("tone", IMAGE)}


def test_a_node_that_some_interventions_change_has_dashed_arrows_and_a_thick_frame():
    svg = draw_graph(graph_of({"a": (), "b": ("a",)}, b={"intervened": "some"}), [])
    assert svg.count('stroke-dasharray="3 3"') == svg.count('stroke-width="3"') == 1
    assert "do(b)" not in svg


def test_values_of_the_previous_step_are_nodes_of_their_own():
    svg = draw_graph(graph_of({"a": (), "b": ("a",)}, b={"previous": ("b", "a")}, a={"previous": ("a",)}), [])
    before = {"a": ("previous(a)",), "b": ("a", "previous(b)", "previous(a)")}
    assert read(svg)[1].keys() == arrows_of(before)
