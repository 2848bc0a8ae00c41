"""Compare LMSE of a batch with the numpy loop over windows of the benchmark of Grosse et al.

    python -m benchmarks.metrics.lmse [--images 16] [--side 512] [--rounds 5]

Random images in float32, ellipses as masks; one thread, CPU seconds, both programs by turns in one process.
The scores are compared on images in float64. The memory is the growth of the process's peak in the first
call, beyond the memory that drawing the images took.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from benchmarks.processes import print_table
from candlelight.evaluation.intrinsic.lmse import ENERGY_FLOOR, lmse

WANTED = 15


def window_loop(prediction: ndarray, target: ndarray, mask: ndarray, side: int = 20) -> float:
    """Find the best scale of each window, and the remaining error."""
    errors, total = 0.0, 0.0
    for top in range(0, target.shape[0] - side + 1, side // 2):
        for left in range(0, target.shape[1] - side + 1, side // 2):
            window = np.s_[top : top + side, left : left + side]
            estimate, truth, weight = prediction[window], target[window], mask[window]
            energy = np.sum(weight * estimate**2)
            scale = np.sum(weight * truth * estimate) / energy if energy > ENERGY_FLOOR else 0.0
            errors += np.sum(weight * (truth - scale * estimate) ** 2)
            total += np.sum(weight * truth**2)
    return errors / total


def loop_over_images(prediction: ndarray, target: ndarray, mask: ndarray) -> list[float]:
    return [window_loop(*images) for images in zip(prediction, target, mask, strict=True)]


def cpu_seconds(program: Callable[..., object], *arguments: object) -> float:
    before = time.process_time()
    program(*arguments)
    return time.process_time() - before


def drawn_images(count: int, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw predictions and targets, and ellipses as masks."""
    generator = torch.Generator().manual_seed(0)
    prediction, target = torch.rand(2, count, side, side, generator=generator)
    across = torch.linspace(-1, 1, side)
    widths = torch.linspace(0.5, 1, count)[:, None, None]
    return prediction, target, across[:, None] ** 2 + (across / widths) ** 2 < 1


def largest_difference(prediction: Tensor, target: Tensor, mask: Tensor) -> float:
    """Compare the scores of both programs, from images in float64."""
    images = prediction.double(), target.double(), mask
    return float(np.abs(lmse(*images).numpy() - loop_over_images(*(image.numpy() for image in images))).max())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    images = drawn_images(options.images, options.side)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lmse(*images)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    times = [
        (cpu_seconds(loop_over_images, *(image.numpy() for image in images)), cpu_seconds(lmse, *images))
        for _ in range(options.rounds)
    ]
    print_table(
        (
            "images",
            "loop, CPU s",
            "lmse, CPU s",
            "ratio",
            "wanted",
            "largest difference",
            "further memory, MB",
        ),
        [
            (
                f"{options.images} x {options.side}x{options.side}",
                *(statistics.median(column) for column in zip(*times, strict=True)),
                statistics.median(slow / fast for slow, fast in times),
                WANTED,
                largest_difference(*images),
                memory,
            )
        ],
    )


if __name__ == "__main__":
    main()
