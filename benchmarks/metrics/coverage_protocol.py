"""Compare the whole coverage protocol, from heatmaps to WAIoU, with numpy loops.

    python -m benchmarks.metrics.coverage_protocol [--images 500] [--side 96] [--rounds 3]
    python -m benchmarks.metrics.coverage_protocol --profile streams

Four methods, each with 8 maps of an eighth of the side, 9 disjoint parts, 10 proportions, both scenarios of
the paper (a threshold for each set, and for each image). The programs:

- `loop`: np.quantile of each pool, then loops over methods, proportions, images and parts, boolean masks;
- `streams`: `ExplanationStream`, `MaskStream`, `stream_iou` and `CoverageStatistic`;
- `evaluate`: the function that users call, once for each scenario, with ids, hashes and intervals.

Each program measures itself in a process of its own, on one thread, by turns. Times are CPU seconds, images
not included; the methods are run in `evaluate` alone, the other programs get their maps. Memory is the
growth of the peak beyond the images, masks and maps, which are in memory.
"""

import argparse
import cProfile
import json
import pstats
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from benchmarks.processes import print_table
from candlelight.evaluation import evaluate
from candlelight.evaluation.catalogue.coverage_options import PROPORTIONS, CoverageOptions, Pooling
from candlelight.evaluation.coverage.explanations import explanation_heatmap
from candlelight.evaluation.coverage.heatmap_streams import ExplanationStream, MaskStream, stream_iou
from candlelight.evaluation.coverage.waiou import CoverageStatistic
from candlelight.evaluation.views import DataIdentity, PartImage

METHODS, MAPS, PARTS, K, BATCH = 4, 8, 9, 1, 16
NAMES = [f"part {part}" for part in range(PARTS)]
SCENARIOS: tuple[Pooling, ...] = ("set", "image")
Scores = list[list[list[float]]]  # for each scenario, WAIoU and mean IoU of each method


def method(number: int, images: Tensor) -> Tensor:
    """Compute maps of images [batch, 3, side, side] by random filters."""
    filters = torch.randn(MAPS, 3, 8, 8, generator=torch.Generator().manual_seed(number))
    return functional.conv2d(images - 0.5, filters, stride=8).relu()


@dataclass
class Drawn:
    """Images, masks, and the maps of all methods; a view."""

    images: Tensor  # [images, 3, side, side]
    masks: Tensor  # [images, parts, side, side]
    maps: list[Tensor]  # [images, maps, side / 8, side / 8] of each method

    def __post_init__(self) -> None:
        self.identity = DataIdentity("drawn", "memory")
        self.ids = self.groups = tuple(f"image-{row}" for row in range(len(self.images)))
        self.known_ids = frozenset(self.ids)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> PartImage:
        return PartImage(self.images[row], dict(zip(NAMES, self.masks[row], strict=True)))


def drawn(count: int, side: int) -> Drawn:
    """Draw smooth images, and the cells around random points as parts."""
    rng = np.random.default_rng(0)
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side)))
    images, masks = torch.empty(count, 3, side, side), torch.empty(count, PARTS, side, side, dtype=torch.bool)
    for image, mask in zip(images, masks, strict=True):
        noise = torch.from_numpy(rng.random((1, 3, 9, 9), dtype=np.float32))
        image[:] = functional.interpolate(noise, (side, side), mode="bilinear")[0]
        distance = ((places - rng.random((PARTS, 2, 1, 1)) * side) ** 2).sum(1)
        mask[:] = torch.from_numpy((distance == distance.min(0)) & (distance < (side / 5) ** 2))
    maps = [
        torch.cat([method(number, images[start : start + BATCH]) for start in range(0, count, BATCH)])
        for number in range(METHODS)
    ]
    return Drawn(images, masks, maps)


def loop_limits(heatmaps: ndarray, members: ndarray, share: float, pooling: Pooling) -> ndarray:
    """Find the threshold of each image."""
    if pooling == "image":
        return np.array([np.quantile(one, 1 - share) for one in heatmaps])
    limits = np.empty(len(heatmaps), np.float32)
    for number in np.unique(members):
        limits[members == number] = np.quantile(heatmaps[members == number], 1 - share)
    return limits


def run_loop(data: Drawn) -> Scores:
    """Compute all scores with the masks and heatmaps of all images in memory."""
    side, masks = data.masks.shape[-1], data.masks.numpy()
    scores = []
    for pooling in SCENARIOS:
        best = np.full((METHODS, len(data), PARTS), np.nan)
        means = np.zeros(METHODS)
        for number, maps in enumerate(data.maps):
            members = maps.sum((2, 3)).argmax(1)
            chosen = maps[torch.arange(len(maps)), members][:, None]
            resized = functional.interpolate(chosen, (side, side), mode="bilinear")[:, 0].numpy()
            for share in PROPORTIONS:
                limits = loop_limits(resized, members.numpy(), share, pooling)
                iou = np.full((len(data), PARTS), np.nan)
                for row, heatmap in enumerate(resized):
                    marked = (heatmap >= limits[row]) & (heatmap > heatmap.min())
                    for part, mask in enumerate(masks[row]):
                        if mask.any():
                            both = np.logical_and(marked, mask).sum()
                            iou[row, part] = both / np.logical_or(marked, mask).sum()
                if np.nanmean(iou) > means[number]:
                    means[number], best[number] = np.nanmean(iou), iou
        covered = (best > 0).sum((0, 1))
        scores.append([(np.nansum(best, 1) / covered).mean(1).tolist(), means.tolist()])
    return scores


def run_streams(data: Drawn) -> Scores:
    """Compute all scores with streams, as `evaluate` does, but without intervals."""
    explained, shown = [ExplanationStream(str(number)) for number in range(METHODS)], MaskStream()
    for start in range(0, len(data), BATCH):
        for stream, maps in zip(explained, data.maps, strict=True):
            stream.append(explanation_heatmap(maps[start : start + BATCH], K))
        for masks in data.masks[start : start + BATCH]:
            shown.append(dict(zip(NAMES, masks, strict=True)))
    scores = []
    for pooling in SCENARIOS:
        thresholds = [stream.thresholds(PROPORTIONS, pooling, shown.shape) for stream in explained]
        iou = stream_iou(explained, thresholds, shown, NAMES, "exact")
        names = [stream.name for stream in explained]
        found = CoverageStatistic(iou, CoverageOptions(choose="same"), names, data.groups)(
            np.arange(len(data))
        )
        scores.append([[found[f"{metric} {name}"] for name in names] for metric in ("waiou", "mean_iou")])
    return scores


def run_evaluate(data: Drawn) -> Scores:
    """Compute all scores and their intervals; the methods are run once for each scenario."""
    methods = {str(number): partial(method, number) for number in range(METHODS)}
    scores = []
    for pooling in SCENARIOS:
        how: dict[str, Any] = {"k": K, "pooling": pooling, "choose": "same", "quick": True}
        found: Any = evaluate("coverage", data, methods, device="cpu", batch_size=BATCH, **how)
        results = found.values()
        scores.append(
            [[result.scores[metric].value for result in results] for metric in ("waiou", "mean_iou")]
        )
    return scores


PROGRAMS: dict[str, Callable[[Drawn], Scores]] = {
    "loop": run_loop,
    "streams": run_streams,
    "evaluate": run_evaluate,
}


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_alone(name: str, data: Drawn) -> None:
    """Run one program in this process, and print its measurements."""
    PROGRAMS[name](drawn(2 * BATCH, 32))  # imports and caches of the first call
    memory, before = peak(), time.process_time()
    scores = PROGRAMS[name](data)
    print(json.dumps({"cpu": time.process_time() - before, "memory": peak() - memory, "scores": scores}))


def measured(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Run one program in a process of its own."""
    words = ["--alone", name, "--images", str(options.images), "--side", str(options.side)]
    command = [sys.executable, "-m", "benchmarks.metrics.coverage_protocol", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", choices=PROGRAMS, help="print the functions that take longest")
    parser.add_argument("--alone", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.alone:
        run_alone(options.alone, drawn(options.images, options.side))
        return
    if options.profile:
        data = drawn(options.images, options.side)
        with cProfile.Profile() as profile:
            PROGRAMS[options.profile](data)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
        return
    rounds = [{name: measured(name, options) for name in PROGRAMS} for _ in range(options.rounds)]
    expected = np.array(rounds[0]["loop"]["scores"])
    rows = []
    for name in PROGRAMS:
        ratios = [one["loop"]["cpu"] / one[name]["cpu"] for one in rounds]
        difference = float(np.abs(np.array(rounds[0][name]["scores"]) - expected).max())
        medians = [statistics.median(one[name][key] for one in rounds) for key in ("cpu", "memory")]
        rows.append((name, medians[0], statistics.median(ratios), medians[1], difference))
    print_table(("program", "CPU s", "loop / it", "peak, MB above the data", "largest difference"), rows)


if __name__ == "__main__":
    main()
