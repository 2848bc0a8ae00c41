"""The commands of ``candlelight evaluate``; each imports heavy modules inside its function."""

from pathlib import Path
from typing import Any

import click

from evaluation.commands.causal_check_command import causal_check
from evaluation.commands.concepts_command import concepts
from evaluation.commands.coverage_command import coverage
from evaluation.commands.evaluate_options import (
    check_outputs,
    choose_device,
    data_options,
    end_steps,
    files_option,
    model_option,
    open_files,
    open_layers,
    open_steps,
    run_options,
    show_page,
    show_results,
)
from evaluation.commands.intrinsic_command import intrinsic
from evaluation.commands.result_commands import compare_command, report


@click.group()
def evaluate() -> None:
    """Score models, or result files of other programs, on image sets with ground truth.

    DATA is a folder of frames or a pack (PATH), a public data set (LAYOUT:PATH, such as mit:MIT-intrinsic),
    or a data set of the Hugging Face Hub (hf:NAME).

    \b
    candlelight evaluate intrinsic demo/frames --set tabletop_test --model retinex --out lmse.json
    candlelight evaluate concepts demo/frames --set tabletop_test --model retinex --out csm.json
    candlelight evaluate report lmse.json csm.json --out report.html
    """


@evaluate.command()
@data_options
@model_option
@files_option("--codes", "File (.npz, .parquet or .npy) with the codes of all images")
@click.option("--layer", multiple=True, help="Hidden layer whose channel means are the codes; repeatable.")
@run_options
def causal(
    data: str,
    models: tuple[str, ...],
    files: tuple[str, ...],
    layer: tuple[str, ...],
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
    **choice: Any,
) -> None:
    """Measure how codes represent the factors of images: IRS and unconfoundedness.

    \b
    candlelight evaluate causal demo/frames --set candle --model demo/study/network.pt --layer encoder.3
    candlelight evaluate causal dsprites:dsprites --rows 0:5000 --codes vae=codes.npz
    """
    from evaluation.causal import layer_codes, score_causal
    from evaluation.inputs.predictions import open_codes
    from loaders.views import open_factors

    check_outputs(out, page)
    steps = open_steps(out)
    chosen = choose_device(device)
    encoders = open_files(files, open_layers(models, layer, chosen, layer_codes), open_codes)
    view = open_factors(data, **choice)
    results = score_causal(encoders, view, device=chosen, steps=steps)
    show_results(list(results.values()), out)
    if page:
        from evaluation.report.causal_pictures import causal_pictures

        show_page(page, list(results.values()), causal_pictures(view))
    end_steps(steps)


evaluate.add_command(causal_check)
evaluate.add_command(concepts)
evaluate.add_command(coverage)
evaluate.add_command(intrinsic)
evaluate.add_command(report)
evaluate.add_command(compare_command)
