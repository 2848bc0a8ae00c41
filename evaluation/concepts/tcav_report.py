"""Section of a report on TCAV: how concepts move the output of networks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from candlelight.evaluation.catalogue.concepts_options import TCAVOptions
from candlelight.evaluation.catalogue.record import Page
from candlelight.evaluation.report.blocks import (
    Block,
    PlotBlock,
    Section,
    TableBlock,
    TextBlock,
    note,
    number,
    settings_table,
    with_deviation,
    with_interval,
)
from candlelight.evaluation.report.drawing import COLOURS, drawing, to_svg
from candlelight.evaluation.report.tiles import images_block
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.result import MeanResult, align_columns, model_name, notes_of, table

_LINE_LENGTH = 50  # characters of the names of layers that fit below a plot
_CONTROLLED = ("effect against control", "p of permutation")
NEEDS = ("layers", "target", "gradient_of", "p")
READING = (
    TextBlock(
        "TCAV (Kim et al. 2018) measures how a concept moves a number of a network's output, its target. "
        "Classifiers separate the activations of the concept's images from those of other images, and the "
        "target is differentiated along their normals. The TCAV score is the share of test images at which "
        "the concept raises a logit, or lowers a loss. The derivative says how far, for a step of length 1."
    ),
    TextBlock(
        "No direction is better. A score within the range of random vectors means nothing; outside, the "
        "network follows something that the images of the concept share. The effect against a control, and "
        "its p, tell whether it is the concept. Derivatives of different layers have different units.",
        term="How to read",
    ),
    TextBlock(
        "the correctness of the network; and the common scene of the images of a concept, which vectors may "
        "represent in its place.",
        term="Blind to",
    ),
)


def tcav_section(results: Sequence[MeanResult], pictures: Sequence[Block]) -> Section:
    """Report the scores of networks with the same concepts, layers and target."""
    settings = results[0].about.settings
    means = "; ".join(
        f"{model_name(result)}, {one['concept']} at {one['layer']}: {number(one['score'])}"
        for result in results
        for one in result.details["scores"]
    )
    counted = "raises" if settings["gradient_of"] == "logit" else "lowers"
    plot = PlotBlock(
        _draw(results),
        f"TCAV scores by layer. {means}.",
        f"Share of test images at which a concept {counted} {settings['target']}, by layer. A concept "
        "matters where it lies outside the gray band: the mean of random vectors and one standard "
        "deviation. Dots are means over runs; thick bars are 95 % intervals over groups of test images, "
        "thin bars one standard deviation over runs. A dot is filled if the concept differs at p < "
        f"{settings['p']:g}: from its control, corrected for all concepts with controls, or without a "
        "control from random vectors.",
    )
    before: tuple[Block, ...] = (_scores(results), *map(note, _notes(results)), plot)
    return Section("tcav", "TCAV", (*before, *pictures, settings_table(results)))


def _scores(results: Sequence[MeanResult]) -> TableBlock:
    every = [(result, one) for result in results for one in result.details["scores"]]
    rows = [_row(result, one) for result, one in every]
    scored = ("model", "layer", "concept (images)", "TCAV score", "± runs", "random vectors", "derivative")
    head = (*scored, "random vectors", "accuracy", *_CONTROLLED, "p of t-test")
    caption = (
        "TCAV scores and derivatives with 95 % intervals over groups of test images; deviation over runs; "
        "scores and derivatives of random vectors; held-out accuracy of the vectors; "
    )
    t_test = "p of the t-test against random vectors"
    if any("control" in one for _, one in every):
        caption += (
            "effect against the control in standard deviations of exchanges, positive where the concept "
            "raises a logit or lowers a loss; p of its permutation test, corrected for all concepts; "
        )
        return TableBlock(caption + t_test, head, tuple(rows))
    return TableBlock(caption + t_test, *_without_tests(head, rows))


def _without_tests(
    head: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Leave out the columns of tests against controls."""
    kept = [place for place, name in enumerate(head) if name not in _CONTROLLED]
    first, *rest = (tuple(row[place] for place in kept) for row in (head, *rows))
    return first, tuple(rest)


def _row(result: MeanResult, one: dict[str, Any]) -> tuple[str, ...]:
    name = f"{one['concept']} at {one['layer']}"
    return (
        model_name(result),
        one["layer"],
        f"{one['concept']} ({one['images']})",
        with_interval(result.scores[name]),
        number(one["spread"], 2),
        with_deviation(*(_float(one[key]) for key in ("random", "random_spread"))),
        with_interval(result.scores[f"{name}, derivative"]),
        with_deviation(*(_float(one[key]) for key in ("random_derivative", "random_derivative_spread"))),
        number(one["accuracy"]),
        *(
            (number(one["control"]["effect"]), number(one["control"]["adjusted_p"], 2))
            if "control" in one
            else ("no control", "no control")
        ),
        number(one["t_test_p"], 2),
    )


def _notes(results: Sequence[MeanResult]) -> list[str]:
    """Word what is doubtful: few images, no control, undefined scores, derivatives of 0."""
    notes = [f"{line}." for line in notes_of(results)]
    if not any("control" in one for one in results[0].details["scores"]):
        notes.append(
            "The t-test takes runs that share images as independent, and finds a difference too often. The "
            "permutation test needs control images: `--control CONCEPT=SOURCE`, in Python `controls`."
        )
    for result in results:
        for one in result.details["scores"]:
            where = f"{model_name(result)}, {one['concept']} at {one['layer']}"
            if one["score"] is None:
                notes.append(
                    f"{where}: not defined, because all images have the same activations at this layer."
                )
            elif one["flat"]:
                notes.append(
                    f"{where}: {100 * one['flat']:.3g} % of the derivatives are 0, and count as insensitive."
                )
    return notes


def _draw(results: Sequence[MeanResult]) -> str:
    layers = results[0].about.settings["layers"]
    concepts = list(dict.fromkeys(one["concept"] for one in results[0].details["scores"]))
    with drawing(0.9 + 2.3 * len(results)) as figure:
        panels = figure.subplots(len(results), sharex=True, squeeze=False)[:, 0]
        for axes, result in zip(panels, results, strict=True):
            _draw_random(axes, result, layers)
            for place, concept in enumerate(concepts):
                shift = 0.5 * ((place + 0.5) / len(concepts) - 0.5)
                _draw_concept(axes, result, concept, shift, COLOURS[place % len(COLOURS)])
            axes.set(ylabel="TCAV score", ylim=(-0.05, 1.05), xlim=(-0.5, len(layers) - 0.5))
            if len(results) > 1:
                axes.set_title(model_name(result), loc="left")
        turned = {"rotation": 25, "ha": "right"} if len("  ".join(layers)) > _LINE_LENGTH else {}
        panels[-1].set_xticks(range(len(layers)), layers, **turned)
        panels[-1].set_xlabel("layer")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return to_svg(figure, "tcav")


def _draw_random(axes: Any, result: MeanResult, layers: Sequence[str]) -> None:
    """Draw the scores of random vectors as a band: their mean and standard deviation over the concepts."""
    for place, layer in enumerate(layers):
        found = [one for one in result.details["scores"] if one["layer"] == layer]
        mean, spread = (np.mean([_float(one[key]) for one in found]) for key in ("random", "random_spread"))
        label = "random vectors" if place == 0 else None
        low, high = np.clip([mean - spread, mean + spread], 0, 1)
        axes.fill_between([place - 0.42, place + 0.42], low, high, color=COLOURS[-1], alpha=0.25, linewidth=0)
        axes.plot([place - 0.42, place + 0.42], [mean, mean], color=COLOURS[-1], linewidth=2, label=label)


def _draw_concept(axes: Any, result: MeanResult, concept: str, shift: float, colour: str) -> None:
    """Draw one concept over the layers."""
    found = [one for one in result.details["scores"] if one["concept"] == concept]
    places = np.arange(len(found)) + shift
    values = np.array([_float(one["score"]) for one in found])
    axes.plot(places, values, color=colour, linewidth=1, alpha=0.5)
    for place, value, one in zip(places, values, found, strict=True):
        score = result.scores[f"{concept} at {one['layer']}"]
        spread = _float(one["spread"])
        axes.plot([place] * 2, np.clip([value - spread, value + spread], 0, 1), color=colour, linewidth=1)
        axes.plot([place] * 2, np.clip([score.low, score.high], 0, 1), color=colour, linewidth=4, alpha=0.6)
        face = colour if _differs(one, result.about.settings["p"]) else "none"
        axes.scatter([place], [value], s=36, color=face, edgecolors=colour, zorder=3)
    axes.plot([], [], color=colour, marker="o", linewidth=1, label=concept)


def _differs(one: dict[str, Any], p: float) -> bool:
    if "control" not in one:
        return bool(one["significant"])
    tested = one["control"]["adjusted_p"]  # None if there are too few scenes
    return tested is not None and tested < p


def _float(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def vectors_table(results: Sequence[MeanResult]) -> str:
    """Write for each model, layer and concept the spread over runs, random vectors, accuracy and tests."""
    head = [
        "model",
        "layer",
        "concept",
        "score ± runs",
        "random ± runs",
        "derivative ± runs",
        "random ± runs",
    ]
    rows = [(*head, "accuracy", *_CONTROLLED, "p of t-test")]
    for result in results:
        for one in result.details["scores"]:
            pairs = (
                f"{_short(one[name])} ± {_short(one[spread])}"
                for name, spread in (
                    ("score", "spread"),
                    ("random", "random_spread"),
                    ("derivative", "derivative_spread"),
                    ("random_derivative", "random_derivative_spread"),
                )
            )
            tested = one.get("control")
            control = (_short(tested["effect"]), _short(tested["adjusted_p"])) if tested else ("", "")
            numbers = _short(one["accuracy"]), *control, _short(one["t_test_p"])
            rows.append((model_name(result), one["layer"], one["concept"], *pairs, *numbers))
    if not any("control" in one for result in results for one in result.details["scores"]):
        first, rest = _without_tests(rows[0], rows[1:])
        rows = [first, *rest]
    return align_columns(rows)


def _short(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2g}"


def tcav_lines(results: Sequence[MeanResult]) -> list[str]:
    """Write the scores, a table of the vectors, and comparisons of the first network with each other one."""
    compared = [str(compare(results[0], other)) for other in results[1:]]
    return [table(results), vectors_table(results), *compared]


def tcav_pictures(run: Run[TCAVOptions], _: object) -> list[Block]:
    """Show a few images of each concept."""
    return [images_block(view, f"the concept {name}.") for name, view in run.data.concepts.items()]


TCAV_PAGE = Page(section=tcav_section, reading=READING, needs=NEEDS, pictures=tcav_pictures, lines=tcav_lines)
