"""Compare the counts of SAW with scipy's filters alone, and with one comparison of the image per threshold.

    python -m benchmarks.metrics.saw [--height 384] [--width 512] [--rounds 9]

Random shading with every pixel labelled, float64; one thread, CPU seconds, all programs by turns in one
process. The filters are two Sobel filters, their length and a maximum in windows of 10x10, as the published
programs run them; for the challenge also the gradient and the smooth regions of the encoded photograph. The
published programs then compare the whole image with each threshold.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import get_args

import numpy as np
import torch
from numpy import ndarray
from scipy import ndimage

from benchmarks.processes import print_table
from candlelight.evaluation.intrinsic.judgements import SAWVariant, count_smooth, saw_thresholds
from candlelight.loaders.colour import linear_to_srgb

WANTED = 1.5


def gradient(gray: ndarray) -> ndarray:
    return np.hypot(ndimage.sobel(gray, axis=1), ndimage.sobel(gray, axis=0))


def filters(gray: ndarray) -> tuple[ndarray, ndarray]:
    """Compute the gradient and its maximum in windows, with scipy."""
    slope = gradient(gray)
    return slope, ndimage.maximum_filter(slope, size=10)


def all_filters(gray: ndarray, labels: ndarray, image: ndarray, variant: SAWVariant) -> object:
    """Run all filters of a variant; the challenge needs the gradient and regions of the photograph too."""
    found: list[object] = [filters(gray)]
    if variant == "challenge2018":
        found += [gradient(linear_to_srgb(image).mean(0, dtype=np.float64)), ndimage.label(labels == 2)]
    return found


def compare_thresholds(gray: ndarray, labels: ndarray, variant: SAWVariant) -> ndarray:
    """Count by label and answer with one comparison of the image per threshold."""
    original = variant == "kovacs2017"
    plain, widest = filters(gray if original else np.log(np.maximum(gray, 1e-4)))
    tables = []
    for threshold in saw_thresholds(variant):
        smooth, smooth_nearby = plain < threshold, widest < threshold
        answers = [
            (smooth if label == 2 and not original else smooth_nearby)[labels == label] for label in range(3)
        ]
        tables.append([[np.sum(~answer), np.sum(answer)] for answer in answers])
    return np.array(tables)


def cpu_seconds(program: Callable[..., object], *arguments: object) -> float:
    before = time.process_time()
    program(*arguments)
    return time.process_time() - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--height", type=int, default=384)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    shape = options.height, options.width
    gray, labels = rng.lognormal(-1, 0.1, shape), rng.integers(0, 3, shape)
    ours = torch.from_numpy(gray)[None, None], torch.from_numpy(labels)[None]
    image = torch.from_numpy(rng.random((1, 3, *shape), np.float32))
    rows = []
    for variant in get_args(SAWVariant):
        times = [
            (
                cpu_seconds(all_filters, gray, labels, image[0].numpy(), variant),
                cpu_seconds(compare_thresholds, gray, labels, variant),
                cpu_seconds(count_smooth, *ours, variant, image),
            )
            for _ in range(options.rounds)
        ]
        counts, wanted = count_smooth(*ours, variant, image)[0], compare_thresholds(gray, labels, variant)
        labels_counted = 2 if variant == "challenge2018" else 3  # label 2 has weights there
        difference = np.abs(counts.numpy() - wanted)[:, :labels_counted].max()
        rows.append(
            (
                f"{variant}, {options.width}x{options.height}",
                *(statistics.median(column) for column in zip(*times, strict=True)),
                statistics.median(mine / alone for alone, _, mine in times),
                WANTED,
                float(difference),
            )
        )
    print_table(
        (
            "variant",
            "scipy's filters, CPU s",
            "each threshold, CPU s",
            "count_smooth, CPU s",
            "ratio to the filters",
            "wanted, at most",
            "largest difference",
        ),
        rows,
    )


if __name__ == "__main__":
    main()
