"""Scores of Measured Albedo in the Wild: mean colours of regions against measured albedo.

J. Wu, S. Chowdhury, H. Shanmugaraja, D. Jacobs, S. Sengupta: Measured albedo in the wild: filling the gap in
intrinsics evaluation, 2023, arXiv 2306.15662. `maw_protocol` prepares predictions as the benchmark does.
"""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.intrinsic.ciede2000 import ciede2000, linear_to_lab
from candlelight.evaluation.intrinsic.masked import is_finite, result_dtype
from candlelight.loaders.errors import InputError

# The benchmark clips the denominators of its scales, sums of squared linear colours, to this value.
DENOMINATOR_FLOOR = 1e-6

_Colours = Float[Tensor, "batch regions 3"]
_Weights = Float[Tensor, "batch regions"]
_Inputs = tuple[Float64[Tensor, "batch regions 3"], Float64[Tensor, "batch regions 3"], _Weights]


def maw_intensity(prediction: _Colours, target: _Colours, weights: _Weights) -> Float[Tensor, " batch"]:
    """Compute the error of intensity of each image, with the best single scale of the prediction.

    ``sum(w (a p - t)^2) / sum(w)`` with ``a = sum(w p t) / sum(w p^2)``, where p and t are the channel means
    of a region and w is its number of pixels (Wu et al. 2023, "si" and "mean" in their code). ``sum(w p^2)``
    is at least `DENOMINATOR_FLOOR`. Papers report 100 times this value.

    Args:
        prediction: mean colour of each region, scene-linear, in any scale.
        target: measured albedo of each region, scene-linear.
        weights: number of pixels of each region, >= 0. Regions of weight 0 are never read.

    Returns:
        One error per image, >= 0, lower is better; nan if a colour is not finite in the prediction (a failed
        prediction) or in the target, or if there is no region. Blind to colour, to variation within a region,
        and to the scale of the prediction.

    Raises:
        InputError: the shapes do not agree, or a weight is negative or not finite.

    Example:
        >>> albedo = torch.tensor([[[0.2, 0.3, 0.4], [0.6, 0.6, 0.6]]])
        >>> areas = torch.tensor([[100.0, 50.0]])
        >>> maw_intensity(2 * albedo, albedo, areas), maw_intensity(0 * albedo, albedo, areas)
        (tensor([0.]), tensor([0.1800]))
    """
    predicted, true, weight = _checked(prediction, target, weights)
    given, wanted = predicted.mean(2), true.mean(2)
    energy = (weight * given.square()).sum(1, keepdim=True).clamp(min=DENOMINATOR_FLOOR)
    scale = (weight * given * wanted).sum(1, keepdim=True) / energy
    return _mean((scale * given - wanted).square(), predicted, true, weight).to(result_dtype(prediction))


def maw_chromaticity(prediction: _Colours, target: _Colours, weights: _Weights) -> Float[Tensor, " batch"]:
    """Compute the error of chromaticity of each image: CIEDE2000, with a scale for each region.

    ``sum(w dE(a p, t)) / sum(w)`` where p and t are the colours of a region and ``a = m(p) m(t) / m(p)^2``
    with the channel mean m (Wu et al. 2023, "per_si" and "deltae" in their code). ``m(p)^2`` is at least
    `DENOMINATOR_FLOOR`. Both colours are clipped to [0, 1] before they become L*a*b* colours (white D65).

    Args:
        prediction: mean colour of each region, scene-linear, in any scale.
        target: measured albedo of each region, scene-linear, in [0, 1].
        weights: number of pixels of each region, >= 0. Regions of weight 0 are never read.

    Returns:
        One error per image, >= 0, lower is better; nan if a colour is not finite in the prediction (a failed
        prediction) or in the target, or if there is no region. Blind to the intensity of each region, and to
        variation within it.

    Raises:
        InputError: the shapes do not agree, or a weight is negative or not finite.

    Example:
        >>> albedo = torch.tensor([[[0.2, 0.3, 0.4], [0.6, 0.6, 0.6]]])
        >>> gray = albedo.mean(2, keepdim=True).expand(-1, -1, 3)
        >>> maw_chromaticity(gray, albedo, torch.ones(1, 2)).round(decimals=2)
        tensor([5.6500])
    """
    predicted, true, weight = _checked(prediction, target, weights)
    given, wanted = predicted.mean(2), true.mean(2)
    scale = given * wanted / given.square().clamp(min=DENOMINATOR_FLOOR)
    labs = (linear_to_lab(colours.clamp(0, 1)) for colours in (scale[..., None] * predicted, true))
    return _mean(ciede2000(*labs), predicted, true, weight).to(result_dtype(prediction))


def _checked(prediction: Tensor, target: Tensor, weights: Tensor) -> _Inputs:
    """Check the arguments, and set regions of weight 0 to 0."""
    axes = "batch regions 3"
    check_shapes(prediction=(prediction, axes), target=(target, axes), weights=(weights, "batch regions"))
    if not bool(((weights >= 0) & weights.isfinite()).all()):
        low, high = float(weights.min()), float(weights.max())
        raise InputError(f"`weights` must be numbers of pixels, >= 0 and finite, got {low:g} to {high:g}")
    used: Bool[Tensor, "batch regions 1"] = (weights > 0)[..., None]
    given, true = (torch.where(used, values, 0.0).double() for values in (prediction, target))
    return given, true, weights.double()


def _mean(
    errors: Float64[Tensor, "batch regions"],
    predicted: Float64[Tensor, "batch regions 3"],
    true: Float64[Tensor, "batch regions 3"],
    weight: Float64[Tensor, "batch regions"],
) -> Float64[Tensor, " batch"]:
    """Average over regions; nan without a region, or if a colour is not finite."""
    mean = (weight * errors).sum(1) / weight.sum(1)
    return mean.masked_fill(~(is_finite(predicted) & is_finite(true)), torch.nan)
