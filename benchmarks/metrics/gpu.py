"""Compare metrics on a GPU with metrics on the CPU: values, seconds and peak memory at two sizes.

    python -m benchmarks.metrics.gpu [--rounds 3] [--shrink 1]

The inputs are random, float32, and already on the device. Seconds are wall-clock time of the fastest round,
with all cores of the CPU. Peak memory is the memory of the GPU's allocator during a call, beyond the inputs.
Poisson and Retinex run on the CPU alone.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.processes import print_table
from candlelight.evaluation.causal import irs
from candlelight.evaluation.concepts import directional_derivatives, fit_cavs
from candlelight.evaluation.coverage import binarise, explanation_heatmap, part_iou, set_threshold
from candlelight.evaluation.intrinsic import lmse, mse, si_mse

Inputs = tuple[Tensor, ...]
HEADER = ("metric", "size", "CPU value", "GPU value", "difference", "CPU s", "GPU s", "GPU peak MB")


def errors(
    metric: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Callable[[int], tuple[str, Callable[..., Tensor], Inputs]]:
    """Make the case of an error metric on 16 images."""

    def case(side: int) -> tuple[str, Callable[..., Tensor], Inputs]:
        images = torch.rand(3, 16, 3, side, side)
        if metric is lmse:
            images = images[:, :, 0]
        mask = torch.rand(16, side, side) < 0.7
        return f"16 x {side}x{side}", metric, (images[0], images[1], mask)

    return case


def robustness(samples: int) -> tuple[str, Callable[..., Tensor], Inputs]:
    """Make the case of IRS with 64 codes and 6 factors of 10 values."""
    factors = torch.randint(10, (samples, 6))
    codes = factors.float() @ torch.rand(6, 64) + torch.rand(samples, 64)
    return f"{samples} x 64 codes", lambda codes, factors: irs(codes, factors).matrix, (codes, factors)


def coverage(images: int) -> tuple[str, Callable[..., Tensor], Inputs]:
    """Make the case of IoUs with 11 parts at 10 proportions, for heatmaps [images, 8, 56, 56]."""
    labels = torch.randint(12, (images, 1, 224, 224))
    masks = labels == torch.arange(11)[:, None, None]

    def iou(maps: Tensor, masks: Tensor) -> Tensor:
        explained = explanation_heatmap(maps, 2).resized(224, 224)
        shares = [step / 100 for step in range(1, 11)]
        found = [binarise(explained.heatmap, set_threshold(explained, share)) for share in shares]
        return torch.stack([part_iou(binary, masks) for binary in found])

    return f"{images} x 224x224", iou, (torch.rand(images, 8, 56, 56), masks)


def vectors(dim: int) -> tuple[str, Callable[..., Tensor], Inputs]:
    """Make the case of derivatives at 50 inputs along 100 CAVs of 50 images against 200 negatives."""

    def derivatives(concept: Tensor, negatives: Tensor, gradients: Tensor) -> Tensor:
        drawn = torch.Generator().manual_seed(0)
        return directional_derivatives(fit_cavs(concept, negatives, generator=drawn), gradients, "cosine")

    blocks = torch.rand(50, dim) + 0.1, torch.rand(200, dim), torch.randn(50, dim)
    return f"{dim} activations", derivatives, blocks


CASES = {
    "mse": (errors(mse), (256, 512)),
    "si_mse": (errors(si_mse), (256, 512)),
    "lmse": (errors(lmse), (256, 512)),
    "irs": (robustness, (10_000, 100_000)),
    "coverage": (coverage, (50, 200)),
    "cavs": (vectors, (65_536, 1_048_576)),
}


def seconds(program: Callable[..., Tensor], inputs: Inputs, rounds: int) -> tuple[Tensor, float]:
    """Run a program, and return its result on the CPU and the time of its fastest round."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        result = program(*inputs).cpu()
        times.append(time.perf_counter() - started)
    return result, min(times)


def measure(name: str, size: int, rounds: int, device: str) -> tuple[object, ...]:
    """Measure one row of the table."""
    torch.manual_seed(0)
    label, program, inputs = CASES[name][0](size)
    expected, on_cpu = seconds(program, inputs, rounds)
    moved = tuple(one.to(device) for one in inputs)
    seconds(program, moved, 1)  # the first call loads kernels
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    found, on_gpu = seconds(program, moved, rounds)
    peak = (torch.cuda.max_memory_allocated() - held) / 1e6
    difference = float((found - expected).abs().nan_to_num(0).max())
    values = float(expected.nanmean()), float(found.nanmean())
    return name, label, *(f"{value:.9g}" for value in values), f"{difference:.1e}", on_cpu, on_gpu, peak


def main() -> None:
    """Measure and print; one line without a GPU."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shrink", type=int, default=1, help="Divide all sizes by this.")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("There is no GPU that torch can use: nothing was measured.")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    sizes = [(name, size // options.shrink) for name, (_, both) in CASES.items() for size in both]
    print_table(HEADER, (measure(name, size, options.rounds, "cuda") for name, size in sizes))


if __name__ == "__main__":
    main()
