"""Ranges of the scores of intrinsic images, at which their intervals are cut."""

import math
from collections.abc import Iterable

_ERROR = 0.0, math.inf
_RANGES = {
    # The best scale of a window leaves at most the energy of the truth.
    "lmse": (0.0, 1.0),
    "si_lmse": _ERROR,
    "si_mse": _ERROR,
    "mse": _ERROR,
    "rmse": _ERROR,
    "dssim": (0.0, 1.0),
    "ssim": (-1.0, 1.0),
    "whdr": (0.0, 1.0),
    "maw_intensity": _ERROR,
    "maw_chromaticity": _ERROR,
    "c_mat": _ERROR,
    "c_mat_unscaled": _ERROR,
    "chroma_drift": _ERROR,
    "chroma_loss": (0.0, 1.0),
    "psnr": (-math.inf, math.inf),
}


def score_ranges(columns: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest possible value of columns of results.

    Args:
        columns: names of scores, which may end in ``_reflectance`` or ``_shading``.

    Example:
        >>> score_ranges(["lmse_shading", "mse_shading"])
        {'lmse_shading': (0.0, 1.0), 'mse_shading': (0.0, inf)}
    """
    return {name: _RANGES[name.removesuffix("_reflectance").removesuffix("_shading")] for name in columns}
