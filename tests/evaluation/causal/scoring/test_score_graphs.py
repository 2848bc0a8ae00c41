"""The evaluation of graphs: planted estimates land where they must; what cannot be compared is refused."""

import networkx as nx
import numpy as np
import pytest
import torch

from candlelight.evaluation.causal import GRAPH_CONTROLS, cpdag, graph_scores, open_graph
from candlelight.evaluation.report.blocks import PlotBlock
from candlelight.evaluation.report.drawing import saving_figures
from candlelight.evaluation.report.page import report_sections
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.loaders.causal_graphs import CausalGraph, CausalNode
from candlelight.loaders.schema import FactorInfo
from tests.evaluation.noise_frames import write_frames
from tests.refusals import refused

NAMES = "abcde"
EDGES = ["ac", "bc", "cd", "ae", "de"]
TRUTH = {"nodes": [*NAMES], "edges": EDGES}
ADJACENCY = np.array([[one + other in EDGES for other in NAMES] for one in NAMES]).astype(int)
ROWS = 400


@pytest.fixture(scope="module")
def columns():
    """Linear Gaussian factors of the true graph, from the first cause to the last effect."""
    rng = np.random.default_rng(0)
    values = np.zeros((ROWS, 5))
    for place in range(5):
        values[:, place] = values @ ADJACENCY[:, place] + (0.5 if place > 1 else 1) * rng.normal(size=ROWS)
    return dict(zip(NAMES, values.T, strict=True))


@pytest.fixture(autouse=True)
def few_random_graphs(monkeypatch):
    monkeypatch.setattr("candlelight.evaluation.causal.score_graphs.RANDOM_GRAPHS", 50)


def standard(columns):
    """Return the factors with variance 1."""
    factors = np.stack(list(columns.values()), axis=1)
    return (factors - factors.mean(0)) / factors.std(0)


def score(columns, models, **options):
    return evaluate("graph", columns, models, **{"truth": TRUTH, "resamples": 20, **options})


def values(result):
    return {name: one.value for name, one in result.scores.items()}


def of_codes(folder, adjacency, codes):
    np.savez(folder / "codes.npz", adjacency=adjacency, codes=codes, ids=np.arange(len(codes)))
    return open_graph(folder / "codes.npz")


def test_a_perfect_graph_in_every_form(columns):
    network = nx.DiGraph(map(tuple, EDGES))
    weights = np.random.default_rng(1).uniform(0.4, 1, (5, 5)) * ADJACENCY + 0.1
    made = {"array": ADJACENCY, "network": network, "lists": TRUTH}
    graphs = {name: open_graph(one) for name, one in made.items()} | {"weights": open_graph(weights, 0.3)}
    found = score(columns, graphs)
    assert list(found) == [*graphs, *GRAPH_CONTROLS]
    for name in graphs:
        assert set(values(found[name]).values()) == {0, 1}
        assert found[name].score == 0
    assert found["array"].about.settings["compared"] == "DAGs"
    assert np.isnan(found["array"].scores["shd"].low)


def test_controls_are_those_of_closed_form(columns, monkeypatch):
    monkeypatch.setattr("candlelight.evaluation.causal.score_graphs.RANDOM_GRAPHS", 500)
    found = {name: values(one) for name, one in score(columns, {"g": open_graph(ADJACENCY)}).items()}
    empty, full, turned, random = (found[name] for name in GRAPH_CONTROLS)
    assert (empty["shd"], empty["skeleton(recall)"]) == (5, 0)
    assert (full["shd"], full["arrows(recall)"], full["arrows(precision)"]) == (5, 1, 0.5)
    assert (turned["shd"], turned["skeleton(f1)"], turned["arrows(f1)"], turned["orientation"]) == (
        5,
        1,
        0,
        0,
    )
    assert random["shd"] == pytest.approx(10 * (2 * 0.25 + 0.125), abs=0.3)  # density 1/2
    assert random["skeleton(precision)"] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("degrees", "exchanged"), [(0, [0, 1, 2, 3, 4]), (30, [0, 1, 2, 3, 4]), (90, [3, 1, 2, 0, 4])]
)
def test_planted_codes_are_matched_whatever_their_order_and_scale(degrees, exchanged, columns, tmp_path):
    """Two codes are rotated: while each keeps most of its factor, the match, and so SHD, see nothing."""
    order, factors = np.random.default_rng(2).permutation(5), standard(columns)
    sine, cosine = np.sin(np.radians(degrees)), np.cos(np.radians(degrees))
    codes = factors.copy()
    codes[:, [0, 3]] = factors[:, [0, 3]] @ [[cosine, sine], [-sine, cosine]]
    codes = np.exp(codes) if degrees == 0 else -2 * codes
    graph = of_codes(tmp_path, ADJACENCY[order][:, order], codes[:, order])
    found = score(columns, {"g": graph}, match="spearman")["g"]
    wanted = ADJACENCY[exchanged][:, exchanged]
    np.testing.assert_array_equal(found.details["estimate"], wanted)
    assert found.score == float(graph_scores(wanted, ADJACENCY).shd)
    assert (found.scores["mcc"].value > 0.999) == (degrees != 30)


def test_permuted_codes_have_the_graph_of_the_factors(columns):
    pytest.importorskip("causallearn")
    factors = standard(columns)
    order = np.random.default_rng(2).permutation(5)
    swapped = factors.copy()
    swapped[:, [0, 3]] = (factors[:, [0, 3]] @ [[1, -1], [1, 1]]) / 2**0.5  # one block of two factors
    codes = {
        "same": -3 * factors[:, order],
        "block": swapped,
        "noise": np.random.default_rng(3).normal(size=(ROWS, 5)),
    }
    found = score(columns, codes, discover=("pc", "ges"))
    assert found["same pc"].scores == found["factors pc"].scores | {"mcc": found["same pc"].scores["mcc"]}
    assert found["factors ges"].score == 0
    assert found["factors ges"].about.model["source"] == "control"
    assert found["block ges"].score > 2
    assert found["noise pc"].scores["skeleton(recall)"].value <= 0.2  # no edges in independent codes
    chance = found["random graphs"].scores["mcc"]
    assert chance.low < chance.value < chance.high < 0.2
    assert found["noise pc"].scores["mcc"].value == pytest.approx(chance.value, abs=chance.high - chance.low)
    assert "mcc" not in score(columns, {"g": open_graph(ADJACENCY)})["random graphs"].scores
    assert found["same pc"].scores["shd"].low <= found["same pc"].score <= found["same pc"].scores["shd"].high
    assert len(found["same pc"].replicates["shd"]) == 20
    assert found["same pc"].about.settings["compared"] == "CPDAGs"


def test_independent_codes_are_at_the_chance_of_random_graphs(columns, tmp_path, monkeypatch):
    monkeypatch.setattr("candlelight.evaluation.causal.score_graphs.RANDOM_GRAPHS", 1)
    rng, scores = np.random.default_rng(0), []
    for _ in range(40):
        graph = of_codes(tmp_path, ADJACENCY, rng.normal(size=(ROWS, 5)))
        scores.append(values(score(columns, {"g": graph})["g"]))
    monkeypatch.setattr("candlelight.evaluation.causal.score_graphs.RANDOM_GRAPHS", 500)
    chance = score(columns, {"g": open_graph(ADJACENCY)})["random graphs"]
    for name in ("shd", "skeleton(precision)", "arrows(f1)"):
        drawn = [one[name] for one in scores]
        assert np.mean(drawn) == pytest.approx(chance.scores[name].value, abs=3 * np.std(drawn) / 40**0.5)


def test_dags_are_completed_where_an_estimate_is_a_cpdag(columns):
    turned = ADJACENCY.copy()
    turned[0, 4], turned[4, 0] = 0, 1
    chain = {"nodes": [*NAMES], "edges": ["ab", "bc", "cd", "de"]}
    other = {"nodes": [*NAMES], "edges": ["ba", "bc", "cd", "de"]}
    found = score(columns, {"same": open_graph(other)}, truth=chain, compare="cpdag")
    assert (found["same"].score, found["reversed truth"].score) == (0, 0)
    assert score(columns, {"same": open_graph(other)}, truth=chain)["same"].score == 1
    undirected = open_graph(cpdag(torch.from_numpy(ADJACENCY)).numpy())
    mixed = score(columns, {"dag": open_graph(ADJACENCY), "cpdag": open_graph(nx.Graph(map(tuple, EDGES)))})
    assert mixed["dag"].score == 0
    assert (
        mixed["cpdag"].score
        == int(sum((undirected.model.adjacency != undirected.model.adjacency.T).ravel())) // 2
    )


def recipe(*nodes, **more):
    kinds = {True: "hidden", False: "factor"}
    made = [
        CausalNode(name=name, kind=kinds[name.isupper()], type="continuous", parents=parents, mechanism="x")
        for name, parents in nodes
    ]
    return CausalGraph(nodes=tuple(made), **more)


def test_hidden_confounders_are_refused_or_bidirected(columns):
    truth = recipe(("H", ()), ("a", ("H",)), ("b", ("H",)), ("c", ("a",)), ("d", ()), ("e", ()))
    arrow = {"g": open_graph({"nodes": [*NAMES], "edges": ["ac", "ab"]})}
    with refused("`a` and `b` have a hidden common cause; `hidden` bidirected makes an edge of it"):
        score(columns, arrow, truth=truth)
    found = score(columns, arrow, truth=truth, hidden="bidirected")
    assert (found["g"].score, found["g"].scores["skeleton(f1)"].value) == (1, 1)
    right = open_graph({"nodes": [*NAMES], "edges": ["ac"], "bidirected": ["ab"]})
    assert score(columns, {"g": right}, truth=truth, hidden="bidirected")["g"].score == 0
    assert score(columns, {"g": open_graph(truth)}, truth=truth, hidden="bidirected")["g"].score == 0
    with refused("a CPDAG has no hidden confounders"):
        score(columns, arrow, truth=truth, hidden="bidirected", compare="cpdag")
    alone = recipe(("a", ()), ("H", ("a",)), ("b", ("H",)), *((name, ()) for name in "cde"))
    found = score(columns, {"g": open_graph({"nodes": [*NAMES], "edges": ["ab"]})}, truth=alone)["g"]
    assert found.score == 0
    assert "not among the factors, so taken out of the true graph: H" in found.details["notes"]


def test_chosen_and_constant_factors(columns):
    graph = {"g": open_graph({"nodes": [*NAMES], "edges": ["ac", "bc", "cd", "ae", "de"]})}
    assert score(columns, graph, factors=["a", "b", "d"])["g"].score == 0  # a and b cause d through c
    with refused("`c` and `e` have a hidden common cause"):
        score(columns, graph, factors=["b", "c", "e"])
    fixed = columns | {"c": np.full(ROWS, 2)}
    found = score(fixed, graph)["g"]  # nothing passes through a constant
    assert (found.score, np.sum(found.details["truth"])) == (0, 2)


def test_seeds_are_pooled_and_failures_noted(columns):
    pytest.importorskip("causallearn")
    factors = np.stack(list(columns.values()), axis=1)
    same = np.concatenate([factors[:, :4], factors[:, :1]], axis=1)
    found = score(columns, {"vae#0": factors, "vae#1": -factors, "twice": same}, discover=["pc"])
    assert found["vae pc, 2 seeds"].score == found["factors pc"].score
    assert np.isnan(found["twice pc"].score)
    assert any(
        note.startswith("twice pc: pc cannot be computed: ") for note in found["twice pc"].details["notes"]
    )


def test_each_graph_has_a_name_of_its_own(columns):
    pytest.importorskip("causallearn")
    factors = np.stack(list(columns.values()), axis=1)
    for models, name in (
        ({"factors": factors}, "factors pc"),
        ({"factors pc": open_graph(TRUTH)}, "factors pc"),
        ({"full graph": open_graph(TRUTH)}, "full graph"),
    ):
        with refused(f"two graphs are named `{name}`; give a model another name"):
            score(columns, models, discover=["pc"])


def test_notes_name_broken_conditions(columns):
    pytest.importorskip("causallearn")
    kinds = np.where(columns["a"] > 0, "x", np.where(columns["b"] > 0, "y", "z"))
    data = columns | {"a": kinds, "b": (kinds == "x").astype(int)}
    chosen = recipe(
        *((name, ("a",) * (name > "b")) for name in NAMES), selections=({"a": ("x",), "b": (1,)},)
    )
    notes = score(data, {}, truth=chosen, discover=["pc"])["factors pc"].details["notes"]
    assert notes == [
        "selections make factors depend without an edge: a in [x] and b in [1]",
        "graphs of the factors are found with: ranks",
        "values without an order are taken as numbers: a",
        *notes[3:],
    ]


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (None, {}, "nothing to score: give a --graph, or `discover`"),
        (
            np.zeros((ROWS, 5)),
            {},
            "codes have no graph yet: give `discover` pc or ges; your own graph of them ",
        ),
        (
            ADJACENCY[:4, :4],
            {},
            "g: expected the nodes a, b, c, d, e, got 4 without names; .* if they are codes, save",
        ),
        (
            {"nodes": [*"abcdf"], "edges": ["ab"]},
            {},
            "g: expected the nodes a, b, c, d, e, got a, b, c, d, f; choose by `factors`",
        ),
        (np.zeros((ROWS, 4)), {"discover": ["pc"]}, "g: .* got 4 codes; choose as many factors by `factors`"),
        (0.5 * ADJACENCY, {}, "g: `adjacency`: expected 0 and 1.* of weights give a threshold"),
        ({"nodes": [*NAMES], "edges": ["ab", "bc", "ca"]}, {}, "g: expected a graph without cycles, got "),
        (nx.path_graph([*NAMES]), {"compare": "dag"}, "`compare` dag: expected graphs without undirected"),
        (ADJACENCY, {"truth": {"nodes": [*NAMES], "edges": []}}, "expected a true graph with edges"),
        (
            ADJACENCY,
            {"truth": nx.path_graph([*NAMES])},
            "expected a true graph with edges, all of them directed",
        ),
        (ADJACENCY, {"truth": None}, "`columns` has no causal graph; give `truth`"),
    ],
)
def test_what_cannot_be_compared_is_one_line(graph, options, message, columns):
    codes = isinstance(graph, np.ndarray) and len(graph) == ROWS
    models = {} if graph is None else {"g": graph if codes else open_graph(graph, name="g")}
    with refused(message):
        score(columns, models, **options)


def test_frames_bring_their_graph(tmp_path):
    factors = tuple(FactorInfo(name=name, kind="categorical", values=(1, 2, 3)) for name in "ab")
    graph = recipe(("a", ()), ("b", ("a",)))
    write_frames(tmp_path, {"grid": {"factors": factors, "graph": graph, "varies": ("a",)}}, ("image",))
    mine = {"g": open_graph(np.triu(np.ones((2, 2)), 1))}
    for options in ({}, {"size": 8}):
        assert evaluate("graph", tmp_path, mine, **options)["g"].score == 0
    pytest.importorskip("causallearn")
    network = {"net#0": torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3))}
    found = evaluate("graph", tmp_path, network, layers=["0"], discover=["pc"], factors=["a", "b"])
    assert list(found)[:2] == ["factors pc", "net#0 0 pc"]


def test_page_draws_the_graphs(columns, tmp_path):
    network = {"nodes": [*NAMES], "edges": ["ca", "bc", "cd", "bd"]}
    results = list(score(columns, {"g#0": open_graph(network), "g#1": open_graph(TRUTH)}).values())
    with saving_figures(tmp_path):
        (saved,) = report_sections(results, {})
    (section,) = report_sections(results, {})
    assert saved == section
    plots = [block for block in section.blocks if isinstance(block, PlotBlock)]
    assert [plot.caption for plot in plots] == [
        "True graph: 5 edges.",
        "g#0: edges 2 right, 1 turned, 1 extra, 2 missing.",
        "g#1: edges 5 right, 0 turned, 0 extra, 0 missing.",
    ]
