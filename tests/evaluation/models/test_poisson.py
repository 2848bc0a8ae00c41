"""Images from gradients: least squares against a dense solve, least absolute errors against a programme."""

import numpy as np
import pytest
from numpy import ndarray
from scipy.optimize import linprog

from candlelight.evaluation.models.poisson import TOLERANCE, PoissonSolver, solve_absolute, solve_poisson
from tests.refusals import refused


def equations(down: ndarray, right: ndarray, mask: ndarray) -> tuple[ndarray, ndarray]:
    """List the differences between neighbours in the mask, in a loop, as a dense matrix and their targets."""
    pixels = {tuple(place): number for number, place in enumerate(np.argwhere(mask))}
    rows, wanted = [], []
    for (y, x), number in pixels.items():
        for before, value in (((y - 1, x), down[y, x]), ((y, x - 1), right[y, x])):
            if before in pixels:
                row = np.zeros(len(pixels))
                row[number], row[pixels[before]] = 1, -1
                rows.append(row)
                wanted.append(value)
    return np.array(rows).reshape(len(rows), len(pixels)), np.array(wanted)


# ---------------------------------------------------------------------------------------- least squares

NUMBERS = np.arange(42).reshape(6, 7)
MASKS = {
    "all": np.ones((6, 7), bool),
    "hole": np.pad(np.zeros((2, 3), bool), ((2, 2), (2, 2)), constant_values=True),
    "two regions and a lone pixel": (NUMBERS < 14) | (NUMBERS > 27) & (NUMBERS % 7 > 3) | (NUMBERS == 35),
    "one column": NUMBERS % 7 == 3,
    "one pixel": NUMBERS == 10,
    "none": np.zeros((6, 7), bool),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_equals_dense_least_squares(mask: ndarray) -> None:
    down, right = np.random.default_rng(4).normal(size=(2, 2, 3, 6, 7))
    batch = PoissonSolver(mask)(down, right)
    assert batch.shape == (2, 3, 6, 7)
    for place in np.ndindex(2, 3):
        matrix, target = equations(down[place], right[place], mask)
        wanted = np.zeros(mask.shape)
        # The minimum-norm solution has mean 0 in each region.
        wanted[mask] = np.linalg.lstsq(matrix, target, rcond=None)[0] if len(target) else 0
        np.testing.assert_allclose(batch[place], wanted, atol=1e-12)
        np.testing.assert_allclose(solve_poisson(down[place], right[place], mask), wanted, atol=1e-12)
    assert (batch[..., ~mask] == 0).all()


ROWS, COLUMNS = np.mgrid[:90, :110]
LARGE = {
    "ellipse": ((ROWS - 40) / 38) ** 2 + ((COLUMNS - 50) / 45) ** 2 < 1,
    "ring and island": (np.abs(np.hypot(ROWS - 45, COLUMNS - 50) - 30) < 10)
    | (np.hypot(ROWS - 45, COLUMNS - 50) < 9),
    "random pixels": np.random.default_rng(5).random((90, 110)) < 0.7,
    "stripe": np.abs(ROWS - COLUMNS) < 2,
}


@pytest.mark.parametrize("mask", LARGE.values(), ids=LARGE.keys())
def test_iterations_and_factors_agree(mask: ndarray) -> None:
    gradients = np.random.default_rng(6).normal(size=(2, 90, 110))
    found, wanted = solve_poisson(*gradients, mask), PoissonSolver(mask)(*gradients)
    assert np.abs(found - wanted).max() < 1e-12 * np.abs(wanted).max()
    assert (found[~mask] == 0).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (13, 8)])
def test_gradients_of_an_image_give_it_back(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(1).normal(size=shape)
    down, right = np.diff(image, axis=0, prepend=image[:1]), np.diff(image, axis=1, prepend=image[:, :1])
    np.testing.assert_allclose(solve_poisson(down, right), image - image.mean(), atol=1e-12)


def test_first_row_and_column_are_not_read() -> None:
    down, right = np.random.default_rng(3).normal(size=(2, 5, 4))
    plain = solve_poisson(down, right)
    down[0], right[:, 0] = np.nan, np.nan
    assert np.array_equal(solve_poisson(down, right), plain)


@pytest.mark.parametrize("mask", ["all", "hole"])
def test_gradient_that_is_not_finite_gives_an_image_that_is_not(mask: str) -> None:
    down, right = np.random.default_rng(7).normal(size=(2, 6, 7))
    down[1, 0] = np.nan
    assert np.isnan(solve_poisson(down, right, MASKS[mask])[MASKS[mask]]).all()


@pytest.mark.parametrize("place", ["mask", "gradient_x"])
def test_shapes_that_differ(place: str) -> None:
    arrays = {"gradient_y": np.zeros((4, 5)), "gradient_x": np.zeros((4, 5)), "mask": np.ones((4, 5), bool)}
    with refused("expected `gradient_y` and `gradient_x` "):
        solve_poisson(**{**arrays, place: arrays[place][:3]})


# -------------------------------------------------------------------------------- least absolute errors

ODD = np.pad(np.ones((5, 7), bool), ((1, 0), (0, 0)))
ODD[2:4, 2:4] = False
ODD[0, 5] = True


@pytest.mark.parametrize("scale", [1e-3, 100.0])
@pytest.mark.parametrize("mask", [ODD, MASKS["all"]], ids=["odd", "all"])
def test_reaches_the_least_sum_of_absolute_errors(mask: ndarray, scale: float) -> None:
    down, right = scale * np.random.default_rng(1).normal(size=(2, 6, 7))
    found = solve_absolute(down, right, PoissonSolver(mask))
    assert found.residual < TOLERANCE
    assert (found.image[~mask] == 0).all()
    matrix, target = equations(down, right, mask)
    slack = np.eye(len(target))
    programme = linprog(
        np.repeat([0.0, 1.0], matrix.shape[::-1]),
        A_ub=np.block([[matrix, -slack], [-matrix, -slack]]),
        b_ub=np.concatenate([target, -target]),
        bounds=[(None, None)] * matrix.shape[1] + [(0, None)] * len(target),
    )
    least, reached, squared = (
        programme.fun,
        *(
            np.abs(matrix @ image[mask] - target).sum()
            for image in (found.image, PoissonSolver(mask)(down, right))
        ),
    )
    assert least * (1 - 1e-9) <= reached < least + 0.02 * (squared - least)


def test_absolute_gradients_of_an_image_give_the_image() -> None:
    image = np.random.default_rng(2).normal(size=(8, 9))
    down, right = np.diff(image, axis=0, prepend=0), np.diff(image, axis=1, prepend=0)
    found = solve_absolute(down, right, PoissonSolver(np.ones((8, 9), bool)))
    np.testing.assert_allclose(found.image, image - image.mean(), atol=0.01)


@pytest.mark.parametrize("mask", [np.eye(3, dtype=bool), np.ones((3, 3), bool)], ids=["no edges", "flat"])
def test_no_edges_or_no_gradients(mask: ndarray) -> None:
    found = solve_absolute(np.zeros((3, 3)), np.zeros((3, 3)), PoissonSolver(mask))
    assert found.residual == 0
    assert (found.image == 0).all()
