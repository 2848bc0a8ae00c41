"""``candlelight evaluate intrinsic``: scores of reflectance and shading, and the benchmark of 2009."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from candlelight.evaluation.commands.evaluate_options import (
    check_needed,
    check_outputs,
    choose_device,
    data_options,
    end_steps,
    files_option,
    missing_option,
    model_option,
    open_files,
    open_steps,
    run_options,
    show_page,
    show_results,
)
from candlelight.evaluation.commands.run_methods import (
    method_names,
    needs_lights,
    rank_results,
    run_benchmark,
)
from candlelight.evaluation.commands.run_protocols import (
    check_protocol_options,
    protocol_names,
    run_protocols,
)
from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from candlelight.evaluation.report.blocks import Block
    from candlelight.evaluation.run.result import MeanResult, Result

_SCORES = ("lmse", "whdr", "saw", "maw", "constancy")
_SCORE_OF_LAYOUT = {"iiw": "whdr", "saw": "saw", "maw": "maw", "multi-illumination": "constancy"}
_ONLY_FOR = {
    "methods": ("lmse",),
    "leave_edges": ("lmse",),
    "image": ("lmse",),
    "threshold": ("whdr",),
    "saw_variant": ("saw",),
    "longest": ("maw", "constancy"),
}
_SAW_VARIANTS = ("kovacs2017", "cgintrinsics2018", "challenge2018")


@click.command()
@data_options
@model_option
@files_option("--predictions", "Folder of files with the reflectance and shading of each image")
@click.option("--png", type=click.Choice(["srgb", "linear"]), help="Transfer curve of PNG predictions.")
@missing_option
@click.option(
    "--score",
    type=click.Choice(_SCORES),
    help="Errors against the truth (lmse), comparisons of reflectance (whdr), labels of shading (saw), mean "
    "colours of materials (maw), or their constancy over lights (constancy); the last four are made of the "
    "truth for rendered data.  [default: by the layout of DATA; lmse for rendered data]",
)
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    metavar="NAME",
    help="Evaluation protocol that sets all choices, such as mit-grosse or iiw-whdr; repeatable or "
    "comma-separated; `all` runs every one that fits DATA (docs/protocols.md).",
)
@click.option(
    "--threshold", type=click.FloatRange(0), default=0.1, show_default=True, help="Threshold of whdr."
)
@click.option(
    "--saw-variant",
    type=click.Choice(_SAW_VARIANTS),
    default="challenge2018",
    show_default=True,
    help="Published variant of saw.",
)
@click.option(
    "--longest",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="For maw and constancy: longer side in pixels to which larger photographs are scaled down.",
)
@click.option(
    "--leave-edges",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="For lmse on rendered data: leave out pixels as near as this to an edge between objects.",
)
@click.option(
    "--methods",
    help="Methods of the benchmark of Grosse et al. 2009 to run on DATA: `all`, or some of BAS, GR-RET, "
    "COL-RET, W, W+RET, TAP-05, TAP-06, comma-separated; W and W+RET need images under several lights.",
)
@click.option("--l1", is_flag=True, help="With --methods: integrate gradients with p = 1 too.")
@click.option(
    "--input",
    "image",
    type=click.Choice(["diffuse", "original"]),
    default="diffuse",
    show_default=True,
    help="Image of MIT Intrinsic Images that is decomposed: without or with highlights.",
)
@run_options
def intrinsic(
    data: str,
    models: tuple[str, ...],
    files: tuple[str, ...],
    png: Any,
    missing: Any,
    score: str | None,
    protocols: tuple[str, ...],
    threshold: float,
    saw_variant: Any,
    longest: int,
    leave_edges: int,
    methods: str | None,
    l1: bool,
    image: Any,
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
    **choice: Any,
) -> None:
    """Measure reflectance and shading: LMSE, si-MSE, MSE, WHDR, SAW, MAW and constancy.

    A folder of predictions holds <id>.npz with the arrays reflectance and shading, or reflectance/<id>.EXT
    and shading/<id>.EXT, where EXT is npy, exr or png.

    \b
    candlelight evaluate intrinsic demo/frames --set tabletop_test --model retinex
    candlelight evaluate intrinsic demo/frames --set tabletop_test --model retinex --score whdr
    candlelight evaluate intrinsic iiw:iiw-dataset --split test --model retinex --out whdr.json
    candlelight evaluate intrinsic mit:MIT-intrinsic --split grosse --model retinex --model constant-shading
    candlelight evaluate intrinsic demo/hub --set tabletop_test --split train --predictions mine=results
    candlelight evaluate intrinsic mit:MIT-intrinsic --split grosse --methods all --report benchmark.html
    candlelight evaluate intrinsic demo/frames --set tabletop_test --model retinex --protocol all
    """
    from candlelight.evaluation.models import open_models
    from candlelight.evaluation.run.predictions import open_predictions
    from candlelight.evaluation.views import parse_data

    names = protocol_names(protocols)
    check_protocol_options(protocols, names, out)
    score = score or _SCORE_OF_LAYOUT.get(parse_data(data).layout, "lmse")
    check_outputs(out, page)
    steps = open_steps(out)
    check_needed(files, png=png, missing=missing)
    _check_together(score, methods, l1)
    chosen = choose_device(device)
    opened = open_models(models, chosen)
    sources = open_files(files, opened, lambda path: open_predictions(path, png), needed=methods is None)
    run: dict[str, Any] = {"device": chosen, "missing": missing, "steps": steps}
    if protocols:
        run_protocols(names, sources, data, choice, longest, run, out, page)
        end_steps(steps)
        return
    pictures: Sequence[Block] = ()
    results: Mapping[str, Result]
    if score == "lmse":
        choice |= {"image": image, "leave_edges": leave_edges}
        results, pictures = _score_errors(sources, data, choice, methods, l1, page is not None, run)
    elif score in ("whdr", "saw"):
        settings = {"threshold": threshold} if score == "whdr" else {"variant": saw_variant}
        results = _score_judgements(score, sources, data, choice, run | settings)
    else:
        results = _score_regions(score, sources, data, choice | {"longest": longest}, run)
    shown, lines = (list(results.values()), None) if methods is None else rank_results(results)
    show_results(shown, out, lines)
    if page:
        show_page(page, shown, pictures)
    end_steps(steps)


def _check_together(score: str, methods: str | None, l1: bool) -> None:
    """Refuse options that have no effect beside the others."""
    if l1 and methods is None:
        raise InputError("--l1: needs --methods")
    context = click.get_current_context()
    for parameter, scores in _ONLY_FOR.items():
        given = context.get_parameter_source(parameter) is click.core.ParameterSource.COMMANDLINE
        if given and score not in scores:
            flag = "--" + {"image": "input"}.get(parameter, parameter).replace("_", "-")
            raise InputError(f"{flag}: only for --score {' or '.join(scores)}, got `{score}`")


def _score_errors(
    sources: Mapping[str, Any],
    data: str,
    choice: dict[str, Any],
    methods: str | None,
    l1: bool,
    has_page: bool,
    run: dict[str, Any],
) -> "tuple[Mapping[str, MeanResult], Sequence[Block]]":
    """Score errors against the truth of models and of methods of the benchmark, with pictures for a page."""
    from candlelight.evaluation.intrinsic import score_intrinsic
    from candlelight.evaluation.models.model_spec import NamedModel
    from candlelight.evaluation.run.model_outputs import has_parameter
    from candlelight.evaluation.views import open_data

    names = () if methods is None else method_names(methods)
    models = [one.model for one in sources.values() if isinstance(one, NamedModel)]
    lights = needs_lights(names) or any(has_parameter(model, "lights") for model in models)
    view = open_data("decompositions", data, **choice, lights=lights)
    benchmark = run_benchmark(names, view, sources, l1, run["steps"]) if names else None
    results = dict(benchmark.results) if benchmark else {}
    if sources:
        results |= score_intrinsic(sources, view, **run)
    if not has_page:
        return results, ()
    from candlelight.evaluation.intrinsic.intrinsic_report import intrinsic_pictures

    decompose = benchmark.decompose if benchmark else None
    return results, intrinsic_pictures(results, sources, view, device=run["device"], decompose=decompose)


def _score_judgements(
    score: str, sources: Mapping[str, Any], data: str, choice: dict[str, Any], run: dict[str, Any]
) -> "Mapping[str, Result]":
    from candlelight.evaluation.intrinsic import score_saw, score_whdr
    from candlelight.evaluation.views import open_data

    view = open_data("judgements", data, **choice)
    return score_whdr(sources, view, **run) if score == "whdr" else score_saw(sources, view, **run)


def _score_regions(
    score: str, sources: Mapping[str, Any], data: str, choice: dict[str, Any], run: dict[str, Any]
) -> "Mapping[str, Result]":
    from candlelight.evaluation.intrinsic import score_constancy, score_maw
    from candlelight.evaluation.views import open_data

    view = open_data("regions", data, **choice)
    return score_maw(sources, view, **run) if score == "maw" else score_constancy(sources, view, **run)
