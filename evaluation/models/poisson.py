"""Least-squares image with given gradients (Poisson equation with free borders)."""

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.fft import dctn, idctn
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve


def solve_poisson(
    gradient_y: Float[ndarray, "height width"],
    gradient_x: Float[ndarray, "height width"],
    mask: Bool[ndarray, "height width"] | None = None,
) -> Float[ndarray, "height width"]:
    """Find the image whose backward differences match the given ones best.

    ``argmin_r sum (r[i, j] - r[i-1, j] - g_y[i, j])^2 + sum (r[i, j] - r[i, j-1] - g_x[i, j])^2`` over pairs
    of neighbours that both lie in the mask: Grosse et al. 2009, eq. 10 with p = 2. Solved exactly, by a
    cosine transform for a whole rectangle and by sparse elimination within a mask.

    Args:
        gradient_y: difference from the pixel above; the first row is not read.
        gradient_x: difference from the pixel on the left; the first column is not read.
        mask: pixels to solve for; all by default.

    Returns:
        The image in float64. The equations leave a constant open in each 4-connected region: its mean there
        is 0. 0 outside the mask.

    Example:
        >>> image = np.array([[0.0, 1.0], [4.0, 3.0]])
        >>> rows, columns = np.diff(image, axis=0, prepend=0), np.diff(image, axis=1, prepend=0)
        >>> np.abs(solve_poisson(rows, columns) - (image - image.mean())).max() < 1e-12
        True
    """
    if mask is None or mask.all():
        return _solve_rectangle(gradient_y, gradient_x)
    return _solve_masked(gradient_y, gradient_x, mask)


def _solve_rectangle(
    gradient_y: Float[ndarray, "height width"], gradient_x: Float[ndarray, "height width"]
) -> Float[ndarray, "height width"]:
    height, width = gradient_y.shape
    target = np.zeros((height, width))
    target[1:] += gradient_y[1:]
    target[:-1] -= gradient_y[1:]
    target[:, 1:] += gradient_x[:, 1:]
    target[:, :-1] -= gradient_x[:, 1:]
    # The cosine transform of type 2 diagonalises second differences with free borders.
    rows = 2 - 2 * np.cos(np.pi * np.arange(height) / height)
    columns = 2 - 2 * np.cos(np.pi * np.arange(width) / width)
    eigenvalues = rows[:, None] + columns
    eigenvalues[0, 0] = 1.0
    spectrum = dctn(target, norm="ortho") / eigenvalues
    spectrum[0, 0] = 0.0
    return idctn(spectrum, norm="ortho")


def _solve_masked(
    gradient_y: Float[ndarray, "height width"],
    gradient_x: Float[ndarray, "height width"],
    mask: Bool[ndarray, "height width"],
) -> Float[ndarray, "height width"]:
    solution = np.zeros(mask.shape)
    if not mask.any():
        return solution
    differences, wanted = _edges(gradient_y, gradient_x, mask)
    laplacian = (differences.T @ differences).tocsr()
    regions, region = connected_components(laplacian, directed=False)
    values = np.zeros(region.size)
    # One pixel of each region is held at 0, which makes the matrix regular; a lone pixel has no equation.
    _, pinned = np.unique(region, return_index=True)
    free = np.setdiff1d(np.arange(region.size), pinned)
    if free.size:
        values[free] = spsolve(laplacian[free][:, free].tocsc(), (differences.T @ wanted)[free])
    means = np.bincount(region, values, regions) / np.bincount(region, minlength=regions)
    solution[mask] = values - means[region]
    return solution


def _edges(
    gradient_y: Float[ndarray, "height width"],
    gradient_x: Float[ndarray, "height width"],
    mask: Bool[ndarray, "height width"],
) -> tuple[csr_array, Float[ndarray, " edges"]]:
    """Return the matrix of differences over all edges within the mask, and the wanted differences."""
    number = np.cumsum(mask.ravel()).reshape(mask.shape) - 1
    down, right = mask[1:] & mask[:-1], mask[:, 1:] & mask[:, :-1]
    start: Int[ndarray, " edges"] = np.concatenate([number[:-1][down], number[:, :-1][right]])
    end: Int[ndarray, " edges"] = np.concatenate([number[1:][down], number[:, 1:][right]])
    wanted = np.concatenate([gradient_y[1:][down], gradient_x[:, 1:][right]])
    edge = np.arange(start.size)
    signs = np.repeat([1.0, -1.0], start.size)
    entries = (signs, (np.tile(edge, 2), np.concatenate([end, start])))
    return csr_array(entries, shape=(start.size, int(mask.sum()))), wanted
