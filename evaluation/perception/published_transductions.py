"""Published constants of transductions, and the published detection threshold on the common scale.

N. Alabau-Bosque, P. Dauden-Oliver, J. Vila-Tomas, V. Laparra, J. Malo: Invariance of deep image quality
metrics to affine transformations, arXiv 2407.17927, 2024. The paper prints no constants. RMSE's stand in its
notebook; the others were read from the curves of a stored figure with an rms error of 0.004 in D. So d at
D_T has an error of ``0.004 / (D_T b)``: 3 % for PerceptNet, 5 % for DISTS, 6 % for SSIM, 7 % for LPIPS and
9 % for PIM. With these constants and the published distances, LPIPS has an error of illuminants of 0.029, but
of 0.041 in the paper; those of the others agree within 0.004.
"""

from candlelight.evaluation.perception.transduction import Transduction
from candlelight.loaders.check_choice import check_choice

# D_T: the lower quartile, the threshold and the upper quartile of the human psychometric function, from the
# paper's notebook; the paper rounds to 0.44 +- 0.05.
DETECTION_LEVELS = (0.390, 0.445, 0.499)

_DATA = "sRGB images of TID2013 in [0, 1], D = (10 - MOS) / 10"
_CONSTANTS = {
    "RMSE": (1.2398322071369559, 0.2645684248720596, "root mean square error over pixels and channels"),
    "SSIM": (0.795, 0.144, "1 - SSIM, the authors' implementation"),
    "LPIPS": (0.720, 0.121, "LPIPS, the authors' implementation (illuminants deviate from the paper's)"),
    "DISTS": (0.890, 0.171, "DISTS, the authors' implementation"),
    "PerceptNet": (2.35, 0.343, "PerceptNet, the authors' weights"),
    "PIM": (0.394, 0.105, "PIM, the authors' implementation"),
}
PUBLISHED_TRANSDUCTIONS = {
    name: Transduction(scale, exponent, note=f"{metric}; {_DATA}")
    for name, (scale, exponent, metric) in _CONSTANTS.items()
}


def published_transduction(metric: str) -> Transduction:
    """Return the published transduction of a metric.

    It holds for that metric, implementation and normalisation alone (`Transduction.note`): another SSIM, or
    LPIPS with another network, needs a fit on rated pairs by `fit_transduction`.

    Args:
        metric: "RMSE", "SSIM", "LPIPS", "DISTS", "PerceptNet" or "PIM".

    Raises:
        InputError: the paper has no such metric.

    Example:
        >>> round(published_transduction("RMSE").invert(0.445), 4)
        0.0208
    """
    check_choice("metric", metric, tuple(PUBLISHED_TRANSDUCTIONS))
    return PUBLISHED_TRANSDUCTIONS[metric]
