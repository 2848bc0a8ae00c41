r"""Do explanations show that a classifier looks at the background, and do they cover the parts that matter?

    candlelight render parts --out parts
    candlelight render parts-recoloured --out recoloured
    candlelight render parts-confounded --out confounded
    candlelight train classifier parts --label kind --size 64 --validation 0.25 --out plain.pt
    candlelight train classifier confounded --label kind --size 64 --out shortcut.pt
    python -m benchmarks.trials.causal_confounded parts recoloured confounded plain.pt shortcut.pt results

Each classifier is explained by all methods, which learn on its own training images.

1. Causal check of both classifiers on RECOLOURED, whose scenes are independent of the kinds: scores, and by
   region the effect on the prediction beside the density of each method's heatmaps. The background should
   have the largest effect on the shortcut classifier, and a faithful method be densest there.
2. Rank correlation over parts of a method's mean IoU, on the held-out images of PARTS, with the mean size of
   the causal effects of the parts, on the counterfactuals of RECOLOURED. Noise and a blob in the middle show
   how much of it the areas and the places of the parts explain. Intervals are over resampled parts.

Finished checks are kept in RESULTS, finished steps in RESULTS/steps; the same command resumes with them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy import ndarray

from benchmarks.processes import print_table
from benchmarks.trials.regimes import with_interval
from benchmarks.trials.studied_classifier import unwrapped
from candlelight.evaluation import evaluate
from candlelight.evaluation.catalogue.coverage_options import ChangedPixels, EffectScale, ExplanationOptions
from candlelight.evaluation.coverage import CONTROLS, ExplainedImages
from candlelight.evaluation.coverage.causal_effects import CAUSAL_SCORES, rank_agreement
from candlelight.evaluation.coverage.explained_images import (
    FittedClassifier,
    fit_classifier,
    open_concept_sources,
)
from candlelight.evaluation.coverage.thresholds import resize_mask
from candlelight.evaluation.models import open_models
from candlelight.evaluation.models.classifiers import load_classifier
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.json_values import to_json
from candlelight.evaluation.run.result import Result, Score, StatisticResult, model_name
from candlelight.evaluation.run.result_files import read_results, write_results
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import BACKGROUND_REGION, open_secondary

BASELINE_MAPS = ("noise", "centre")


def methods_and_networks(one: FittedClassifier) -> tuple[dict[str, Any], dict[str, Any]]:
    """Collect the methods of a classifier with two controls, and the network that each explains."""
    name = one.named.identity.name
    methods = {**one.methods, **{f"{name} {control}": CONTROLS[control] for control in BASELINE_MAPS}}
    # A prototype network explains its own predictions.
    networks = {
        key: getattr(getattr(some, "model", some), "classifier", one.named.model)
        for key, some in methods.items()
    }
    return methods, networks


def check_effects(
    one: FittedClassifier, frames: str, limit: int | None, scale: EffectScale, pixels: ChangedPixels
) -> list[Result]:
    """Run the causal check of all methods of a classifier."""
    view = open_secondary("counterfactuals", None, frames, limit=limit)
    methods, networks = methods_and_networks(one)
    how: dict[str, Any] = {"scale": scale, "pixels": pixels, "size": one.source.size}
    found = evaluate("causal-check", ExplainedImages(view, networks), methods, device="cpu", **how)
    return list(found.values())


def cover_parts(one: FittedClassifier, frames: str, ids: Sequence[str], steps: FinishedSteps) -> list[Result]:
    """Score the coverage of parts by all methods of a classifier, on images by id."""
    factors = open_secondary("factors", None, frames)
    wanted = set(ids)
    rows = [row for row, name in enumerate(factors.ids) if name in wanted]
    view = open_secondary("parts", None, frames, by="part", rows=rows)
    data = ExplainedImages(
        view, labels=one.source.numbers(open_secondary("factors", None, frames, rows=rows))
    )
    methods, size = methods_and_networks(one)[0], one.source.size
    how: dict[str, Any] = {"size": size, "quick": True, "steps": steps}
    found: Any = evaluate("coverage", data, methods, device="cpu", **how)
    masks = [mask for row in range(len(view)) for mask in view[row].masks.items()]
    shown = Counter(part for part, mask in masks if bool(resize_mask(mask, size).any()))
    return [with_part_means(result, shown) for result in found.values()]


def with_part_means(result: StatisticResult, shown: Mapping[str, int]) -> StatisticResult:
    """Add the mean IoU of each part over all images that show it; the result has that of IoUs above 0."""
    parts, columns = result.about.settings["parts"], (result.details["mean_iou"], result.details["counts"])
    means = {
        part: (mean or 0) * count / shown[part] for part, mean, count in zip(parts, *columns, strict=True)
    }
    return replace(result, details={**result.details, "iou_by_part": means})


def keep(path: Path, compute: Any, *given: Any) -> list[StatisticResult]:
    """Read results from a file, or compute them and write it."""
    if not path.exists():
        write_results(path, compute(*given))
    click.echo(f"finished: {path.stem}", err=True)
    return [result for result in read_results(path) if isinstance(result, StatisticResult)]


def method_label(result: Result) -> str:
    """Return the name of a result's method without its classifier."""
    return model_name(result).partition(" ")[2]


def print_checks(checks: Mapping[str, Sequence[StatisticResult]]) -> None:
    """Print the scores of all causal checks, and the chance of a hit."""
    rows = [
        [
            *(title, method_label(result)),
            *(with_interval(result.scores[name]) for name in CAUSAL_SCORES),
            result.details["chance"],
        ]
        for title, results in checks.items()
        for result in results
        if result.details["chance"] is not None
    ]
    print_table(["classifier", "method", *CAUSAL_SCORES, "chance of a hit"], rows)


def region_rows(results: Sequence[StatisticResult]) -> list[list[object]]:
    """Make a row for each region with an effect: images, effect, its size, and density by method."""
    tables = [{one["region"]: one for one in result.details["regions"]} for result in results]
    # Prototypes explain a network of their own, so the classifier's effects are those of another method.
    explained = next(place for place, one in enumerate(results) if method_label(one) != "prototypes")
    rows: list[list[object]] = []
    for region, found in tables[explained].items():
        if not found["images"]:
            continue
        cells = [found["effect"], found["effect_size"], *(table[region]["density"] for table in tables)]
        rows.append([region, found["images"], *(_mean_text(cell) for cell in cells)])
    return rows


def _mean_text(numbers: Sequence[float | None]) -> str:
    value, low, high = (float("nan") if one is None else one for one in numbers)
    return f"{value:.3g} ({low:.3g} to {high:.3g})"


def part_agreement(iou: Mapping[str, float], effect: Mapping[str, float]) -> Score:
    """Correlate the ranks of parts by IoU and by effect, with an interval over resampled parts.

    Parts without an effect are left out.
    """
    parts = [part for part in iou if np.isfinite(effect.get(part, np.nan))]
    both = torch.tensor([[iou[part], effect[part]] for part in parts], dtype=torch.float64).T

    def correlate(rows: ndarray) -> dict[str, float]:
        drawn = both[:, torch.from_numpy(rows)]
        return {"rank correlation": float(rank_agreement(drawn[:1], drawn[1:]))}

    return resampled_interval(correlate, parts, seed=0)[0]["rank correlation"]


def agreement_rows(
    title: str, coverage: Sequence[StatisticResult], checks: Sequence[StatisticResult]
) -> list[dict[str, Any]]:
    """Correlate coverage and effects of the parts for each method of a classifier."""
    effects = {model_name(one): _by_part(one) for one in checks}
    rows = []
    for result in coverage:
        found = part_agreement(result.details["iou_by_part"], effects[model_name(result)])
        accuracy = result.details.get("accuracy", {}).get("explained")
        mean_iou, label = result.scores["mean_iou"], method_label(result)
        rows.append(
            {"classifier": title, "method": label, "accuracy": accuracy, "mean_iou": mean_iou, "rank": found}
        )
    return rows


def _by_part(result: StatisticResult) -> dict[str, float]:
    """Return the mean size of the effect by part; nan for a part without counterfactuals."""
    return {
        one["region"]: np.nan if one["effect_size"][0] is None else one["effect_size"][0]
        for one in result.details["regions"]
        if one["region"] != BACKGROUND_REGION
    }


@click.command(help=unwrapped(__doc__))
@click.argument("parts")
@click.argument("recoloured")
@click.argument("confounded")
@click.argument("plain")
@click.argument("shortcut")
@click.argument("results", type=click.Path(path_type=Path, file_okay=False))
@click.option("--fit-limit", type=int, help="Learn on N of the training images, evenly spaced.")
@click.option("--limit", type=int, help="Use N original frames of each set of counterfactuals.")
@click.option("--epochs", default=30, show_default=True, help="Epochs of the prototype networks.")
@click.option("--bound", default=10.0, show_default=True, help="Bound mu of VEBI.")
@click.option(
    "--scale", type=click.Choice(["probability", "logit"]), default="probability", show_default=True
)
@click.option("--pixels", type=click.Choice(["all", "region"]), default="all", show_default=True)
def main(
    parts: str,
    recoloured: str,
    confounded: str,
    plain: str,
    shortcut: str,
    results: Path,
    fit_limit: int | None,
    limit: int | None,
    epochs: int,
    bound: float,
    scale: Any,
    pixels: Any,
) -> None:
    """Run the study."""
    torch.set_num_threads(1)
    results.mkdir(exist_ok=True)
    steps = FinishedSteps(results / "steps")
    trained = {"plain": (plain, parts), "shortcut": (shortcut, confounded)}
    held_out = load_classifier(plain).training
    assert held_out is not None
    checks: dict[str, list[StatisticResult]] = {}
    agreement: list[dict[str, Any]] = []
    for title, (model, fit) in trained.items():
        options = ExplanationOptions(("all",), fit, fit_limit, bound=bound, epochs=epochs)
        models = open_models([f"{title}={model}"], "cpu", "srgb")
        (source,) = open_concept_sources(parts, options, models, None)
        one = fit_classifier(source, models[title], options, steps)
        click.echo(f"finished: fit {title} on {len(one.training.images)} images", err=True)
        file = results / f"{title}-check.json"
        checks[title] = keep(file, check_effects, one, recoloured, limit, scale, pixels)
        file = results / f"{title}-coverage.json"
        coverage = keep(file, cover_parts, one, parts, held_out.held_out_ids, steps)
        agreement += agreement_rows(title, coverage, checks[title])
    print_checks(checks)
    for title, found in checks.items():
        print(f"\n{title}: effects, and densities by method\n")
        head = ["region", "images", "effect", "size of the effect", *map(method_label, found)]
        print_table(head, region_rows(found))
    print("\nrank correlation over parts of mean IoU and size of the effect\n")
    print_table(
        ["classifier", "method", "accuracy on PARTS", "mean IoU", "rank correlation"],
        [
            [
                *(row["classifier"], row["method"], "-" if row["accuracy"] is None else row["accuracy"]),
                *(with_interval(row["mean_iou"]), with_interval(row["rank"])),
            ]
            for row in agreement
        ],
    )
    (results / "agreement.json").write_text(to_json(agreement), encoding="utf-8")


if __name__ == "__main__":
    main()
