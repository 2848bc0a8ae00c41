"""``candlelight evaluate concepts``: CSM_S and CSM_R, or TCAV with ``--target``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    model_option,
    open_files,
    open_steps,
    run_options,
    show_page,
    show_results,
    size_option,
    split_pairs,
)
from candlelight.evaluation.commands.run_tcav import check_tcav_options, run_tcav
from candlelight.loaders.errors import InputError

_CLASSIFIERS = ("svm", "logistic", "ridge", "mean", "sgd")
_SECONDARY = "SET (of DATA), PATH[:SET[:SPLIT]] or LAYOUT:PATH[:SPLIT]"


@click.command()
@data_options
@model_option
@click.option(
    "--target",
    help="Score TCAV in place of CSM: the number of a network's output that concepts may move, logit:K, norm "
    "or FILE.py:FUNCTION; with loss: before it, lower is better.",
)
@click.option(
    "--concept",
    "named_concepts",
    multiple=True,
    metavar="NAME=SOURCE",
    help=f"Images of one concept, for --target: {_SECONDARY}, or a folder of images; repeatable.",
)
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
@click.option(
    "--control",
    "controls",
    multiple=True,
    metavar="CONCEPT=SOURCE",
    help="Sets of the same scenes in which neither concept varies, for CONCEPT albedo or illumination: "
    f"{_SECONDARY}. Scores against them stand beside those against the negatives. With --target: images "
    "without a concept, for its permutation test.",
)
@click.option(
    "--groups",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="With --target: table with the columns picture,group, the scene or object that each picture in a "
    "folder of a --control or of its concept shows; paths are relative to FILE.csv. The permutation test "
    "exchanges groups as a whole, and pictures within groups of both.  [default: pictures are independent]",
)
@click.option(
    "--planted",
    is_flag=True,
    help="Score decompositions with known faults beside the models, made of the ground truth of all images.",
)
@size_option
@click.option(
    "--layer",
    multiple=True,
    metavar="NAME",
    help="Hidden layer to read, or REFLECTANCE,SHADING for one of each branch; several are scored one after "
    "the other.  [default: the output]",
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
@click.option(
    "--significance",
    type=click.Choice(["t-test", "permutation"]),
    default="t-test",
    show_default=True,
    help="Test that decides whether a set is significant: the paper's, which finds far too much, or "
    "exchanges of images (docs/concepts.md). The result has the p-values of both.",
)
@click.option(
    "--permutations",
    type=click.IntRange(2),
    default=999,
    show_default=True,
    help="Exchanges of images in the permutation test; the smallest p-value is 1 / (N + 1).",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random draws.")
@run_options
def concepts(
    data: str,
    models: tuple[str, ...],
    target: str | None,
    named_concepts: tuple[str, ...],
    files: tuple[str, ...],
    png: Any,
    albedo: str,
    illumination: str,
    negatives: str,
    negatives_limit: int,
    controls: tuple[str, ...],
    groups: Path | None,
    planted: bool,
    size: tuple[int, int] | None,
    layer: tuple[str, ...],
    runs: int,
    classifier: Any,
    regularisation: float,
    significance: Any,
    permutations: int,
    seed: int,
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
    **choice: Any,
) -> None:
    """Measure whether reflectance follows albedo and shading follows illumination: CSM_S and CSM_R.

    --set names the test frames; the gradients of the loss are computed on them. Their ground truth is needed.

    With --target: measure how concepts of your own move the output of any network, TCAV. The images of --set
    need no ground truth.

    \b
    candlelight evaluate concepts demo/frames --set tabletop_test --model retinex
    candlelight evaluate concepts demo/frames --set tabletop_test --model retinex --classifier mean --runs 50
    candlelight evaluate concepts demo/frames --set tabletop_test --model retinex \\
        --significance permutation --control albedo=controls:albedo_pose \\
        --control illumination=controls:illumination_pose
    candlelight evaluate concepts demo/frames --set tabletop_test --model demo/study/network.pt \\
        --layer reflectance.blocks.1,shading.blocks.1 --layer reflectance.blocks.2,shading.blocks.2
    candlelight evaluate concepts demo/frames --set candle --model colours.py:trained --target logit:0 \\
        --layer features.1 --layer features.3 --concept red=pictures/red --concept blue=pictures/blue
    """
    check_tcav_options(target, named_concepts, layer, controls, groups)
    fitting: dict[str, Any] = {
        "runs": runs,
        "seed": seed,
        "classifier": classifier,
        "regularisation": regularisation,
        "permutations": permutations,
    }
    control_sources = split_pairs(controls, "--control")
    if target is not None:
        run_tcav(
            data,
            models,
            target,
            split_pairs(named_concepts, "--concept"),
            control_sources,
            groups,
            negatives,
            negatives_limit,
            size,
            layer,
            out,
            page,
            device,
            choice,
            **fitting,
        )
        return
    from candlelight.evaluation.concepts import planted_decompositions, score_concepts
    from candlelight.evaluation.concepts.csm import csm_lines
    from candlelight.evaluation.models import open_models
    from candlelight.evaluation.run.predictions import open_predictions
    from candlelight.evaluation.run.result import table
    from candlelight.evaluation.views import open_data, open_secondary

    check_needed(files, png=png)
    places = _split_layers(layer)
    if layer and (files or planted):
        option = "files of --predictions" if files else "decompositions of --planted"
        raise InputError(f"--layer: {option} have no hidden layers; omit one of the two")
    if planted and size:
        raise InputError("--planted: decompositions are scored at their own size; omit --size")
    check_outputs(out, page)
    steps = open_steps(out)
    chosen = choose_device(device)
    sources = open_files(files, open_models(models, chosen), lambda path: open_predictions(path, png))
    test = open_data("decompositions", data, **choice)
    albedo_sets, illumination_sets = (
        None if name == "none" else open_secondary("concepts", data, name) for name in (albedo, illumination)
    )
    control_sets: Any = {
        name: open_secondary("concepts", data, source) for name, source in control_sources.items()
    }
    # A folder of images is resized to the test frames; rendered data keep their size.
    image_size = size or tuple(test[0].image.shape[1:])
    unrelated = open_secondary("images", data, negatives, limit=negatives_limit, size=image_size)
    if planted:
        views = [test]
        for name in dict.fromkeys((albedo, illumination, negatives, *control_sources.values())):
            limit = negatives_limit if name == negatives else None
            try:
                views += [] if name == "none" else [open_secondary("decompositions", data, name, limit=limit)]
            except InputError as error:
                raise InputError(f"--planted: needs the ground truth of all images: {error}") from error
        sources |= planted_decompositions(views)
    results: dict[str, Any] = {}
    scored: dict[str, Any] = {}
    for text, place in places.items():
        named = _named_by_layer(sources, text) if len(places) > 1 else sources
        scored |= named
        results |= score_concepts(
            named,
            albedo_sets,
            illumination_sets,
            unrelated,
            test,
            controls=control_sets,
            layer=place,
            **fitting,
            significance=significance,
            size=size,
            device=chosen,
            steps=steps,
        )
    scores = list(results.values())
    show_results(scores, out, [table(scores), *csm_lines(scores)])
    if page:
        from candlelight.evaluation.concepts.concepts_pictures import concepts_pictures

        pictures = concepts_pictures(
            albedo_sets,
            illumination_sets,
            results,
            scored,
            others=(unrelated, test, *control_sets.values()),
            size=size,
            device=chosen,
        )
        show_page(page, list(results.values()), pictures)
    end_steps(steps)


def _split_layers(texts: Sequence[str]) -> dict[str, Any]:
    """Map each text of ``--layer`` to a layer or a pair for both branches; without any, read the output."""
    if len(set(texts)) < len(texts):
        raise InputError(f"--layer: expected different layers, got {' '.join(texts)}")
    places: dict[str, Any] = {}
    for text in texts:
        names = tuple(text.split(","))
        if len(names) > 2 or not all(names):
            raise InputError(f"--layer {text}: expected NAME, or REFLECTANCE,SHADING")
        places[text] = names[0] if len(names) == 1 else names
    return places or {"": None}


def _named_by_layer(sources: Mapping[str, Any], layer: str) -> dict[str, Any]:
    """Name models by the layer that is read, so that all layers of a sweep stand in one result."""
    named = {}
    for name, model in sources.items():
        identity = replace(model.identity, name=f"{name} {layer}")
        named[identity.name] = replace(model, identity=identity)
    return named
