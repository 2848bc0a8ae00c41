"""Compare the Poisson solver within a mask with loops over pixels and multigrid.

    python -m benchmarks.metrics.poisson [--pixels 130000] [--images 16] [--rounds 5]

The mask is a round shape with a wavy border. The other program is that of Grosse et al. 2009: loops over
pixels build the matrix, and `pyamg.ruge_stuben_solver` solves to 1e-5; install it with `pip install pyamg`.
One thread, CPU seconds, both programs by turns in one process. Differences are relative to the largest value
of a direct solution whose residual was refined in extended precision.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
from numpy import ndarray
from scipy.sparse import coo_array, csc_array
from scipy.sparse.linalg import splu

from benchmarks.processes import print_table
from candlelight.evaluation.models.poisson import PoissonSolver, solve_poisson

try:
    import pyamg
except ImportError as error:
    raise SystemExit("This benchmark compares with pyamg: pip install pyamg") from error

WANTED, WANTED_EACH = 4, 20


def wavy_mask(pixels: int) -> ndarray:
    """Draw a region of about this many pixels."""
    side = int(1.6 * pixels**0.5)
    y, x = np.mgrid[:side, :side] - side / 2
    angle = np.arctan2(y, x)
    distance = np.hypot(y, x) / (1 + 0.15 * np.cos(3 * angle) + 0.1 * np.cos(7 * angle))
    return distance < np.sort(distance, axis=None)[pixels]


def loop_equations(down: ndarray, right: ndarray, mask: ndarray) -> tuple[coo_array, ndarray]:
    """Build the matrix and the right-hand side of the equation, pixel by pixel."""
    number = {tuple(place): index for index, place in enumerate(np.argwhere(mask).tolist())}
    rows, columns, values = [], [], []
    wanted = np.zeros(len(number))
    for (y, x), here in number.items():
        for before, step in (((y - 1, x), down[y, x]), ((y, x - 1), right[y, x])):
            there = number.get(before)
            if there is not None:
                rows += [here, there, here, there]
                columns += [here, there, there, here]
                values += [1.0, 1.0, -1.0, -1.0]
                wanted[here] += step
                wanted[there] -= step
    return coo_array((values, (rows, columns)), shape=(len(number), len(number))), wanted


def multigrid(down: ndarray, right: ndarray, mask: ndarray) -> ndarray:
    matrix, wanted = loop_equations(down, right, mask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats
        solution = pyamg.ruge_stuben_solver(matrix.tocsr()).solve(wanted, tol=1e-5)
    return solution - solution.mean()


def exact(down: ndarray, right: ndarray, mask: ndarray) -> ndarray:
    """Refine a direct solution with residuals in extended precision."""
    matrix, wanted = loop_equations(down, right, mask)
    factors = splu(csc_array(matrix.tocsc()[1:, 1:]))
    matrix.sum_duplicates()
    solution = np.zeros(len(wanted), np.longdouble)
    for _ in range(3):
        residual = wanted.astype(np.longdouble)
        np.subtract.at(residual, matrix.row, matrix.data * solution[matrix.col])
        solution[1:] += factors.solve(residual[1:].astype(float))
    return (solution - solution.mean()).astype(float)


def timed(program: Callable[..., object], *arguments: object) -> tuple[float, object]:
    before = time.process_time()
    result = program(*arguments)
    return time.process_time() - before, result


def difference(found: ndarray, wanted: ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pixels", type=int, default=130_000)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    mask = wavy_mask(options.pixels)
    rng = np.random.default_rng(0)
    edges = rng.random((2, *mask.shape)) < 0.1
    problem = *(rng.normal(size=edges.shape) * edges), mask
    many = [np.repeat(gradient[None], options.images, 0) for gradient in problem[:2]]
    wanted = exact(*problem)
    columns: list[list[float]] = [[], [], [], [], []]
    for _ in range(options.rounds):
        slow, rough = timed(multigrid, *problem)
        fast, image = timed(solve_poisson, *problem)
        factors, solver = timed(PoissonSolver, mask)
        single, _ = timed(solver, *problem[:2])
        batch, images = timed(solver, *many)
        for column, value in zip(columns, (slow, fast, factors, single, batch / options.images), strict=True):
            column.append(value)
    slow, fast, factors, single, each = columns
    rows = [
        ("multigrid", slow, slow, None, rough),
        ("solve_poisson", fast, slow, WANTED, image[mask]),
        ("factorisation", factors, slow, None, None),
        ("an image alone, factorised", single, factors, WANTED_EACH, None),
        (f"each of {options.images} images, factorised", each, factors, WANTED_EACH, images[-1][mask]),
    ]
    print_table(
        ("program", "CPU s", "ratio", "to", "wanted", "largest difference"),
        [
            (
                name,
                statistics.median(seconds),
                statistics.median(a / b for a, b in zip(base, seconds, strict=True)),
                "factorisation" if base is factors else "multigrid",
                goal or "",
                "" if found is None else difference(found, wanted),
            )
            for name, seconds, base, goal, found in rows
        ],
    )


if __name__ == "__main__":
    main()
