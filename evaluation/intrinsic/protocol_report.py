"""The page and the terminal table of named protocols: scores, ranks, and changes of order."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, groupby, pairwise

from scipy.stats import rankdata

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.intrinsic.protocol_records import NEVER_COMPARE, PROTOCOLS, main_score
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    scores_table,
    settings_table,
    unbroken,
)
from candlelight.evaluation.report.drawing import COLOURS, drawing, label_rows, to_svg
from candlelight.evaluation.report.row_tables import row_tables
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.result import (
    BestCell,
    Result,
    align_columns,
    model_name,
    published_scores,
    table,
)

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
            cell = f"{value:.4g} ({ranks[name]})" if name in ranks else "undefined"
            cells.append(BestCell(cell) if ranks.get(name) == 1 < len(ranks) else cell)
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


_CHOICES = ("colour_space", "scale", "mask", "resize", "window", "mean", "trial")


def _by_protocol(results: Sequence[Result]) -> dict[str, dict[str, Result]]:
    """Order results with the setting ``protocol`` by protocol and model."""
    by_protocol: dict[str, dict[str, Result]] = {}
    for name in PROTOCOLS:
        some = [result for result in results if result.about.settings["protocol"] == name]
        if some:
            by_protocol[name] = {model_name(result): result for result in some}
    return by_protocol


def protocol_lines(results: Sequence[Result]) -> list[str]:
    """Write scores and ranks, and changes of order; of one protocol, the table of its scores."""
    found = _by_protocol(results)
    if len(found) == 1:
        return [table(results, styled=True), *(str(compare(results[0], other)) for other in results[1:])]
    lines = [
        align_columns(protocol_rows(found), styled=True),
        "score (rank); numbers of two protocols are never comparable, only ranks are",
    ]
    changes = changed_orders(found)
    if len(results) > len(found):  # several models
        pairs = f"{len(found) - 1} pairs of neighbouring protocols"
        lines.append(f"{len(changes)} of {pairs} order the models differently")
    return lines + changes


_PROTOCOLS = TextBlock(
    "A protocol is the evaluation of a publication: it fixes colour space, scale, mask, window and files. "
    "The table has the main score of each protocol, and the ranks of the models by it."
)


def protocols_section(results: Sequence[Result], pictures: Sequence[Block] = ()) -> Section:
    """Report results of protocols on one data set.

    Args:
        results: with the setting ``protocol``.
        pictures: not used.
    """
    by_protocol = _by_protocol(results)
    head, *rows = protocol_rows(by_protocol)
    caption = "Main score of each protocol (rank of the model); the last row has the ranks of all protocols"
    cells = tuple(tuple(map(unbroken, row)) for row in rows)
    table = TableBlock(caption, head, cells, sortable=False)  # the last row is a summary
    models = {name for some in by_protocol.values() for name in some}
    several = len(by_protocol) > 1 and len(models) > 1
    moved: list[Block] = [_protocol_ranks(by_protocol), *_changes(by_protocol)] if several else []
    never = [
        TextBlock(text, term="Never compare" if place == 0 else "")
        for place, text in enumerate(NEVER_COMPARE)
    ]
    blocks = (_PROTOCOLS, *never, table, *moved, _choices(by_protocol), *_all_scores(by_protocol))
    return Section("protocols", "Evaluation protocols", blocks)


def _protocol_ranks(results: Mapping[str, Mapping[str, Result]]) -> PlotBlock:
    """Draw the rank of each model in each protocol, and a line along the protocols."""
    ranks = {protocol: model_ranks(protocol, some) for protocol, some in results.items()}
    models = list(dict.fromkeys(name for some in results.values() for name in some))
    with drawing(1.2 + 0.26 * len(ranks)) as figure:
        axes = figure.subplots()
        for place, name in enumerate(models):
            places = [(some[name], row) for row, some in enumerate(ranks.values()) if name in some]
            colour, style = COLOURS[place % len(COLOURS)], "--o" if place >= len(COLOURS) else "-o"
            # A small shift keeps equal ranks apart.
            shift = 0.12 * (place - (len(models) - 1) / 2) / len(models)
            xs, ys = [rank + shift for rank, _ in places], [row for _, row in places]
            axes.plot(xs, ys, style, color=colour, markersize=5, label=name)
        label_rows(axes, list(ranks))
        axes.set_xticks(range(1, len(models) + 1))
        axes.set_xlim(0.7, len(models) + 0.3)
        axes.set_xlabel("rank; 1 is best")
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
        svg = to_svg(figure, "protocols")
    lists = "; ".join(
        f"{protocol} {', '.join(f'{name} {rank}' for name, rank in some.items())}"
        for protocol, some in ranks.items()
    )
    return PlotBlock(
        svg,
        f"Lines of the rank of each model along the protocols: {lists}.",
        "Rank of each model by the main score of each protocol, on the same data. Where lines cross, two "
        "protocols order the models differently.",
    )


def _changes(results: Mapping[str, Mapping[str, Result]]) -> list[TextBlock]:
    lines = changed_orders(results)
    text = (
        f"{len(lines)} of {len(results) - 1} pairs of neighbours in the table order the models differently."
    )
    return [TextBlock(text, term="Changes of order"), *(TextBlock(line, quiet=True) for line in lines)]


def _choices(results: Mapping[str, object]) -> TableBlock:
    rows = tuple(
        (name, *(getattr(PROTOCOLS[name], choice).replace("`", "") for choice in _CHOICES))
        for name in results
    )
    head = ("protocol", *(choice.replace("_", " ") for choice in _CHOICES))
    return TableBlock("Choices of each protocol", head, rows, folded=True)


def _all_scores(results: Mapping[str, Mapping[str, Result]]) -> list[Block]:
    blocks: list[Block] = []
    for name, some in results.items():
        same = list(some.values())
        scores = scores_table(f"All scores of {name}, with 95 % intervals", same, whole=True)
        blocks.append(replace(scores, folded=len(results) > 1 and not published_scores(same)))
        blocks += row_tables(same) if len(results) == 1 else []
    last = [result for some in results.values() for result in some.values()][:1]
    return [*blocks, settings_table(last)]


PROTOCOLS_PAGE = Page(section=protocols_section, lines=protocol_lines)
