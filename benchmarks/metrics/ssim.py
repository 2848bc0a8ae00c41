"""Compare SSIM and MS-SSIM of a batch with the package pytorch-msssim, whose windows are convolutions.

    python -m benchmarks.metrics.ssim [--images 16] [--side 256] [--rounds 5]

Random images of three channels in float64, because float32 gives bright flat areas a variance below 0; one
thread, CPU seconds per image, both programs by turns in one process, the smallest of all rounds. The package
takes the images all at once, and one by one, which is faster on a CPU.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytorch_msssim
import torch
from torch import Tensor

from benchmarks.processes import print_table
from candlelight.evaluation.intrinsic.ssim import ms_ssim, ssim

WANTED = 1.4


def cpu_seconds(program: Callable[[], Tensor], count: int) -> tuple[float, Tensor]:
    """Return the CPU seconds per image, and the scores."""
    before = time.process_time()
    scores = program()
    return (time.process_time() - before) / count, scores


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shape = 2, options.images, 3, options.side, options.side
    prediction, target = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mask = torch.ones(options.images, options.side, options.side, dtype=torch.bool)
    across = torch.arange(-5, 6, dtype=torch.float64)
    window = torch.softmax(-across.square() / (2 * 1.5**2), 0).expand(3, 1, 1, 11)
    same: dict[str, Any] = {"data_range": 1.0, "size_average": False, "win": window}
    pairs = list(zip(prediction.split(1), target.split(1), strict=True))
    rows: list[tuple[object, ...]] = []
    for name, peer, ours in (
        ("ssim", pytorch_msssim.ssim, ssim),
        ("ms_ssim", pytorch_msssim.ms_ssim, ms_ssim),
    ):
        programs: tuple[Callable[[], Tensor], ...] = (
            partial(peer, prediction, target, **same),
            lambda peer=peer: torch.cat([peer(*pair, **same) for pair in pairs]),
            partial(ours, prediction, target, mask),
        )
        seconds, scores = [float("inf")] * len(programs), [mask] * len(programs)
        for _ in range(options.rounds):
            for place, program in enumerate(programs):
                spent, scores[place] = cpu_seconds(program, options.images)
                seconds[place] = min(seconds[place], spent)
        difference = float((scores[2] - scores[0]).abs().max())
        rows.append((name, *seconds, min(seconds[:2]) / seconds[2], WANTED, difference))
    heads = "metric", "package, CPU s", "one by one, CPU s", "ours, CPU s", "ratio", "wanted", "difference"
    print_table(heads, rows)


if __name__ == "__main__":
    main()
