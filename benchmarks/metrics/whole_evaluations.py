"""Time whole calls of `evaluate` on the CPU and on a GPU: inputs, networks, scores and intervals.

    python -m benchmarks.metrics.whole_evaluations [--shrink 1] [--only lmse,csm]

Eight images are drawn once and repeated; the networks are small and untrained. Seconds are wall-clock time of
one call, after a call on few images that loads kernels; the CPU uses all cores that torch takes. "apart" is
the largest relative difference of the scores. Without a GPU only the CPU is timed.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.processes import print_table
from candlelight.evaluation import evaluate
from candlelight.evaluation.concepts import CSMData
from candlelight.evaluation.coverage import ExplainedImages
from candlelight.evaluation.views import (
    Comparisons,
    ConceptSet,
    DataIdentity,
    DecomposedImage,
    JudgedImage,
    PartImage,
)
from candlelight.loaders.schema import FactorInfo

HEADER = ("evaluation", "size", "CPU s", "GPU s", "CPU / GPU", "apart", "GPU peak MB")
DRAWN = 8


class Repeated:
    """A view of a few items, repeated as often as a user has images."""

    def __init__(self, items: list[Any], count: int, name: str = "drawn", **members: Any) -> None:
        self.items, self.identity = items, DataIdentity(name, "memory")
        self.ids = tuple(f"{name}-{row}" for row in range(count))
        self.groups, self.known_ids = self.ids, frozenset(self.ids)
        vars(self).update(members)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> Any:
        return self.items[row % len(self.items)]


class Decomposer(nn.Module):
    """Four convolutions of 16 channels, and one that divides the image into reflectance and shading."""

    def __init__(self) -> None:
        super().__init__()
        layers = (nn.Sequential(nn.Conv2d(size, 16, 3, padding=1), nn.ReLU()) for size in (3, 16, 16, 16))
        self.hidden = nn.Sequential(*layers)
        self.last = nn.Conv2d(16, 1, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return reflectance and shading."""
        shading = torch.sigmoid(self.last(self.hidden(image))) + 0.1
        return image / shading, shading


def lmse(count: int) -> tuple[str, Repeated, Any, dict[str, Any]]:
    """Images of 512 x 512 pixels with their truth, and a network."""
    true = torch.rand(DRAWN, 3, 3, 512, 512)
    mask = torch.ones(512, 512, dtype=torch.bool)
    items = [DecomposedImage(one[0] * one[1], one[0], one[1], mask) for one in true]
    return f"{count} x 512x512", Repeated(items, count, explains="image"), Decomposer(), {}


def whdr(count: int) -> tuple[str, Repeated, Any, dict[str, Any]]:
    """Images of 512 x 512 pixels with 100 comparisons each, and a network."""
    made = [
        Comparisons(torch.rand(100, 2, 2).double(), torch.arange(100) % 3, torch.ones(100).double())
        for _ in range(DRAWN)
    ]
    items = [JudgedImage(image, one) for image, one in zip(torch.rand(DRAWN, 3, 512, 512), made, strict=True)]
    return f"{count} x 512x512", Repeated(items, count, origin="human"), Decomposer(), {}


def csm(count: int) -> tuple[str, CSMData, Any, dict[str, Any]]:
    """Activations [16, 256, 256] of test images; two sets of 100 images, 200 negatives, 100 vectors."""

    def images(name: str, some: int, **members: Any) -> Repeated:
        return Repeated(list(torch.rand(some, 3, 256, 256)), some, name, **members)

    sets = (ConceptSet({"scene": "room"}, tuple(range(100))),)
    test = torch.rand(DRAWN, 2, 3, 256, 256)
    mask = torch.ones(256, 256, dtype=torch.bool)
    items = [DecomposedImage(one[0] * one[1], one[0], one[1], mask) for one in test]
    data = CSMData(
        Repeated(items, count, "test", explains="image"),
        images("negative", 200),
        images("albedo", 100, sets=sets, varies="albedo"),
        images("lit", 100, sets=sets, varies="illumination"),
    )
    return f"{count} x 16x256x256", data, Decomposer(), {"layer": ("hidden.3",), "runs": 100}


def coverage(count: int) -> tuple[str, ExplainedImages, Any, dict[str, Any]]:
    """Images of 224 x 224 pixels with 11 parts, and maps [16, 224, 224] of a layer."""
    labels = torch.randint(12, (DRAWN, 224, 224))
    images = torch.rand(DRAWN, 3, 224, 224)
    items = [
        PartImage(image, {f"part {part}": one == part for part in range(11)})
        for image, one in zip(images, labels, strict=True)
    ]
    return f"{count} x 224x224", ExplainedImages(Repeated(items, count)), Decomposer().hidden, {"k": 4}


def codes(count: int) -> tuple[str, Repeated, Any, dict[str, Any]]:
    """Codes [64] of images of 32 x 32 pixels with 6 factors of 10 values: IRS, UC, MIG and SAP."""
    table = np.random.default_rng(0).integers(10, size=(count, 6)).astype(np.float64)
    infos = tuple(
        FactorInfo(name=f"factor {place}", kind="categorical", values=tuple(range(10))) for place in range(6)
    )
    images = list(torch.rand(count, 3, 32, 32))
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 64))
    options = {"metrics": ("irs", "unconfoundedness", "mig", "sap"), "controls": False}
    return f"{count} x 64 codes", Repeated(images, count, factors=infos, table=table), encoder, options


CASES: dict[str, tuple[Callable[[int], tuple[str, Any, Any, dict[str, Any]]], int]] = {
    "lmse": (lmse, 1000),
    "whdr": (whdr, 1000),
    "csm": (csm, 42),
    "coverage": (coverage, 1000),
    "codes": (codes, 10_000),
}


def timed(
    name: str, data: Any, model: Any, device: str, options: dict[str, Any]
) -> tuple[float, list[float]]:
    """Return the seconds of one call, and its scores."""
    started = time.perf_counter()
    found = evaluate(name, data, {"m": model.to(device)}, device=device, **options)
    scores = [score.value for result in found.values() for score in result.scores.values()]
    return time.perf_counter() - started, scores


def measure(name: str, shrink: int) -> Iterator[object]:
    """Measure one row of the table."""
    torch.manual_seed(0)
    make, count = CASES[name]
    label, data, model, options = make(max(16, count // shrink))
    cpu, expected = timed(name, data, model, "cpu", options)
    yield from (name, label, cpu)
    if not torch.cuda.is_available():
        yield from ("", "", "", "")
        return
    torch.manual_seed(0)
    timed(name, make(200 if name == "codes" else 16)[1], model, "cuda", options)
    torch.cuda.reset_peak_memory_stats()
    gpu, found = timed(name, data, model, "cuda", options)
    pairs = np.array([expected, found])
    apart = np.nanmax(np.abs(pairs[1] - pairs[0]) / np.maximum(np.abs(pairs[0]), 1e-9))
    yield from (gpu, f"{cpu / gpu:.1f}", f"{apart:.1e}", torch.cuda.max_memory_allocated() / 1e6)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shrink", type=int, default=1, help="Divide the numbers of images by this.")
    parser.add_argument("--only", default=",".join(CASES), help="Names of evaluations.")
    given = parser.parse_args()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print_table(HEADER, (tuple(measure(name, given.shrink)) for name in given.only.split(",")))


if __name__ == "__main__":
    main()
