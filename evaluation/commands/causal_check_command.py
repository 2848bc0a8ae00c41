"""``candlelight evaluate causal-check``: do explanations point at the regions that predictions depend on?"""

from pathlib import Path
from typing import Any

import click

from candlelight.evaluation.commands.evaluate_options import (
    check_outputs,
    choose_device,
    end_steps,
    model_option,
    open_steps,
    run_options,
    show_results,
    size_option,
)
from candlelight.evaluation.commands.explanation_options import (
    ExplanationOptions,
    explanation_options,
    fit_classifiers,
)
from candlelight.loaders.errors import InputError


@click.command("causal-check")
@click.argument("data")
@click.option("--set", "set_name", help="Set of the original frames.  [default: all with counterfactuals]")
@click.option("--split", help="Split of the data; needed if there are several.")
@click.option("--limit", type=click.IntRange(1), help="Use only the first N original frames of each set.")
@model_option
@explanation_options
@click.option(
    "--scale",
    type=click.Choice(["probability", "logit"]),
    default="probability",
    show_default=True,
    help="Effects are changes of the predicted class's probability or logit.",
)
@click.option(
    "--pixels",
    type=click.Choice(["all", "region"]),
    default="all",
    show_default=True,
    help="Show the classifier whole counterfactuals, or only the changed region of them.",
)
@click.option(
    "--k", type=click.IntRange(1), default=1, show_default=True, help="Number of maps that are merged."
)
@click.option(
    "--proportion",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Share of the points that are marked, for the shares of the regions.",
)
@size_option
@run_options
def causal_check(
    data: str,
    set_name: str | None,
    split: str | None,
    limit: int | None,
    models: tuple[str, ...],
    explanations: ExplanationOptions,
    scale: Any,
    pixels: Any,
    k: int,
    proportion: float,
    size: tuple[int, int] | None,
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
) -> None:
    """Compare explanation methods by whether they point at the regions on which predictions depend.

    DATA are frames with counterfactuals in which one part, or the background, was changed: recipe
    parts-recoloured. The methods learn concepts on the images of --fit.

    \b
    candlelight render parts-recoloured --out recoloured
    candlelight evaluate causal-check recoloured --model kinds.pt --method all --fit parts --out check.json
    """
    from candlelight.evaluation.commands.run_coverage import coverage_lines
    from candlelight.evaluation.coverage import CONTROLS, MASK_CONTROLS, score_causal_check
    from candlelight.evaluation.coverage.causal_check_report import causal_check_pictures
    from candlelight.evaluation.coverage.score_causal_check import METRIC
    from candlelight.evaluation.report.page import write_report
    from candlelight.evaluation.views import open_data

    if not explanations.method or explanations.fit is None:
        raise InputError("give a --method, and the images on which methods learn concepts (--fit)")
    explanations.check_unused()
    check_outputs(out, page)
    steps = open_steps(out)
    chosen = choose_device(device)
    view = open_data("counterfactuals", data, set_name=set_name, split=split, limit=limit)
    calls: list[list[Any]] = []
    pictures: dict[Any, list[Any]] = {}  # by size: a page has a section for each
    for one in fit_classifiers(data, models, explanations, None, size, steps, chosen):
        name, network = one.named.identity.name, one.named.model
        methods: dict[str, Any] = {**one.methods}
        methods |= {f"{name} {control}": CONTROLS[control] for control in ("noise", "centre")}
        methods |= {f"{name} {control}": MASK_CONTROLS[control] for control in ("object", "part areas")}
        # A prototype network explains its own predictions.
        networks = {
            key: getattr(getattr(some, "model", some), "classifier", network) for key, some in methods.items()
        }
        found = score_causal_check(
            methods,
            networks,
            view,
            labels=one.known_class_numbers(view.factor_values(one.label)),
            scale=scale,
            pixels=pixels,
            k=k,
            proportion=proportion,
            size=one.size,
            device=chosen,
        )
        calls.append(list(found.values()))
        if page:
            pictures.setdefault(one.size, []).extend(
                causal_check_pictures(found, methods, networks, view, classes=one.classes, device=chosen)
            )
    results = [result for call in calls for result in call]
    show_results(results, out, coverage_lines(calls))
    if page:
        keys = (METRIC, *(f"{METRIC}-{number}" for number in range(2, len(pictures) + 1)))
        shown = dict(zip(keys, pictures.values(), strict=True))
        click.echo(str(write_report(page, results, title="Causal check", pictures=shown)))
    end_steps(steps)
