"""Causal graphs with named nodes, from files, arrays and networkx."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from candlelight.evaluation.causal.graph_scores import checked_adjacency, is_directed, latent_projection
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel
from candlelight.evaluation.run.array_files import npz_names, read_npy, read_npz
from candlelight.evaluation.run.predictions import Codes, open_codes
from candlelight.loaders.causal_graphs import CausalGraph
from candlelight.loaders.errors import InputError, argument, blaming, did_you_mean, nearest_file
from candlelight.loaders.verification.checksums import file_sha256


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """A graph of factors, or of codes; `read_graph` makes it.

    Attributes:
        adjacency: see `candlelight.evaluation.causal.graph_scores`.
        names: names of the nodes; None for the factors in the order of the data, or for codes.
        codes: codes of all images, of which each is a node; None if nodes are factors.
        recipe: the graph as the recipe has it, if it is one.
    """

    adjacency: Int[Tensor, "n n"]
    names: tuple[str, ...] | None = None
    codes: Codes | None = None
    recipe: CausalGraph | None = None

    def of_factors(self, factors: Sequence[str], left_out: Collection[str], where: str) -> Int[Tensor, "k k"]:
        """Return the adjacency of some factors; all other nodes are taken out by `latent_projection`.

        Args:
            factors: names in the order of the result.
            left_out: names of nodes with one value, which are left out with their edges.
            where: the graph in messages.

        Raises:
            InputError: a factor is no node, an unnamed graph has another size, or an undirected graph has
                more nodes.
        """
        names = self.names or tuple(factors)
        if len(names) != len(self.adjacency):
            raise InputError(
                f"{where}: expected {len(names)} nodes, the factors {', '.join(names)}, got "
                f"{len(self.adjacency)}; or name the nodes"
            )
        if missing := [one for one in factors if one not in names]:
            raise InputError(
                f"{where}: expected a node for each factor, got none for `{missing[0]}`; add it, or choose "
                f"factors ({argument('factors')}){did_you_mean(missing[0], names)}"
            )
        stay = [place for place, name in enumerate(names) if name not in left_out or name in factors]
        rest = self.adjacency[stay][:, stay]
        places = [[names[place] for place in stay].index(name) for name in factors]
        if len(places) == len(rest) or not bool(rest.any()):
            return rest[places][:, places]
        if not is_directed(rest):
            raise InputError(
                f"{where}: expected the factors as nodes of a graph with undirected edges, got more"
            )
        return latent_projection(rest, places)


def open_graph(source: Any, threshold: float | None = None, name: str = "graph") -> NamedModel:
    """Open an estimated graph as a model of ``evaluate("graph", ...)``.

    Args:
        source: see `read_graph`.
        threshold: see `read_graph`.
        name: name in tables.

    Example:
        >>> open_graph(np.array([[0, 1], [0, 0]])).model.adjacency.tolist()
        [[0, 1], [0, 0]]
    """
    sha256 = file_sha256(Path(source)) if isinstance(source, str | Path) and Path(source).is_file() else None
    return NamedModel(ModelIdentity(name, "files", None, sha256), read_graph(source, threshold), "linear")


def read_graph(source: Any, threshold: float | None = None) -> NodeGraph:
    """Read a causal graph.

    Args:
        source: an adjacency [n, n], a `networkx` graph, a `CausalGraph`, or a file: .npy with an adjacency;
            .npz with ``adjacency``, and ``names`` [n], or ``ids`` and ``codes`` [images, n] where nodes are
            codes; .json with a `CausalGraph`, the node-link form of networkx, or ``nodes`` and ``edges``,
            pairs of names, and ``bidirected`` pairs.
        threshold: of weights, the size above which there is an edge.

    Raises:
        InputError: the file cannot be read, holds no graph, or has edges between steps.

    Example:
        >>> read_graph({"nodes": ["a", "b"], "edges": [["b", "a"]]}).adjacency.tolist()
        [[0, 0], [1, 0]]
    """
    if isinstance(source, str | Path):
        return _read_file(Path(source), threshold)
    if isinstance(source, CausalGraph):
        return _of_recipe(source)
    if hasattr(source, "is_directed"):
        edges, directed = [list(one)[:2] for one in source.edges()], source.is_directed()
        source = {"nodes": list(source), "edges": edges, "directed": directed}
    if isinstance(source, dict):
        return _of_lists(source)
    return NodeGraph(_adjacency(source, threshold, "graph"))


def _read_file(path: Path, threshold: float | None) -> NodeGraph:
    kind = path.suffix.lower()
    if kind not in (".npy", ".npz", ".json") or not path.is_file():
        raise InputError(f"{path}: expected a graph as .npy, .npz or .json{nearest_file(path)}")
    if kind == ".npy":
        return NodeGraph(_adjacency(read_npy(path), threshold, str(path)))
    if kind == ".npz":
        adjacency = _adjacency(read_npz(path, "adjacency")[0], threshold, str(path))
        parts = npz_names(path)
        names = tuple(map(str, read_npz(path, "names")[0].tolist())) if "names" in parts else None
        codes = open_codes(path) if "codes" in parts else None
        size = codes.codes.shape[1] if codes is not None else len(names or adjacency)
        if size != len(adjacency):
            raise InputError(f"{path}: expected an adjacency of {size} nodes, got {len(adjacency)}")
        return NodeGraph(adjacency, None if codes else names, codes)
    with blaming(f"{path}: cannot be read as a graph", 'expected {"nodes": [...], "edges": [[a, b], ...]}'):
        content = json.loads(path.read_text(encoding="utf-8"))
        if "nodes" not in content and len(content) == 1:  # as `info --graph json` writes a single set
            (content,) = content.values()
        if all(isinstance(one, dict) and "mechanism" in one for one in content["nodes"]):
            return _of_recipe(CausalGraph.from_json(json.dumps(content)))
        return _of_lists(content)


def _of_recipe(graph: CausalGraph) -> NodeGraph:
    if graph.lagged_adjacency().any():
        raise InputError("graph: expected edges within a step, got edges from the previous step")
    return NodeGraph(torch.from_numpy(graph.adjacency()).long(), graph.names, None, graph)


def _of_lists(content: dict[str, Any]) -> NodeGraph:
    """Read nodes and edges, either of which may be objects, as of networkx."""
    names = tuple(str(one["id"] if isinstance(one, dict) else one) for one in content["nodes"])
    adjacency = torch.zeros(len(names), len(names), dtype=torch.int64)
    for kind, mark in (("edges", 1), ("links", 1), ("bidirected", 2)):
        for one in content.get(kind, ()):
            ends = (one["source"], one["target"]) if isinstance(one, dict) else one
            first, second = (names.index(str(end)) for end in ends)
            adjacency[first, second] |= mark
            if mark == 2 or not content.get("directed", True):
                adjacency[second, first] |= mark
    return NodeGraph(checked_adjacency(adjacency, "graph"), names)


def _adjacency(weights: Any, threshold: float | None, where: str) -> Int[Tensor, "n n"]:
    array = weights.numpy(force=True) if isinstance(weights, Tensor) else np.asarray(weights)
    if array.dtype.kind not in "bfiu":
        raise InputError(f"`{where}`: expected an adjacency of numbers, got {array.dtype}")
    return checked_adjacency(np.abs(array) > threshold if threshold is not None else array, where)
