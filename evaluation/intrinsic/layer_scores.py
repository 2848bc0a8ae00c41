"""Scores of normals and of depth."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.intrinsic.alignment import weighted_median
from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    check_masked,
    is_finite,
    masked_double,
    mean_weighted,
    result_dtype,
)

NEAREST = 1e-3  # depth at which predictions are cut before the logarithm, in the unit of the truth


@dataclass(frozen=True, eq=False)
class NormalErrors:
    """Angles between predicted and true normals of each sample.

    Attributes:
        mean_angle: mean angle in degrees, lower is better.
        median_angle: weighted median of the angles in degrees, lower is better.
        within_11_25: share of pixels with a smaller angle than 11.25 degrees, higher is better.
        within_22_5: the same for 22.5 degrees.
        within_30: the same for 30 degrees.
    """

    mean_angle: Float[Tensor, " batch"]
    median_angle: Float[Tensor, " batch"]
    within_11_25: Float[Tensor, " batch"]
    within_22_5: Float[Tensor, " batch"]
    within_30: Float[Tensor, " batch"]

    @property
    def score(self) -> Float[Tensor, " batch"]:
        """The mean angle."""
        return self.mean_angle


def normal_errors(
    prediction: Float[Tensor, "batch 3 height width"],
    target: Float[Tensor, "batch 3 height width"],
    mask: PixelMask,
) -> NormalErrors:
    """Compute the angles between normals: ``atan2(|p x t|, p t)``, as Fouhey et al., ICCV 2013.

    Args:
        prediction: normals of any length, in the axes of the target; a normal of length 0 is at 90 degrees.
        target: true normals of any length but 0.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        The errors, blind to the length; nan if a value inside the mask is not finite, or if it is empty.

    Raises:
        InputError: the shapes do not agree, or the mask is neither boolean nor weights in [0, 1].

    Example:
        >>> target = torch.tensor([0.0, 0.0, -1.0]).reshape(1, 3, 1, 1)
        >>> found = normal_errors(target.roll(1, 1) + target, target, torch.ones(1, 1, 1))
        >>> found.mean_angle, found.within_30
        (tensor([45.]), tensor([0.]))
    """
    check_masked(prediction, target, mask, "batch 3 height width")
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    dot = (predicted * true).sum(1)
    cross = torch.linalg.vector_norm(torch.linalg.cross(predicted, true, dim=1), dim=1)
    nothing = (predicted == 0).all(1)
    angles = masked_double(torch.rad2deg(torch.atan2(cross, dot)).masked_fill(nothing, 90.0), mask)
    usable = is_finite(predicted) & is_finite(true)
    middle = weighted_median(angles.flatten(1), mask.double().flatten(1))
    near = [mean_weighted((angles < limit).double() * (mask > 0), mask) for limit in (11.25, 22.5, 30)]
    columns = (mean_weighted(angles, mask), middle, *near)
    kind = result_dtype(prediction)
    return NormalErrors(*(column.masked_fill(~usable, torch.nan).to(kind) for column in columns))


@dataclass(frozen=True, eq=False)
class DepthErrors:
    """Errors of the depth of each sample.

    Attributes:
        abs_rel: mean of ``|p - t| / t``, lower is better.
        delta_1_25: share of pixels where ``max(p / t, t / p) < 1.25``, higher is better.
        si_log: standard deviation of ``log p - log t``, lower is better; blind to one scale.
    """

    abs_rel: Float[Tensor, " batch"]
    delta_1_25: Float[Tensor, " batch"]
    si_log: Float[Tensor, " batch"]

    @property
    def score(self) -> Float[Tensor, " batch"]:
        """The mean relative error."""
        return self.abs_rel


def depth_errors(
    prediction: Float[Tensor, "batch 1 height width"],
    target: Float[Tensor, "batch 1 height width"],
    mask: PixelMask,
) -> DepthErrors:
    """Compute the errors of depth of Eigen et al., NeurIPS 2014: AbsRel, delta and SI-log.

    ``si_log`` is the square root of their eq. 1, ``sqrt(mean(d^2) - mean(d)^2)`` with ``d = log p - log t``;
    the benchmark of KITTI prints 100 times that. Predictions are cut at `NEAREST` before the logarithm.

    Args:
        prediction: depth along the optical axis, in the unit of the target.
        target: true depth, above 0.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        The errors; nan if a value inside the mask is not finite, if a true depth there is not above 0, or if
        the mask is empty.

    Raises:
        InputError: the shapes do not agree, or the mask is neither boolean nor weights in [0, 1].

    Example:
        >>> target = torch.tensor([1.0, 2.0]).reshape(1, 1, 1, 2)
        >>> found = depth_errors(1.5 * target, target, torch.ones(1, 1, 2))
        >>> found.abs_rel, found.delta_1_25, found.si_log.round(decimals=6)
        (tensor([0.5000]), tensor([0.]), tensor([0.]))
    """
    check_masked(prediction, target, mask, "batch 1 height width")
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    outside = (mask == 0)[:, None]
    usable = is_finite(predicted) & is_finite(true) & ((true > 0) | outside).flatten(1).all(1)
    true = true.masked_fill(outside, 1.0)
    relative = masked_double((predicted - true).abs() / true, mask)
    near = (predicted > 0) & (torch.maximum(predicted / true, true / predicted) < 1.25)
    ratio = masked_double(predicted.clamp(min=NEAREST).log() - true.log(), mask)
    spread = mean_weighted(
        masked_double(ratio - mean_weighted(ratio, mask)[:, None, None, None], mask).square(), mask
    )
    columns = (
        mean_weighted(relative, mask),
        mean_weighted(masked_double(near.double(), mask), mask),
        spread.sqrt(),
    )
    kind = result_dtype(prediction)
    return DepthErrors(*(column.masked_fill(~usable, torch.nan).to(kind) for column in columns))
