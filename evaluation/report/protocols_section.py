"""Section of a report on named evaluation protocols: scores, ranks, and what must never be compared."""

from collections.abc import Mapping, Sequence

from candlelight.evaluation.protocols import NEVER_COMPARE, PROTOCOLS, changed_orders, protocol_rows
from candlelight.evaluation.protocols.protocol_order import model_ranks
from candlelight.evaluation.report.blocks import Block, PlotBlock, Section, TableBlock, TextBlock
from candlelight.evaluation.report.drawing import COLOURS, INK, drawing, label_rows, to_svg
from candlelight.evaluation.report.tables import scores_table, settings_table, unbroken
from candlelight.evaluation.results.result import Result, model_name

_CHOICES = ("colour_space", "scale", "mask", "resize", "window", "mean", "trial")


def protocols_section(results: Sequence[Result]) -> Section:
    """Report results of protocols on one data set.

    Args:
        results: with the setting ``protocol``.
    """
    by_protocol: dict[str, dict[str, Result]] = {}
    for name in PROTOCOLS:
        some = [result for result in results if result.about.settings["protocol"] == name]
        if some:
            by_protocol[name] = {model_name(result): result for result in some}
    head, *rows = protocol_rows(by_protocol)
    caption = "Main score of each protocol (rank of the model); the last row has the ranks of all protocols"
    table = TableBlock(caption, head, tuple(tuple(map(unbroken, row)) for row in rows))
    models = {name for some in by_protocol.values() for name in some}
    several = len(by_protocol) > 1 and len(models) > 1
    moved: list[Block] = [_ranks(by_protocol), *_changes(by_protocol)] if several else []
    never = [
        TextBlock(text, term="Never compare" if place == 0 else "")
        for place, text in enumerate(NEVER_COMPARE)
    ]
    blocks = (table, *moved, *never, _choices(by_protocol), *_all_scores(by_protocol))
    return Section("protocols", "Evaluation protocols", blocks)


def _ranks(results: Mapping[str, Mapping[str, Result]]) -> PlotBlock:
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
        axes.grid(axis="x", color=INK, alpha=0.15, linewidth=0.6)
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
        svg = to_svg(figure, "protocols")
    lists = "; ".join(
        f"{protocol} {', '.join(f'{name} {rank}' for name, rank in some.items())}"
        for protocol, some in ranks.items()
    )
    return PlotBlock(
        svg,
        f"Lines of the rank of each model along the protocols: {lists}.",
        "Rank of each model by the main score of each protocol, on the same data.",
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
        scores = scores_table(f"All scores of {name}, with 95 % intervals", same)
        blocks.append(TableBlock(scores.caption, scores.head, scores.rows, folded=True))
    last = [result for some in results.values() for result in some.values()][:1]
    return [*blocks, settings_table(last)]
