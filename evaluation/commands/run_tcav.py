"""TCAV of ``candlelight evaluate concepts --target``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from candlelight.evaluation.commands.evaluate_options import (
    check_outputs,
    choose_device,
    end_steps,
    open_steps,
    show_page,
    show_results,
)
from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from candlelight.evaluation.run.result import MeanResult
    from candlelight.evaluation.views import PictureGroups

_OF_CSM = {
    "significance": "--significance",
    "albedo": "--albedo",
    "illumination": "--illumination",
    "files": "--predictions",
    "png": "--png",
    "planted": "--planted",
}


def check_tcav_options(
    target: str | None,
    concepts: Sequence[str],
    layers: Sequence[str],
    controls: Sequence[str],
    groups: Path | None,
) -> None:
    """Refuse options of the current command that contradict each other.

    Raises:
        InputError: an option of TCAV without ``--target``, one of CSM with it, or one that is missing.
    """
    if target is None:
        if concepts:
            raise InputError("--concept: needs --target, the number that the concepts may move")
        if groups:
            raise InputError("--groups: needs --target; the concept sets of CSM have groups of their own")
        return
    source = click.get_current_context().get_parameter_source
    for name, option in _OF_CSM.items():
        if source(name) == ParameterSource.COMMANDLINE:
            raise InputError(f"{option}: belongs to CSM; omit it, or omit --target")
    if not controls:
        for name in ("permutations", "groups"):
            if source(name) == ParameterSource.COMMANDLINE:
                raise InputError(
                    f"--{name}: with --target only concepts with a --control are tested; add one"
                )
    if not concepts:
        raise InputError("--target: needs at least one --concept NAME=SOURCE")
    if not layers:
        raise InputError("--target: needs at least one --layer, whose activations represent the concepts")


def run_tcav(
    data: str,
    models: Sequence[str],
    target: str,
    concepts: Mapping[str, str],
    controls: Mapping[str, str],
    groups: Path | None,
    negatives: str,
    negatives_limit: int,
    size: tuple[int, int] | None,
    layers: Sequence[str],
    out: Sequence[Path],
    page: Path | None,
    device: str,
    choice: Mapping[str, Any],
    **options: Any,
) -> None:
    """Run TCAV of the named networks, and show the results.

    Args:
        data: the argument DATA.
        models: see `candlelight.evaluation.models.open_models`.
        target: see `candlelight.evaluation.concepts.sensitivity.parse_target`.
        concepts: source of the images of each concept.
        controls: source of the control images of some concepts.
        groups: table of the groups of pictures, of these concepts and their controls.
        negatives: source of the negatives.
        negatives_limit: largest number of negatives.
        size: height and width of all images.
        layers: names of hidden layers.
        out: result files.
        page: HTML file.
        device: name of the device.
        choice: set, split, rows and limit of the data.
        options: further arguments of `score_tcav`.

    Raises:
        InputError: something cannot be opened, or see `score_tcav`.
    """
    from candlelight.evaluation.concepts import score_tcav
    from candlelight.evaluation.models import open_models
    from candlelight.evaluation.run.compare import compare
    from candlelight.evaluation.run.result import table
    from candlelight.evaluation.views import open_data, read_picture_groups

    if not models:
        raise InputError("nothing to score: give a --model")
    # Concepts without a control are not tested, and need no groups.
    of_pictures = dict.fromkeys(controls, read_picture_groups(groups)) if groups else {}
    check_outputs(out, page)
    steps = open_steps(out)
    chosen = choose_device(device)
    networks = open_models(models, chosen, "srgb")
    test = open_data("images", data, size=size, **choice)
    # Pictures are resized to the test images; rendered data keep their size.
    fitted = size or tuple(test[0].shape[1:])
    views = _open_each("--concept", concepts, data, fitted, of_pictures)
    others = _open_each("--control", controls, data, fitted, of_pictures)
    tested = [*others.values(), *(views[name] for name in others if name in views)]
    if groups and all(view.identity.layout != "pictures" for view in tested):
        raise InputError("--groups: neither a --control nor its concept is a folder of pictures; omit it")
    unrelated = _open_images(f"--negatives {negatives}", data, negatives, limit=negatives_limit, size=fitted)
    options |= {"layers": list(layers), "target": target, "size": size, "device": chosen, "steps": steps}
    options["controls"] = others
    results = list(score_tcav(networks, views, unrelated, test, **options).values())
    compared = [str(compare(results[0], other)) for other in results[1:]]
    show_results(results, out, [table(results), vectors_table(results), *compared])
    if page:
        from candlelight.evaluation.report.tiles import images_block

        pictures = [images_block(view, f"the concept {name}.") for name, view in views.items()]
        show_page(page, results, pictures)
    end_steps(steps)


def vectors_table(results: Sequence["MeanResult"]) -> str:
    """Write for each model, layer and concept the spread over runs, random vectors, accuracy and p-value."""
    from candlelight.evaluation.run.result import align_columns, model_name

    head = [
        "model",
        "layer",
        "concept",
        "score ± runs",
        "random ± runs",
        "derivative ± runs",
        "random ± runs",
    ]
    rows = [(*head, "accuracy", "p of t-test", "p of permutation")]
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
            numbers = (_short(one[name]) for name in ("accuracy", "t_test_p"))
            control = _short(one["control"]["adjusted_p"]) if "control" in one else ""
            rows.append((model_name(result), one["layer"], one["concept"], *pairs, *numbers, control))
    if not any(row[-1] for row in rows[1:]):  # no test against a control
        rows = [row[:-1] for row in rows]
    return align_columns(rows)


def _open_images(option: str, data: str, text: str, **options: Any) -> Any:
    """Open the images that an option names; errors name the option."""
    from candlelight.evaluation.views import open_secondary

    try:
        return open_secondary("images", data, text, **options)
    except InputError as error:
        raise InputError(f"{option}: {error}") from error


def _open_each(
    option: str,
    sources: Mapping[str, str],
    data: str,
    size: Sequence[int],
    groups: Mapping[str, "PictureGroups"],
) -> dict[str, Any]:
    """Open the images of all concepts, or of all controls; ``groups`` are those of pictures, by concept."""
    return {
        name: _open_images(f"{option} {name}={text}", data, text, size=size, groups=groups.get(name))
        for name, text in sources.items()
    }


def _short(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2g}"
