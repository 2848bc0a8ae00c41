"""Causal graphs of other programs: adjacencies, lists of edges and networkx graphs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Real
from numpy import ndarray

from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.errors import InputError, blaming, nearest_file


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """A graph whose nodes are factors, or codes of images; `read_graph` makes it.

    Attributes:
        adjacency: 1 at (i, j) for an arrow from node i to node j, 1 at both entries for an undirected edge, 2
            at both for a bidirected one; not checked.
        names: names of the nodes; None if they are not known.
        codes: file with the codes of all images, of which each is a node; None if nodes are factors.
        recipe: the graph with its mechanisms, if they are known.
    """

    adjacency: Real[ndarray, "n n"]
    names: tuple[str, ...] | None = None
    codes: Path | None = None
    recipe: CausalGraph | None = None


def read_graph(source: Any, threshold: float | None = None) -> NodeGraph:
    """Read a causal graph.

    Args:
        source: an adjacency [n, n]; a graph of networkx; a `CausalGraph`; a mapping as in .json; or a file:
            .npy with an adjacency; .npz with ``adjacency``, and ``names`` [n], or ``ids`` and ``codes``
            [images, n] where nodes are codes; .json with a `CausalGraph`, with the node-link form of
            networkx, or with ``nodes`` and ``edges``, pairs of names, and ``bidirected`` pairs.
        threshold: of weights, the size above which there is an edge; None for an adjacency of 0 and 1.

    Raises:
        InputError: the file cannot be read or holds no graph, nodes share a name, an edge joins no two nodes,
            weights are not finite, or the graph has edges between steps.

    Example:
        >>> read_graph({"nodes": ["a", "b"], "edges": [["b", "a"]]}).adjacency.tolist()
        [[0, 0], [1, 0]]
    """
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix.lower() not in (".npy", ".npz", ".json") or not path.is_file():
            raise InputError(f"{path}: expected a graph as .npy, .npz or .json{nearest_file(path)}")
        with blaming(f"{path}: cannot be read as a graph", "expected an adjacency, or nodes and edges"):
            return _read_file(path, threshold)
    if isinstance(source, CausalGraph):
        if source.lagged_adjacency().any():
            raise InputError("the graph has edges from the previous step; expected edges within a step alone")
        return NodeGraph(source.adjacency().astype(int), source.names, None, source)
    if hasattr(source, "is_directed"):
        edges = [one[:2] for one in source.edges()]
        source = {"nodes": list(source), "edges": edges, "directed": source.is_directed()}
    if isinstance(source, dict):
        return _of_lists(source)
    weights = np.asarray(source)
    if weights.ndim != 2 or weights.dtype.kind not in "bfiu":
        raise InputError(f"expected an adjacency [n, n], numbers, got {weights.dtype} {list(weights.shape)}")
    if threshold is not None and not np.isfinite(weights).all():
        raise InputError("expected finite weights, got nan or inf")
    return NodeGraph(1 * (weights if threshold is None else np.abs(weights) > threshold))


def _read_file(path: Path, threshold: float | None) -> NodeGraph:
    if path.suffix.lower() == ".json":
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        if "nodes" not in content and len(content) == 1:  # as `info --graph json` writes a single set
            (content,) = content.values()
        if all(isinstance(one, dict) and "mechanism" in one for one in content["nodes"]):
            return read_graph(CausalGraph.from_json(json.dumps(content)))
        return _of_lists(content)
    if path.suffix.lower() == ".npy":
        return read_graph(np.load(path, allow_pickle=False), threshold)
    with np.load(path, allow_pickle=False) as arrays:
        names = tuple(map(str, arrays["names"].tolist())) if "names" in arrays else None
        codes = path if "codes" in arrays else None
        adjacency = read_graph(arrays["adjacency"], threshold).adjacency
        nodes = arrays["codes"].shape[-1] if codes else len(names or adjacency)
        if nodes != len(adjacency):
            raise InputError(f"expected an adjacency of {nodes} nodes, got {len(adjacency)}")
        return NodeGraph(adjacency, names, codes)


def _of_lists(content: dict[str, Any]) -> NodeGraph:
    """Read nodes and edges, either of which may be objects, as of networkx."""
    nodes = content.get("nodes", ())
    names = tuple(str(one["id"] if isinstance(one, dict) else one) for one in nodes)
    if len({*names}) < len(names) or not {"edges", "links", "bidirected"} & {*content}:
        raise InputError(f"expected different `nodes`, and `edges`, got {', '.join(names or content)}")
    adjacency = np.zeros((len(names), len(names)), np.int64)
    for kind, mark in (("edges", 1), ("links", 1), ("bidirected", 2)):
        for one in content.get(kind, ()):
            ends = [*map(str, (one["source"], one["target"]) if isinstance(one, dict) else one)]
            if len(ends) != 2 or not {*ends} <= {*names}:
                raise InputError(f"expected an edge as a pair of nodes, got {', '.join(ends)}")
            first, second = map(names.index, ends)
            adjacency[first, second] |= mark
            if mark == 2 or not content.get("directed", True):
                adjacency[second, first] |= mark
    return NodeGraph(adjacency, names)
