"""``candlelight evaluate concepts``: CSM_S and CSM_R."""

from pathlib import Path
from typing import Any

import click

from evaluation.commands.evaluate_options import (
    check_outputs,
    choose_device,
    data_options,
    end_steps,
    files_option,
    model_option,
    open_files,
    open_secondary,
    open_steps,
    run_options,
    show_page,
    show_results,
    size_option,
)
from loaders.errors import InputError

_CLASSIFIERS = ("svm", "logistic", "ridge", "mean", "sgd")
_SECONDARY = "SET (of DATA), PATH[:SET[:SPLIT]] or LAYOUT:PATH[:SPLIT]"


@click.command()
@data_options
@model_option
@files_option("--predictions", "Folder of files with the reflectance and shading of each image")
@click.option("--png", type=click.Choice(["srgb", "linear"]), help="Transfer curve of PNG predictions.")
@click.option(
    "--albedo",
    default="albedo",
    show_default=True,
    help=f"Concept sets in which only albedo varies: {_SECONDARY}; `none` skips CSM_S.",
)
@click.option(
    "--illumination",
    default="illumination",
    show_default=True,
    help=f"Concept sets in which only illumination varies: {_SECONDARY}; `none` skips CSM_R.",
)
@click.option(
    "--negatives",
    default="negatives",
    show_default=True,
    help=f"Unrelated images: {_SECONDARY}, a folder of images, or hf:NAME.",
)
@click.option(
    "--negatives-limit",
    type=click.IntRange(4),
    default=500,
    show_default=True,
    help="Use only the first N negatives.",
)
@size_option
@click.option(
    "--layer",
    multiple=True,
    help="Hidden layer to read; give it twice for one layer of reflectance and one of shading.  "
    "[default: the output]",
)
@click.option(
    "--runs",
    type=click.IntRange(2),
    default=100,
    show_default=True,
    help="Concept activation vectors per concept set.",
)
@click.option(
    "--classifier",
    type=click.Choice(_CLASSIFIERS),
    default=_CLASSIFIERS[0],
    show_default=True,
    help="Classifier whose normal is the vector (docs/concepts.md).",
)
@click.option(
    "--regularisation",
    type=click.FloatRange(0, min_open=True),
    default=0.01,
    show_default=True,
    help="Penalty of the vector, relative to the mean squared distance of activations from their mean.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random draws.")
@run_options
def concepts(
    data: str,
    models: tuple[str, ...],
    files: tuple[str, ...],
    png: Any,
    albedo: str,
    illumination: str,
    negatives: str,
    negatives_limit: int,
    size: tuple[int, int] | None,
    layer: tuple[str, ...],
    runs: int,
    classifier: Any,
    regularisation: float,
    seed: int,
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
    **choice: Any,
) -> None:
    """Measure whether reflectance follows albedo and shading follows illumination: CSM_S and CSM_R.

    --set names the test frames; the gradients of the loss are computed on them. Their ground truth is needed.

    \b
    candlelight evaluate concepts demo/frames --set tabletop_test --model retinex
    candlelight evaluate concepts demo/frames --set tabletop_test --model retinex --classifier mean --runs 50
    candlelight evaluate concepts demo/frames --set tabletop_test --model demo/study/network.pt \\
        --layer reflectance.blocks.2 --layer shading.blocks.2
    """
    from evaluation.concepts import score_concepts
    from evaluation.inputs.predictions import open_predictions
    from evaluation.models import open_models
    from loaders.views import open_concepts, open_decompositions, open_images

    if len(layer) > 2:
        raise InputError("--layer: expected one name, or two (reflectance, then shading)")
    check_outputs(out, page)
    steps = open_steps(out)
    chosen = choose_device(device)
    sources = open_files(files, open_models(models, chosen), lambda path: open_predictions(path, png))
    test = open_decompositions(data, **choice)
    albedo_sets, illumination_sets = (
        None if name == "none" else open_secondary(open_concepts, data, name)
        for name in (albedo, illumination)
    )
    # A folder of images is resized to the test frames; rendered data keep their size.
    image_size = size or tuple(test[0].image.shape[1:])
    unrelated = open_secondary(open_images, data, negatives, limit=negatives_limit, size=image_size)
    hidden = None if not layer else layer[0] if len(layer) == 1 else (layer[0], layer[1])
    results = score_concepts(
        sources,
        albedo_sets,
        illumination_sets,
        unrelated,
        test,
        layer=hidden,
        runs=runs,
        seed=seed,
        classifier=classifier,
        regularisation=regularisation,
        size=size,
        device=chosen,
        steps=steps,
    )
    show_results(list(results.values()), out)
    if page:
        from evaluation.report.concepts_pictures import concepts_pictures

        pictures = concepts_pictures(
            albedo_sets,
            illumination_sets,
            results,
            sources,
            others=(unrelated, test),
            size=size,
            device=chosen,
        )
        show_page(page, list(results.values()), pictures)
    end_steps(steps)
