import numpy as np
import pytest
from numpy import ndarray
from scipy.optimize import linprog

from candlelight.evaluation.models.poisson import TOLERANCE, PoissonSolver, solve_absolute

MASK = np.ones((6, 7), bool)
MASK[2:4, 2:4] = False
MASK[0] = False
MASK[0, 5] = True  # a region of its own would need a neighbour: this pixel touches the object below


def objective(image: ndarray, down: ndarray, right: ndarray, mask: ndarray) -> float:
    """Sum the absolute errors over pairs of neighbours in the mask, in a loop."""
    total = 0.0
    for y, x in np.argwhere(mask):
        if y > 0 and mask[y - 1, x]:
            total += abs(image[y, x] - image[y - 1, x] - down[y, x])
        if x > 0 and mask[y, x - 1]:
            total += abs(image[y, x] - image[y, x - 1] - right[y, x])
    return total


def least_absolute(down: ndarray, right: ndarray, mask: ndarray) -> float:
    """Solve the problem as a linear programme; return the least sum of absolute errors."""
    pixels = {tuple(place): number for number, place in enumerate(np.argwhere(mask))}
    rows, wanted = [], []
    for (y, x), number in pixels.items():
        for before, value in (((y - 1, x), down[y, x]), ((y, x - 1), right[y, x])):
            if before in pixels:
                row = np.zeros(len(pixels))
                row[number], row[pixels[before]] = 1, -1
                rows.append(row)
                wanted.append(value)
    matrix, target = np.array(rows), np.array(wanted)
    slack = np.eye(len(target))
    bounds = [(None, None)] * len(pixels) + [(0, None)] * len(target)
    found = linprog(
        np.concatenate([np.zeros(len(pixels)), np.ones(len(target))]),
        A_ub=np.block([[matrix, -slack], [-matrix, -slack]]),
        b_ub=np.concatenate([target, -target]),
        bounds=bounds,
    )
    return float(found.fun)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("mask", [MASK, np.ones((6, 7), bool)])
def test_reaches_the_least_sum_of_absolute_errors(mask: ndarray, scale: float) -> None:
    down, right = scale * np.random.default_rng(1).normal(size=(2, 6, 7))
    found = solve_absolute(down, right, PoissonSolver(mask))
    assert found.residual < TOLERANCE
    least = least_absolute(down, right, mask)
    squared = objective(PoissonSolver(mask)(down, right), down, right, mask)
    assert least * (1 - 1e-9) <= objective(found.image, down, right, mask) < least + 0.02 * (squared - least)
    assert (found.image[~mask] == 0).all()


def test_gradients_of_an_image_give_the_image() -> None:
    image = np.random.default_rng(2).normal(size=(8, 9))
    down, right = np.diff(image, axis=0, prepend=0), np.diff(image, axis=1, prepend=0)
    found = solve_absolute(down, right, PoissonSolver(np.ones((8, 9), bool)))
    np.testing.assert_allclose(found.image, image - image.mean(), atol=0.01)


@pytest.mark.parametrize("mask", [np.zeros((3, 3), bool), np.eye(3, dtype=bool), np.ones((3, 3), bool)])
def test_no_edges_or_no_gradients(mask: ndarray) -> None:
    found = solve_absolute(np.zeros((3, 3)), np.zeros((3, 3)), PoissonSolver(mask))
    assert found.residual == 0
    assert (found.image == 0).all()
