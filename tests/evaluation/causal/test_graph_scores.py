"""Distances of graphs against networkx, causal-learn, and the definitions by brute force."""

from itertools import combinations, pairwise, product

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Generator

from candlelight.evaluation.causal import cpdag, discover_graph, graph_scores, latent_projection, random_dag
from tests.refusals import refused


def dags(count, nodes, share=0.5):
    pairs = nodes * (nodes - 1) // 2
    return [random_dag(nodes, int(share * pairs), Generator().manual_seed(seed)) for seed in range(count)]


def by_causal_learn(adjacency):
    """Make a graph of causal-learn."""
    graphs = pytest.importorskip("causallearn.graph.GeneralGraph")
    nodes = pytest.importorskip("causallearn.graph.GraphNode")
    made = graphs.GeneralGraph([nodes.GraphNode(f"X{place}") for place in range(len(adjacency))])
    arrows = adjacency.numpy() & 1
    made.graph[:] = np.where(arrows + arrows.T > 0, np.where((arrows.T == 1) & (arrows == 0), 1, -1), 0)
    made.reconstitute_dpath([])
    return made


@pytest.mark.parametrize("form", [torch.Tensor.long, cpdag], ids=["dag", "cpdag"])
def test_scores_are_those_of_causal_learn(form):
    shd = pytest.importorskip("causallearn.graph.SHD").SHD
    adjacencies = pytest.importorskip("causallearn.graph.AdjacencyConfusion").AdjacencyConfusion
    arrowheads = pytest.importorskip("causallearn.graph.ArrowConfusion").ArrowConfusion
    truths = [form(one) for one in dags(20, 6)]
    for truth, estimate in pairwise(truths):
        found = graph_scores(estimate, truth)
        graphs = by_causal_learn(truth), by_causal_learn(estimate)
        assert found.shd == shd(*graphs).get_shd()
        edges, arrows = adjacencies(*graphs), arrowheads(*graphs)
        hits, extra, missing = edges.get_adj_tp(), edges.get_adj_fp(), edges.get_adj_fn()
        assert found.skeleton.precision == hits / (hits + extra)
        assert found.skeleton.recall == hits / (hits + missing)
        hits, extra, missing = arrows.get_arrows_tp(), arrows.get_arrows_fp(), arrows.get_arrows_fn()
        assert found.arrows.f1.nan_to_num() == pytest.approx(2 * hits / max(1, 2 * hits + extra + missing))


def test_cpdag_is_that_of_causal_learn():
    module = pytest.importorskip("causallearn.utils.DAG2CPDAG")
    dag = pytest.importorskip("causallearn.graph.Dag").Dag
    for adjacency in dags(30, 7, 0.45):
        made = by_causal_learn(adjacency)
        other = dag(made.get_nodes())
        for edge in made.get_graph_edges():
            other.add_directed_edge(edge.get_node1(), edge.get_node2())
        found = module.dag2cpdag(other).graph
        np.testing.assert_array_equal(by_causal_learn(cpdag(adjacency)).graph, found)


def colliders(graph):
    edges, pairs = (
        nx.Graph(graph),
        ((a, b, c) for b in graph for a, c in combinations(sorted(graph.pred[b]), 2)),
    )
    return {(a, b, c) for a, b, c in pairs if not edges.has_edge(a, c)}


@pytest.mark.parametrize("seed", range(12))
def test_cpdag_holds_the_arrows_that_all_equivalent_dags_share(seed):
    """Verma and Pearl 1990: DAGs are equivalent if they have the same skeleton and colliders."""
    adjacency = random_dag(5, 4 + seed % 4, Generator().manual_seed(seed))
    graph = nx.DiGraph(adjacency.numpy())
    equal = []
    for turned in product((False, True), repeat=graph.number_of_edges()):
        other = nx.DiGraph(
            (b, a) if turn else (a, b) for (a, b), turn in zip(graph.edges, turned, strict=True)
        )
        other.add_nodes_from(graph)
        if nx.is_directed_acyclic_graph(other) and colliders(other) == colliders(graph):
            equal.append(nx.to_numpy_array(other, nodelist=range(5)))
    np.testing.assert_array_equal(cpdag(adjacency), np.max(equal, axis=0))


@pytest.mark.parametrize("seed", range(8))
def test_latent_projection_keeps_all_separations(seed):
    """A hidden node for each bidirected edge gives a DAG, of which networkx tells the separations."""
    adjacency = random_dag(7, 9, Generator().manual_seed(seed))
    kept = [5, 1, 4, 2]
    projected = latent_projection(adjacency, kept)
    whole = nx.DiGraph(adjacency.numpy())
    for (row, one), (column, other) in product(enumerate(kept), repeat=2):
        ways = whole.subgraph({one, other} | {*whole} - {*kept})
        assert bool(projected[row, column] & 1) == (one != other and nx.has_path(ways, one, other))
    found = nx.DiGraph((projected & 1).numpy())
    for one, other in (projected & 2).triu().nonzero().tolist():
        found.add_edges_from([(("hidden", one, other), one), (("hidden", one, other), other)])
    for one, other in combinations(range(4), 2):
        rest = [node for node in range(4) if node not in (one, other)]
        for size in range(3):
            for given in combinations(rest, size):
                wanted = nx.is_d_separator(whole, {kept[one]}, {kept[other]}, {kept[node] for node in given})
                assert nx.is_d_separator(found, {one}, {other}, set(given)) == wanted


def test_each_kind_of_error_counts_one():
    truth = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2], [0, 0, 2, 0]])
    for pair, marks in {
        (0, 1): (0, 0),
        (1, 2): (0, 1),
        (0, 3): (1, 0),
        (2, 3): (1, 1),
        (0, 2): (2, 2),
    }.items():
        other = truth.clone()
        other[pair], other[pair[::-1]] = marks
        assert graph_scores(other, truth).shd == 1, pair
    reversed_edge = truth.clone()
    reversed_edge[1, 2], reversed_edge[2, 1] = 0, 1
    found = graph_scores(reversed_edge.numpy(), truth.numpy())
    assert (found.skeleton.f1, found.orientation) == (1, 2 / 3)
    assert found.arrows.precision == 3 / 4  # a bidirected edge has two arrowheads


def test_expected_scores_of_random_graphs():
    """Edges agree by chance: precision is the density d, and SHD 2 d (1 - d) + d^2 / 2 of the pairs."""
    truth, pairs, edges = dags(1, 8, 0.3)[0], 28, 8
    drawn = [graph_scores(random_dag(8, edges, Generator().manual_seed(seed)), truth) for seed in range(3000)]
    density = edges / pairs
    expected = pairs * (2 * density * (1 - density) + density**2 / 2)
    assert np.mean([float(one.shd) for one in drawn]) == pytest.approx(expected, abs=0.15)
    assert np.mean([float(one.skeleton.precision) for one in drawn]) == pytest.approx(density, abs=0.01)
    assert np.mean([float(one.arrows.recall) for one in drawn]) == pytest.approx(density / 2, abs=0.01)


def test_what_is_no_graph_is_refused():
    unsigned = torch.tensor([[0, 1], [0, 0]], dtype=torch.uint16)
    assert graph_scores(unsigned, unsigned).shd == 0
    with refused("got 0.3 at .0, 1.; of weights give a threshold"):
        graph_scores(torch.tensor([[0, 0.3], [0, 0]]), torch.zeros(2, 2))
    with refused("2 at both entries of a bidirected edge, got 2"):
        graph_scores(torch.tensor([[0, 2], [0, 0]]), torch.zeros(2, 2))
    with refused("expected `estimate` .n, n., `truth` .n, n., got .2, 2., .3, 3."):
        graph_scores(torch.zeros(2, 2), torch.zeros(3, 3))
    with refused("expected a graph without cycles, got 0 -> 1 -> 2 -> 0|1 -> 2 -> 0 -> 1|2 -> 0 -> 1 -> 2"):
        cpdag(torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]]))
    with refused("expected a DAG, got undirected"):
        cpdag(torch.tensor([[0, 1], [1, 0]]))
    with refused("directed graphs alone"):
        latent_projection(torch.tensor([[0, 1], [1, 0]]), [0])


@pytest.mark.parametrize("method", ["pc", "ges"])
@pytest.mark.parametrize("test", ["fisher-z", "ranks", "chi2"])
def test_search_finds_a_collider_and_what_follows(method, test):
    pytest.importorskip("causallearn")
    rng = np.random.default_rng(0)
    a, b, noise = rng.normal(size=(3, 800)) if test != "chi2" else rng.integers(0, 2, (3, 800))
    if test == "chi2":
        c = np.where(rng.random(800) < 0.9, a | b, noise)
        d = np.where(rng.random(800) < 0.9, c, rng.integers(0, 2, 800))
    else:
        c = a + b + 0.5 * noise
        d = c + 0.5 * rng.normal(size=800)
    columns = torch.from_numpy(np.stack([a, b, c, d], axis=1)).double()
    wanted = [[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert discover_graph(columns, method, test).tolist() == wanted


def test_search_refuses_what_it_cannot_do():
    pytest.importorskip("causallearn")
    noise = torch.randn(100, 3, generator=Generator().manual_seed(0)).double()
    with refused("pc cannot be computed: column 1 has one value"):
        discover_graph(noise * torch.tensor([1.0, 0.0, 1.0]))
    with refused("pc cannot be computed: .*singular"):
        discover_graph(noise[:, [0, 1, 0]])
    for columns in (noise[:3], noise[:, :1], noise / 0):
        with refused("ges cannot be computed: expected 4 rows or more of two finite columns or more"):
            discover_graph(columns, "ges", "kci")
    with refused("`method` must be one of: pc, ges; got fci"):
        discover_graph(noise, "fci")
    with refused("`test` must be one of: fisher-z, ranks, chi2, kci; got fisherz"):
        discover_graph(noise, test="fisherz")
