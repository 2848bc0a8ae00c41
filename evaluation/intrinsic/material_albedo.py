"""Reflectance on regions of one material against their measured or true albedo (MAW, Wu et al. 2023)."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64
from PIL import Image
from torch import Tensor

from candlelight.evaluation.intrinsic.image_errors import ciede2000, linear_to_lab
from candlelight.evaluation.intrinsic.masked import is_finite, result_dtype
from candlelight.evaluation.models.gradients import for_rows
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.colour import to_display
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import image_tensor
from candlelight.loaders.regions import scale_regions

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


MAW_SIZE = (240, 320)  # height and width of the evaluation; the aspect of the photograph is not kept


def resize_for_maw(
    prediction: Float[Tensor, "batch 3 height width"], regions: Int64[Tensor, "batch height width"]
) -> tuple[Float32[Tensor, "batch 3 240 320"], Int64[Tensor, "batch 240 320"]]:
    """Resize predicted reflectance and regions to 320 x 240 pixels.

    The benchmark reads predictions from 8-bit sRGB files. So a prediction is clipped to [0, 1], encoded and
    rounded to 8 bits; then Pillow resizes the encoded pixels (bilinear, with its filter for reduction), and
    they are decoded. Regions take the nearest pixel, and may vanish; the benchmark's own code would then
    compare the other regions with wrong colours, but a score of `region_means` only leaves the region out.

    Args:
        prediction: reflectance, scene-linear. Values above 1 are cut off, so scale them down before.
        regions: number of the region at each pixel, 0 outside.

    Returns:
        Scene-linear reflectance and regions, on the device of the prediction; Pillow resizes on the CPU.

    Raises:
        InputError: the shapes do not agree, or a prediction is not finite.

    Example:
        >>> resized, _ = resize_for_maw(torch.full((1, 3, 2, 2), 0.5), torch.ones(1, 2, 2).long())
        >>> resized.shape, resized.unique()
        (torch.Size([1, 3, 240, 320]), tensor([0.5029]))
    """
    check_shapes(prediction=(prediction, "batch 3 height width"), regions=(regions, "batch height width"))
    if not bool(prediction.isfinite().all()):
        raise InputError("`prediction` must be finite, got nan or inf; count it as failed")
    height, width = MAW_SIZE
    resized = torch.zeros(len(prediction), 3, height, width)
    numbers = torch.zeros(len(prediction), height, width, dtype=torch.int64)
    images, areas = prediction.detach().cpu().movedim(1, -1).double().numpy(), regions.cpu().numpy()

    def resize(row: int) -> None:
        pixels = Image.fromarray(to_display(images[row]))
        small = np.asarray(pixels.resize((width, height), Image.Resampling.BILINEAR))
        resized[row] = image_tensor(small, linear=True)
        numbers[row] = torch.from_numpy(scale_regions(areas[row], MAW_SIZE))

    for_rows(resize, len(prediction))
    return resized.to(prediction.device), numbers.to(prediction.device)


@dataclass(frozen=True, eq=False)
class RegionMeans:
    """Mean colour and number of pixels of each region; a region without pixels has colour 0."""

    colours: Float64[Tensor, "batch regions channels"]
    pixels: Float64[Tensor, "batch regions"]


def region_means(
    image: Float[Tensor, "batch channels height width"],
    regions: Int64[Tensor, "batch height width"],
    count: int,
) -> RegionMeans:
    """Average images over their regions.

    Args:
        image: images with values of any range, scene-linear where colours are to be compared.
        regions: 0 outside all regions, which is never read, else the number of the region, from 1.
        count: number of regions, at least the largest number.

    Returns:
        Means and numbers of pixels of the regions 1 to ``count``; nan or infinite where a value is.

    Raises:
        InputError: the shapes do not agree, or a number is not from 0 to ``count``.

    Example:
        >>> image = torch.tensor([[[[1.0, 3.0, 7.0]]]])
        >>> means = region_means(image, torch.tensor([[[1, 1, 0]]]), 2)
        >>> means.colours.flatten().tolist(), means.pixels.tolist()
        ([2.0, 0.0], [[2.0, 0.0]])
    """
    check_shapes(image=(image, "batch channels height width"), regions=(regions, "batch height width"))
    if regions.dtype != torch.int64:
        raise InputError(f"`regions` must be int64, got {regions.dtype}; pass `regions.long()`")
    if regions.numel() and not 0 <= int(regions.min()) <= int(regions.max()) <= count:
        low, high = int(regions.min()), int(regions.max())
        raise InputError(f"`regions` must be numbers from 0 to {count}, got {low} to {high}")
    batch, channels = image.shape[:2]
    places = regions.flatten(1)
    values = image.flatten(2).double()
    sums = values.new_zeros(batch, channels, count + 1).scatter_add_(
        2, places[:, None].expand(-1, channels, -1), values
    )
    pixels = values.new_zeros(batch, count + 1).scatter_add_(1, places, torch.ones_like(values[:, 0]))
    means = sums[..., 1:] / pixels[:, None, 1:].clamp(min=1)
    return RegionMeans(means.transpose(1, 2), pixels[:, 1:])
