"""Images of their gradients: least squares by one factorisation per mask, and least absolute deviations."""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int
from numpy import ndarray
from scipy.fft import dctn, idctn, next_fast_len
from scipy.ndimage import find_objects, label, mean
from scipy.sparse import csr_array
from scipy.sparse.linalg import splu

from candlelight.loaders.errors import InputError

# Iterations stop at this relative error of the image, in the norm of its gradients; the mask of an object
# needs 20 to 50. They are abandoned if `_MAX_ITERATIONS` would not reach it, as for a ragged mask;
# elimination is faster then.
_TOLERANCE = 1e-15
_MAX_ITERATIONS = 64
_FIRST_CHECK = 8


def solve_poisson(
    gradient_y: Float[ndarray, "height width"],
    gradient_x: Float[ndarray, "height width"],
    mask: Bool[ndarray, "height width"] | None = None,
) -> Float[ndarray, "height width"]:
    """Find the image whose backward differences match the given ones best.

    ``argmin_r sum (r[i, j] - r[i-1, j] - g_y[i, j])^2 + sum (r[i, j] - r[i, j-1] - g_x[i, j])^2`` over pairs
    of neighbours that both lie in the mask: Grosse et al. 2009, eq. 10 with p = 2. The solution has float64
    precision and is computed on the CPU: by a cosine transform for a whole rectangle, and by conjugate
    gradients with that transform as preconditioner within a mask. `PoissonSolver` is faster for more than
    five images with the same mask.

    Args:
        gradient_y: difference from the pixel above; the first row is not read.
        gradient_x: difference from the pixel on the left; the first column is not read.
        mask: pixels to solve for; all by default.

    Returns:
        The image in float64. The equations determine it up to a constant in each 4-connected region; its mean
        in each region is 0. It is 0 outside the mask.

    Raises:
        InputError: the shapes differ.

    Example:
        >>> image = np.array([[0.0, 1.0], [4.0, 3.0]])
        >>> rows, columns = np.diff(image, axis=0, prepend=0), np.diff(image, axis=1, prepend=0)
        >>> bool(np.abs(solve_poisson(rows, columns) - (image - image.mean())).max() < 1e-12)
        True
    """
    mask = np.ones(gradient_y.shape, bool) if mask is None else mask
    _check_shapes(gradient_y.shape, gradient_x.shape, mask.shape)
    solution = np.zeros(mask.shape)
    for box in find_objects(mask.astype(np.uint8)):
        inside, down, right = mask[box], gradient_y[box][1:], gradient_x[box][:, 1:]
        if inside.all():
            solution[box] = _rectangle_inverse(*inside.shape)(_divergence(down, right))
            continue
        iterated = _solve_masked(down, right, inside)
        solution[box] = (
            PoissonSolver(inside)(gradient_y[box], gradient_x[box]) if iterated is None else iterated
        )
    return solution


class PoissonSolver:
    """Solver for many images with the same mask: it factorises the matrix of `solve_poisson` once.

    It works on the CPU, in float64. The factors of 130 000 pixels take about 100 MB.

    Args:
        mask: pixels to solve for.

    Example:
        >>> image = np.array([[0.0, 1.0], [4.0, 3.0]])
        >>> rows, columns = np.diff(image, axis=0, prepend=0), np.diff(image, axis=1, prepend=0)
        >>> solve = PoissonSolver(np.array([[True, True], [True, False]]))
        >>> solve(np.stack([rows, -rows]), np.stack([columns, -columns])).round(6)[:, 0].tolist()
        [[-1.666667, -0.666667], [1.666667, 0.666667]]
    """

    def __init__(self, mask: Bool[ndarray, "height width"]) -> None:
        self._mask = mask.copy()
        self._regions = label(mask)[0][mask] - 1
        # One pixel of each region is fixed at 0, which makes the matrix regular.
        _, pinned = np.unique(self._regions, return_index=True)
        self._free = np.setdiff1d(np.arange(self._regions.size), pinned)
        self._differences = _differences(mask)
        if self._free.size:
            laplacian = (self._differences.T @ self._differences).tocsr()[self._free][:, self._free]
            # The matrix is symmetric and diagonally dominant: no pivoting, and half the fill-in.
            options = {"SymmetricMode": True}
            self._factors = splu(laplacian.tocsc(), "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    def __call__(
        self,
        gradient_y: Float[ndarray, "*batch height width"],
        gradient_x: Float[ndarray, "*batch height width"],
    ) -> Float[ndarray, "*batch height width"]:
        """Solve for each image of a batch.

        Args:
            gradient_y: difference from the pixel above; the first row is not read.
            gradient_x: difference from the pixel on the left; the first column is not read.

        Returns:
            The images in float64, as `solve_poisson` returns them.

        Raises:
            InputError: the shapes differ.
        """
        return self.as_image(self.solve_edges(self.on_edges(gradient_y, gradient_x)))

    def on_edges(
        self,
        gradient_y: Float[ndarray, "*batch height width"],
        gradient_x: Float[ndarray, "*batch height width"],
    ) -> Float[ndarray, "*batch edges"]:
        """Take the gradients between pairs of neighbours in the mask.

        Raises:
            InputError: the shapes differ.
        """
        _check_shapes(gradient_y.shape, gradient_x.shape, (*gradient_y.shape[:-2], *self._mask.shape))
        down, right = _edges(self._mask)
        return np.concatenate([gradient_y[..., 1:, :][..., down], gradient_x[..., 1:][..., right]], -1)

    def solve_edges(self, wanted: Float[ndarray, "*batch edges"]) -> Float64[ndarray, "*batch pixels"]:
        """Solve for gradients of `on_edges`; the result holds the pixels of the mask, row by row."""
        columns = self._differences.T @ wanted.reshape(prod(wanted.shape[:-1]), wanted.shape[-1]).T
        values = np.zeros((columns.shape[1], self._regions.size))
        if self._free.size:
            values[:, self._free] = self._factors.solve(columns[self._free]).T
        sizes = np.bincount(self._regions)
        for row in values:
            row -= (np.bincount(self._regions, row) / sizes)[self._regions]
        return values.reshape(*wanted.shape[:-1], self._regions.size)

    def edge_differences(self, pixels: Float64[ndarray, " pixels"]) -> Float64[ndarray, " edges"]:
        """Compute the gradients of a solution of `solve_edges`."""
        differences: Float64[ndarray, " edges"] = self._differences @ pixels
        return differences

    def as_image(self, pixels: Float64[ndarray, "*batch pixels"]) -> Float64[ndarray, "*batch height width"]:
        """Put the pixels of the mask into an image that is 0 outside the mask."""
        solution = np.zeros((*pixels.shape[:-1], *self._mask.shape))
        solution[..., self._mask] = pixels
        return solution


def _solve_masked(
    down: Float[ndarray, "_ width"],
    right: Float[ndarray, "height _"],
    mask: Bool[ndarray, "height width"],
) -> Float[ndarray, "height width"] | None:
    """Solve from differences to the row below and the column on the right; None if it converges slowly."""
    height, width = mask.shape
    has_down, has_right = _edges(mask)
    padded = np.zeros(tuple(next_fast_len(length, real=True) for length in mask.shape))
    invert = _rectangle_inverse(*padded.shape)

    # Values outside the mask, and a constant in each region, are arbitrary during the iterations.
    def precondition(residual: Float[ndarray, "height width"]) -> Float[ndarray, "height width"]:
        padded[:] = 0.0
        padded[:height, :width] = residual
        return invert(padded)[:height, :width]

    def laplacian(values: Float[ndarray, "height width"]) -> Float[ndarray, "height width"]:
        steps_down, steps_right = np.diff(values, axis=0), np.diff(values, axis=1)
        steps_down *= has_down
        steps_right *= has_right
        return _divergence(steps_down, steps_right)

    wanted = _divergence(np.where(has_down, down, 0.0), np.where(has_right, right, 0.0))
    solution = _conjugate_gradients(wanted, laplacian, precondition)
    if solution is None:
        return None
    regions, count = label(mask)
    means = mean(solution, regions, np.arange(count + 1))
    return np.where(mask, solution - means[regions], 0.0)


def _conjugate_gradients(
    wanted: Float[ndarray, "height width"],
    matrix: Callable[[ndarray], ndarray],
    precondition: Callable[[ndarray], ndarray],
) -> Float[ndarray, "height width"] | None:
    """Solve a symmetric, positive semidefinite system; None if it converges too slowly."""
    solution, residual = np.zeros_like(wanted), wanted.copy()
    direction = precondition(residual).copy()
    # Approximately the squared norm of the error's gradients; the preconditioner keeps the factor near 1.
    error = first = np.vdot(residual, direction)
    step = 0
    while not error <= _TOLERANCE**2 * first:
        if step >= _FIRST_CHECK and not error <= _TOLERANCE ** (2 * step / _MAX_ITERATIONS) * first:
            return None
        step += 1
        change = matrix(direction)
        length = error / np.vdot(direction, change)
        change *= length
        residual -= change
        solution += length * direction
        correction = precondition(residual)
        previous, error = error, np.vdot(residual, correction)
        direction *= error / previous
        direction += correction
    return solution


def _rectangle_inverse(height: int, width: int) -> Callable[[ndarray], ndarray]:
    """Return a function that solves for a whole rectangle with mean 0, and overwrites its argument."""
    # The cosine transform of type 2 diagonalises second differences with free borders.
    rows = 2 - 2 * np.cos(np.pi * np.arange(height) / height)
    columns = 2 - 2 * np.cos(np.pi * np.arange(width) / width)
    eigenvalues = rows[:, None] + columns
    eigenvalues[0, 0] = np.inf

    def invert(values: Float[ndarray, "height width"]) -> Float[ndarray, "height width"]:
        spectrum = dctn(values, norm="ortho", overwrite_x=True)
        spectrum /= eigenvalues
        return idctn(spectrum, norm="ortho", overwrite_x=True)

    return invert


def _divergence(
    down: Float[ndarray, "_ width"], right: Float[ndarray, "height _"]
) -> Float[ndarray, "height width"]:
    """Apply the transpose of the differences to the row below and the column on the right."""
    values = np.zeros((right.shape[0], down.shape[1]))
    values[1:] += down
    values[:-1] -= down
    values[:, 1:] += right
    values[:, :-1] -= right
    return values


def _edges(
    mask: Bool[ndarray, "height width"],
) -> tuple[Bool[ndarray, "_ width"], Bool[ndarray, "height _"]]:
    """Tell which pixels have a neighbour below, and on the right, with both in the mask."""
    return mask[1:] & mask[:-1], mask[:, 1:] & mask[:, :-1]


def _differences(mask: Bool[ndarray, "height width"]) -> csr_array:
    """Build the matrix of differences over all edges within the mask."""
    number = np.cumsum(mask.ravel()).reshape(mask.shape) - 1
    down, right = _edges(mask)
    start: Int[ndarray, " edges"] = np.concatenate([number[:-1][down], number[:, :-1][right]])
    end: Int[ndarray, " edges"] = np.concatenate([number[1:][down], number[:, 1:][right]])
    signs = np.repeat([1.0, -1.0], start.size)
    entries = (signs, (np.tile(np.arange(start.size), 2), np.concatenate([end, start])))
    return csr_array(entries, shape=(start.size, int(mask.sum())))


def _check_shapes(gradient_y: tuple[int, ...], gradient_x: tuple[int, ...], mask: tuple[int, ...]) -> None:
    if not gradient_y == gradient_x == mask:
        shapes = f"{list(gradient_y)} and {list(gradient_x)}"
        raise InputError(f"expected `gradient_y` and `gradient_x` {list(mask)}, as the mask, got {shapes}")


# The iteration stops when both residuals fall below this share of the gradients.
TOLERANCE = 1e-3
_MAX_REWEIGHTINGS = 500
_RELAXATION = 1.6


class AbsoluteSolution(NamedTuple):
    """An image and the solver's residual.

    Attributes:
        image: float64, mean 0 in each region, 0 outside the mask.
        residual: the larger of the primal and the dual residual, relative to the gradients; the solver stops
            at `TOLERANCE`, or after its last iteration with a larger residual.
    """

    image: Float64[ndarray, "height width"]
    residual: float


def solve_absolute(
    gradient_y: Float[ndarray, "height width"],
    gradient_x: Float[ndarray, "height width"],
    solver: PoissonSolver,
) -> AbsoluteSolution:
    """Find the image whose backward differences have the least absolute errors.

    ``argmin_r sum |r[i, j] - r[i-1, j] - g_y[i, j]| + sum |r[i, j] - r[i, j-1] - g_x[i, j]|`` over pairs of
    neighbours that both lie in the mask: Grosse et al. 2009, eq. 10 with p = 1. The solver is the alternating
    direction method of multipliers (Boyd et al. 2011, section 6.1), whose linear system is that of p = 2 in
    every iteration, so that one factorisation per mask is enough. The authors' code reweights least squares
    20 times instead, which factorises 20 matrices.

    Args:
        gradient_y: difference from the pixel above; the first row is not read.
        gradient_x: difference from the pixel on the left; the first column is not read.
        solver: of the mask.

    Raises:
        InputError: the shapes differ.

    Example:
        >>> rows, columns = np.zeros((3, 3)), np.zeros((3, 3))
        >>> rows[1, 1] = 1.0  # one wrong gradient; least squares would spread it over all pixels
        >>> found = solve_absolute(rows, columns, PoissonSolver(np.ones((3, 3), bool)))
        >>> bool(np.abs(found.image).max() < 0.01)
        True
    """
    wanted = solver.on_edges(gradient_y, gradient_x)
    size = float(np.abs(wanted).mean()) if wanted.size else 0.0
    if size == 0:
        return AbsoluteSolution(solver(gradient_y, gradient_x), 0.0)
    step = size  # amount by which errors shrink, adapted below
    error, multiplier = np.zeros_like(wanted), np.zeros_like(wanted)
    for _ in range(_MAX_REWEIGHTINGS):
        pixels = solver.solve_edges(wanted + error - multiplier)
        misfit = solver.edge_differences(pixels) - wanted
        relaxed = _RELAXATION * misfit + (1 - _RELAXATION) * error
        before = error
        shifted = relaxed + multiplier
        error = np.sign(shifted) * np.maximum(np.abs(shifted) - step, 0.0)
        multiplier = shifted - error
        primal = np.linalg.norm(misfit - error) / np.linalg.norm(wanted)
        dual = np.linalg.norm(error - before) / max(float(np.linalg.norm(multiplier)), 1e-300)
        residual = float(max(primal, dual))
        if residual < TOLERANCE:
            break
        # Both residuals fall at one speed; the multiplier is kept in units of the step.
        factor = 2.0 if dual > 10 * primal else 0.5 if primal > 10 * dual else 1.0
        step, multiplier = step * factor, multiplier * factor
    return AbsoluteSolution(solver.as_image(pixels), residual)
