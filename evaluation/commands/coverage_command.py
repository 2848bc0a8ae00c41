"""``candlelight evaluate coverage``: WAIoU of explanation methods, hidden layers and files of heatmaps."""

from pathlib import Path
from typing import Any

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
    open_layers,
    open_steps,
    run_options,
    show_results,
    size_option,
)
from candlelight.evaluation.commands.explanation_options import ExplanationOptions, explanation_options
from candlelight.loaders.errors import InputError

_PROPORTIONS = "0.01,0.02,0.03,0.04,0.05,0.06,0.07,0.08,0.09,0.1"


@click.command()
@data_options
@model_option
@files_option("--heatmaps", "Folder of files with the heatmaps of each image")
@missing_option
@click.option("--layer", multiple=True, help="Hidden layer whose channels are the heatmaps; repeatable.")
@click.option(
    "--by",
    type=click.Choice(["type", "part"]),
    help="Compare the heatmaps with masks of objects by type, or with masks of named parts.  "
    "[default: type for rendered data, part for public data sets and with --method]",
)
@explanation_options
@click.option(
    "--k", type=click.IntRange(1), default=1, show_default=True, help="Number of maps that are merged."
)
@click.option(
    "--rank",
    type=click.Choice(["sum", "score"]),
    default="sum",
    show_default=True,
    help="Strength of a map: its sum, as in the paper, or the method's own score.",
)
@click.option(
    "--proportions",
    default=_PROPORTIONS,
    show_default=True,
    help="Shares of the points to mark, separated by commas.",
)
@click.option(
    "--choose",
    type=click.Choice(["others", "same"]),
    default="others",
    show_default=True,
    help="Choose the best share on other images than those it scores, or as in the paper on the same.",
)
@click.option(
    "--pooling",
    type=click.Choice(["set", "image"]),
    default="set",
    show_default=True,
    help="Thresholds over all heatmaps of the same concepts (SetHM), or of each heatmap (IndivHM).",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Only IoUs above this count in WAIoU.",
)
@click.option(
    "--threshold-at",
    type=click.Choice(["mask", "map"]),
    default="mask",
    show_default=True,
    help="Compute thresholds after or before heatmaps are resized to the masks.",
)
@click.option(
    "--compat",
    type=click.Choice(["exact", "waiou2023"]),
    default="exact",
    show_default=True,
    help="Leave points at the minimum of a heatmap unmarked, or follow the paper's rule.",
)
@click.option(
    "--reduce",
    type=click.Choice(["mean", "sum"]),
    default="mean",
    show_default=True,
    help="WAIoU of all parts: their mean or sum.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Omit controls, Network Dissection, and the scores with other values of these options.",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the tables and the points of the figures of the WAIoU paper, as CSV files.",
)
@size_option
@run_options
def coverage(
    data: str,
    models: tuple[str, ...],
    files: tuple[str, ...],
    missing: Any,
    layer: tuple[str, ...],
    by: Any,
    explanations: ExplanationOptions,
    k: int,
    rank: Any,
    proportions: str,
    choose: Any,
    pooling: Any,
    threshold: float,
    threshold_at: Any,
    compat: Any,
    reduce: Any,
    quick: bool,
    tables: Path | None,
    size: tuple[int, int] | None,
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
    **choice: Any,
) -> None:
    """Measure how well heatmaps cover objects or their parts: WAIoU.

    The heatmaps are explanations of a classifier (--method), the channels of hidden layers (--layer), or
    files of another program: <id>.npy, .npz or .png.

    \b
    candlelight train classifier parts --label kind --validation 0.25 --out kinds.pt
    candlelight evaluate coverage parts --model kinds.pt --method all --out waiou.json --report waiou.html
    candlelight evaluate coverage demo/frames --set candle --model demo/study/network.pt \\
        --layer encoder.1 --layer encoder.2
    candlelight evaluate coverage celebamask:CelebAMask-HQ --split test --size 224 224 --heatmaps cam=maps
    """
    from candlelight.evaluation.commands.run_coverage import (
        CoverageComparison,
        coverage_lines,
        open_comparisons,
    )
    from candlelight.evaluation.coverage import (
        CONTROLS,
        MASK_CONTROLS,
        OpenParameters,
        layer_heatmaps,
        score_coverage,
        write_coverage_tables,
    )
    from candlelight.evaluation.coverage.coverage_pictures import coverage_pictures, learned_concepts
    from candlelight.evaluation.coverage.score_coverage import METRIC
    from candlelight.evaluation.report.page import write_report
    from candlelight.evaluation.run.predictions import open_heatmaps
    from candlelight.evaluation.views import LAYOUTS, open_data, parse_data

    parameters = OpenParameters(
        k, rank, _parse_proportions(proportions), choose, pooling, threshold_at, compat, threshold, reduce
    )
    check_outputs(out, page)
    check_needed(files, missing=missing)
    explanations.check_unused()
    steps = open_steps(out)
    chosen = choose_device(device)
    explains = bool(explanations.method)
    others: Any = open_layers(models, layer, chosen, layer_heatmaps) if layer or not explains else {}
    by = by or ("part" if explains or parse_data(data).layout in LAYOUTS else "type")
    if explains:
        comparisons = open_comparisons(
            data, models, explanations, steps, by=by, size=size, device=chosen, choice=choice
        )
    else:
        comparisons = [CoverageComparison(open_data("parts", data, by=by, **choice), {}, size)]
    masked = {name: MASK_CONTROLS[name] for name in ("object", "exact parts")}
    results: list[Any] = []
    pictures: dict[str, Any] = {}
    for number, one in enumerate(comparisons, start=1):
        methods = open_files(files, {**one.methods, **others}, open_heatmaps)
        scored = score_coverage(
            methods,
            one.view,
            parameters,
            controls={} if quick else {**CONTROLS, **masked},
            labels=one.labels,
            sensitivity=not quick,
            dissect=not quick,
            size=one.size,
            missing=missing,
            device=chosen,
            steps=steps,
        )
        found = one.described(scored)
        results.append(list(found.values()))
        if page:
            section = METRIC if number == 1 else f"{METRIC}-{number}"
            pictures[section] = coverage_pictures(found, methods, one.view, size=one.size, device=chosen)
            if fitted := one.fitted:
                pictures[section] += learned_concepts(fitted.methods, fitted.training, fitted.classes)
    every = [result for found in results for result in found]
    show_results(every, out, coverage_lines(results))
    for path in write_coverage_tables(tables, every) if tables else ():
        click.echo(str(path))
    if page:
        click.echo(str(write_report(page, every, title="Coverage", pictures=pictures)))
    end_steps(steps)


def _parse_proportions(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas.

    Example:
        >>> _parse_proportions("0.01,0.1")
        (0.01, 0.1)
    """
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        raise InputError(f"--proportions {text}: expected numbers such as 0.01,0.05") from None
