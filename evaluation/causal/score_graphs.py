"""The evaluation of causal graphs, of other programs or found on codes, against the graph of the recipe."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from candlelight.evaluation.catalogue.causal_options import CODES_FILES, GraphOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.causal.code_inputs import discretise
from candlelight.evaluation.causal.discover_graphs import discover_graph, match_codes
from candlelight.evaluation.causal.factor_data import open_factors
from candlelight.evaluation.causal.factor_table import FactorTable, check_layers, encode_data
from candlelight.evaluation.causal.graph_scores import (
    Adjacency,
    checked_adjacency,
    cpdag,
    graph_scores,
    is_directed,
    latent_projection,
    order_nodes,
    random_dag,
)
from candlelight.evaluation.causal.measure_codes import dependence_shares
from candlelight.evaluation.causal.score_codes import with_pooled
from candlelight.evaluation.models.model_spec import ModelIdentity, NamedModel, split_spec
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.intervals import Score, distinct_groups, resampled_interval
from candlelight.evaluation.run.predictions import open_codes
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.loaders.causal_graphs import exclusion_text
from candlelight.loaders.errors import InputError, argument, within
from candlelight.loaders.graph_files import NodeGraph, read_graph
from candlelight.loaders.verification.checksums import file_sha256

GRAPH_CONTROLS = ("empty graph", "full graph", "reversed truth", "random graphs")
RANDOM_GRAPHS, RANDOM_CODES = 500, 20
_PARTS = ("precision", "recall", "f1")
_SCORES = ("shd", "orientation", *(f"{one}({part})" for one in ("skeleton", "arrows") for part in _PARTS))
_CERTAIN = 1 - 1e-9  # share of the entropy from which on one factor determines another
_Judge = Callable[[Tensor], dict[str, float]]
_Matched = tuple[Tensor, dict[str, Score], tuple[str, ...]]
_NO_CODES: _Matched = (torch.tensor([]), {}, ())


def open_graph(source: Any, threshold: float | None = None, name: str = "graph") -> NamedModel:
    """Open an estimated graph as a model of ``evaluate("graph", ...)``.

    Args:
        source: see `candlelight.loaders.graph_files.read_graph`.
        threshold: see `candlelight.loaders.graph_files.read_graph`.
        name: name in tables.

    Example:
        >>> open_graph({"nodes": ["a", "b"], "edges": [["b", "a"]]}).model.names
        ('a', 'b')
    """
    graph = read_graph(source, threshold)
    sha256 = file_sha256(Path(source)) if isinstance(source, str | Path) else None
    return NamedModel(ModelIdentity(name, "files", None, sha256), graph, "linear")


def _open(choice: Mapping[str, Any], options: GraphOptions, models: Mapping[str, Any]) -> Any:
    """Open images with factors, or a table of factors, and check that there is something to score."""
    check_layers(models, options.layers)
    view = open_factors(choice, options, models)
    graphs = [one for one in models.values() if isinstance(getattr(one, "model", one), NodeGraph)]
    if len(models) > len(graphs) and not options.discover:
        own = "; your own graph of them is one .npz of `adjacency`, `ids` and `codes` (`open_graph`)"
        raise InputError(f"codes have no graph yet: give {argument('discover')} pc or ges{own}")
    if not (options.graphs or graphs or options.discover):
        raise InputError(f"nothing to score: give a --graph, or {argument('discover')}")
    return view


class _Estimate(NamedTuple):
    """A graph of the factors, its scores, notes and replicates; an empty graph if there is none to draw."""

    named: NamedModel
    adjacency: Adjacency
    scores: dict[str, Score]
    notes: tuple[str, ...] = ()
    replicates: Mapping[str, tuple[float, ...]] = MappingProxyType({})


def _score_graphs(run: Run[GraphOptions]) -> dict[str, Result]:
    """Compare graphs with the true graph of the factors.

    Nodes that are codes are matched with the factors one to one (`match_codes`). Hidden nodes and factors
    that are not chosen are taken out of the true graph (`latent_projection`); factors with one value are
    deleted. DAGs are compared, or, where an estimate has undirected edges or is found here, CPDAGs.

    Returns:
        A result for each graph, lower SHD is better, and for the controls: no edges, all edges in a causal
        order, the true arrows reversed, and the mean of random graphs with as many edges, with the range of
        95 % of them; their ``mcc`` is that of codes of noise. Graphs that are found here have intervals over
        subsamples of groups.

    Raises:
        InputError: the truth is missing, has no edges or has hidden confounders, or a graph cannot be
            compared with it.
    """
    options, models = run.options, dict(run.models)
    for spec in options.graphs:
        name, path = split_spec(spec)
        name = name or Path(path).stem
        if name in models:
            raise InputError(f"two graphs are named `{name}`; give another name: NAME={path}")
        models[name] = open_graph(path, options.threshold, name)
    graphs = {name: one for name, one in models.items() if isinstance(one.model, NodeGraph)}
    encoded = encode_data(replace(run, models={name: models[name] for name in models if name not in graphs}))
    table = encoded.table
    truth, notes = _true_graph(run, table)
    estimates = [_given(run, one, table) for one in graphs.values()]
    partly = bool(options.discover) or not all(is_directed(one.adjacency) for one in estimates)
    if partly and options.compare == "dag":
        raise InputError(f"{argument('compare')} dag: expected graphs without undirected edges")
    completed = options.compare == "cpdag" or (partly and options.compare == "auto")
    if completed and any(bool((one & 2).any()) for one in (truth, *(one.adjacency for one in estimates))):
        raise InputError("a CPDAG has no hidden confounders, which the true graph or an estimate has")
    target = cpdag(truth) if completed else truth
    judge = partial(_judge, target, completed)
    estimates = [one._replace(scores=_alone(judge(one.adjacency)) | one.scores) for one in estimates]
    notes += _broken_conditions(run, table) if options.discover else []
    for name, codes in (("factors", None), *encoded.codes.items()):
        estimates += _discovered(encoded.run, name, codes, table, partial(_judge, target, False))
    widths = [codes.shape[1] for codes in encoded.codes.values()]
    widths += [len(one.model.adjacency) for one in graphs.values() if one.model.codes is not None]
    estimates += _controls(truth, judge, options.seed, _chance(table, options, max(widths, default=0)))
    known = [one.named.identity.name for one in estimates]
    if taken := {name for name in known if known.count(name) > 1}:
        raise InputError(f"two graphs are named `{min(taken)}`; give a model another name")
    about: dict[str, Any] = {"factors": table.names, "compared": "CPDAGs" if completed else "DAGs"}
    about |= {"graphs": (), "truth": hashlib.sha256(str(target.tolist()).encode()).hexdigest()}
    results, cut = [], partial(_cut, len(target) * (len(target) - 1) / 2)
    for named, adjacency, scores, more, drawn in estimates:
        name, groups = named.identity.name, distinct_groups(run.data.groups) if drawn else ()
        origin = replace(run, models={name: named}).provenance(name, **about)
        details = {"truth": target.tolist(), "estimate": adjacency.tolist(), "notes": [*notes, *more]}
        kept = {score: cut(score, value) for score, value in scores.items()}
        results.append(StatisticResult(origin, kept, dict(drawn), groups, (), details))
    return with_pooled(results, cut)


def _true_graph(run: Run[GraphOptions], table: FactorTable) -> tuple[Adjacency, list[str]]:
    """Read the true graph, and take out of it what is no factor of the table."""
    source = getattr(run.data, "graph", None) if run.options.truth is None else run.options.truth
    if source is None:
        raise InputError(f"`{run.data.identity.name}` has no causal graph; give {argument('truth')}")
    graph = read_graph(source)
    truth = _of_factors(run, graph, table, "the true graph")
    pairs = [(table.names[one], table.names[other]) for one, other in (truth & 2).triu().nonzero().tolist()]
    if pairs and run.options.hidden == "refuse":
        both, cure = "` and `".join(pairs[0]), f"{argument('hidden')} bidirected makes an edge of it"
        raise InputError(f"`{both}` have a hidden common cause; {cure}")
    if not is_directed(truth) or not bool(truth.any()):
        raise InputError("expected a true graph with edges, all of them directed; choose a set with causes")
    selections = [exclusion_text(one) for one in graph.recipe.selections] if graph.recipe else []
    others = sorted({*(graph.names or ())} - {*table.names})
    found = {
        "not among the factors, so taken out of the true graph": others,
        "selections make factors depend without an edge": [*selections, run.options.selection or ""],
    }
    return truth, _notes(found)


def _of_factors(run: Run[GraphOptions], graph: NodeGraph, table: FactorTable, where: str) -> Adjacency:
    """Return the adjacency of the factors of the table, in their order.

    Factors with one value pass nothing on and are deleted; `latent_projection` takes other nodes out.
    """
    names, fixed = graph.names or table.names, (run.data.table == run.data.table[:1]).all(0)
    dropped = {info.name for info, one in zip(run.data.factors, fixed, strict=True) if one}
    with within(where):
        adjacency = checked_adjacency(torch.from_numpy(graph.adjacency))
        if len(names) != len(adjacency) or not {*table.names} <= {*names}:
            wanted, got = (
                ", ".join(table.names),
                ", ".join(graph.names or [f"{len(adjacency)} without names"]),
            )
            cure = f"choose by {argument('factors')}, or if they are codes, save `ids` and `codes` with it"
            raise InputError(f"expected the nodes {wanted}, got {got}; {cure}")
        order_nodes(adjacency & ~adjacency.T, names)
        kept = [place for place, name in enumerate(names) if name not in dropped]
        places = [[names[place] for place in kept].index(name) for name in table.names]
        rest = adjacency[kept][:, kept]
        return latent_projection(rest, places) if len(kept) > len(places) else rest[places][:, places]


def _given(run: Run[GraphOptions], named: NamedModel, table: FactorTable) -> _Estimate:
    """Find the adjacency of the factors in an estimated graph."""
    name, graph = named.identity.name, named.model
    if graph.codes is None:
        return _Estimate(named, _of_factors(run, graph, table, name), {})
    codes = open_codes(graph.codes).matched(run.data.ids, run.data.known_ids, None)
    places, scores, notes = _matched(run, name, codes, table)
    chosen = NodeGraph(graph.adjacency[places][:, places])
    return _Estimate(named, _of_factors(run, chosen, table, name), scores, notes)


def _matched(run: Run[GraphOptions], name: str, codes: Tensor, table: FactorTable) -> _Matched:
    """Match codes with factors: the code of each, the mean strength as a score, and a note."""
    with within(name):
        places, strengths = match_codes(codes.cpu(), table, run.options.match)
    matches = zip(table.names, places.tolist(), strengths.tolist(), strict=True)
    text = ", ".join(f"{factor} {code} ({strength:.2f})" for factor, code, strength in matches)
    return places, _alone({"mcc": float(strengths.mean())}), (f"{name}: codes of the factors: {text}",)


def _discovered(
    run: Run[GraphOptions], name: str, codes: Tensor | None, table: FactorTable, judge: _Judge
) -> Iterator[_Estimate]:
    """Find the graphs of the codes of an encoder, or of the factors, which are a control.

    Intervals are over subsamples of groups: rows that repeat, as in a bootstrap, would look like evidence.
    """
    options, (base, mark, seed), test = run.options, name.partition("#"), _test(run, table)
    named, columns = _control(name), table.classes.double() if test == "chi2" else table.values
    places, scores, notes = _NO_CODES
    if codes is not None:
        named, test = run.models[name], "fisher-z" if options.test == "auto" else test
        places, scores, notes = _matched(run, name, codes, table)
        columns = codes.cpu().double()[:, places]
        columns = discretise(columns, options.bins).double() if test == "chi2" else columns
    for method in dict.fromkeys(options.discover):
        title = f"{base} {method}{mark}{seed}" if seed.isdecimal() else f"{name} {method}"
        named = replace(named, identity=replace(named.identity, name=title))
        find = partial(discover_graph, method=method, test=test, alpha=options.alpha)
        try:
            whole, draw = find(columns), partial(_of_rows, columns, find, judge)
            found = resampled_interval(draw, run.data.groups, options.seed, options.resamples, False)
            yield _Estimate(named, whole, found[0] | scores, notes, found[1])
        except InputError as error:
            none = torch.zeros(len(table.names), len(table.names)).long()
            failed = _alone(dict.fromkeys(_SCORES, math.nan)) | scores
            yield _Estimate(named, none, failed, (*notes, f"{title}: {error}"))


def _of_rows(columns: Tensor, find: Callable[..., Tensor], judge: _Judge, rows: Any) -> dict[str, float]:
    """Score the graph that some rows give; nan where there is none."""
    try:
        return judge(find(columns[torch.from_numpy(rows)]))
    except InputError:
        return dict.fromkeys(_SCORES, math.nan)


def _test(run: Run[GraphOptions], table: FactorTable) -> str:
    """Choose the test for the factors: for numbers, for classes, or for both."""
    kinds = {0: "fisher-z", len(table.names): "chi2"}
    return kinds.get(len(table.categorical), "ranks") if run.options.test == "auto" else run.options.test


def _broken_conditions(run: Run[GraphOptions], table: FactorTable) -> list[str]:
    """Tell which assumptions of the search the factors break."""
    test, shares, names = _test(run, table), dependence_shares(table.classes), table.names
    pairs = [pair for pair in combinations(range(len(names)), 2) if shares[pair] > _CERTAIN]
    nodes = getattr(getattr(run.data, "graph", None), "nodes", ())
    unordered = [names[one] for one in table.unordered if test != "chi2"]
    found = {
        "graphs of the factors are found with": [test],
        "values without an order are taken as numbers": unordered,
        "angles jump at the end of a turn, which hides edges": [names[one] for one in table.turning],
        "one determines the other, which hides edges": [f"{names[a]} and {names[b]}" for a, b in pairs],
        "interventions on some rows mix distributions": [n.name for n in nodes if n.intervened == "some"],
    }
    return _notes(found)


def _notes(found: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"{text}: {', '.join(filter(None, some))}" for text, some in found.items() if any(some)]


def _controls(truth: Adjacency, judge: _Judge, seed: int, chance: Mapping[str, Score]) -> Iterator[_Estimate]:
    """Make the graphs of `GRAPH_CONTROLS`; random ones have the scores of codes of noise, too."""
    count, none = len(truth), torch.zeros_like(truth)
    first, second = torch.tensor(order_nodes(truth))[torch.triu_indices(count, count, 1)]
    full = none.index_put((first, second), torch.tensor(1))
    for name, graph in zip(GRAPH_CONTROLS, (none, full, (truth & 1).T | truth & 2), strict=False):
        yield _Estimate(_control(name), none, _alone(judge(graph)))
    edges, draws = int(((truth | truth.T) > 0).sum()) // 2, Generator().manual_seed(seed)
    drawn = [judge(random_dag(count, edges, draws)) for _ in range(RANDOM_GRAPHS)]
    scores = {}
    for name in _SCORES:
        known = [one[name] for one in drawn if not math.isnan(one[name])] or [math.nan]
        scores[name] = Score(float(np.mean(known)), *np.quantile(known, (0.025, 0.975)).tolist())
    yield _Estimate(_control(GRAPH_CONTROLS[-1]), none, scores | dict(chance))


def _chance(table: FactorTable, options: GraphOptions, width: int) -> dict[str, Score]:
    """Match codes of noise with the factors: the mean strength by chance, with the range of 95 %."""
    if not width:
        return {}
    draws, size = Generator().manual_seed(options.seed), (len(table.values), width)
    noise = (torch.randn(size, generator=draws, dtype=torch.float64) for _ in range(RANDOM_CODES))
    found = [float(match_codes(codes, table, options.match)[1].mean()) for codes in noise]
    return {"mcc": Score(float(np.mean(found)), *np.quantile(found, (0.025, 0.975)).tolist())}


def _control(name: str) -> NamedModel:
    return NamedModel(ModelIdentity(name, "control"), None, "srgb")


def _judge(target: Adjacency, completed: bool, adjacency: Adjacency) -> dict[str, float]:
    """Score a graph; where CPDAGs are compared, that of a DAG."""
    found = graph_scores(cpdag(adjacency) if completed and is_directed(adjacency) else adjacency, target)
    parts = found.shd, found.orientation, *vars(found.skeleton).values(), *vars(found.arrows).values()
    return dict(zip(_SCORES, map(float, parts), strict=True))


def _alone(scores: Mapping[str, float]) -> dict[str, Score]:
    return {name: Score(value, math.nan, math.nan) for name, value in scores.items()}


def _cut(pairs: float, name: str, score: Score) -> Score:
    """Cut an interval at the bounds of a score, of which SHD is at most the number of pairs."""
    return score.within(0, pairs if name == "shd" else 1)


GRAPH = Evaluation(
    name="graph",
    version=1,
    better={"shd": "lower", "mcc": "higher", **dict.fromkeys(_SCORES[1:], "higher")},
    options=GraphOptions,
    reads=Reading(open=_open, space="srgb", files=CODES_FILES),
    study=_score_graphs,
    page="candlelight.evaluation.causal.graph_report:GRAPH_PAGE",
    needs_models=False,
)
