r"""Do the causal models learn, and does the weight of the foreground help its factors?

    candlelight render benchmarks/trials/two_factors.yaml --out two-factors
    python -m benchmarks.trials.causal_models easy two-factors easy-runs
    candlelight render candle --set image.width=64 --set image.height=64 --out candle
    python -m benchmarks.trials.causal_models foreground candle foreground-runs --seeds 3 --steps 500

`easy` trains every model on two factors, and fails unless each reconstructs held-out images with less than
`WORST_ERROR` of the variance, and each semi-supervised one reaches `LEAST_MIG`. `foreground` trains one model
with no, box and mask weights of the foreground; differences are paired by seed, intervals over seeds
(Student's t). Finished trainings in RUNS are kept.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from benchmarks.processes import print_table
from benchmarks.trials.regimes import with_interval
from candlelight.evaluation.models.autoencoders import load_autoencoder, save_autoencoder
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.intervals import seed_interval
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.training import CausalModel, CausalTraining, train_causal
from candlelight.evaluation.training.causal_data import read_foreground
from candlelight.evaluation.training.training_rows import hold_out
from candlelight.evaluation.views import Factors, open_data

WORST_ERROR, LEAST_MIG = 0.3, 0.3
FOREGROUND = ("none", "box", "mask")
FACTORS = ("object_type", "color", "size", "rotation", "scene")
FOREGROUND_WEIGHT = 2.0  # of the semi-supervised models of CANDLE's authors
GENERATIVENESS = "counterfactual_generativeness(1)"
RENDERED = "rendered_counterfactual(1), share"
DISENTANGLED = "dci_fast(disentanglement)"


def main() -> None:
    """Train what is missing, score it and print the tables."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("trial", choices=("easy", "foreground"))
    parser.add_argument("frames", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument(
        "--model", choices=get_args(CausalModel), default="ss-beta-vae", help="of `foreground`"
    )
    parser.add_argument("--seeds", type=int, default=3, help="of `foreground`")
    parser.add_argument("--steps", type=int, default=3000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.runs.mkdir(exist_ok=True)
    view = open_data("factors", given.frames)
    if given.trial == "easy":
        easy(view, given.runs, given.steps)
    else:
        settings = CausalTraining(
            model=given.model, codes=10, steps=given.steps, foreground_weight=FOREGROUND_WEIGHT
        )
        foreground(view, given.frames, given.runs, settings, given.seeds)


def trained(
    view: Factors,
    settings: CausalTraining,
    seed: int,
    runs: Path,
    held_out: Sequence[int] = (),
    mask: Any = None,
    kind: str = "none",
) -> tuple[nn.Module, float, float]:
    """Train a network unless its file exists; return it, its held-out error, and that of the mean image."""
    path = weights_file(runs, settings, kind, seed)
    if not path.exists():
        network, history = train_causal(
            view, seed=seed, factors=view, validation=held_out, foreground=mask, **asdict(settings)
        )
        save_autoencoder(network, path, {"error": history.validation[-1:], "constant": history.constant})
    network, record = load_autoencoder(path, "cpu")
    error = record["error"][0] if record["error"] else float("nan")
    return network, error, record["constant"] or float("nan")


def weights_file(runs: Path, settings: CausalTraining, kind: str, seed: int) -> Path:
    """Name the weights of a training by everything that a call may change."""
    return runs / f"{settings.model}, {settings.steps} steps, {kind}#{seed}.pt"


def easy(view: Factors, runs: Path, steps: int) -> None:
    """Train every model on easy images, and hold it to the bounds."""
    held_out = hold_out(view.groups, 0.1, 0)
    networks, shares = {}, {}
    for model in get_args(CausalModel):
        settings = CausalTraining(
            model=model, codes=10, steps=steps, rate=1e-3, labelled=200 if model.startswith("ss-") else None
        )
        networks[model], error, constant = trained(view, settings, 0, runs, held_out)
        shares[model] = error / constant
    metrics, kept = ("mig", "unconfoundedness"), FinishedSteps(runs / "steps")
    found = scored(networks, view, kept, metrics=metrics)
    names = ("mig", "irs", "unconfoundedness(1)", GENERATIVENESS, RENDERED)
    rows = [[name, shares.get(name, ""), *values(found[name], names)] for name in found]
    print_table(("model", "held-out error / variance", *names), rows)
    blind = [model for model, share in shares.items() if not share < WORST_ERROR]
    unlabelled = [
        name
        for name in networks
        if name.startswith("ss-") and not found[name].scores["mig"].value > LEAST_MIG
    ]
    if blind or unlabelled:
        raise SystemExit(f"do not reconstruct: {blind}; do not learn from labels: {unlabelled}")
    print(f"every error is below {WORST_ERROR}, every MIG of a semi-supervised model above {LEAST_MIG}")


def scored(
    networks: Mapping[str, nn.Module],
    view: Factors,
    steps: FinishedSteps,
    factors: Sequence[str] = (),
    **options: Any,
) -> dict[str, StatisticResult]:
    """Join the scores and details of codes, and of decoders."""
    given: dict[str, Any] = {"factors": factors, "steps": steps}
    found: Any = evaluate("codes", view, networks, **given, **options)
    for name in ("generativeness", "counterfactuals"):
        for model, more in evaluate(name, view, networks, **given).items():
            one: Any = more
            scores, details = found[model].scores | one.scores, found[model].details | one.details
            found[model] = replace(found[model], scores=scores, details=details)
    return found


def values(result: Result, names: Sequence[str]) -> list[object]:
    """Return the scores by name; an empty text for a missing one."""
    return [result.scores[name].value if name in result.scores else "" for name in names]


def foreground(view: Factors, frames: Path, runs: Path, settings: CausalTraining, seeds: int) -> None:
    """Train with each foreground, and compare the scores of the factors of the object."""
    held_out = hold_out(view.groups, 0.1, 0)
    networks = {}
    for kind in FOREGROUND:
        missing = [seed for seed in range(seeds) if not weights_file(runs, settings, kind, seed).exists()]
        mask = read_foreground(frames, kind) if kind != "none" and missing else None
        for seed in range(seeds):
            networks[f"{kind}#{seed}"] = trained(view, settings, seed, runs, held_out, mask, kind)[0]
    metrics = ("mig", "unconfoundedness", "dci_fast")
    steps = FinishedSteps(runs / "steps")
    found = scored(networks, view, steps, FACTORS, metrics=metrics, controls=False)
    scores = {name: by_factor(found[name]) for name in networks}
    labels = list(scores["none#0"])
    header = ("score", *FOREGROUND, "box - none", "mask - none", "mask - box")
    rows = []
    for label in labels:
        none, box, mask = ([scores[f"{kind}#{seed}"][label] for seed in range(seeds)] for kind in FOREGROUND)
        differences = [
            [one - other for one, other in zip(*pair, strict=True)]
            for pair in ((box, none), (mask, none), (mask, box))
        ]
        rows.append([label, *(with_interval(seed_interval(one)) for one in (none, box, mask, *differences))])
    print_table(header, rows)


def by_factor(result: StatisticResult) -> dict[str, float]:
    """Return the scores of an encoder: those of decoded images by factor."""
    details: Mapping[str, Any] = result.details
    found = {name: result.scores[name].value for name in ("irs", "mig", "unconfoundedness(1)", DISENTANGLED)}
    decoded = details["decoder"][GENERATIVENESS]
    for factor, value in zip(decoded["factors"], decoded["by_factor"], strict=True):
        found[f"CG(1) {factor}"] = float(value)
    rendered, unseen = details["rendered"]["factors"], details["rendered"]["not_decoded"]
    for factor, one in rendered.items():
        found[f"share(1) {factor}"] = one["scores"][RENDERED][0] if factor not in unseen else 0.0
        found[f"error of the reconstruction, {factor}"] = one["error_all"]
    return found


if __name__ == "__main__":
    main()
