"""Graphs of other programs, in every form."""

import json

import networkx as nx
import numpy as np
import pytest

from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from candlelight.loaders.graph_files import read_graph
from tests.refusals import refused

ADJACENCY = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0]])
GRAPH = nx.DiGraph([("a", "b"), ("c", "a")])
# The node-link form, in which networkx 3.4 calls the edges "edges" and earlier ones "links".
NODES = [{"id": name} for name in "abc"]
LINKS = [{"source": one, "target": other} for one, other in GRAPH.edges]


def node(name, *parents, **more):
    return CausalNode(name=name, kind="factor", type="continuous", parents=parents, mechanism="x", **more)


RECIPE = CausalGraph(nodes=(node("c"), node("a", "c"), node("b", "a")))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.json", {"nodes": ["a", "b", "c"], "edges": [["a", "b"], ["c", "a"]]}),
        ("recipe.json", RECIPE.model_dump(mode="json")),
        ("info.json", {"causal": RECIPE.model_dump(mode="json")}),
        ("edges.json", {"nodes": NODES, "edges": LINKS, "directed": True, "multigraph": False}),
        ("links.json", {"nodes": NODES, "links": LINKS, "directed": True, "multigraph": False}),
        ("named.npz", {"adjacency": ADJACENCY, "names": ["a", "b", "c"]}),
    ],
)
def test_files_with_names(name, content, tmp_path):
    if name.endswith(".json"):
        (tmp_path / name).write_text(json.dumps(content))
    else:
        np.savez(tmp_path / name, **content)
    found = read_graph(tmp_path / name)
    order = [found.names.index(one) for one in "abc"]
    np.testing.assert_array_equal(found.adjacency[np.ix_(order, order)], ADJACENCY)


def test_objects_and_arrays(tmp_path):
    np.save(tmp_path / "mine.npy", ADJACENCY)
    for source in (tmp_path / "mine.npy", str(tmp_path / "mine.npy"), ADJACENCY, ADJACENCY.tolist()):
        np.testing.assert_array_equal(read_graph(source).adjacency, ADJACENCY)
    assert read_graph(GRAPH).names == ("a", "b", "c")
    assert read_graph(GRAPH.to_undirected()).adjacency.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert read_graph(RECIPE).recipe is RECIPE
    confounded = {"nodes": ["a", "b"], "edges": [["a", "b"]], "bidirected": [["b", "a"]]}
    assert read_graph(confounded).adjacency.tolist() == [[0, 3], [2, 0]]
    assert read_graph(np.array([[0, -0.7], [0.2, 0]]), 0.5).adjacency.tolist() == [[0, 1], [0, 0]]


def test_what_is_no_graph_is_one_line(tmp_path):
    for content in ('{"nodes": ["a"], "edges": [["a", "b"]]}', '{"nodes": 3}', "[]", "{"):
        (tmp_path / "bad.json").write_text(content)
        with refused(r"bad.json: cannot be read as a graph: .*; expected an adjacency, or nodes and edges"):
            read_graph(tmp_path / "bad.json")
    nodes = {"nodes": ["a", "b"]}
    for content in (
        {"nodes": ["a", "a"], "edges": []},
        {**nodes, "edge": [["a", "b"]]},
        {**nodes, "edges": [["a", "c"]]},
        {**nodes, "edges": [["a", "b", 0.3]]},
        {"a": ["b"]},
    ):
        with refused("expected different `nodes`, and `edges`|expected an edge as a pair of nodes"):
            read_graph(content)
    with refused("expected finite weights, got nan or inf"):
        read_graph(np.array([[0, np.nan], [0, 0]]), 0.3)
    np.savez(tmp_path / "bad.npz", names=["a"])
    with refused("bad.npz: cannot be read as a graph: "):
        read_graph(tmp_path / "bad.npz")
    with refused("badd.json: expected a graph as .npy, .npz or .json; did you mean `bad.json`"):
        read_graph(tmp_path / "badd.json")
    with refused("expected an adjacency .n, n., numbers, got <U1 .1."):
        read_graph(["a"])
    with refused("edges from the previous step"):
        read_graph(CausalGraph(nodes=(node("a", previous=("a",)),)))
