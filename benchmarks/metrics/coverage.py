"""Compare the streamed coverage of many images with a numpy loop over images, proportions and parts.

    python -m benchmarks.metrics.coverage [--images 10000] [--compared 200] [--side 224] [--rounds 3]

The data are smooth random heatmaps of the size of the masks, 11 parts and 10 proportions; one thread, CPU
seconds. Both programs process the same few images by turns, in one process. Before, all images are streamed,
to measure the seconds and the peak memory of the process beyond its memory after the imports. A set holds an
eighth of the images.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy import ndarray

from benchmarks.processes import print_table
from candlelight.evaluation.catalogue.coverage_options import PROPORTIONS, Pooling
from candlelight.evaluation.coverage.heatmap_streams import ExplanationStream, MaskStream, stream_iou
from candlelight.evaluation.coverage.thresholds import Explanations

PARTS, SETS, DRAWN, BATCH = 11, 8, 64, 16
Images = tuple[ndarray, ndarray]  # heatmaps [images, side, side], masks [images, parts, side, side]
CASES: tuple[tuple[str, bool, Pooling, float], ...] = (
    ("disjoint parts, a threshold for each image", True, "image", 4),
    ("overlapping parts, a threshold for each image", False, "image", 3),
    ("disjoint parts, a threshold for each set", True, "set", 4),
)


def drawn_images(side: int, disjoint: bool) -> Images:
    """Draw heatmaps, and parts around random points: disjoint cells, or overlapping discs."""
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.random((DRAWN, 1, 14, 14), dtype=np.float32))
    heatmaps = torch.nn.functional.interpolate(noise, (side, side), mode="bicubic")[:, 0].numpy()
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side)))
    masks = np.empty((DRAWN, PARTS, side, side), bool)
    for one in masks:
        points = rng.random((PARTS, 2, 1, 1)) * side
        distance = np.sqrt(((places - points) ** 2).sum(1))
        one[:] = distance < side / 4
        if disjoint:
            one &= distance == distance.min(0)
    return heatmaps, masks


def loop(images: Images, count: int, pooling: Pooling) -> ndarray:
    """Compute thresholds of each image or set, mark the points, and compute the IoU with each part."""
    heatmaps, masks = images
    iou = np.full((len(PROPORTIONS), count, PARTS), np.nan)
    for number, share in enumerate(PROPORTIONS):
        if pooling == "set":
            limits = [
                np.quantile(heatmaps[np.arange(first, count, SETS) % DRAWN], 1 - share)
                for first in range(SETS)
            ]
        for row in range(count):
            heatmap = heatmaps[row % DRAWN]
            limit = limits[row % SETS] if pooling == "set" else np.quantile(heatmap, 1 - share)
            marked = (heatmap >= limit) & (heatmap > heatmap.min())
            for part, mask in enumerate(masks[row % DRAWN]):
                if mask.any():
                    both = np.logical_and(marked, mask).sum()
                    iou[number, row, part] = both / np.logical_or(marked, mask).sum()
    return iou


def streamed(images: Images, count: int, pooling: Pooling) -> ndarray:
    """Do the same with streams, as ``evaluate coverage`` does."""
    heatmaps, masks = images
    explained, shown = ExplanationStream("random"), MaskStream()
    names = [f"part {part}" for part in range(PARTS)]
    tensors = [dict(zip(names, torch.from_numpy(one), strict=True)) for one in masks]
    for start in range(0, count, BATCH):
        rows = np.arange(start, min(start + BATCH, count))
        members = torch.from_numpy(rows % SETS)[:, None]
        explained.append(Explanations(torch.from_numpy(heatmaps[rows % DRAWN]), members))
        for row in rows.tolist():
            shown.append(tensors[row % DRAWN])
    thresholds = explained.thresholds(PROPORTIONS, pooling, shown.shape)
    return stream_iou([explained], [thresholds], shown, names, "exact")[0]


def cpu_seconds(program: Callable[[], object]) -> float:
    before = time.process_time()
    program()
    return time.process_time() - before


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def row_of_table(
    case: tuple[str, bool, Pooling, float], before: float, options: argparse.Namespace
) -> tuple[object, ...]:
    name, disjoint, pooling, wanted = case
    images = drawn_images(options.side, disjoint)
    slow, fast = (partial(program, images, options.compared, pooling) for program in (loop, streamed))
    whole = cpu_seconds(partial(streamed, images, options.images, pooling))
    memory = peak() - before
    times = [(cpu_seconds(slow), cpu_seconds(fast)) for _ in range(options.rounds)]
    return (
        name,
        *(statistics.median(column) for column in zip(*times, strict=True)),
        statistics.median(slow / fast for slow, fast in times),
        wanted,
        float(np.nanmax(np.abs(slow() - fast()))),
        whole,
        memory,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--compared", type=int, default=200)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    before = peak()
    header = ("case", f"loop, CPU s for {options.compared}", "streamed, CPU s", "ratio", "wanted")
    header += ("largest difference", f"CPU s for {options.images}", "peak, MB above imports")
    print_table(header, [row_of_table(case, before, options) for case in CASES])


if __name__ == "__main__":
    main()
