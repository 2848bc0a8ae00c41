import numpy as np

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
