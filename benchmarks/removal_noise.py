"""Measure how exactly a frame without a part equals the original elsewhere.

    python -m benchmarks.removal_noise [--samples 4 16 64 256] [--reference 1024] [--size 64]

One scene of `parts-removed`, not denoised, with four seeds of the renderer, and the same without parts.
Outside the pixels whose mask changes, widened by two, albedo, depth, normal, object and part are equal.
Light differs there by shadows and reflections, which are the true change, and by noise. The true change of a
pixel is the mean change of all seeds at many samples. The noise is the RMS distance from it: of the change
between an original and its counterfactual, which share their seed, and of that between frames of two seeds.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from candlelight.generators import load_recipe, make_plan, render
from candlelight.generators.commands.render_options import check_outcome
from candlelight.loaders import Frame
from candlelight.loaders.frame_folder import FrameFolder

EXACT = ("albedo", "depth", "normal", "object", "part")
LIGHT = ("radiance", "shading")
SEEDS = 4
# Every factor and variable that another unit would draw anew.
SCENE = {
    **{"class": "alpha", "scene": "garden", "rotation": -90, "camera_height": 2, "hue": 200, "spin": 20},
    **{"distractor_1": "red", "distractor_2": "blue", "distractor_3": "yellow", "turn": 0, "size": 2},
    **{"x_1": 0.7, "x_2": -0.7, "x_3": 0, "y_1": 0.8, "y_2": 0.8, "y_3": 1.1},
    **{"light_azimuth": 40, "elevation": 50, "power": 450, "temperature": 5000},
}
PARTS = ("beak", "crest", "wings", "tail", "feet")
REMOVALS = ({"beak": "absent"}, {"feet": "absent"}, dict.fromkeys(PARTS, "absent"))


class Removal(NamedTuple):
    """A frame and the same without some parts, rendered with one seed."""

    original: Frame
    removed: Frame

    def elsewhere(self) -> ndarray:
        """Return the pixels outside those whose mask changes, widened by two."""
        first, second = (
            frame.layers["object"].astype(int) * 256 + frame.layers["part"]
            for frame in (self.original, self.removed)
        )
        return ~widened(first != second)


def widened(mask: ndarray, by: int = 2) -> ndarray:
    """Widen a mask (height x width) by some pixels to each side."""
    padded = np.pad(mask, by)
    height, width = mask.shape
    steps = range(2 * by + 1)
    return np.any([padded[dy : dy + height, dx : dx + width] for dy in steps for dx in steps], axis=0)


def render_removals(out: Path, samples: int, size: int, seeds: int = SEEDS) -> list[list[Removal]]:
    """Render one scene with several seeds, and its removals: those of each seed for each of `REMOVALS`."""
    changes = {
        "sets.original": {"grid": [], "draws": seeds, "do": SCENE},
        "sets.removed.counterfactual": {"do": list(REMOVALS)},
        "render": {"samples": samples},
        "image": {"width": size, "height": size},
    }
    overrides = [
        f"{place}.{field}={json.dumps(value)}"
        for place, fields in changes.items()
        for field, value in fields.items()
    ]
    plan = make_plan(load_recipe("parts-removed", [*overrides, "render.denoise=false"])).of_set(
        "original", "removed"
    )
    check_outcome(render(plan, out, workers=1), out)
    original, removed = FrameFolder(out, "original"), FrameFolder(out, "removed")
    found = {frame.metadata.id: frame for frame in map(original.frame, range(seeds))}
    pairs = [
        Removal(found[str(one.metadata.counterfactual_of)], one)
        for one in map(removed.frame, range(len(removed)))
    ]
    return [pairs[k :: len(REMOVALS)] for k in range(len(REMOVALS))]


def unequal(pair: Removal) -> Counter[str]:
    """Count the pixels elsewhere in which layers differ that should be equal, by layer."""
    where = pair.elsewhere()
    found = {name: pair.original.layers[name] != pair.removed.layers[name] for name in EXACT}
    flat = {name: differ if differ.ndim == 2 else differ.any(axis=-1) for name, differ in found.items()}
    return Counter({name: int((differ & where).sum()) for name, differ in flat.items()})


def change(original: Frame, removed: Frame, layer: str) -> ndarray:
    """Return by how much a layer differs."""
    return removed.layers[layer].astype(np.float64) - original.layers[layer]


def root_mean_square(values: ndarray) -> float:
    """Return the root of the mean of squares."""
    return float(np.sqrt(np.square(values).mean()))


def noise(pairs: Sequence[Removal], true: ndarray, layer: str) -> tuple[float, float]:
    """Return the RMS distance of changes of one seed, and of two, from the true one, elsewhere."""
    where = pairs[0].elsewhere()
    same = [change(*pair, layer) - true for pair in pairs]
    other = [
        change(a.original, b.removed, layer) - true
        for a, b in zip(pairs, [*pairs[1:], pairs[0]], strict=True)
    ]
    return root_mean_square(np.array(same)[:, where]), root_mean_square(np.array(other)[:, where])


def rows(samples: Sequence[int], reference: int, size: int) -> Iterator[str]:
    """Measure, and yield the rows of the table."""
    with TemporaryDirectory() as folder:
        best = render_removals(Path(folder) / "reference", reference, size)
        true = {
            layer: [np.mean([change(*pair, layer) for pair in pairs], axis=0) for pairs in best]
            for layer in LIGHT
        }
        differing, pixels = Counter[str](), 0
        for count in samples:
            measured = render_removals(Path(folder) / str(count), count, size)
            for pair in chain(*measured):
                differing += unequal(pair)
                pixels += int(pair.elsewhere().sum())
            cells = []
            for layer in LIGHT:
                found = [noise(pairs, its, layer) for pairs, its in zip(measured, true[layer], strict=True)]
                cells += [f"{value:.2e}" for value in np.mean(found, axis=0)]
            yield " | ".join([f"| {count}", *cells]) + " |"
        changed = [
            np.mean(
                [
                    root_mean_square(its[pairs[0].elsewhere()])
                    for pairs, its in zip(best, true[layer], strict=True)
                ]
            )
            for layer in LIGHT
        ]
        yield f"true change: radiance {changed[0]:.2e}, shading {changed[1]:.2e}"
        yield f"differing elsewhere: {dict(differing) or 'none'} of {pixels} pixels"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[4, 16, 64, 256])
    parser.add_argument("--reference", type=int, default=1024)
    parser.add_argument("--size", type=int, default=64)
    given = parser.parse_args()
    print(
        "| samples | radiance, one seed | two seeds | shading, one seed | two seeds |\n|---|---|---|---|---|"
    )
    for row in rows(given.samples, given.reference, given.size):
        print(row, flush=True)
