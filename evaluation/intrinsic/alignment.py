"""Named ways to compare two images: alignment of the values, colour space, and size."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn.functional import interpolate

from candlelight.evaluation.catalogue.intrinsic_options import Alignment, Filter, Space
from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    check_masked,
    masked_double,
    mean_weighted,
    weighted,
)
from candlelight.evaluation.views.image_tensors import encode
from candlelight.loaders.check_choice import check_choice

GAMMA = 2.2
LEAST_WEIGHT = 1e-6  # smaller weights of a resized mask are rounding


def align(
    prediction: Float[Tensor, "batch channels height width"],
    target: Float[Tensor, "batch channels height width"],
    mask: PixelMask,
    how: Alignment,
    values: Float[Tensor, "batch channels height width"] | None = None,
) -> Float64[Tensor, "batch channels height width"]:
    """Align each prediction with its target: ``a p + b``, where the mask counts.

    ============= ===========================================================================================
    none          ``a = 1``, ``b = 0``
    scale         least squares over all pixels and channels: ``a = sum(m t p) / sum(m p^2)``, ``b = 0``
    per-channel   the same for each channel
    scale-shift   least squares: ``a = cov(t, p) / var(p)``, ``b = mean(t) - a mean(p)``, all channels alike
    median        ``a = median(t) / median(p)``, weighted, over all pixels and channels, ``b = 0``
    ============= ===========================================================================================

    ``a`` is 0 where the divisor of least squares is, and 1 where the median of the prediction is 0.

    Args:
        prediction: scene-linear values, or depth.
        target: ground truth.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        how: the way.
        values: other values, such as of a part of the prediction, that are changed in place of it.

    Returns:
        The aligned predictions or values; those outside the mask mean nothing.

    Raises:
        InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or there is no
            such way.

    Example:
        >>> target = torch.tensor([1.0, 2.0, 4.0]).reshape(1, 1, 1, 3)
        >>> align(3 * target - 1, target, torch.ones(1, 1, 3), "scale-shift").flatten().float()
        tensor([1., 2., 4.])
    """
    check_choice("how", how, Alignment)
    check_masked(prediction, target, mask, "batch channels height width")
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    changed = predicted if values is None else values.double()
    if how == "none":
        return changed
    if how == "median":
        given, wanted = (_median(some, mask)[:, None, None, None] for some in (predicted, true))
        return _quotient(wanted, given).masked_fill(given == 0, 1) * changed
    means = [torch.zeros_like(predicted[:, :1, :1, :1])] * 2
    if how == "scale-shift":
        means = [mean_weighted(some, mask)[:, None, None, None] for some in (predicted, true)]
    pairs = zip((predicted, true), means, strict=True)
    one, other = (masked_double(some - mean, mask) for some, mean in pairs)
    axes = (2, 3) if how == "per-channel" else (1, 2, 3)
    slope = _quotient(*(weighted(one * some, mask).sum(axes, keepdim=True) for some in (other, one)))
    return slope * (changed - means[0]) + means[1]


def _quotient(dividend: Tensor, divisor: Tensor) -> Tensor:
    return torch.where(divisor == 0, 0.0, dividend / torch.where(divisor == 0, 1.0, divisor))


def weighted_median(
    values: Float[Tensor, "batch pixels"], weights: Float[Tensor, "batch pixels"]
) -> Float64[Tensor, " batch"]:
    """Compute weighted medians: half of the weight lies below, and half above.

    Args:
        values: finite values.
        weights: weight of each value, at least 0.

    Returns:
        One median per row, that of `numpy.median` for equal weights; nan without weight.

    Example:
        >>> weighted_median(torch.tensor([[4.0, 1.0, 2.0, 9.0]]), torch.tensor([[1.0, 1.0, 1.0, 0.0]]))
        tensor([2.], dtype=torch.float64)
    """
    ordered, order = values.double().sort(1)
    reached = weights.double().gather(1, order).cumsum(1)
    half = reached[:, -1:] / 2
    last = values.shape[1] - 1
    # The first value at which the weight reaches half of it, and the first at which it is above.
    places = [torch.searchsorted(reached, half, right=right).clamp(max=last) for right in (False, True)]
    middle = torch.cat([ordered.gather(1, place) for place in places], 1).mean(1)
    return middle.masked_fill(half.squeeze(1) <= 0, torch.nan)


def _median(values: Tensor, mask: PixelMask) -> Tensor:
    weights = mask.double()[:, None].expand_as(values)
    return weighted_median(values.flatten(1), weights.flatten(1))


def in_space(values: Float[Tensor, "*shape"], space: Space) -> Float[Tensor, "*shape"]:
    """Encode scene-linear values: "linear" leaves them; "srgb" and "gamma2.2" cut them to [0, 1] first.

    Raises:
        InputError: there is no such space.

    Example:
        >>> in_space(torch.tensor([0.5, 4.0]), "gamma2.2"), in_space(torch.tensor([4.0]), "linear")
        (tensor([0.7297, 1.0000]), tensor([4.]))
    """
    check_choice("space", space, Space)
    if space == "linear":
        return values
    return encode(values) if space == "srgb" else values.clamp(0, 1) ** (1 / GAMMA)


def resize(
    values: Float[Tensor, "batch channels height width"], size: Sequence[int], how: Filter
) -> Float64[Tensor, "batch channels rows columns"]:
    """Resize images.

    Args:
        values: finite, scene-linear or other values that may be averaged.
        size: height and width in pixels.
        how: "bilinear", with averages where the image becomes smaller; or "area", where each new pixel is the
            mean of the pixels that it covers, in parts too.

    Raises:
        InputError: there is no such filter.

    Example:
        >>> resize(torch.tensor([[[[0.0, 3.0, 6.0]]]]), (1, 2), "area").flatten()
        tensor([1., 5.], dtype=torch.float64)
    """
    check_choice("how", how, Filter)
    values = values.double()
    if values.shape[2:] == size:
        return values
    if how == "bilinear":
        return interpolate(values, size, mode="bilinear", align_corners=False, antialias=True)
    rows, columns = (
        _covered(old, new, values.device) for old, new in zip(values.shape[2:], size, strict=True)
    )
    return rows @ values @ columns.T


def _covered(old: int, new: int, device: torch.device) -> Float64[Tensor, "new old"]:
    """Compute the share of each new pixel, along one axis, that each old pixel covers."""
    starts = torch.arange(new, dtype=torch.float64, device=device)[:, None] * (old / new)
    pixels = torch.arange(old, dtype=torch.float64, device=device)
    common = torch.minimum(starts + old / new, pixels + 1) - torch.maximum(starts, pixels)
    return common.clamp(min=0) * (new / old)


def resize_masked(
    values: Float[Tensor, "batch channels height width"],
    mask: PixelMask,
    size: Sequence[int],
    how: Filter,
) -> tuple[Float64[Tensor, "batch channels rows columns"], Float64[Tensor, "batch rows columns"]]:
    """Resize images of which the mask alone counts, and the mask: a soft mask where it has edges.

    Args:
        values: images; what lies outside the mask is never read.
        mask: weight of each pixel, in [0, 1].
        size: height and width in pixels.
        how: as of `resize`.

    Returns:
        Weighted means of the values inside the mask (0 without weight), and the weights, which are 0 up to
        `LEAST_WEIGHT`.

    Example:
        >>> values, mask = torch.tensor([[[[3.0, torch.nan]]]]), torch.tensor([[[1.0, 0.0]]])
        >>> [one.item() for one in resize_masked(values, mask, (1, 1), "area")]
        [3.0, 0.5]
    """
    weights = resize(mask.double()[:, None], size, how).clamp(0, 1)
    weights = weights.masked_fill(weights <= LEAST_WEIGHT, 0)
    sums = resize(weighted(masked_double(values, mask), mask), size, how)
    return torch.where(weights > 0, sums / weights, 0.0), weights[:, 0]
