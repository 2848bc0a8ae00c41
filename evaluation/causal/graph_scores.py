"""Distances of causal graphs, their equivalence classes, and graphs without their hidden nodes.

An adjacency [n, n] has 1 at (i, j) for an arrow from node i to node j, 1 at both entries for an undirected
edge, and 2 at both for a bidirected edge, of two nodes with a hidden common cause; an arrow beside a
bidirected edge is 3 and 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Generator, Tensor

from candlelight.evaluation.causal.code_inputs import takes_arrays
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

Adjacency = Int[Tensor, "n n"]
_ARROW, _BIDIRECTED = 1, 2  # bits of an entry


@dataclass(frozen=True)
class EdgeScores:
    """Precision, recall and F1 of edges or arrowheads, in [0, 1], higher is better; nan of none."""

    precision: Float[Tensor, ""]
    recall: Float[Tensor, ""]
    f1: Float[Tensor, ""]


@dataclass(frozen=True)
class GraphScores:
    """The distance of an estimated graph from the true one, and its parts.

    Attributes:
        shd: structural Hamming distance: pairs of nodes whose edges differ, lower is better.
        skeleton: of pairs with an edge, whatever its direction.
        arrows: of arrowheads; an undirected edge has none, a bidirected one two.
        orientation: share of equal edges among the pairs that have an edge in both graphs, in [0, 1]; nan
            without such a pair.
    """

    shd: Int[Tensor, ""]
    skeleton: EdgeScores
    arrows: EdgeScores
    orientation: Float[Tensor, ""]


@takes_arrays
def graph_scores(estimate: Shaped[Tensor, "n n"], truth: Shaped[Tensor, "n n"]) -> GraphScores:
    """Compare an estimated graph with the true one, edge by edge.

    ``SHD`` counts the pairs of nodes whose edges differ: a missing, an extra and a reversed edge each count 1
    (Tsamardinos, Brown and Aliferis 2006, The max-min hill-climbing Bayesian network structure learning
    algorithm, Machine Learning 65, sec. 8.1), and so does an undirected edge in place of an arrow. Compare
    two DAGs, or two CPDAGs (`cpdag`).

    Blind to: what an error costs. A reversed edge near the root may spoil the effects of most interventions,
    and one at a leaf those of few. SHD prefers few edges: unless two thirds of the pairs have an edge, the
    empty graph is better than random graphs with as many edges are on average.

    Args:
        estimate: adjacency; see the top of this module.
        truth: adjacency of the same nodes in the same order.

    Raises:
        InputError: see `checked_adjacency`, or the sizes differ.

    Example:
        >>> chain, fork = torch.zeros(2, 3, 3)
        >>> chain[[0, 1], [1, 2]] = fork[[1, 1], [0, 2]] = 1
        >>> found = graph_scores(chain, fork)
        >>> found.shd, found.skeleton.f1, found.arrows.f1
        (tensor(1), tensor(1., dtype=torch.float64), tensor(0.5000, dtype=torch.float64))
        >>> graph_scores(cpdag(chain), cpdag(fork)).shd
        tensor(0)
    """
    check_shapes(estimate=(estimate, "n n"), truth=(truth, "n n"))
    found, true = checked_adjacency(estimate, "estimate"), checked_adjacency(truth, "truth")
    differs = ((found != true) | (found != true).T).triu(1)
    edges = [((one | one.T) > 0).triu(1) for one in (found, true)]
    common = edges[0] & edges[1]
    return GraphScores(
        differs.sum(),
        _compare(*edges),
        _compare(_arrowheads(found), _arrowheads(true)),
        (common & ~differs).sum().double() / common.sum(),
    )


def _compare(found: Bool[Tensor, "n n"], true: Bool[Tensor, "n n"]) -> EdgeScores:
    hits = (found & true).sum().double()
    return EdgeScores(hits / found.sum(), hits / true.sum(), 2 * hits / (found.sum() + true.sum()))


def _arrowheads(adjacency: Adjacency) -> Bool[Tensor, "n n"]:
    """Return for each pair whether an edge has its arrowhead at the node of the column."""
    arrows = (adjacency & _ARROW) > 0
    return (arrows & ~arrows.T) | ((adjacency & _BIDIRECTED) > 0)


@takes_arrays
def checked_adjacency(adjacency: Shaped[Tensor, "n n"], name: str = "adjacency") -> Adjacency:
    """Refuse what is no adjacency, and return it as integers.

    Raises:
        InputError: it is not square, an entry is not 0, 1, 2 or 3, a node has an edge to itself, or a
            bidirected edge has one entry.

    Example:
        >>> checked_adjacency(torch.tensor([[0.0, 0.7], [0.0, 0.0]]))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `adjacency`: expected 0 and 1, with 0 on the diagonal and 2 \
at both entries of a bidirected edge, got 0.7 at [0, 1]; of weights give a threshold
    """
    check_shapes(**{name: (adjacency, "n n")})
    given = adjacency.double()  # torch compares no unsigned integers
    marks = given.nan_to_num(-1).long()
    wrong = (marks != given) | (marks < 0) | (marks > 3) | (((marks ^ marks.T) & _BIDIRECTED) > 0)
    wrong |= torch.diag(marks.diagonal() != 0)
    if bool(wrong.any()):
        place = wrong.nonzero()[0].tolist()
        raise InputError(
            f"`{name}`: expected 0 and 1, with 0 on the diagonal and 2 at both entries of a bidirected edge, "
            f"got {float(adjacency[tuple(place)]):g} at {place}; of weights give a threshold"
        )
    return marks


def is_directed(adjacency: Adjacency) -> bool:
    """Tell whether no edge is undirected.

    Example:
        >>> is_directed(torch.tensor([[0, 1], [1, 0]]))
        False
    """
    return not bool((adjacency & adjacency.T & _ARROW).any())


def order_nodes(adjacency: Adjacency, names: Sequence[str] = ()) -> list[int]:
    """Return the nodes with causes before effects.

    Args:
        adjacency: a graph without undirected edges.
        names: names of the nodes for the message.

    Raises:
        InputError: the arrows form a cycle.

    Example:
        >>> order_nodes(torch.tensor([[0, 0], [1, 0]]))
        [1, 0]
    """
    arrows = (adjacency & _ARROW).T.tolist()
    parents = {node: [one for one, arrow in enumerate(row) if arrow] for node, row in enumerate(arrows)}
    try:
        return list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        cycle = " -> ".join(names[node] if names else str(node) for node in error.args[1])
        raise InputError(f"expected a graph without cycles, got {cycle}; break the cycle") from None


@takes_arrays
def cpdag(adjacency: Shaped[Tensor, "n n"]) -> Adjacency:
    """Return the completed partially directed graph (CPDAG) of a DAG: what independence can tell of it.

    An edge keeps its arrow if it has it in every DAG with the same independences, and is undirected
    otherwise. Arrows of colliders whose parents are not adjacent are kept, and those that follow by rules 1
    to 3 of Meek 1995 (Causal inference and causal explanation with background knowledge, UAI).

    Args:
        adjacency: directed, without cycles.

    Raises:
        InputError: see `checked_adjacency`; an edge is undirected or bidirected, or the arrows form a cycle.

    Example:
        >>> cpdag(torch.tensor([[0, 1, 0], [0, 0, 0], [0, 1, 0]]))  # a collider
        tensor([[0, 1, 0],
                [0, 0, 0],
                [0, 1, 0]])
        >>> cpdag(torch.tensor([[0, 1], [0, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    arrows = checked_adjacency(adjacency)
    if bool((arrows & _BIDIRECTED).any()) or not is_directed(arrows):
        raise InputError("`adjacency`: expected a DAG, got undirected or bidirected edges")
    order_nodes(arrows)
    edges = (arrows + arrows.T).double()
    apart = 1 - edges - torch.eye(len(arrows), device=arrows.device)
    known = arrows * (apart @ arrows.double() > 0).double()  # colliders of parents that are apart
    while True:
        free = edges - known - known.T
        follows = (known.T @ apart) + known @ known
        # Two arrows into j from nodes that are not adjacent, each with an undirected edge to i.
        follows = follows + torch.einsum("ik,kj,kl,il,lj->ij", free, known, apart, free, known)
        more = free * (follows > 0)
        if not bool(more.any()):
            return (known + free).long()
        known = known + more


@takes_arrays
def latent_projection(adjacency: Shaped[Tensor, "n n"], kept: Sequence[int]) -> Int[Tensor, "k k"]:
    """Take nodes out of a graph, and keep what they cause: the latent projection.

    Verma and Pearl 1990 (Equivalence and synthesis of causal models, UAI), sec. 4: an arrow leads from i to j
    if a directed path does that is hidden between them, and a bidirected edge joins i and j if a hidden node
    has such paths to both.

    Args:
        adjacency: directed, without cycles; bidirected edges are allowed.
        kept: nodes that stay, in the order of the result.

    Raises:
        InputError: see `checked_adjacency`; an edge is undirected, or the arrows form a cycle.

    Example:
        >>> latent_projection(torch.tensor([[0, 1, 1], [0, 0, 0], [0, 0, 0]]), [1, 2])
        tensor([[0, 2],
                [2, 0]])
    """
    marks = checked_adjacency(adjacency)
    if not is_directed(marks):
        raise InputError("`adjacency`: nodes are taken out of directed graphs alone, got an undirected edge")
    order, chosen = order_nodes(marks), list(kept)
    arrows, hidden = (marks & _ARROW).double(), torch.ones(len(marks)).to(marks.device, torch.float64)
    hidden[chosen] = 0
    ends = torch.diag(1 - hidden)  # by node, the kept nodes that its hidden paths end at, or itself
    for node in reversed(order):
        if hidden[node]:
            ends[node] = (arrows[node] @ ends > 0).double()
    shared = (marks & _BIDIRECTED).double() + torch.diag(hidden)
    joined = (ends.T @ shared @ ends > 0).fill_diagonal_(False)
    found = (arrows @ ends > 0) * _ARROW + joined * _BIDIRECTED
    return found[chosen][:, chosen]


def random_dag(nodes: int, edges: int, draws: Generator) -> Adjacency:
    """Draw a DAG with a number of edges: pairs at random, with arrows by a random order.

    Example:
        >>> int(random_dag(5, 4, Generator().manual_seed(0)).sum())
        4
    """
    pairs = torch.triu_indices(nodes, nodes, 1)
    first, second = pairs[:, torch.randperm(pairs.shape[1], generator=draws)[:edges]]
    order = torch.randperm(nodes, generator=draws)
    adjacency = torch.zeros(nodes, nodes, dtype=torch.int64)
    adjacency[order[first], order[second]] = 1
    return adjacency
