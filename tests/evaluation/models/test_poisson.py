import numpy as np
import pytest
from numpy import ndarray

from evaluation.models.poisson import solve_poisson


def least_squares(gradient_y: ndarray, gradient_x: ndarray, mask: ndarray) -> ndarray:
    """Dense least squares over a loop of edges; the smallest solution has mean 0 in each region."""
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


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (13, 8)])
def test_gradients_of_an_image_give_it_back(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(1).normal(size=shape)
    gradient_y = np.diff(image, axis=0, prepend=image[:1])
    gradient_x = np.diff(image, axis=1, prepend=image[:, :1])
    np.testing.assert_allclose(solve_poisson(gradient_y, gradient_x), image - image.mean(), atol=1e-12)


def test_whole_mask_is_no_mask() -> None:
    gradients = np.random.default_rng(2).normal(size=(2, 5, 4))
    assert np.array_equal(solve_poisson(*gradients), solve_poisson(*gradients, np.ones((5, 4), bool)))


def test_first_row_and_column_are_not_read() -> None:
    gradient_y, gradient_x = np.random.default_rng(3).normal(size=(2, 5, 4))
    plain = solve_poisson(gradient_y, gradient_x)
    gradient_y[0], gradient_x[:, 0] = np.nan, np.nan
    assert np.array_equal(solve_poisson(gradient_y, gradient_x), plain)
