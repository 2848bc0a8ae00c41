"""Response curves of metrics over a family of transforms, and where curves reach a level."""

import torch
from jaxtyping import Float64, Real
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

ROUNDING = 1e-6  # distances from minus this to 0 count as 0: 1 - SSIM of identical images may be negative


def mean_response(distances: Real[Tensor, "scenes *hues magnitudes"]) -> Float64[Tensor, "*hues magnitudes"]:
    """Average the distances of a metric over scenes: its response to a family of transforms.

    ``d_M(theta) = 1 / S sum_s d_M(i_s, T_theta(i_s))``: Alabau-Bosque et al. 2024, Invariance of deep image
    quality metrics to affine transformations (arXiv 2407.17927), eq. 1. The curve of one scene is its row.
    For translations the paper averages over both axes too.

    Blind to: the spread of the scenes. A few scenes that move a lot look like all scenes that move a little;
    `detection_threshold` gives the threshold of each scene, and an interval over scenes.

    Args:
        distances: distance of each scene to itself at each magnitude of the transform, in any unit, >= 0 and
            0 for identical images. Further axes, such as the hues of illuminants, are kept.

    Returns:
        Mean distances, in the metric's unit.

    Raises:
        InputError: no scenes, or distances that are not finite or are negative, beyond rounding (1e-6).

    Example:
        >>> mean_response(torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 6.0]]))
        tensor([0., 2., 4.], dtype=torch.float64)
    """
    check_shapes(distances=(distances, "scenes *hues magnitudes"))
    return check_distances(distances).mean(0)


def check_distances(distances: Real[Tensor, "*shape"], name: str = "distances") -> Float64[Tensor, "*shape"]:
    """Refuse values that are no distances; return them in float64, without negative rounding errors.

    Args:
        distances: distances, 0 for identical images.
        name: of the argument in the message.

    Raises:
        InputError: no values, or values that are not finite or are negative, beyond rounding (1e-6).

    Example:
        >>> check_distances(torch.tensor([[-1.0, 0.9]]))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `distances` must be at least 0, got -1; pass a distance, 0 \
for identical images (1 - SSIM, not SSIM)
    """
    if not distances.numel():
        raise InputError(f"`{name}` needs at least one value, got shape {list(distances.shape)}")
    values = distances.double()
    if not bool(values.isfinite().all()):
        raise InputError(f"`{name}` must be finite, got nan or inf; leave out scenes where the metric fails")
    if bool((values < -ROUNDING).any()):
        raise InputError(
            f"`{name}` must be at least 0, got {float(values.min()):g}; pass a distance, 0 for identical "
            "images (1 - SSIM, not SSIM)"
        )
    return values.clamp(min=0)


def check_magnitudes(magnitudes: Real[Tensor, " magnitudes"]) -> Float64[Tensor, " magnitudes"]:
    """Refuse magnitudes that do not increase; return them in float64.

    Args:
        magnitudes: of a transform.

    Raises:
        InputError: no magnitudes, or magnitudes that do not increase strictly, nan among them.

    Example:
        >>> check_magnitudes(torch.tensor([1.0, 0.5]))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `magnitudes` must increase strictly from the identity, as 0, \
1, 2; sort
    """
    steps = magnitudes.double()
    if not len(steps) or not bool((steps.diff() > 0).all()):
        raise InputError("`magnitudes` must increase strictly from the identity, as 0, 1, 2; sort")
    return steps


def invert_curves(
    curves: Real[Tensor, "*curves magnitudes"], magnitudes: Real[Tensor, " magnitudes"], level: float
) -> Float64[Tensor, "*curves"]:
    """Find the smallest magnitude at which each curve reaches a level, by linear interpolation.

    ``theta = g^-1(level)`` for a rising curve g, between Alabau-Bosque et al. 2024, eq. 2 and 4 (theta_M =
    g_M^-1(D_T)). A curve that falls again has several such magnitudes, of which this is the first.

    Blind to: the shape of a curve between two magnitudes, where it counts as a straight line.

    Args:
        curves: values in any unit.
        magnitudes: of the transform, strictly increasing, in any unit.
        level: in the unit of the curves.

    Returns:
        Magnitudes; the first one for a curve that starts at the level or above, nan for a curve that does not
        reach the level.

    Raises:
        InputError: the shapes do not agree, there are no magnitudes, or they do not increase.

    Example:
        >>> curves = torch.tensor([[0.0, 1.0, 4.0], [3.0, 4.0, 5.0], [0.0, 1.0, 1.0]])
        >>> invert_curves(curves, torch.tensor([0.0, 10.0, 20.0]), 2.5)
        tensor([15.,  0., nan], dtype=torch.float64)
    """
    check_shapes(curves=(curves, "*curves magnitudes"), magnitudes=(magnitudes, "magnitudes"))
    steps = check_magnitudes(magnitudes)
    values = curves.double()
    reached = values >= level
    after = reached.int().argmax(-1, keepdim=True)
    before = (after - 1).clamp(min=0)
    low, high = values.gather(-1, before), values.gather(-1, after)
    # A rise of 1 where the curve starts at the level: both magnitudes are the first there.
    share = (level - low) / torch.where(after > 0, high - low, 1.0)
    found = steps[before].lerp(steps[after], share)  # within both, in spite of rounding
    return torch.where(reached.any(-1), found.squeeze(-1), torch.nan)
