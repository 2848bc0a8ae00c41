"""The demonstration's study: train a small network on rendered frames and score it with every metric."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from evaluation.causal import CausalScores, score_causal
from evaluation.causal.codes import layer_codes
from evaluation.concepts import ConceptScores, score_concepts
from evaluation.coverage import CoverageScores, layer_heatmaps, score_coverage
from evaluation.intrinsic import IntrinsicScores, score_baselines, score_intrinsic
from evaluation.models import (
    ColourRetinex,
    IntrinsicModel,
    IntrinsicNet,
    load_model,
    save_model,
    train_intrinsic,
)
from evaluation.report import write_report
from loaders.disk import replacing
from loaders.samples import Frames

NETWORK, RETINEX = "network", "colour Retinex"
COVERAGE_LAYERS = ("encoder.1", "encoder.2", "reflectance.blocks.1")
CODE_LAYER = "encoder.3"
HIDDEN_LAYERS = ("reflectance.blocks.2", "shading.blocks.2")


@dataclass(frozen=True, eq=False)
class Study:
    """Scores of the study, and where its files lie."""

    intrinsic: dict[str, IntrinsicScores]
    concepts: dict[str, ConceptScores]
    coverage: CoverageScores
    causal: CausalScores
    report: Path
    weights: Path

    def summary(self) -> list[str]:
        """Say the scores in four lines."""
        return _summary(self.intrinsic, self.concepts, self.coverage, self.causal)


def run_study(
    open_set: Callable[[str], Frames], out: Path, *, epochs: int = 14, seed: int = 0, device: str = "cpu"
) -> Study:
    """Train on `tabletop`, score on `tabletop_test`, `albedo`, `illumination` and `candle`, write a report.

    Args:
        open_set: opens an image set of the `demo` recipe by name, with ``objects=True``.
        out: folder for ``network.pt``, one JSON file per score, and ``report.html``.
        epochs: passes over the training frames.
        seed: of the weights, the batches and the draws of the metrics.
        device: torch device.

    Returns:
        The scores.

    Raises:
        InputError: a set is missing or lacks a layer, or a file cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    trained, history = train_intrinsic(open_set("tabletop"), seed=seed, epochs=epochs, device=device)
    weights = save_model(trained, out / "network.pt")
    seconds = time.monotonic() - started
    network = load_model(weights, device)
    test = open_set("tabletop_test")
    intrinsic = score_models({NETWORK: network, RETINEX: ColourRetinex()}, test, device)
    concepts = _concepts(network, open_set, test, seed, device)
    candle = open_set("candle")
    methods = {layer: layer_heatmaps(network, layer) for layer in COVERAGE_LAYERS}
    coverage = score_coverage(methods, candle, device=device)
    causal = score_causal(layer_codes(network, CODE_LAYER), candle, device=device)
    names = ("candle", "albedo", "illumination", "negatives", "tabletop")
    report = write_report(
        out / "report.html",
        title="candlelight demo",
        summary=_summary(intrinsic, concepts, coverage, causal),
        sets=[open_set(name) for name in names],
        intrinsic=intrinsic,
        concepts=concepts,
        coverage=coverage,
        causal=causal,
        settings={
            "network": f"IntrinsicNet, {sum(p.numel() for p in network.parameters()):,} parameters",
            "training": f"{epochs} epochs on {len(open_set('tabletop'))} frames, {seconds:.0f} s, "
            f"last loss {history.training[-1]:.3f}",
            "seed": str(seed),
            "device": device,
            "torch": torch.__version__,
        },
    )
    study = Study(intrinsic, concepts, coverage, causal, report, weights)
    _save_scores(study, out)
    return study


def score_models(
    models: dict[str, IntrinsicModel], frames: Frames, device: str = "cpu"
) -> dict[str, IntrinsicScores]:
    """Score models and the two trivial baselines of Grosse et al. on the same frames."""
    scores = {name: score_intrinsic(model, frames, device=device) for name, model in models.items()}
    return scores | score_baselines(frames)


def _concepts(
    network: IntrinsicNet, open_set: Callable[[str], Frames], test: Frames, seed: int, device: str
) -> dict[str, ConceptScores]:
    sets = (open_set("albedo"), open_set("illumination"), open_set("negatives"), test)
    hidden = f"{NETWORK}, hidden layer"
    return {
        NETWORK: score_concepts(network, *sets, seed=seed, device=device),
        hidden: score_concepts(network, *sets, seed=seed, device=device, layer=HIDDEN_LAYERS),
        RETINEX: score_concepts(ColourRetinex(), *sets, seed=seed, device=device),
    }


def _summary(
    intrinsic: dict[str, IntrinsicScores],
    concepts: dict[str, ConceptScores],
    coverage: CoverageScores,
    causal: CausalScores,
) -> list[str]:
    errors = ", ".join(f"{name} {scores.score:.4f}" for name, scores in intrinsic.items())
    ratios = []
    for name, scores in concepts.items():
        ratio = scores.csm(significant_only=False)
        ratios.append(f"{name} {ratio.csm_s:.2f} / {ratio.csm_r:.2f}")
    best = int(coverage.score.nan_to_num(-1).argmax())
    return [
        f"LMSE on held-out frames (lower is better): {errors}",
        f"CSM_S / CSM_R over all concept sets (higher is better): {', '.join(ratios)}",
        f"WAIoU on candle (higher is better): {coverage.methods[best]} leads "
        f"with {float(coverage.score[best]):.3f}",
        f"{CODE_LAYER} on candle (higher is better): IRS {float(causal.irs.score):.3f}, "
        f"unconfoundedness {causal.score:.3f}",
    ]


def _save_scores(study: Study, out: Path) -> None:
    texts = {f"intrinsic {name}": scores.to_json() for name, scores in study.intrinsic.items()}
    texts |= {f"concepts {name}": scores.to_json() for name, scores in study.concepts.items()}
    texts |= {"coverage": study.coverage.to_json(), "causal": study.causal.to_json()}
    for name, text in texts.items():
        file_name = name.replace(",", "").replace(" ", "-").lower()
        with replacing(out / f"{file_name}.json") as partial:
            partial.write_text(text, encoding="utf-8")
