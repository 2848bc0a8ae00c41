r"""Compare results of the 2009 benchmark with a slow restatement of its authors' program.

    candlelight evaluate methods mit:MIT-intrinsic --split grosse --l1 --model weiss \
        --out lmse.json
    python -m benchmarks.trials.grosse MIT-intrinsic lmse.json

Each object is decomposed by the candidate that the result chose, and scored, with values of 0 to 257. The
script prints the largest relative difference of the LMSE of each method. TAP-05 and TAP-06 are left out: the
program of neither is public.

Each method raises values of up to 257 to the power 3, and then divides an image into reflectance and shading:

    BAS       nothing               channel mean
    GR-RET    channel mean          channel mean, raised
    COL-RET   channels              channel mean of raised channels
    W, W+RET  channel means of the  channel mean of the image, as it is
              images under lights
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from scipy.sparse import coo_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

from candlelight.loaders.public.image_formats import read_png16
from candlelight.loaders.public.mit import SOURCE

DARKEST = 3.0


class Capture(NamedTuple):
    """An object with values of 0 to 257: colours [height, width, 3], and gray shading."""

    diffuse: ndarray
    reflectance: ndarray
    shading: ndarray
    mask: ndarray
    lights: Sequence[ndarray] = ()


def main(folder: Path, results: Path) -> None:
    """Print the largest relative difference of each method."""
    for result in json.loads(results.read_text())["results"]:
        name = result["about"]["model"]["name"]
        if name.startswith("TAP") or name == "square root":
            continue
        worst = 0.0
        for row, item in enumerate(result["ids"]):
            slow = score(read_capture(folder / "data" / item), *chosen(name, result["details"], row))
            worst = max(worst, abs(slow / result["columns"]["lmse"][row] - 1))
        print(f"{name}: {worst:.1e}", flush=True)


def chosen(name: str, details: dict[str, Any], row: int) -> tuple[str, list[Any], bool]:
    """Return the method of a result, its candidate for a row, and whether p = 1."""
    method, _, absolute = name.partition(" L")
    if name == "weiss":
        return "W", [], False
    candidate = details["candidates"][details["chosen"][row]]
    if method.startswith("BAS"):
        return "BAS", [candidate.removeprefix("BAS ")], False
    return method, candidate, bool(absolute)


def score(given: Capture, method: str, candidate: Sequence, absolute: bool = False) -> float:
    """Decompose one object and compute its score: the mean LMSE of shading and reflectance."""
    shading, reflectance = decompose(given, method, candidate, absolute)
    parts = (given.shading, shading), (given.reflectance.mean(2), reflectance)
    return sum(0.5 * local_error(true, estimate, given.mask) for true, estimate in parts)


def decompose(
    given: Capture, method: str, candidate: Sequence, absolute: bool = False
) -> tuple[ndarray, ndarray]:
    """Return shading and reflectance by one candidate of a method."""
    image, mask = given.diffuse.mean(2), given.mask
    if method == "BAS":
        return (image, 1.0 * mask) if candidate[0] == "shading" else (1.0 * mask, image)
    if method == "GR-RET":
        image = raised(image)
        steps = strong(differences(np.log(image)), candidate[0])
    elif method == "COL-RET":
        colours = raised(given.diffuse)
        image = colours.mean(2)
        steps = []
        for channels, step in zip(differences(np.log(colours)), differences(np.log(image)), strict=True):
            brightness = channels.mean(2)
            chroma = np.linalg.norm(channels - brightness[..., None], axis=2)
            steps.append(np.where((np.abs(brightness) > candidate[0]) | (chroma > candidate[1]), step, 0.0))
    else:
        lit = [differences(np.log(raised(light.mean(2)))) for light in given.lights]
        steps = [np.median([one[axis] for one in lit], axis=0) for axis in (0, 1)]
        if method == "W+RET":
            steps = strong(steps, candidate[0])
    solve = reweighted if absolute else least_squares
    reflectance = np.exp(solve(*steps, mask))
    return np.where(mask, image / reflectance, 0.0), np.where(mask, reflectance, 0.0)


def raised(image: ndarray) -> ndarray:
    return np.maximum(image, DARKEST)


def strong(steps: Sequence[ndarray], threshold: float) -> list[ndarray]:
    return [np.where(np.abs(step) > threshold, step, 0.0) for step in steps]


def differences(image: ndarray) -> list[ndarray]:
    """Backward differences along rows and columns, 0 in the first ones."""
    down, right = np.zeros_like(image), np.zeros_like(image)
    down[1:], right[:, 1:] = image[1:] - image[:-1], image[:, 1:] - image[:, :-1]
    return [down, right]


def least_squares(down: ndarray, right: ndarray, mask: ndarray, weights: Sequence = (1.0, 1.0)) -> ndarray:
    """Weighted least squares over the pairs of neighbours in the mask; one pixel of each region is 0."""
    number = np.full(mask.shape, -1)
    number[mask] = np.arange(mask.sum())
    firsts, seconds, wanted, weight = [], [], [], []
    for step, many, above in ((down, weights[0], (1, 0)), (right, weights[1], (0, 1))):
        before = np.roll(number, above, (0, 1))
        before[: above[0]], before[:, : above[1]] = -1, -1
        pair = mask & (before >= 0)
        firsts.append(number[pair])
        seconds.append(before[pair])
        wanted.append(step[pair])
        weight.append(np.broadcast_to(many, mask.shape)[pair])
    first, second, target, scale = map(np.concatenate, (firsts, seconds, wanted, weight))
    rows, ones = np.arange(first.size), np.ones(first.size)
    entries = np.concatenate([ones, -ones]), (np.tile(rows, 2), np.concatenate([first, second]))
    edges = coo_array(entries, shape=(first.size, mask.sum())).tocsc()
    matrix = edges.T @ diags_array(scale) @ edges
    free = np.ones(mask.sum(), bool)
    free[np.unique(connected_components(matrix, directed=False)[1], return_index=True)[1]] = False
    values = np.zeros(mask.sum())
    if free.any():
        values[free] = spsolve(matrix[free][:, free].tocsc(), (edges.T @ (scale * target))[free])
    image = np.zeros(mask.shape)
    image[mask] = values
    return image


def reweighted(down: ndarray, right: ndarray, mask: ndarray) -> ndarray:
    """Least absolute errors: least squares, reweighted 20 times."""
    image = least_squares(down, right, mask)
    for _ in range(20):
        errors = [np.abs(found - step) for found, step in zip(differences(image), (down, right), strict=True)]
        image = least_squares(down, right, mask, [0.5 / np.maximum(error * mask, 1e-4) for error in errors])
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
    return float(error / total)


def read_capture(folder: Path) -> Capture:
    """Read 16-bit values over 255, as the authors do."""
    names = "diffuse", "reflectance", "shading", "mask", *(f"light{number:02d}" for number in range(1, 11))
    diffuse, reflectance, shading, mask, *lights = (
        read_png16(folder / f"{name}.png", SOURCE).astype(float) * 257 for name in names
    )
    return Capture(diffuse, reflectance, shading, mask > 0, lights)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
