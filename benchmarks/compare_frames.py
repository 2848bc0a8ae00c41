"""Compare two folders of frames of one recipe, layer by layer, such as those of two versions of Blender.

    python -m benchmarks.compare_frames FRAMES OTHER_FRAMES

For each image set and layer: the share of frames whose layer is equal to the bit, the share of pixels that
differ, the largest difference, and the RMS difference divided by the RMS of the layer.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy import ndarray

from candlelight.loaders import FrameFolder


def compare(first: FrameFolder, second: FrameFolder) -> Iterator[str]:
    """Yield one line for each layer of a set."""
    rows = range(min(len(first), len(second)))
    pairs = [(first.frame(row).layers, second.frame(row).layers) for row in rows]
    for name in pairs[0][0]:
        equal, differ, largest, square, total = 0, 0.0, 0.0, 0.0, 0.0
        for one, other in pairs:
            a, b = _finite(one[name]), _finite(other[name])
            difference = np.abs(a - b)
            equal += one[name].tobytes() == other[name].tobytes()
            differ += float((difference > 0).reshape(*a.shape[:2], -1).any(axis=-1).mean()) / len(pairs)
            largest = max(largest, float(difference.max()))
            square, total = square + float((difference**2).sum()), total + float((a**2).sum())
        relative = (square / total) ** 0.5 if total else 0.0
        yield f"| {name} | {equal}/{len(pairs)} | {differ:.4f} | {largest:.4g} | {relative:.2g} |"


def _finite(layer: ndarray) -> ndarray:
    return np.nan_to_num(layer.astype(np.float64), posinf=0.0)


def main() -> None:
    """Print a table for each set."""
    roots = [Path(argument) for argument in sys.argv[1:3]]
    for name in sorted(path.name for path in (roots[0] / "samples").iterdir()):
        print(
            f"\n{name}\n\n| layer | equal frames | pixels that differ | largest difference | relative RMS |"
        )
        print("|---|---|---|---|---|")
        for line in compare(FrameFolder(roots[0], name), FrameFolder(roots[1], name)):
            print(line)


if __name__ == "__main__":
    main()
