"""The causal graph of an image set as data: its nodes, their mechanisms and parents, and its selections.

``dataset.json`` holds the graph of each set, in a folder of frames and in a pack.
"""

import itertools
import json
from collections.abc import Collection
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool
from numpy import ndarray
from pydantic import ValidationError

from candlelight.loaders.errors import InputError
from candlelight.loaders.records import FactorValue, Record, later_field

Exclusion = dict[str, tuple[FactorValue, ...]]


class CausalNode(Record):
    """One factor or hidden variable of a causal graph.

    Attributes:
        name: name of the factor or variable.
        kind: "factor", a label of the set, or "hidden", a variable that is drawn and recorded but no label.
        type: "categorical" or "continuous".
        parents: names that its mechanism or a rule makes it depend on; none where every sample's intervention
            sets it.
        previous: names whose value at the previous step of the unit its mechanism reads.
        mechanism: its mechanism in words, such as "normal(120 * x, 40, -180, 180)".
        first: its mechanism at the first step of a unit, where it reads the previous step.
        every: whether its noise is drawn once for each "unit" or at each "step".
        values: the values that the recipe lists for a categorical node; none where they are all labels of a
            kind of assets, or counted from 0.
        weights: weights of the values, by value or in their order; None for equal weights.
        given: the parents by whose values the table goes, from its outermost level inwards.
        table: weights of the values for each value of the first parent, then of the next; None without one.
        strength: share of the table in the mixture with ``weights``, 0 to 1.
        rules: values that the node's mechanism avoids together with values of its parents.
        grid: whether the set lists every combination of its values with the grid's other factors.
        intervened: the samples whose intervention changes it: "none", "some" or "all".
    """

    name: str
    kind: Literal["factor", "hidden"]
    type: Literal["categorical", "continuous"]
    parents: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()
    mechanism: str
    first: str = later_field("")
    every: Literal["unit", "step"] = later_field("unit")
    values: tuple[FactorValue, ...] = ()
    weights: dict[str, float] | tuple[float, ...] | None = None
    given: tuple[str, ...] = ()
    table: dict[str, Any] | None = None
    strength: float = 1.0
    rules: tuple[Exclusion, ...] = ()
    grid: bool = False
    intervened: Literal["none", "some", "all"] = "none"


class CausalGraph(Record):
    """The causal graph of an image set under its own interventions.

    A node that the intervention of every sample sets has no parents and the mechanism ``do(VALUE)``, or
    ``do(...)`` where the samples differ; one whose mechanism every intervention replaces has the new parents
    and ``do(MECHANISM)``. A node that only some interventions change keeps its parents and mechanism.

    Attributes:
        nodes: the nodes, parents before children, and otherwise as the recipe lists them.
        selections: values that do not occur together, because samples with them are thrown away.

    Example:
        >>> kind = CausalNode(name="kind", kind="factor", type="categorical", mechanism="uniform(a, b)")
        >>> size = CausalNode(
        ...     name="size", kind="hidden", type="continuous", parents=("kind",), mechanism="uniform(0, 1)"
        ... )
        >>> graph = CausalGraph(nodes=(kind, size))
        >>> graph.names, graph.adjacency().tolist()
        (('kind', 'size'), [[False, True], [False, False]])
        >>> CausalGraph.from_json(graph.to_json()) == graph
        True
    """

    nodes: tuple[CausalNode, ...]
    selections: tuple[Exclusion, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes, parents first: the order of rows and columns of `adjacency`."""
        return tuple(node.name for node in self.nodes)

    def node(self, name: str) -> CausalNode:
        """Look up a node by name.

        Raises:
            InputError: the graph has no such node.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise InputError(f"node `{name}` is not in this graph; expected one of: {', '.join(self.names)}")

    def adjacency(self) -> Bool[ndarray, "n n"]:
        """Return whether the node of each row is a parent of the node of each column, both in `names`' order.

        Parents come first, so that the matrix is strictly upper triangular.
        """
        return np.array([[a in b.parents for b in self.nodes] for a in self.names], bool).reshape(
            len(self.nodes), len(self.nodes)
        )

    def lagged_adjacency(self) -> Bool[ndarray, "n n"]:
        """Return the same for parents at the previous step, which the diagonal holds too."""
        return np.array([[a in b.previous for b in self.nodes] for a in self.names], bool).reshape(
            len(self.nodes), len(self.nodes)
        )

    def relatives(self, name: str, direction: Literal["ancestors", "descendants"]) -> frozenset[str]:
        """Return the names that a node depends on, or that depend on it, through any number of arrows.

        Arrows from the previous step do not count.

        Raises:
            InputError: the graph has no such node.
        """
        found = {self.node(name).name}
        for node in self.nodes if direction == "descendants" else reversed(self.nodes):
            if direction == "descendants" and found & {*node.parents}:
                found.add(node.name)
            elif direction == "ancestors" and node.name in found:
                found |= {*node.parents}
        return frozenset(found - {name})

    def blocks_backdoor(self, treatment: str, outcome: str | None, given: Collection[str]) -> bool:
        """Tell whether nodes block every path from treatment to outcome that enters the treatment.

        Together with no descendant of the treatment among them, this is the backdoor criterion of Pearl 1993:
        adjusting for the nodes then gives the effect. Paths are separated in the moral graph of the ancestors
        (Lauritzen et al. 1990), without the arrows out of the treatment.

        Args:
            treatment: the cause.
            outcome: the node that it may change; None for the image, which any node may change.
            given: nodes that are adjusted for.

        Raises:
            InputError: the graph has no such node.

        Example:
            >>> about = {"kind": "factor", "type": "continuous", "mechanism": ""}
            >>> def node(name, *parents):
            ...     return CausalNode(name=name, parents=parents, **about)
            >>> graph = CausalGraph(nodes=(node("c"), node("x", "c"), node("y", "x", "c")))
            >>> graph.blocks_backdoor("x", "y", ["c"]), graph.blocks_backdoor("x", "y", [])
            (True, False)
        """
        end = outcome or ""  # no node has this name
        parents = {node.name: {*node.parents} - {treatment} for node in self.nodes}
        parents |= {} if outcome else {end: {*self.names} - {treatment}}
        ends = [treatment, *given, *([outcome] if outcome else self.names)]
        kept = {end, *ends}.union(*(self.relatives(name, "ancestors") for name in ends))
        near: dict[str, set[str]] = {name: set() for name in kept}
        for name in kept:
            for one, other in itertools.permutations({name, *parents[name]}, 2):  # parents marry
                near[one].add(other)
        reached, new = {treatment}, {treatment}
        while new:
            new = set[str]().union(*(near[name] for name in new)) - reached - {*given}
            reached |= new
        return end not in reached

    def adjustment_faults(self, treatment: str, outcome: str | None, given: Collection[str]) -> list[str]:
        """Tell why adjusting for some nodes does not give the effect of a treatment; nothing where it does.

        Args:
            treatment: the cause.
            outcome: see `blocks_backdoor`.
            given: nodes that are adjusted for.

        Raises:
            InputError: the graph has no such node.

        Example:
            >>> def node(name, kind, *parents):
            ...     return CausalNode(name=name, kind=kind, type="continuous", parents=parents, mechanism="")
            >>> nodes = node("u", "hidden"), node("x", "factor", "u"), node("y", "factor", "x", "u")
            >>> print(*CausalGraph(nodes=nodes).adjustment_faults("x", "y", []))
            a backdoor path into `x` is open given nothing; no factors close it, because of the hidden u
        """
        after = self.relatives(treatment, "descendants")
        faults = [f"`{name}` depends on `{treatment}`; leave it out" for name in given if name in after]
        if faults or self.blocks_backdoor(treatment, outcome, given):
            return faults
        causes = self.relatives(treatment, "ancestors")
        factors = {node.name for node in self.nodes if node.kind == "factor"} - after - {treatment, outcome}
        cure = f"no factors close it, because of the hidden {', '.join(sorted(causes - factors))}"
        # If any factors close all paths, those among the ancestors do (van der Zander et al. 2014).
        for more in (self.relatives(outcome, "ancestors") if outcome else {*self.names}, set[str]()):
            enough = sorted((causes | more) & factors)
            if self.blocks_backdoor(treatment, outcome, enough):
                cure = f"adjust for {', '.join(enough)}"
        return [f"a backdoor path into `{treatment}` is open given {', '.join(given) or 'nothing'}; {cure}"]

    def to_json(self) -> str:
        """Return the graph as JSON, with a two-space indent and a final newline."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "CausalGraph":
        """Read the text that `to_json` wrote.

        Raises:
            InputError: the text is no graph.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(
                f"graph: expected the JSON of a causal graph, got {first['msg']}"
                + (f" at {where}" * bool(where))
            ) from None

    def to_dot(self) -> str:
        r"""Return the graph in the language of Graphviz.

        Hidden variables are dashed, nodes that every intervention sets are bold, and a selection is a box.
        Dashed arrows lead from the previous step.

        Example:
            >>> kind = CausalNode(name="kind", kind="factor", type="categorical", mechanism="uniform(a, b)")
            >>> print(CausalGraph(nodes=(kind,)).to_dot(), end="")
            digraph {
              "kind" [label="kind\nuniform(a, b)"];
            }
        """
        lines = []
        for node in self.nodes:
            style = {("hidden", False): "dashed", ("factor", True): "bold", ("hidden", True): "dashed,bold"}
            chosen = style.get((node.kind, node.intervened == "all"))
            label = _quoted(node.name, node.mechanism)
            lines.append(
                f"{_quoted(node.name)} [label={label}" + (f', style="{chosen}"' if chosen else "") + "]"
            )
            lines += [f"{_quoted(parent)} -> {_quoted(node.name)}" for parent in node.parents]
            lines += [f"{_quoted(past)} -> {_quoted(node.name)} [style=dashed]" for past in node.previous]
        for i, excluded in enumerate(self.selections, 1):
            box = _quoted(f"selection {i}")
            lines.append(f"{box} [label={_quoted(f'selection {i}', exclusion_text(excluded))}, shape=box]")
            lines += [f"{_quoted(name)} -> {box}" for name in excluded]
        return "digraph {\n" + "".join(f"  {line};\n" for line in lines) + "}\n"

    def to_networkx(self) -> Any:
        """Return a ``networkx.DiGraph``: all fields of a node are its attributes; arrows lead to children.

        Arrows from the previous step are no arrows of this graph; `lagged_adjacency` has them. The selections
        are the graph's attribute ``selections``.

        Raises:
            InputError: networkx is not installed.
        """
        try:
            import networkx
        except ImportError:
            raise InputError(
                "to_networkx needs networkx, which is not installed; install it: pip install networkx"
            ) from None
        graph = networkx.DiGraph(selections=self.selections)
        graph.add_nodes_from((node.name, node.model_dump()) for node in self.nodes)
        graph.add_edges_from((parent, node.name) for node in self.nodes for parent in node.parents)
        return graph

    def to_text(self) -> str:
        """Return the graph as lines of text, one for each node, rule and selection."""
        lines = []
        for node in self.nodes:
            notes = [node.kind] * (node.kind == "hidden") + ["grid"] * node.grid
            notes += ["changed by some interventions"] * (node.intervened == "some")
            notes += ["noise of each step"] * (node.every == "step" and not node.previous)
            notes += [f"first: {node.first}"] * bool(node.first)
            past = tuple(f"previous({name})" for name in node.previous)
            causes = f"{', '.join((*node.parents, *past))} -> " if node.parents or past else ""
            lines.append(
                f"{causes}{node.name} ~ {node.mechanism}" + (f" ({', '.join(notes)})" if notes else "")
            )
            lines += [f"  rule: never {exclusion_text(excluded)}" for excluded in node.rules]
        # An intervention changes the samples that a selection has kept.
        when = " before the intervention" * any(node.intervened != "none" for node in self.nodes)
        chosen = (
            f"selection {i}{when}: never {exclusion_text(one)}" for i, one in enumerate(self.selections, 1)
        )
        return "\n".join([*lines, *chosen])


def exclusion_text(excluded: Exclusion) -> str:
    """Write values that do not occur together as text.

    Example:
        >>> exclusion_text({"shape": ("cone",), "size": (2, 3)})
        'shape in [cone] and size in [2, 3]'
    """
    return " and ".join(f"{name} in [{', '.join(map(str, values))}]" for name, values in excluded.items())


def _quoted(*lines: str) -> str:
    return json.dumps("\n".join(lines), ensure_ascii=False)
