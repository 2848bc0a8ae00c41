r"""Train one network under each regime with several seeds, and compare them on scenes of their own.

    candlelight render relit --out relit
    python -m benchmarks.trials.regimes relit runs [--seeds 5] [--epochs 14]

Each training is `candlelight train intrinsic relit --set train`, a process with one thread, two at a time;
finished ones are kept. Then all networks and the controls are scored on the set `test`: LMSE, and the
constancy of the reflectance under ten lights. Intervals are over seeds (Student's t); differences of regimes
are paired by seed. `RUNS/training-curves.png` shows the learning curves,
`RUNS/regimes.jpg` decompositions of a few test images by the networks of the first seed.
"""

import argparse
import itertools
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy import ndarray
from PIL import Image

from benchmarks.processes import candlelight, print_table
from candlelight.evaluation import evaluate
from candlelight.evaluation.models import BASELINES, ColourRetinex, load_model
from candlelight.evaluation.report.tiles import linear_pixels
from candlelight.evaluation.run.intervals import mean_p_value, seed_interval
from candlelight.evaluation.run.result import Score
from candlelight.evaluation.views import open_data

REGIMES = ("supervised", "multi-illumination", "unsupervised")
CONSTANCY = ("c_mat", "chroma_drift", "chroma_loss")
SHOWN = (14, 105, 200, 291)  # rows of the test set


def main() -> None:
    """Train what is missing, then print the tables and draw the figures."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("frames", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=14)
    given = parser.parse_args()
    given.runs.mkdir(exist_ok=True)
    jobs = list(itertools.product(range(given.seeds), REGIMES))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: train(given.frames, given.runs, given.epochs, *job), jobs))
    networks = {f"{regime}-{seed}": load_model(weights(given.runs, seed, regime)) for seed, regime in jobs}
    test = open_data("decompositions", given.frames, set_name="test")
    regions = open_data("regions", given.frames, set_name="test")
    models = {**networks, "retinex": ColourRetinex(), **BASELINES}
    found: dict[str, dict[str, float]] = {}
    for results in (evaluate("lmse", test, models), evaluate("constancy", regions, models)):
        for name, result in results.items():
            found.setdefault(name, {}).update({key: score.value for key, score in result.scores.items()})
    (given.runs / "scores.json").write_text(json.dumps(found, indent=2) + "\n")
    print_scores(found, given.seeds)
    print_times(given.runs, jobs)
    draw_curves(given.runs, given.seeds)
    draw_pictures(given.runs, test, {name: networks[f"{name}-0"] for name in REGIMES})


def weights(runs: Path, seed: int, regime: str) -> Path:
    """Return the file of a training."""
    return runs / f"{regime}-{seed}.pt"


def train(frames: Path, runs: Path, epochs: int, seed: int, regime: str) -> None:
    """Run one training, unless its weights are there, and record its CPU seconds."""
    out = weights(runs, seed, regime)
    if out.exists():
        return
    command = candlelight("train", "intrinsic", frames, "--set", "train", "--regime", regime, "--seed", seed)
    command += ["--epochs", str(epochs), "--half", "--out", str(out)]
    command += ["--report", str(out.with_suffix(".html"))]
    with out.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{out}: failed, see its log")
    out.with_suffix(".seconds").write_text(f"{used.ru_utime + used.ru_stime:.0f}\n")
    print(f"{time.strftime('%H:%M:%S')} {out}: {used.ru_utime + used.ru_stime:.0f} CPU s", flush=True)


def print_scores(found: dict[str, dict[str, float]], seeds: int) -> None:
    """Print means over seeds with intervals, controls, and paired differences of the regimes."""
    columns = ("lmse", "lmse_reflectance", "lmse_shading", *CONSTANCY)
    rows: list[list[object]] = []
    for regime in REGIMES:
        values = [[found[f"{regime}-{seed}"][name] for seed in range(seeds)] for name in columns]
        rows.append([regime, *(with_interval(seed_interval(some)) for some in values)])
    for name in (key for key in found if key.rpartition("-")[0] not in REGIMES):
        known = found[name]  # a control of the reflectance alone has no LMSE
        rows.append([name, *(f"{known[column]:.4f}" if column in known else "" for column in columns)])
    print_table(["", *columns], rows)
    differences = []
    for (one, other), name in itertools.product(itertools.combinations(REGIMES, 2), columns):
        pairs = [found[f"{one}-{seed}"][name] - found[f"{other}-{seed}"][name] for seed in range(seeds)]
        p_value = mean_p_value(pairs, [str(seed) for seed in range(seeds)])
        differences.append([f"{one} - {other}", name, with_interval(seed_interval(pairs)), f"{p_value:.2g}"])
    print_table(["difference", "score", "mean", "p"], differences)


def with_interval(score: Score) -> str:
    """Format a score with its interval."""
    return f"{score.value:.4f} ({score.low:.4f} to {score.high:.4f})"


def print_times(runs: Path, jobs: list[tuple[int, str]]) -> None:
    """Print the CPU seconds of the trainings of each regime."""
    rows = []
    for regime in REGIMES:
        files = [weights(runs, seed, name).with_suffix(".seconds") for seed, name in jobs if name == regime]
        seconds = [int(file.read_text()) for file in files]
        rows.append([regime, min(seconds), max(seconds)])
    print_table(["CPU s of a training", "least", "most"], rows)


def draw_curves(runs: Path, seeds: int) -> None:
    """Draw the LMSE of held-out training scenes after each epoch."""
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.subplots()
    for regime in REGIMES:
        curves = [
            json.loads(weights(runs, seed, regime).with_suffix(".json").read_text())["history"]["validation"]
            for seed in range(seeds)
        ]
        epochs = range(1, len(curves[0]) + 1)
        line = axes.plot(epochs, np.mean(curves, 0), marker="o", markersize=3, label=regime)[0]
        axes.fill_between(epochs, np.min(curves, 0), np.max(curves, 0), color=line.get_color(), alpha=0.2)
    axes.set(xlabel="epochs", ylabel="LMSE of held-out scenes", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(runs / "training-curves.png", dpi=120)


def draw_pictures(runs: Path, test: object, networks: dict[str, torch.nn.Module]) -> None:
    """Draw images, true parts and predicted parts; shading is divided by the largest true one of its row."""
    rows = []
    for row in SHOWN:
        item = test[row]
        white = item.shading.amax()
        tiles = [item.image, item.reflectance, item.shading / white]
        for network in networks.values():
            with torch.no_grad():
                reflectance, shading = (part[0] for part in network(item.image[None]))
            tiles += [matched(reflectance, item.reflectance), matched(shading, item.shading) / white]
        rows.append(np.concatenate([linear_pixels(tile) for tile in tiles], 1))
    sheet: ndarray = np.concatenate(rows)
    Image.fromarray(sheet).resize((sheet.shape[1] * 3 // 2, sheet.shape[0] * 3 // 2)).save(
        runs / "regimes.jpg", quality=88
    )


def matched(given: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """Scale a prediction to the truth by least squares."""
    return given * (given * true).sum() / given.square().sum()


if __name__ == "__main__":
    main()
