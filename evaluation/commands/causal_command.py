"""The command ``candlelight evaluate causal``; it imports heavy modules inside its function."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from candlelight.evaluation.commands.evaluate_options import (
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

if TYPE_CHECKING:
    from candlelight.evaluation.views import Factors


@click.command()
@data_options
@model_option
@files_option("--codes", "File (.npz, .parquet or .npy) with the codes of all images")
@click.option("--layer", multiple=True, help="Hidden layer whose channel means are the codes; repeatable.")
@click.option("--factors", help="Factors by name, such as object_type,color,size.  [default: all that vary]")
@click.option(
    "--selection",
    metavar="NAME[:STRENGTH]",
    help="Of a full grid, keep the images of a paper's confounded set: candle-published, candle-color, "
    "candle-size, dsprites or mpi3d; a STRENGTH below 1 keeps more.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="irs, unconfoundedness, mig, modularity, infomec, minimality, sap, explicitness, mcc, r2, t_mex, "
    "dci_es, dci_fast, dci or all; repeatable. `dci`, scikit-learn's gradient boosting for at most 10 codes, "
    "takes minutes.  [default: all but dci]",
)
@click.option(
    "--controls/--no-controls",
    default=True,
    show_default=True,
    help="Score random codes, the factors themselves, and codes of a small supervised network, trained here.",
)
@click.option(
    "--counterfactuals",
    metavar="SOURCE",
    help="Images among which rendered counterfactuals are found, for models with a decoder: a set of DATA, a "
    "path, or PATH:SET.  [default: DATA, before --selection]",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    help="Side in pixels of the squares to which images are resized, such as 64 for a model of that size.",
)
@click.option(
    "--baseline",
    type=click.Choice(["farthest", "mean", "zero"]),
    default="farthest",
    show_default=True,
    help="Value that interventions give to the codes of a model with a decoder.",
)
@click.option(
    "--bins", type=click.IntRange(2), default=20, show_default=True, help="Classes of a continuous factor."
)
@click.option(
    "--splits",
    type=click.IntRange(2),
    default=5,
    show_default=True,
    help="Random halves of the images for metrics that fit something.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of all draws."
)
@run_options
def causal(
    data: str,
    models: tuple[str, ...],
    files: tuple[str, ...],
    layer: tuple[str, ...],
    factors: str | None,
    selection: str | None,
    metrics: tuple[str, ...],
    controls: bool,
    counterfactuals: str | None,
    size: int | None,
    baseline: Any,
    bins: int,
    splits: int,
    seed: int,
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
    **choice: Any,
) -> None:
    """Measure how codes represent the factors of images, with random and supervised codes beside.

    Models with a method ``decode`` have counterfactual generativeness, and decoded against rendered
    counterfactuals, as well. Names NAME#1, NAME#2 are seeds of one method, whose mean and interval over seeds
    are printed too.

    \b
    candlelight evaluate causal demo/frames --set candle --model demo/study/network.pt --layer encoder.3
    candlelight evaluate causal demo/frames --set candle --factors color,lights --codes codes.npz --metric irs
    candlelight evaluate causal frames --set candle --selection candle-color:0.9 --model vae.pt
    candlelight evaluate causal dsprites:dsprites --rows 0:5000 --codes vae#0=a.npz --codes vae#1=b.npz
    """
    from candlelight.evaluation.causal import layer_codes, score_causal
    from candlelight.evaluation.causal.factor_table import ResizedFactors
    from candlelight.evaluation.causal.measure_codes import metric_names
    from candlelight.evaluation.run.predictions import open_codes
    from candlelight.evaluation.run.result import score_grid
    from candlelight.evaluation.views import open_data, open_secondary
    from candlelight.loaders.errors import InputError

    if counterfactuals and not models:
        raise InputError("--counterfactuals: needs a model with a method `decode` (--model), not codes alone")
    check_outputs(out, page)
    steps = open_steps(out)
    chosen = choose_device(device)
    encoders = open_files(files, open_layers(models, layer, chosen, layer_codes), open_codes)
    view: Factors = open_data("factors", data, **choice)
    others: Factors | None = open_secondary("factors", data, counterfactuals) if counterfactuals else None
    if selection:
        others = others or view
        view = open_data("factors", data, **choice | {"rows": select_confounded(view, selection, choice)})
    if size is not None:
        view, others = ResizedFactors(view, size), others and ResizedFactors(others, size)
    found = score_causal(
        encoders,
        view,
        [name.strip() for name in factors.split(",")] if factors else (),
        metrics=metric_names(metrics),
        controls=controls,
        counterfactuals=others,
        baseline=baseline,
        bins=bins,
        splits=splits,
        seed=seed,
        device=chosen,
        steps=steps,
    )
    results = list(found.values())
    show_results(results, out, score_grid(results))
    if page:
        from candlelight.evaluation.causal.causal_report import (
            causal_pictures,
            rendered_pictures,
            traversal_pictures,
        )

        pictures = rendered_pictures(encoders, found, view, others or view, chosen)
        pictures += [*traversal_pictures(encoders, view, chosen), *causal_pictures(view)]
        show_page(page, results, pictures)
    end_steps(steps)


def select_confounded(view: "Factors", selection: str, choice: Mapping[str, Any]) -> list[int]:
    """Choose the rows of a confounded selection."""
    from candlelight.loaders import FactorIndex, select_preset
    from candlelight.loaders.errors import InputError

    if choice["rows"] is not None or choice["limit"] is not None:
        raise InputError("--selection: chooses the rows itself; omit --rows and --limit")
    name, _, text = selection.partition(":")
    try:
        strength = float(text or 1)
    except ValueError:
        raise InputError(f"--selection {selection}: expected a strength in [0, 1], got `{text}`") from None
    index = FactorIndex.from_table(view.factors, view.table)
    return select_preset(index, name, strength=strength).rows.tolist()
