from inspect import unwrap

import numpy as np
import pytest
from numpy import ndarray

from candlelight.evaluation.models.poisson import PoissonSolver, solve_poisson
from candlelight.loaders.errors import InputError


def least_squares(gradient_y: ndarray, gradient_x: ndarray, mask: ndarray) -> ndarray:
    """Solve dense least squares over a loop of edges; the minimum-norm solution has mean 0 in each region."""
    pixels = {tuple(place): number for number, place in enumerate(np.argwhere(mask))}
    rows, wanted = [], []
    for (y, x), number in pixels.items():
        for before, value in (((y - 1, x), gradient_y[y, x]), ((y, x - 1), gradient_x[y, x])):
            if before in pixels:
                row = np.zeros(len(pixels))
                row[number], row[pixels[before]] = 1, -1
                rows.append(row)
                wanted.append(value)
    solution = np.zeros(mask.shape)
    if rows:
        solution[mask] = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)[0]
    return solution


MASKS = {
    "all": np.ones((6, 7), bool),
    "hole": np.pad(np.zeros((2, 3), bool), ((2, 2), (2, 2)), constant_values=True),
    "two regions and a lone pixel": np.array(
        [[y < 2 or (y > 3 and x > 3) for x in range(7)] for y in range(6)]
    )
    | (np.arange(42).reshape(6, 7) == 35),
    "one column": np.arange(42).reshape(6, 7) % 7 == 3,
    "one pixel": np.arange(42).reshape(6, 7) == 10,
    "none": np.zeros((6, 7), bool),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_equals_dense_least_squares(mask: ndarray) -> None:
    rng = np.random.default_rng(0)
    gradient_y, gradient_x = rng.normal(size=(2, 6, 7))
    found = solve_poisson(gradient_y, gradient_x, mask)
    np.testing.assert_allclose(found, least_squares(gradient_y, gradient_x, mask), atol=1e-12)
    assert (found[~mask] == 0).all()


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_solver_of_a_mask_takes_any_batch(mask: ndarray) -> None:
    gradient_y, gradient_x = np.random.default_rng(4).normal(size=(2, 2, 3, 6, 7))
    found = PoissonSolver(mask)(gradient_y, gradient_x)
    assert found.shape == (2, 3, 6, 7)
    for place in np.ndindex(2, 3):
        wanted = least_squares(gradient_y[place], gradient_x[place], mask)
        np.testing.assert_allclose(found[place], wanted, atol=1e-12)


ROWS, COLUMNS = np.mgrid[:90, :110]
LARGE = {
    "ellipse": ((ROWS - 40) / 38) ** 2 + ((COLUMNS - 50) / 45) ** 2 < 1,
    "ring and island": np.abs(np.hypot(ROWS - 45, COLUMNS - 50) - 30) < 10,
    "random pixels": np.random.default_rng(5).random((90, 110)) < 0.7,
    "stripe": np.abs(ROWS - COLUMNS) < 2,
}
LARGE["ring and island"] |= np.hypot(ROWS - 45, COLUMNS - 50) < 9


@pytest.mark.parametrize("mask", LARGE.values(), ids=LARGE.keys())
def test_iterations_and_factors_agree(mask: ndarray) -> None:
    gradients = np.random.default_rng(6).normal(size=(2, 90, 110))
    found, wanted = solve_poisson(*gradients, mask), PoissonSolver(mask)(*gradients)
    assert np.abs(found - wanted).max() < 1e-12 * np.abs(wanted).max()
    assert (found[~mask] == 0).all()


@pytest.mark.parametrize("place", ["mask", "gradient_x"])
def test_shapes_that_differ(place: str) -> None:
    arrays = {"gradient_y": np.zeros((4, 5)), "gradient_x": np.zeros((4, 5)), "mask": np.ones((4, 5), bool)}
    arrays[place] = arrays[place][:3]
    with pytest.raises(InputError, match="expected `gradient_y` and `gradient_x` "):
        unwrap(solve_poisson)(**arrays)


@pytest.mark.parametrize("mask", [np.ones((6, 7), bool), MASKS["hole"]], ids=["rectangle", "hole"])
def test_gradient_that_is_not_finite_gives_an_image_that_is_not(mask: ndarray) -> None:
    gradient_y, gradient_x = np.random.default_rng(7).normal(size=(2, 6, 7))
    gradient_y[1, 0] = np.nan
    assert np.isnan(solve_poisson(gradient_y, gradient_x, mask)[mask]).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (13, 8)])
def test_gradients_of_an_image_give_it_back(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(1).normal(size=shape)
    gradient_y = np.diff(image, axis=0, prepend=image[:1])
    gradient_x = np.diff(image, axis=1, prepend=image[:, :1])
    np.testing.assert_allclose(solve_poisson(gradient_y, gradient_x), image - image.mean(), atol=1e-12)


def test_full_mask_equals_no_mask() -> None:
    gradients = np.random.default_rng(2).normal(size=(2, 5, 4))
    assert np.array_equal(solve_poisson(*gradients), solve_poisson(*gradients, np.ones((5, 4), bool)))


def test_first_row_and_column_are_not_read() -> None:
    gradient_y, gradient_x = np.random.default_rng(3).normal(size=(2, 5, 4))
    plain = solve_poisson(gradient_y, gradient_x)
    gradient_y[0], gradient_x[:, 0] = np.nan, np.nan
    assert np.array_equal(solve_poisson(gradient_y, gradient_x), plain)
