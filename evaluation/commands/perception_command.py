"""``candlelight evaluate perception``: are distances of images as invariant to transforms as people are?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from candlelight.evaluation.commands.evaluate_options import (
    check_outputs,
    choose_device,
    end_steps,
    open_steps,
    run_options,
    show_page,
    show_results,
)
from candlelight.evaluation.commands.perception_moves import open_moves
from candlelight.evaluation.commands.perception_options import perception_options
from candlelight.evaluation.run.record import split_pairs
from candlelight.loaders.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from candlelight.evaluation.models.model_spec import NamedModel
    from candlelight.evaluation.perception import Transduction
    from candlelight.evaluation.perception.experiment import MeasuredThresholds


@click.command()
@perception_options
@run_options
def perception(
    data: str,
    metrics: tuple[str, ...],
    rated: str | None,
    presets: tuple[str, ...],
    moves: str | None,
    transforms: tuple[str, ...],
    hues: str,
    kernel: Any,
    notebook_slip: bool,
    logs: tuple[Path, ...],
    seed: int,
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
    **choice: Any,
) -> None:
    """Compare distances of images with people: thresholds of transforms, and the order of sensitivities.

    DATA are frames of the recipe invariance, in which the camera or the light moved; or any images, such as a
    folder of pictures, which are transformed here. A metric with a transduction to ratings has thresholds in
    degrees and verdicts; any other has curves and an order.

    \b
    candlelight evaluate perception invariance --metric rmse --metric ssim --moves both --report page.html
    candlelight evaluate perception photographs --size 256 256 --metric rmse --rated tid2013:tid2013
    candlelight evaluate perception photographs --metric dists=dists.py:DISTS --preset dists=DISTS --hues 10
    candlelight evaluate perception photographs --metric rmse --answers rated.jsonl --answers turned.jsonl
    """
    from candlelight.evaluation.perception import score_perception
    from candlelight.evaluation.perception.perception_report import perception_lines

    check_outputs(out, page)
    if rated is not None and presets:
        raise InputError("--preset: not with --rated, which is fitted for every metric")
    steps = open_steps(out)
    chosen = choose_device(device)
    people = _measure_people(logs)
    named = _open_metrics(metrics, chosen)
    opened = open_moves(data, moves, transforms, int(hues), kernel, notebook_slip, choice)
    known, settings = _open_presets(presets, named), opened.settings
    if rated is not None:
        known, settings["rated"] = _fit(rated, named, chosen, steps)
    found = score_perception(
        named,
        opened.sources,
        known,
        detection=people.detection,
        human=people.human,
        settings=settings,
        notes=(*people.notes, *opened.notes),
        notebook_slip=notebook_slip,
        seed=seed,
        device=chosen,
        steps=steps,
    )
    results = list(found.values())
    show_results(results, out, perception_lines(results))
    if page:
        show_page(page, results, ())
    end_steps(steps)


def _measure_people(logs: Sequence[Path]) -> "MeasuredThresholds":
    """Fit the thresholds of people to logs of answers; without logs, none is measured."""
    from candlelight.evaluation.perception import DetectionLevels
    from candlelight.evaluation.perception.experiment import MeasuredThresholds, measured_thresholds

    return measured_thresholds(logs) if logs else MeasuredThresholds(DetectionLevels(), {}, ())


def _open_metrics(texts: Sequence[str], device: str) -> "dict[str, NamedModel]":
    from candlelight.evaluation.perception import open_distance

    named: dict[str, NamedModel] = {}
    for text in texts:
        one = open_distance(text, device)
        if one.identity.name in named:
            name = one.identity.name
            raise InputError(f"two metrics have the name `{name}`; give another name: NAME={text}")
        named[one.identity.name] = one
    return named


def _open_presets(presets: Sequence[str], named: "Mapping[str, NamedModel]") -> "dict[str, Transduction]":
    """Find the published constants of the metrics for which they hold."""
    from candlelight.evaluation.perception import published_transduction
    from candlelight.evaluation.perception.distances import is_rmse

    names = {name: "RMSE" for name, one in named.items() if is_rmse(one)}
    for name, metric in split_pairs(presets, "--preset").items():
        if name not in named:
            known = ", ".join(named)
            raise InputError(
                f"--preset {name}={metric}: no metric `{name}`; expected one of {known}"
                f"{did_you_mean(name, named)}"
            )
        names[name] = metric
    return {name: published_transduction(metric) for name, metric in names.items()}


def _fit(
    rated: str, named: "Mapping[str, NamedModel]", device: str, steps: Any
) -> "tuple[dict[str, Transduction], dict[str, Any]]":
    """Fit the transductions to rated pairs, and describe these."""
    from candlelight.evaluation.perception import fit_rated_pairs
    from candlelight.evaluation.run.batches import Fingerprint
    from candlelight.evaluation.views import open_data

    pairs, read = open_data("pairs", rated), Fingerprint()
    fitted = fit_rated_pairs(named, pairs, device=device, steps=steps, fingerprint=read)
    return fitted, read.describe(pairs)
