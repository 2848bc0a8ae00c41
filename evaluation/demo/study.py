"""The study of `candlelight demo`: train a small network on rendered frames and score it with all metrics."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.catalogue.intrinsic_options import LMSEOptions
from candlelight.evaluation.causal import layer_codes
from candlelight.evaluation.concepts import CSMData
from candlelight.evaluation.coverage import COVERAGE, CoverageOptions, layer_heatmaps
from candlelight.evaluation.coverage.coverage_pictures import coverage_pictures
from candlelight.evaluation.demo.rebuild import make_if_changed
from candlelight.evaluation.intrinsic import LMSE
from candlelight.evaluation.intrinsic.intrinsic_report import intrinsic_pictures
from candlelight.evaluation.models import BASELINES, ColourRetinex, IntrinsicNet, load_model, save_model
from candlelight.evaluation.models.model_protocols import IntrinsicModel
from candlelight.evaluation.report.blocks import Block
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import evaluate, score, start
from candlelight.evaluation.run.result import MeanResult, StatisticResult, model_name, package_versions
from candlelight.evaluation.run.result_files import read_results, write_results
from candlelight.evaluation.training import train_intrinsic
from candlelight.evaluation.views import open_data
from candlelight.loaders.open_frames import open_frames

EVALUATIONS = ("intrinsic", "concepts", "coverage", "causal")
WEIGHTS, TRAINING, REPORT = "network.pt", "training.json", "report.html"
NETWORK, RETINEX = "network", "retinex"
_NETWORK_WIDTH = 8  # channels; a larger network is not better after the same time on so few frames
COVERAGE_LAYERS = ("encoder.1", "encoder.2", "reflectance.blocks.1")
CODE_LAYER = "encoder.3"
_SETS_SHOWN = ("candle", "albedo", "illumination", "negatives", "tabletop")
CONTROL = "control: middle of every image"
HIDDEN_LAYERS = ("reflectance.blocks.2", "shading.blocks.2")


@dataclass(frozen=True, eq=False)
class Study:
    """Results of the study for each evaluation by model, and the paths of its report and weights."""

    intrinsic: dict[str, MeanResult]
    concepts: dict[str, StatisticResult]
    coverage: dict[str, StatisticResult]
    causal: dict[str, StatisticResult]
    report: Path
    weights: Path

    def summary(self) -> list[str]:
        """Summarise the scores in four lines."""
        return _summary(self.intrinsic, self.concepts, self.coverage, self.causal)


def run_study(
    data: Path,
    out: Path,
    *,
    epochs: int = 14,
    seed: int = 0,
    device: str = "cpu",
    records: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Study:
    """Train on `tabletop`, score on `tabletop_test`, `albedo`, `illumination` and `candle`, write a report.

    Training and scoring are skipped if their inputs have not changed; see `make_if_changed`.

    Args:
        data: frames of the `demo` recipe, or a pack of them.
        out: folder for ``network.pt``, ``training.json``, a file of results for each evaluation, and
            ``report.html``.
        epochs: passes over the training frames.
        seed: seed of the weights, the batches and the random draws of the metrics.
        device: torch device.
        records: folder for the records of `make_if_changed`; None for ``records`` in ``out``.
        tell: called with a line after each step.

    Returns:
        The results, read from the files.

    Raises:
        InputError: a set is missing or lacks a layer, or a file cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    records = records or out / "records"
    weights, training, report = (out / name for name in (WEIGHTS, TRAINING, REPORT))
    new = make_if_changed(
        records / "training.json",
        partial(_train, data, out, epochs, seed, device),
        reads=[data],
        writes=[weights, training],
        settings={"epochs": epochs, "seed": seed, "device": device},
    )
    tell(f"{'trained a network' if new else 'network is up to date'}: {weights}")
    files = {name: out / f"{name}.json" for name in EVALUATIONS}
    new = make_if_changed(
        records / "scores.json",
        partial(_score, data, out, seed, device),
        reads=[data, weights, training],
        writes=[*files.values(), report],
        settings={"seed": seed, "device": device},
    )
    tell(f"{'scored the network' if new else 'scores are up to date'}: {out}/*.json")
    results: dict[str, Any] = {
        name: {model_name(result): result for result in read_results(path)} for name, path in files.items()
    }
    return Study(**results, report=report, weights=weights)


def _train(data: Path, out: Path, epochs: int, seed: int, device: str) -> None:
    started = time.monotonic()
    training = open_data("decompositions", data, set_name="tabletop")
    network, history = train_intrinsic(
        training, seed=seed, epochs=epochs, batch_size=4, width=_NETWORK_WIDTH, device=device
    )
    save_model(network, out / WEIGHTS)
    facts = {
        "network": f"IntrinsicNet, {sum(p.numel() for p in network.parameters()):,} parameters",
        "training": f"{epochs} epochs on {len(training)} frames, {time.monotonic() - started:.0f} s, "
        f"last loss {history.training[-1]:.3f}",
    }
    (out / TRAINING).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _score(data: Path, out: Path, seed: int, device: str) -> None:
    results, pictures = _evaluate(data, load_model(out / WEIGHTS, device), seed, device)
    for name, some in results.items():
        write_results(out / f"{name}.json", list(some.values()))
    sets = [open_frames(data, name) for name in _SETS_SHOWN]
    write_report(
        out / REPORT,
        [result for some in results.values() for result in some.values()],
        title="candlelight demo",
        summary=_summary(**results),
        sets=sets,
        settings={
            **json.loads((out / TRAINING).read_text(encoding="utf-8")),
            "seed": str(seed),
            "device": device,
            **{f"{name} version": number for name, number in package_versions().items()},
            "recipe": f"{sets[0].info.recipe.name}, SHA-256 {sets[0].info.recipe.sha256}",
        },
        pictures=pictures,
    )


def _evaluate(
    data: Path, network: IntrinsicNet, seed: int, device: str
) -> tuple[dict[str, Any], dict[str, list[Block]]]:
    """Compute the results by evaluation and model, and pictures by metric."""
    test = open_data("decompositions", data, set_name="tabletop_test")
    models: dict[str, IntrinsicModel] = {NETWORK: network, RETINEX: ColourRetinex()}
    compared = {**models, **BASELINES}
    run = start(LMSE, LMSEOptions(), {"data": test}, compared, device)
    intrinsic: dict[str, Any] = score(run)
    views = CSMData(
        test,
        negatives=open_data("images", data, set_name="negatives"),
        albedo=open_data("concepts", data, set_name="albedo"),
        illumination=open_data("concepts", data, set_name="illumination"),
    )
    concepts: dict[str, Any] = evaluate("csm", views, models, seed=seed, device=device)
    hidden = {f"{NETWORK}, hidden layer": network}
    layers = [",".join(HIDDEN_LAYERS)]
    concepts |= evaluate("csm", views, hidden, layer=layers, seed=seed, device=device)
    methods = {layer: layer_heatmaps(network, layer) for layer in COVERAGE_LAYERS} | {CONTROL: middle_blob}
    parts = open_data("parts", data, set_name="candle", by="type")
    covering = start(COVERAGE, CoverageOptions(quick=True), {"data": parts}, methods, device)
    coverage: dict[str, Any] = score(covering)
    encoders = {CODE_LAYER: layer_codes(network, CODE_LAYER)}
    factors = open_data("factors", data, set_name="candle")
    causal: Any = evaluate("codes", factors, encoders, metrics=("unconfoundedness", "mig"), device=device)
    pictures = {"lmse": intrinsic_pictures(run, intrinsic), **coverage_pictures(covering, coverage)}
    return dict(zip(EVALUATIONS, (intrinsic, concepts, coverage, causal), strict=True)), pictures


def middle_blob(
    images: Float[Tensor, "batch 3 height width"],
) -> Float[Tensor, "batch 1 height width"]:
    """Mark the middle of every image: a control that depends neither on the model nor on the image.

    Example:
        >>> middle_blob(torch.zeros(1, 3, 5, 5))[0, 0].argmax()
        tensor(12)
    """
    rows, columns = (torch.linspace(-1, 1, side, device=images.device) for side in images.shape[2:])
    blob = torch.exp(-(rows[:, None].square() + columns.square()))
    return blob.expand(len(images), 1, *blob.shape)


def _summary(
    intrinsic: dict[str, MeanResult],
    concepts: dict[str, StatisticResult],
    coverage: dict[str, StatisticResult],
    causal: dict[str, StatisticResult],
) -> list[str]:
    errors = ", ".join(f"{name} {result.score:.4f}" for name, result in intrinsic.items())
    ratios = []
    for name, result in concepts.items():
        csm = [result.scores[f"{metric} aligned, all sets"].value for metric in ("csm_s", "csm_r")]
        ratios.append(f"{name} {csm[0]:.2f} / {csm[1]:.2f}")
    means = {name: result.scores["mean_iou"].value for name, result in coverage.items()}
    control = means.pop(CONTROL)
    best = max(means, key=lambda name: means[name])
    codes = causal[CODE_LAYER].scores
    return [
        f"LMSE on held-out frames (lower is better): {errors}",
        f"CSM_S / CSM_R over all concept sets, aligned (higher is better): {', '.join(ratios)}",
        f"Mean IoU of heatmaps with objects on candle (higher is better): {means[best]:.3f} by {best}, "
        f"the best layer; {control:.3f} by {CONTROL}",
        f"{CODE_LAYER} on candle (higher is better): IRS {codes['irs'].value:.3f}, "
        f"unconfoundedness {codes['unconfoundedness(1)'].value:.3f}",
    ]
