"""Sections of a report on coverage: scores, plots, tables and overview; and the text of the terminal."""

from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.coverage.coverage_pictures import coverage_pictures
from candlelight.evaluation.coverage.coverage_tables import (
    MethodComparison,
    best_share,
    iou_by_pooling,
    make_comparison,
    split_comparisons,
)
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    scores_table,
    settings_table,
    split_method_names,
    unbroken,
)
from candlelight.evaluation.report.drawing import (
    COLOURS,
    INK,
    draw_bars,
    drawing,
    label_rows,
    legend_columns,
    short_name,
    to_svg,
)
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.result import Result, StatisticResult, model_name, notes_of, table

_Results = Sequence[StatisticResult]
_COLOURED = ("vebi", "prototypes", "topics", "grad-cam")
_MOST_COLUMNS = 4  # of a table of methods by parts


def method_colours(methods: Sequence[str]) -> list[str]:
    """Choose a colour for each method; methods of the paper have the same colours in every comparison.

    Example:
        >>> method_colours(["topics", "own"]) == [COLOURS[2], COLOURS[0]]
        True
    """
    reserved = {name: COLOURS[place] for place, name in enumerate(_COLOURED) if name in methods}
    others = cycle([colour for colour in COLOURS if colour not in reserved.values()])
    return [reserved.get(name) or next(others) for name in methods]


def cross_table(
    caption: str,
    cells: Iterable[tuple[str, str, str]],
    corner: str = "",
    folded: bool = False,
) -> list[TableBlock]:
    """Tabulate cells by row and column; many columns of a few methods become rows.

    Args:
        caption: description of the numbers.
        cells: row, column and text of each cell; rows and columns are in the order of their first cells.
        corner: title of the column of row names. Without one, rows are methods, and many columns become rows.
        folded: whether the table is closed at first.

    Returns:
        The table without empty columns; nothing without cells.

    Example:
        >>> cells = [("vebi", "head", "1"), ("vebi", "tail", ""), ("topics", "head", "2")]
        >>> cross_table("Parts", cells)[0].rows
        (('vebi', '1'), ('topics', '2'))
    """
    rows: dict[str, dict[str, str]] = {}
    for row, column, text in cells:
        rows.setdefault(row, {})[column] = text
    every = dict.fromkeys(column for row in rows.values() for column in row)
    columns = [column for column in every if any(row.get(column) for row in rows.values())]
    lines = [
        (corner or "method", *columns),
        *((name, *(row.get(one, "") for one in columns)) for name, row in rows.items()),
    ]
    if not corner and len(columns) > max(len(rows), _MOST_COLUMNS):
        lines = list(zip(*lines, strict=True))
        lines[0] = ("", *lines[0][1:])
    return [TableBlock(caption, lines[0], tuple(lines[1:]), folded)] if columns else []


def coverage_overview(calls: Sequence[_Results]) -> Section:
    """Put the results of several comparisons side by side.

    Args:
        calls: for each comparison, the results of its methods.
    """
    labelled = comparison_labels([make_comparison(results) for results in calls])
    told = TextBlock(
        "Each column is one comparison. On the same data, mean IoU, shares and accuracies can be compared "
        "across columns. WAIoU cannot, and is not repeated here. Mean IoU in sample has the share that is "
        "best on the scored images themselves; the shares of the score mean_iou are chosen on other images."
    )
    best = [
        (method, label, f"{number(best_share(result)[1])} at {best_share(result)[0]:.3g}")
        for label, comparison in labelled.items()
        for method, result in comparison.results.items()
    ]
    accuracies = [
        (name, label, number(accuracy[of]))
        for label, comparison in labelled.items()
        for method, result in comparison.results.items()
        for name, of in (("classifier itself", "classifier"), (method, "explained"))
        if (accuracy := result.details.get("accuracy") or {}).get(of) is not None
    ]
    tables = (
        *cross_table("Mean IoU of each method in sample ↑, at its best share of points (Table 2)", best),
        *cross_table("Accuracy of classifiers and explained networks (Table 1 of the paper)", accuracies),
    )
    return Section("coverage-classifiers", "Coverage of parts, all comparisons", (told, *tables))


def comparison_labels(comparisons: Sequence[MethodComparison]) -> dict[str, MethodComparison]:
    """Name comparisons by classifier, by data if there are several, and by number if the names are equal."""
    several = len({one.data for one in comparisons}) > 1
    names = [", ".join(filter(None, (one.classifier, one.data * several))) for one in comparisons]
    return {
        name if name and names.count(name) == 1 else f"{name or 'comparison'} {place}": one
        for place, (name, one) in enumerate(zip(names, comparisons, strict=True), 1)
    }


# Label, line and marker of each way to pool points; the markers are those of the paper.
_POOLINGS: dict[str, tuple[str, str, str, int]] = {
    "set": ("threshold of all images with the same strongest maps (SetHM)", "-", "o", 4),
    "image": ("threshold of each image (IndivHM)", "--", "s", 7),
}


def pooling_plot(comparison: MethodComparison) -> PlotBlock:
    """Draw average IoU against the share of marked points, with each way to pool points (Figure 5)."""
    lines = [
        (place, pooling, values)
        for place, result in enumerate(comparison.results.values())
        for pooling, values in iou_by_pooling(result).items()
    ]
    over = (
        "over all images and the parts that they show, by the share of marked points (Figure 5 of the "
        "paper): higher is better."
    )
    return _share_plot(
        comparison, "pooling", "average IoU", lines, over, list(dict.fromkeys(p for _, p, _ in lines))
    )


def curve_plot(comparison: MethodComparison) -> list[PlotBlock]:
    """Draw WAIoU against the share of marked points (Figure 7); nothing if no result has it."""
    curves = [result.details.get("curve") for result in comparison.results.values()]
    lines = [(place, "set", values) for place, values in enumerate(curves) if values]
    over = (
        "over all parts, by the share of points that every method marks (Figure 7 of the paper): higher "
        "is better. At each share, methods are weighed against each other anew."
    )
    return [_share_plot(comparison, "curve", "WAIoU", lines, over)] if lines else []


def _share_plot(
    comparison: MethodComparison,
    name: str,
    score: str,
    lines: Sequence[tuple[int, str, Sequence[float | None]]],
    over: str,
    poolings: Sequence[str] = (),
) -> PlotBlock:
    """Draw lines, each of a method in the style of a pooling, over the shares; a legend tells poolings."""
    methods, colours = list(comparison.results), method_colours(list(comparison.results))
    shares, columns = 100 * np.array(comparison.proportions), legend_columns(methods)
    order = shares.argsort(kind="stable")
    with drawing(2.8 + 0.25 * (-(-len(methods) // columns) + len(poolings))) as figure:
        axes = figure.subplots()
        for place, pooling, values in lines:
            heights = np.array(values, dtype=float)  # None, the JSON form of nan, leaves a gap
            axes.plot(shares[order], heights[order], linewidth=1.5, **_style(pooling, colours[place]))
        axes.set(xlabel="points marked in %", ylabel=score)
        axes.set_ylim(0, None)
        handles = [
            axes.plot([], [], color=colour, linewidth=3, label=short_name(method))[0]
            for method, colour in zip(methods, colours, strict=True)
        ]
        axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=columns)
        if styles := [axes.plot([], [], label=_POOLINGS[one][0], **_style(one, INK))[0] for one in poolings]:
            figure.legend(handles=styles, loc="outside upper center", ncols=1)
        svg = to_svg(figure, name)
    alt = f"Lines of {score} by the share of marked points{_of(comparison)}."
    return PlotBlock(svg, alt, f"{score[0].upper()}{score[1:]}{_of(comparison)} {over}")


def _style(pooling: str, colour: str) -> dict[str, Any]:
    """Choose line and marker; squares are open, so that a circle in the same place is seen."""
    _, line, marker, size = _POOLINGS[pooling]
    face = "none" if marker == "s" else colour
    return {"color": colour, "linestyle": line, "marker": marker, "markersize": size, "mfc": face}


def part_plot(comparison: MethodComparison) -> PlotBlock:
    """Draw WAIoU of each part and of all parts as bars, at the best share of each method (Figure 8)."""
    rows, methods = (*comparison.parts, "all parts"), list(comparison.results)
    bars = np.array(
        [[*one.details["parts"], one.score] for one in comparison.results.values()], dtype=float
    ).T
    with drawing(1.1 + (0.12 + 0.16 * len(methods)) * len(rows)) as figure:
        axes = figure.subplots()
        draw_bars(axes, bars, methods, colours=method_colours(methods))
        label_rows(axes, rows)
        axes.set_xlabel("WAIoU")
        svg = to_svg(figure, "waiou")
    return PlotBlock(
        svg,
        f"Bars of WAIoU by part{_of(comparison)}.",
        f"WAIoU{_of(comparison)} by part and method, at the best share of points of each method (Figure 8 of "
        "the paper): longer is better.",
    )


def _of(comparison: MethodComparison) -> str:
    return f" of explanations of {comparison.classifier}" if comparison.classifier else ""


_KINDS = {
    "noise": "floor: random numbers",
    "constant": "floor: one value everywhere",
    "centre": "trap: a blob in the middle of every image",
    "object": "trap: mask of the whole object",
    "exact parts": "ceiling of one map: mask of the largest part, or the k largest",
    "ideal": "ceiling: made of the annotated parts",
}


def _control_blocks(comparison: MethodComparison) -> list[Block]:
    """Tabulate mean IoU of methods and controls, and name the methods that do not exceed a control."""
    controls: dict[str, Any] = comparison.shared_detail("controls") or {}
    if not controls:
        return []
    # Shares are chosen as for the controls: scores in sample would be larger.
    means = {method: result.scores["mean_iou"].value for method, result in comparison.results.items()}
    rows = [(mean, (method, "method", number(mean), "")) for method, mean in means.items()]
    notes = []
    for name, scores in controls.items():
        mean, kind = scores["mean_iou"], _KINDS[name]
        rows.append((mean, (name, kind, number(mean), number(scores["waiou"]))))
        below = [method for method, value in means.items() if value <= (mean or 0)]
        if not kind.startswith("ceiling") and below:
            notes.append(note(f"Mean IoU is not above that of the control {name}: {', '.join(below)}."))
    rows.sort(key=lambda row: -1.0 if row[0] is None else row[0], reverse=True)
    head = ("heatmaps", "kind", "mean IoU ↑", "WAIoU alone")
    told = TextBlock(
        "Mean IoU of controls and methods can be compared. WAIoU cannot: each control is compared with "
        "itself only, so that it does not change the scores of the methods.",
        quiet=True,
    )
    blocks: list[Block] = [
        TableBlock("Methods and controls by mean IoU", head, tuple(row for _, row in rows)),
        told,
        *notes,
    ]
    blocks += [note(f"{text}.") for text in _mask_notes(comparison)]
    return blocks


def _mask_notes(comparison: MethodComparison) -> list[str]:
    """Tell that the mask of the object is better than the exact parts, if it is."""
    masks = comparison.shared_detail("mask_controls") or {}
    whole, exact = masks.get("object"), masks.get("exact parts")
    if whole is None or exact is None or not whole > exact:
        return []
    return [
        f"WAIoU prefers the mask of the whole object ({whole:.3g}) to the exact masks of the parts "
        f"({exact:.3g}), compared with each other: it rewards maps that overlap many parts, and does not "
        "show that a method tells parts apart"
    ]


def networks_of(results: Sequence[Result]) -> list[tuple[dict[str, Any], list[str]]]:
    """List the explained networks of known accuracy, each with the names of the methods that explain it."""
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for result in results:
        network = result.details.get("network") or {}
        if "accuracy" in network:
            found.setdefault(network["of"], (network, []))[1].append(model_name(result))
    return list(found.values())


def join_names(names: Sequence[str]) -> str:
    """Join names of methods, and write the words that they begin with only once.

    Example:
        >>> join_names(["kinds vebi", "kinds topics"])
        'kinds vebi, topics'
    """
    classifier, methods = split_method_names(names)
    return f"{classifier} {', '.join(methods)}".strip()


def network_notes(results: Sequence[Result]) -> list[str]:
    """Name the networks whose accuracy is not shown to be above chance, and what follows."""
    notes = []
    for network, names in networks_of(results):
        (value, low, high), chance = network["accuracy"], network["chance"]
        if chance is not None and (low is None or low <= chance):
            interval = "" if low is None else f"95 % interval {low:.3g} to {high:.3g}; "
            notes.append(
                f"accuracy {value:.3g} ({interval}chance {chance:.3g}): the network that {join_names(names)} "
                f"explain{'s' if len(names) == 1 else ''} is not shown to be better than always predicting "
                "the most frequent class, so that no score here tells whether a method explains a working "
                "classifier: give a trained one"
            )
    return notes


def _network_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate the accuracies of the explained networks (Table 1), completeness and number of concepts."""
    cells = []
    for method, result in comparison.results.items():
        details = result.details
        accuracy, network = details.get("accuracy") or {}, details.get("network") or {}
        values = {
            "accuracy of the classifier": accuracy.get("classifier"),
            "of the explained network": accuracy.get("explained"),
            "chance level": network.get("chance"),
            "completeness": details.get("completeness"),
        }
        cells += [(method, name, "" if one is None else number(one)) for name, one in values.items()]
        cells.append((method, "concepts", str(details.get("concepts", ""))))
    return cross_table("Networks that the methods explain", cells)


def _part_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate WAIoU, and both of its factors, by part."""
    cells = []
    for method, result in comparison.results.items():
        share, mean = best_share(result)
        cells.append((method, "best share of points", f"{100 * share:.3g}%"))
        cells.append((method, "mean IoU there, in sample ↑", number(mean)))
        factors = (result.details[name] for name in ("parts", "mean_iou", "counts"))
        for part, score, iou, count in zip(comparison.parts, *factors, strict=True):
            told = unbroken(f" ({number(iou)}, {count})") if count else ""
            cells.append((method, f"{part} ↑", number(score) + told))
    caption = (
        "WAIoU of each part; in brackets mean IoU and number of the images where a method covers the part"
    )
    return cross_table(caption, cells)


def _label_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate the number of images by label."""
    cells = []
    for method, result in comparison.results.items():
        if "labels" not in result.details:
            continue
        counts = [*result.details["labels"], result.details["unlabelled"]]
        for part, count in zip((*comparison.parts, "no part"), counts, strict=True):
            share = 100 * count / max(sum(counts), 1)
            cells.append((method, part, unbroken(f"{count} ({share:.0f} %)")))
    return cross_table("Images by label of their explanation: the part with the largest IoU (eq. 6)", cells)


def _dissection_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate the detectors that Network Dissection finds among the concepts of each method."""
    cells = []
    for method, result in comparison.results.items():
        if found := result.details.get("dissection"):
            cells.append((method, "concepts", str(found["concepts"])))
            cells.append((method, "detectors", str(found["labelled"])))
            cells += [(method, part, str(found["detectors"].get(part, ""))) for part in comparison.parts]
    return cross_table(
        "Concepts of each method that detect a part, over all images (Network Dissection)", cells
    )


def _sensitivity_table(comparison: MethodComparison) -> list[TableBlock]:
    """Tabulate WAIoU of all methods under other settings, and their order."""
    names, cells = {model_name(result): method for method, result in comparison.results.items()}, []
    for change in comparison.shared_detail("sensitivity") or ():
        setting, order = change["setting"], [names.get(name, name) for name in change["order"]]
        cells += [(setting, method, number(change["scores"].get(name))) for name, method in names.items()]
        cells.append((setting, "order, best first", write_order(order, change["differs"])))
        cells.append((setting, "agreement", number(change["agreement"])))
    caption = (
        "WAIoU under other settings; > stands between methods that differ, ~ where no difference is shown; "
        "agreement is Kendall's tau with the order of the scores"
    )
    return cross_table(caption, cells, corner="setting")


def write_order(order: Sequence[str], differs: Sequence[bool]) -> str:
    """Write an order of methods, best first, with > between two that differ and ~ where none is shown.

    Example:
        >>> write_order(["topics", "vebi", "grad-cam"], [False, True])
        'topics ~ vebi > grad-cam'
    """
    return order[0] + "".join(
        f" {'>' if differ else '~'} {name}" for name, differ in zip(order[1:], differs, strict=True)
    )


def coverage_section(results: _Results, pictures: Sequence[Block]) -> Section:
    """Report the scores of methods that were compared in one call."""
    comparison = make_comparison(results)
    chosen = {"others": "other", "same": "the same"}[results[0].about.settings.get("choose", "others")]
    caption = (
        f"WAIoU and mean IoU of each method, at the share of points that is best on {chosen} images, with "
        "95 % intervals over groups of images"
    )
    blocks: tuple[Block, ...] = (
        scores_table(caption, results),
        *map(note, _notes(comparison, results)),
        *_control_blocks(comparison),
        *_network_table(comparison),
        part_plot(comparison),
        *_part_table(comparison),
        *_label_table(comparison),
        *_dissection_table(comparison),
        pooling_plot(comparison),
        *curve_plot(comparison),
        *_sensitivity_table(comparison),
        *pictures,
        settings_table(results),
    )
    return Section("coverage", "Coverage of parts", blocks)


def _notes(comparison: MethodComparison, results: _Results) -> list[str]:
    """Tell which images, parts and heatmaps are missing, and which networks have not learned the classes."""
    notes = [f"{one}." for one in notes_of(results)]
    notes += [
        f"WAIoU of {part} is not defined: no image shows it."
        for column, part in enumerate(comparison.parts)
        if all(result.details["parts"][column] is None for result in results)
    ]
    notes += [
        f"{model_name(result)}: {len(result.failed)} heatmaps are missing, not finite or constant; they mark "
        "no points."
        for result in results
        if result.failed
    ]
    notes += [f"{one}." for one in network_notes(results)]
    if len(results) == 1:
        notes.append("With one method, WAIoU is its mean IoU over the images where it covers the part.")
    return notes


def coverage_lines(results: _Results) -> list[str]:
    """Write the scores of each comparison, its paired differences, its controls and its other options."""
    lines: list[str] = []
    for comparison in split_comparisons(results):
        own = list(comparison.results.values())
        lines += score_lines(own)
        for name, one in (comparison.first.details.get("controls") or {}).items():
            lines.append(f"control {name}: mean_iou {one['mean_iou']:.4g}, alone WAIoU {one['waiou']:.4g}")
        changes = comparison.first.details.get("sensitivity")
        if len(own) > 1 and changes:
            lines.append(
                "order by WAIoU with other values of one parameter (~ where no difference is shown), and "
                "Kendall's tau with the order above:"
            )
            for one in changes:
                tau = "    -" if one["agreement"] is None else f"{one['agreement']:5.2f}"
                lines.append(f"  {one['setting']:24} {tau}  {write_order(one['order'], one['differs'])}")
        lines += [f"note: {text}" for text in (*_mask_notes(comparison), *network_notes(own))]
    return lines


def score_lines(results: _Results) -> list[str]:
    """Write the scores of a comparison, and the differences of the first method from the others."""
    return [table(results), *(str(compare(results[0], other)) for other in results[1:])]


COVERAGE_PAGE = Page(
    section=coverage_section,
    reading=(
        TextBlock(
            "WAIoU (Behzadi-Khormouji and Oramas) measures how well the points that an explanation marks "
            "agree with the annotated parts: the IoU with each part, weighted by the method's share of all "
            "explanations that cover the part."
        ),
        TextBlock("↑ Higher is better, among these methods only.", term="How to read"),
        TextBlock(
            "whether the model uses the marked points; and everything except the rank: adding a method "
            "changes every score.",
            term="Blind to",
        ),
    ),
    needs=("parts", "proportions", "best_proportion", "average_iou", "mean_iou", "counts"),
    pictures=coverage_pictures,
    overview=coverage_overview,
    lines=coverage_lines,
)
