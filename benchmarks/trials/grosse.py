r"""Compare a result of the 2009 benchmark with a slow restatement that solves by multigrid.

    pip install pyamg
    candlelight evaluate intrinsic mit:MIT-intrinsic --split grosse --methods GR-RET,COL-RET,W,W+RET \\
        --out lmse.json
    python -m benchmarks.trials.grosse MIT-intrinsic lmse.json

For each method and object, the restatement decomposes the object by the candidate that the result chose,
with 16-bit values over 255, loops over windows, and a solver that stops at a relative residual of 1e-5. It
prints the largest relative difference of the LMSE of each method.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyamg
from numpy import ndarray
from scipy.sparse import coo_array

from candlelight.loaders.public.image_formats import read_png16


def main(folder: Path, results: Path) -> None:
    """Print the largest relative difference of each method."""
    for result in json.loads(results.read_text())["results"]:
        details, name = result["details"], result["about"]["model"]["name"]
        worst = 0.0
        for row, item in enumerate(result["ids"]):
            thresholds = details["candidates"][details["chosen"][row]]
            slow = score(folder / "data" / item, name, thresholds)
            worst = max(worst, abs(slow / result["columns"]["lmse"][row] - 1))
        print(f"{name}: {worst:.1e}", flush=True)


def score(folder: Path, method: str, thresholds: list[float]) -> float:
    """Decompose one object and compute its score."""
    diffuse, truth = read(folder / "diffuse.png"), read(folder / "reflectance.png").mean(2)
    shading, mask = read(folder / "shading.png"), read(folder / "mask.png") > 0
    image = np.maximum(diffuse.mean(2), 3.0)
    if method == "COL-RET":
        colours = np.maximum(diffuse, 3.0)
        image = colours.mean(2)
        steps = [differences(np.log(colours[..., channel])) for channel in range(3)]
        gradients = []
        for axis, kept in enumerate(differences(np.log(image))):
            parts = np.stack([step[axis] for step in steps])
            chroma = np.sqrt(((parts - parts.mean(0)) ** 2).sum(0))
            strong = (chroma > thresholds[1]) | (np.abs(parts.mean(0)) > thresholds[0])
            gradients.append(np.where(strong, kept, 0.0))
    elif method == "GR-RET":
        gradients = [np.where(np.abs(part) > thresholds[0], part, 0.0) for part in differences(np.log(image))]
    else:
        lights = [np.maximum(read(folder / f"light{n:02d}.png").mean(2), 3.0) for n in range(1, 11)]
        every = [differences(np.log(light)) for light in lights]
        gradients = [np.median([step[axis] for step in every], axis=0) for axis in (0, 1)]
        if method == "W+RET":
            gradients = [np.where(np.abs(part) > thresholds[0], part, 0.0) for part in gradients]
    reflectance = mask * np.exp(solve(*gradients, mask))
    estimate = np.where(mask, image / np.where(mask, reflectance, 1.0), 0.0)
    return 0.5 * local_error(shading, estimate, mask) + 0.5 * local_error(truth, reflectance, mask)


def read(path: Path) -> ndarray:
    """Read 16-bit values over 255, as the authors do."""
    return read_png16(path, "").astype(float) * 257


def differences(image: ndarray) -> tuple[ndarray, ndarray]:
    """Backward differences along rows and columns, 0 in the first ones."""
    down, right = np.zeros_like(image), np.zeros_like(image)
    down[1:], right[:, 1:] = image[1:] - image[:-1], image[:, 1:] - image[:, :-1]
    return down, right


def solve(down: ndarray, right: ndarray, mask: ndarray) -> ndarray:
    """Least squares over pairs of neighbours in the mask, by algebraic multigrid."""
    number = -np.ones(mask.shape, int)
    number[mask] = np.arange(mask.sum())
    rows, columns, values, wanted = [], [], [], np.zeros(int(mask.sum()))
    for part, shift in ((down, (1, 0)), (right, (0, 1))):
        dy, dx = shift
        here = mask.copy()
        here[:dy], here[:, :dx] = False, False
        here[dy:, dx:] &= mask[: mask.shape[0] - dy, : mask.shape[1] - dx]
        places = np.argwhere(here)
        i, j = number[here], number[places[:, 0] - dy, places[:, 1] - dx]
        one = np.ones(len(i))
        rows += [i, j, i, j]
        columns += [i, j, j, i]
        values += [one, one, -one, -one]
        np.add.at(wanted, i, part[here])
        np.add.at(wanted, j, -part[here])
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    matrix = coo_array(entries, shape=(wanted.size, wanted.size)).tocsr()
    image = np.zeros(mask.shape)
    image[mask] = pyamg.ruge_stuben_solver(matrix).solve(wanted, tol=1e-5)
    return image


def local_error(truth: ndarray, estimate: ndarray, mask: ndarray) -> float:
    """LMSE with windows of 20 pixels that lie wholly in the image, 10 pixels apart."""
    error = total = 0.0
    for y in range(0, truth.shape[0] - 19, 10):
        for x in range(0, truth.shape[1] - 19, 10):
            inside = mask[y : y + 20, x : x + 20]
            t, e = truth[y : y + 20, x : x + 20], estimate[y : y + 20, x : x + 20]
            energy = (inside * e**2).sum()
            scale = (inside * t * e).sum() / energy if energy > 1e-5 else 0.0
            error += (inside * (t - scale * e) ** 2).sum()
            total += (inside * t**2).sum()
    return error / total


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
