"""The evaluation of causal graphs, of other programs or found on codes, against the graph of the recipe."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from candlelight.evaluation.catalogue.causal_options import CODES_FILES, GraphOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.causal.code_inputs import equal_width_classes
from candlelight.evaluation.causal.discover_graphs import discover_graph, match_codes, place_nodes
from candlelight.evaluation.causal.factor_data import open_factors
from candlelight.evaluation.causal.factor_table import FactorTable, encode_data, tabulate_factors
from candlelight.evaluation.causal.graph_files import NodeGraph, open_graph, read_graph
from candlelight.evaluation.causal.graph_scores import (
    causal_order,
    cpdag,
    graph_scores,
    is_directed,
    random_dag,
)
from candlelight.evaluation.causal.measure_codes import (
    MeasuredCodes,
    dependence_shares,
    pack_measured,
    unpack_measured,
)
from candlelight.evaluation.causal.score_codes import with_pooled
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel, split_spec
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.intervals import Score, distinct_groups, resampled_interval
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.loaders.causal_graphs import exclusion_text
from candlelight.loaders.errors import InputError, argument, within

GRAPH_CONTROLS = ("empty graph", "full graph", "reversed truth", "random graphs")
RANDOM_GRAPHS = 500
_PARTS = [f"{one}({part})" for one in ("skeleton", "arrows") for part in ("precision", "recall", "f1")]
_CERTAIN = 1 - 1e-9  # share of the entropy from which on one factor determines another


def _open(choice: Mapping[str, Any], options: GraphOptions, models: Mapping[str, Any]) -> Any:
    """Open images with factors, or a table of factors, and check that there is something to score."""
    view = open_factors(choice, options, models)
    graphs = [one for one in models.values() if isinstance(getattr(one, "model", one), NodeGraph)]
    if len(models) > len(graphs) and not options.discover:
        raise InputError(f"codes have no graph yet: give {argument('discover')} pc or ges")
    if not (options.graphs or graphs or options.discover):
        raise InputError("nothing to score: give a --graph, or --discover")
    return view


@dataclass(frozen=True, eq=False)
class _Estimate:
    """A graph of the factors with what is known beside it; without a graph, the reason is among the notes."""

    named: NamedModel
    adjacency: Int[Tensor, "n n"] | None
    scores: dict[str, Score] = field(default_factory=dict)
    replicates: dict[str, tuple[float, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def _score_graphs(run: Run[GraphOptions]) -> dict[str, Result]:
    """Compare graphs with the true graph of the factors.

    Nodes that are codes are matched with the factors one to one (`match_codes`). Hidden nodes and factors
    that are not chosen are taken out of the true graph (`latent_projection`); factors with one value are
    deleted. DAGs are compared, or, where an estimate has undirected edges or is found here, CPDAGs.

    Returns:
        A result for each graph, lower SHD is better, and for the controls: no edges, all edges in a causal
        order, the true arrows reversed, and the mean of random graphs with as many edges, with the range of
        95 % of them. Graphs that are found here have intervals over subsamples of groups.

    Raises:
        InputError: the truth is missing, has no edges or has hidden confounders, or a graph cannot be
            compared with it.
    """
    options, data = run.options, run.data
    graphs = [one for one in run.models.values() if isinstance(one.model, NodeGraph)]
    encoders = {name: one for name, one in run.models.items() if one not in graphs}
    for spec in options.graphs:
        name, path = split_spec(spec)
        graphs.append(open_graph(path, options.threshold, name or Path(path).stem))
    names = [*encoders, *(one.identity.name for one in graphs)]
    if taken := [one for one in names if names.count(one) > 1 or one in (*GRAPH_CONTROLS, "factors")]:
        raise InputError(f"two graphs are named `{taken[0]}`; give another name: NAME=FILE")
    table, codes = _encode(run, encoders)
    fixed = [info.name for info, some in zip(data.factors, data.table.T, strict=True) if np.ptp(some) == 0]
    truth, notes = _true_graph(run, table, fixed)
    estimates = [_given(run, one, table, fixed) for one in graphs]
    partly = bool(options.discover) or not all(is_directed(one.adjacency) for one in estimates)
    if partly and options.compare == "dag":
        raise InputError(f"{argument('compare')} dag: expected graphs without undirected edges")
    completed = options.compare == "cpdag" or (options.compare == "auto" and partly)
    if completed and bool((truth & 2).any()):
        raise InputError("a CPDAG has no hidden confounders, which the true graph has; compare DAGs")
    target = cpdag(truth) if completed else truth
    judge = partial(_judge, target, completed)
    estimates = [replace(one, scores=_alone(judge(one.adjacency)) | one.scores) for one in estimates]
    if options.discover:
        notes += _broken_conditions(run, table)
        estimates += _discovered(run, table, codes, target)
    estimates += _controls(truth, judge, options.seed)
    seen = {one.named.identity.name: one.named for one in estimates}
    run = replace(run, models=seen)
    about = {"factors": list(table.names), "compared": "CPDAGs" if completed else "DAGs", "graphs": []}
    about["truth"] = hashlib.sha256(str(target.tolist()).encode()).hexdigest()
    groups = distinct_groups(data.groups)
    results = [
        StatisticResult(
            run.provenance(name, **about),
            {score: _cut(score, value) for score, value in one.scores.items()},
            one.replicates,
            groups if one.replicates else (),
            (),
            {
                "nodes": list(table.names),
                "truth": target.tolist(),
                "estimate": [] if one.adjacency is None else one.adjacency.tolist(),
                "notes": [*notes, *one.notes],
            },
        )
        for name, one in zip(seen, estimates, strict=True)
    ]
    return with_pooled(results, _cut)


def _encode(
    run: Run[GraphOptions], encoders: dict[str, NamedModel]
) -> tuple[FactorTable, dict[str, Float[Tensor, "images codes"]]]:
    """Tabulate the factors, and compute codes if there are encoders; images are not read without them."""
    if encoders:
        encoded = encode_data(replace(run, models=encoders))
        return encoded.table, {name: one.cpu() for name, one in encoded.codes.items()}
    for name, row in zip(run.data.ids, np.asarray(run.data.table), strict=True):
        run.fingerprint.add(name, torch.from_numpy(row))
    return tabulate_factors(run.data, run.options.factors, run.options.bins), {}


def _true_graph(
    run: Run[GraphOptions], table: FactorTable, fixed: Sequence[str]
) -> tuple[Int[Tensor, "n n"], list[str]]:
    """Read the true graph, and take out of it what is no factor of the table."""
    source = run.options.truth or getattr(run.data, "graph", None)
    if source is None:
        raise InputError(f"`{run.data.identity.name}` has no causal graph; give {argument('truth')}")
    graph = read_graph(source)
    causal_order(graph.adjacency, graph.names or ())
    truth = graph.of_factors(table.names, fixed, "the true graph")
    pairs = [(table.names[one], table.names[other]) for one, other in (truth & 2).triu().nonzero().tolist()]
    if pairs and run.options.hidden == "refuse":
        raise InputError(
            f"`{pairs[0][0]}` and `{pairs[0][1]}` have a hidden common cause; make it a bidirected edge: "
            f"{argument('hidden')} bidirected"
        )
    if not is_directed(truth) or not bool(truth.any()):
        raise InputError("expected a true graph with edges, all of them directed; choose a set with causes")
    notes = [f"left out of the true graph, one value among the rows: {', '.join(fixed)}"] if fixed else []
    if taken := sorted({*(graph.names or ())} - {*table.names, *fixed}):
        notes.append(f"taken out of the true graph, where their effects stay: {', '.join(taken)}")
    thrown = [exclusion_text(one) for one in graph.recipe.selections] if graph.recipe else []
    if run.options.selection or thrown:
        texts = ", ".join([*thrown, *filter(None, [run.options.selection])])
        notes.append(f"selections make factors depend on each other without an edge: {texts}")
    return truth, notes


def _given(run: Run[GraphOptions], named: NamedModel, table: FactorTable, fixed: Sequence[str]) -> _Estimate:
    """Find the adjacency of the factors in an estimated graph."""
    name, graph = named.identity.name, named.model
    if graph.codes is None:
        adjacency, scores, notes = graph.of_factors(table.names, fixed, name), {}, ()
    else:
        codes = graph.codes.matched(run.data.ids, run.data.known_ids, None)
        places, scores, notes = _matched(run, name, codes, table)
        there = (places >= 0).nonzero().flatten()
        chosen = graph.adjacency[places[there]][:, places[there]]
        adjacency = place_nodes(chosen, there, len(places))
    with within(name):
        causal_order(adjacency & ~adjacency.T, table.names)
    return _Estimate(named, adjacency, scores, {}, notes)


def _matched(
    run: Run[GraphOptions], name: str, codes: Float[Tensor, "images codes"], table: FactorTable
) -> tuple[Int[Tensor, " factors"], dict[str, Score], tuple[str, ...]]:
    """Match codes with factors: the code of each, the mean strength as a score, and a note."""
    places, strengths = match_codes(codes, table, run.options.match)
    pairs = zip(table.names, places.tolist(), strengths.tolist(), strict=True)
    text = ", ".join(
        f"{factor} {code} ({r:.2f})" if code >= 0 else f"{factor} none" for factor, code, r in pairs
    )
    return places, _alone({"mcc": float(strengths.mean())}), (f"{name}: codes of the factors: {text}",)


def _discovered(
    run: Run[GraphOptions], table: FactorTable, codes: Mapping[str, Tensor], target: Int[Tensor, "n n"]
) -> Iterator[_Estimate]:
    """Find graphs of the factors, which are a control, and of the codes of each encoder."""
    for name, some in {"factors": None, **codes}.items():
        test, scores, notes = _test(run.options.test, table), {}, ()
        if some is None:
            named = NamedModel(ModelIdentity("factors", "control"), None, "srgb")
            places = torch.arange(len(table.names))
            columns = table.classes.double() if test == "chi2" else table.values
        else:
            named, test = run.models[name], "fisher-z" if run.options.test == "auto" else test
            assigned, scores, notes = _matched(run, name, some, table)
            places = (assigned >= 0).nonzero().flatten()
            columns = some.double()[:, assigned[places]]
            if test == "chi2":
                columns = equal_width_classes(columns.T.contiguous(), run.options.bins).T.double()
        for method in dict.fromkeys(run.options.discover):
            base, mark, seed = name.partition("#")
            title = f"{base} {method}{mark}{seed}"
            found = _subsampled(run, columns, places, (method, test), target)
            graph = found.matrices.get("estimate")
            yield _Estimate(
                replace(named, identity=replace(named.identity, name=title)),
                None if graph is None else torch.tensor(graph).long(),
                (found.scores or _alone({"shd": math.nan})) | scores,
                found.replicates,
                (*notes, *([f"{title}: no graph: {found.failure}"] if found.failure else ())),
            )


def _subsampled(
    run: Run[GraphOptions],
    columns: Float[Tensor, "rows k"],
    places: Int[Tensor, " k"],
    how: tuple[Any, Any],
    target: Int[Tensor, "n n"],
) -> MeasuredCodes:
    """Find the graph of all rows, and score it with intervals over subsamples of groups."""
    options, groups = run.options, run.data.groups

    def find(rows: Any) -> Int[Tensor, "n n"]:
        return place_nodes(discover_graph(columns[rows], *how, options.alpha), places, len(target))

    def compute() -> dict[str, Tensor]:
        try:
            whole = find(slice(None))
        except InputError as error:
            return pack_measured(MeasuredCodes({}, {}, {}, str(error)))

        def statistic(rows: Any) -> dict[str, float]:
            try:
                return _judge(target, False, whole if len(rows) == len(columns) else find(rows))
            except InputError:
                return dict.fromkeys(("shd", "orientation", *_PARTS), math.nan)

        drawn = resampled_interval(statistic, groups, options.seed, options.resamples, repeats=False)
        return pack_measured(MeasuredCodes(*drawn, {"estimate": whole.tolist()}))

    key = {"step": "graph", "version": run.evaluation.version, "how": how, "alpha": options.alpha}
    key |= {"seed": options.seed, "resamples": options.resamples, "places": places.tolist()}
    key |= {"columns": hashlib.sha256(columns.contiguous().numpy().tobytes()).hexdigest()}
    key |= {"groups": list(groups), "target": target.tolist()}
    return unpack_measured(run.steps.get_or_compute(key, compute))


def _test(test: str, table: FactorTable) -> str:
    """Choose the test for the factors: for classes, for numbers, or for both."""
    if test != "auto":
        return test
    kinds = {0: "fisher-z", len(table.names): "chi2"}
    return kinds.get(len(table.categorical), "ranks")


def _broken_conditions(run: Run[GraphOptions], table: FactorTable) -> Iterator[str]:
    """Tell which assumptions of the search the factors break."""
    test = _test(run.options.test, table)
    yield f"graphs of factors are found with {test}"
    if table.unordered and test != "chi2":
        names = ", ".join(table.names[column] for column in table.unordered)
        yield f"{names}: values without an order are taken as numbers"
    if table.turning:
        names = ", ".join(table.names[column] for column in table.turning)
        yield f"{names}: the value of an angle jumps at the end of a turn, which hides edges"
    shares = dependence_shares(table.classes)
    pairs = [pair for pair in combinations(range(len(table.names)), 2) if shares[pair] > _CERTAIN]
    if pairs:
        texts = ", ".join(f"{table.names[one]} and {table.names[other]}" for one, other in pairs)
        yield f"one determines the other, which hides edges: {texts}"
    nodes = getattr(getattr(run.data, "graph", None), "nodes", ())
    if changed := [node.name for node in nodes if node.intervened == "some"]:
        yield f"interventions on some samples mix distributions: {', '.join(changed)}"


def _controls(
    truth: Int[Tensor, "n n"], judge: Callable[[Tensor], dict[str, float]], seed: int
) -> Iterator[_Estimate]:
    """Make the graphs of `GRAPH_CONTROLS`."""
    count, order = len(truth), causal_order(truth)
    full = torch.zeros_like(truth)
    full[tuple(torch.tensor(order)[torch.triu_indices(count, count, 1)])] = 1
    arrows = truth & 1
    graphs = dict(zip(GRAPH_CONTROLS, (torch.zeros_like(truth), full, arrows.T | truth & 2), strict=False))
    for name, graph in graphs.items():
        yield _Estimate(_control(name), graph, _alone(judge(graph)))
    edges = int(((truth | truth.T) > 0).sum()) // 2
    draws = Generator().manual_seed(seed)
    drawn = [judge(random_dag(count, edges, draws)) for _ in range(RANDOM_GRAPHS)]
    scores = {}
    for score in drawn[0]:
        known = np.array([one[score] for one in drawn if not math.isnan(one[score])])
        scores[score] = (
            Score(*map(float, (known.mean(), *np.quantile(known, (0.025, 0.975))))) if len(known) else ...
        )
    yield _Estimate(_control(GRAPH_CONTROLS[-1]), None, scores)


def _control(name: str) -> NamedModel:
    return NamedModel(ModelIdentity(name, "control"), None, "srgb")


def _judge(target: Int[Tensor, "n n"], completed: bool, adjacency: Int[Tensor, "n n"]) -> dict[str, float]:
    """Score a graph, as a CPDAG if that of a DAG is meant."""
    found = graph_scores(cpdag(adjacency) if completed and is_directed(adjacency) else adjacency, target)
    parts = {"skeleton": found.skeleton, "arrows": found.arrows}
    named = {
        f"{one}({part})": float(value) for one, own in parts.items() for part, value in vars(own).items()
    }
    return {"shd": float(found.shd), "orientation": float(found.orientation), **named}


def _alone(scores: Mapping[str, float]) -> dict[str, Score]:
    return {name: Score(value, math.nan, math.nan) for name, value in scores.items()}


def _cut(name: str, score: Score) -> Score:
    """Cut an interval at the bounds of a score."""
    return score.within(0, math.inf if name == "shd" else 1)


GRAPH = Evaluation(
    name="graph",
    version=1,
    better={"shd": "lower", **dict.fromkeys(("orientation", "mcc", *_PARTS), "higher")},
    options=GraphOptions,
    reads=Reading(open=_open, space="srgb", files=CODES_FILES),
    study=_score_graphs,
    page="candlelight.evaluation.causal.graph_report:GRAPH_PAGE",
    needs_models=False,
)
