import itertools

import numpy as np
import pytest

from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from tests.refusals import refused

GRAPH = CausalGraph(
    nodes=(
        CausalNode(name="u", kind="hidden", type="continuous", mechanism="uniform(0, 1)"),
        CausalNode(
            name="tone",
            kind="factor",
            type="categorical",
            parents=("u",),
            previous=("tone",),
            mechanism='do("red")',
            intervened="all",
        ),
    ),
    selections=({"tone": ("red", "blue")},),
)


def test_matrices_have_a_row_for_each_parent_and_a_column_for_each_child():
    np.testing.assert_array_equal(GRAPH.adjacency(), [[False, True], [False, False]])
    np.testing.assert_array_equal(GRAPH.lagged_adjacency(), [[False, False], [False, True]])
    empty = CausalGraph(nodes=())
    assert empty.adjacency().shape == empty.lagged_adjacency().shape == (0, 0)


def test_dot_marks_hidden_and_set_nodes_and_selections():
    assert GRAPH.to_dot().splitlines() == [
        "digraph {",
        r'  "u" [label="u\nuniform(0, 1)", style="dashed"];',
        r'  "tone" [label="tone\ndo(\"red\")", style="bold"];',
        '  "u" -> "tone";',
        '  "tone" -> "tone" [style=dashed];',
        r'  "selection 1" [label="selection 1\ntone in [red, blue]", shape=box];',
        '  "tone" -> "selection 1";',
        "}",
    ]


def test_networkx_has_the_same_nodes_and_arrows():
    found = GRAPH.to_networkx()
    assert (list(found.nodes), list(found.edges)) == (["u", "tone"], [("u", "tone")])
    assert found.nodes["u"]["kind"] == "hidden"


def test_text_names_the_causes_of_each_node():
    assert GRAPH.to_text().splitlines() == [
        "u ~ uniform(0, 1) (hidden)",
        'u, previous(tone) -> tone ~ do("red")',
        "selection 1 before the intervention: never tone in [red, blue]",
    ]


def test_unusable_text_and_names_are_refused():
    with refused("graph: expected the JSON of a causal graph, got"):
        CausalGraph.from_json("[]")
    with refused("node `w` is not in this graph; expected one of: u, tone"):
        GRAPH.node("w")


def arrows(*pairs: str, hidden: str = "") -> CausalGraph:
    """Make a graph of arrows such as "ab", with nodes in the order of the alphabet."""
    about = {"type": "continuous", "mechanism": ""}
    nodes = {
        name: CausalNode(
            name=name,
            kind="hidden" if name in hidden else "factor",
            parents=tuple(pair[0] for pair in pairs if pair[1] == name),
            **about,
        )
        for name in sorted({*"".join(pairs)})
    }
    return CausalGraph(nodes=tuple(nodes.values()))


def test_backdoor_paths_are_blocked_as_networkx_separates():
    networkx = pytest.importorskip("networkx")
    rng, names, seen = np.random.default_rng(0), "abcdef", set()
    for _ in range(300):
        pairs = [a + b for a, b in itertools.combinations(names, 2) if rng.random() < 0.4]
        graph = arrows(*pairs)
        if {"b", "e"} - {*graph.names}:
            continue
        given = {name for name in graph.names if name not in "be" and rng.random() < 0.4}
        cut = networkx.DiGraph([pair for pair in pairs if pair[0] != "b"])
        cut.add_nodes_from(graph.names)
        blocked = graph.blocks_backdoor("b", "e", given)
        assert blocked == networkx.is_d_separator(cut, {"b"}, {"e"}, given), (pairs, given)
        cut.add_edges_from((name, "image") for name in graph.names if name != "b")
        image = graph.blocks_backdoor("b", None, given)
        assert image == networkx.is_d_separator(cut, {"b"}, {"image"}, given), (pairs, given)
        seen |= {blocked, (image,)}
    assert seen == {True, False, (True,), (False,)}


@pytest.mark.parametrize(
    ("graph", "given", "fault"),
    [
        (arrows("cx", "cy", "xy"), "c", None),
        (arrows("cx", "cy", "xy"), "", "`x` is open given nothing; adjust for c"),
        (arrows("ux", "uy", "cx", "cy", "xy", hidden="u"), "c", "because of the hidden u"),
        (arrows("ux", "uc", "cy", "xy", hidden="u"), "", "adjust for c"),
        (arrows("xy", "xz"), "z", "`z` depends on `x`; leave it out"),
        (arrows("am", "bm", "ax", "by", "xy"), "m", "open given m; adjust for a"),
    ],
)
def test_faults_of_an_adjustment_name_the_cure(graph, given, fault):
    found = graph.adjustment_faults("x", "y", list(given))
    assert not found if fault is None else found[0].endswith(fault), found


def test_relatives():
    graph = arrows("ab", "bc", "dc")
    assert graph.relatives("c", "ancestors") == {"a", "b", "d"}
    assert graph.relatives("a", "descendants") == {"b", "c"}
    with refused("node `w` is not in this graph"):
        graph.relatives("w", "ancestors")
