"""How far the scores of one prediction move between protocols: a table, ranks, and changes of order."""

import math
from collections.abc import Mapping
from itertools import combinations, groupby, pairwise

from scipy.stats import rankdata

from candlelight.evaluation.protocols.evaluation_protocol import main_score
from candlelight.evaluation.protocols.protocol_records import PROTOCOLS
from candlelight.evaluation.results.result import Result

ProtocolResults = Mapping[str, Mapping[str, Result]]


def model_ranks(protocol: str, results: Mapping[str, Result]) -> dict[str, int]:
    """Rank models by the main score of a protocol: 1 is best, equal scores share the best rank.

    Scores are equal that agree in six digits, so that rounding decides nothing: predictions which differ only
    in their scale have equal scores of every protocol that aligns them.

    Args:
        protocol: name of the protocol.
        results: by model.

    Returns:
        The rank of each model with a defined score.
    """
    record = PROTOCOLS[protocol]
    scores = {name: main_score(result, record) for name, result in results.items()}
    known = {name: float(f"{score:.6g}") for name, score in scores.items() if not math.isnan(score)}
    sign = -1 if record.better == "higher" else 1
    ranks = rankdata([sign * score for score in known.values()], method="min")
    return dict(zip(known, map(int, ranks), strict=True))


def protocol_rows(results: ProtocolResults) -> list[tuple[str, ...]]:
    """Make the cells of a table: for each protocol, the main score and its direction, and each model's.

    A cell of a model is its score and, in brackets, its rank; the last row has the ranks of all protocols.

    Args:
        results: by protocol and model.
    """
    models = list(dict.fromkeys(name for some in results.values() for name in some))
    rows: list[tuple[str, ...]] = [("protocol", "score", *models)]
    places: dict[str, list[int]] = {name: [] for name in models}
    for protocol, some in results.items():
        record, ranks = PROTOCOLS[protocol], model_ranks(protocol, some)
        cells = []
        for name in models:
            value = main_score(some[name], record) if name in some else math.nan
            cells.append(f"{value:.4g} ({ranks[name]})" if name in ranks else "undefined")
            places[name] += [ranks[name]] if name in ranks else []
        rows.append((protocol, f"{record.columns[0]} {'↓' if record.better == 'lower' else '↑'}", *cells))
    return [*rows, ("ranks", "", *(_reach(places[name]) for name in models))]


def changed_orders(results: ProtocolResults) -> list[str]:
    """Say for each pair of neighbouring protocols in which two models change places how they are ordered.

    Args:
        results: by protocol and model.

    Returns:
        A line for each such pair; equal models are joined by "=".
    """
    lines = []
    ranks = {protocol: model_ranks(protocol, some) for protocol, some in results.items()}
    for one, other in pairwise(ranks):
        shared = sorted(ranks[one].keys() & ranks[other].keys())
        moved = (
            (ranks[one][a] - ranks[one][b]) * (ranks[other][a] - ranks[other][b])
            for a, b in combinations(shared, 2)
        )
        if any(product < 0 for product in moved):
            lines.append(f"{one}: {_order(ranks[one])}; {other}: {_order(ranks[other])}")
    return lines


def _reach(places: list[int]) -> str:
    if not places:
        return "undefined"
    low, high = min(places), max(places)
    return str(low) if low == high else f"{low} to {high}"


def _order(ranks: Mapping[str, int]) -> str:
    """Write models from the best to the worst."""
    ordered = sorted(ranks, key=ranks.__getitem__)
    return ", ".join(" = ".join(equal) for _, equal in groupby(ordered, key=ranks.__getitem__))
