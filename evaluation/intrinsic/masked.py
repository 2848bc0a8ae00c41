"""Masked sums, means and scales of images, over a whole image and over sliding windows."""

from collections.abc import Callable
from math import gcd

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.nn.functional import avg_pool2d

from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

# Larger values count as infinite, because their squares, or sums of squares, may overflow float64.
LARGEST = torch.finfo(torch.float32).max

PixelMask = Bool[Tensor, "batch height width"] | Float[Tensor, "batch height width"]
ErrorFunction = Callable[[Tensor, Tensor, Tensor], Tensor]  # prediction, target, mask -> error of each sample


def check_masked(prediction: object, target: object, mask: object, axes: str) -> None:
    """Check the shapes of prediction, target and mask, and the values of the mask.

    Args:
        prediction: tensor of shape ``axes``.
        target: tensor of shape ``axes``.
        mask: [batch, height, width], boolean or weights in [0, 1].
        axes: as in `candlelight.evaluation.views.check_shapes.check_shapes`.

    Raises:
        InputError: an argument is not a tensor, the shapes do not agree, or the mask is neither boolean nor
            weights.

    Example:
        >>> image = torch.ones(1, 2, 2)
        >>> check_masked(image, image, 255 * image, "batch height width")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `mask` must lie from 0 to 1, got 255 to 255; divide 0/255 \
masks by 255
    """
    check_shapes(prediction=(prediction, axes), target=(target, axes), mask=(mask, "batch height width"))
    check_mask(mask)


def check_mask(mask: object) -> None:
    """Refuse a mask that is neither boolean nor weights in [0, 1].

    Args:
        mask: tensor of any shape.

    Raises:
        InputError: the mask has another dtype, or weights that are negative, above 1 or not finite.

    Example:
        >>> check_mask(torch.tensor([0.0, 0.5, 1.0]))
    """
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise InputError(f"`mask` must be a boolean or float tensor, got {kind}; pass `mask > 0`")
    if mask.dtype != torch.bool and not bool(((mask >= 0) & (mask <= 1)).all()):
        low, high = float(mask.min()), float(mask.max())
        raise InputError(f"`mask` must lie from 0 to 1, got {low:g} to {high:g}; divide 0/255 masks by 255")


def is_failed(
    prediction: Float[Tensor, "batch *channels height width"], mask: PixelMask
) -> Bool[Tensor, " batch"]:
    """Tell which predictions have failed: a value inside the mask is not finite.

    The score of a failed prediction is nan. If a score is nan and the prediction has not failed, the ground
    truth or the mask leaves the score undefined. Float64 values above the float32 range (3.4e38) count as
    infinite, because their squares would overflow.

    Args:
        prediction: images with values of any range.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.

    Returns:
        One flag per sample.

    Raises:
        InputError: the shapes do not agree, or the mask is neither boolean nor weights in [0, 1].

    Example:
        >>> prediction = torch.tensor([[[0.5, torch.nan]], [[torch.inf, 0.5]]])
        >>> is_failed(prediction, torch.tensor([[[True, False]], [[True, True]]]))
        tensor([False,  True])
    """
    check_shapes(prediction=(prediction, "batch *channels height width"), mask=(mask, "batch height width"))
    check_mask(mask)
    return ~is_finite(masked_double(prediction, mask))


def masked_double(
    values: Float[Tensor, "batch *channels height width"], mask: PixelMask
) -> Float64[Tensor, "batch *channels height width"]:
    """Convert values to float64 and set them to 0 where the mask is 0.

    A product with the mask would keep a NaN or an infinity outside the mask.

    Args:
        values: images with values of any range.
        mask: weight of each pixel, in [0, 1]; the same for all channels.

    Example:
        >>> masked_double(torch.tensor([[[2.0, torch.nan]]]), torch.tensor([[[0.5, 0.0]]])).tolist()
        [[[2.0, 0.0]]]
    """
    inside = mask if mask.dtype == torch.bool else mask > 0
    return torch.where(_per_channel(inside, values), values, 0.0).double()


def weighted(
    values: Float64[Tensor, "batch *channels height width"], mask: PixelMask
) -> Float64[Tensor, "batch *channels height width"]:
    """Multiply values by the weights of a mask; nothing to do for a boolean mask, where they are already 0.

    Args:
        values: computed from results of `masked_double`, so 0 where the mask is 0.
        mask: weight of each pixel, in [0, 1]; the same for all channels.

    Example:
        >>> weighted(torch.tensor([[[2.0, 0.0]]]).double(), torch.tensor([[[0.5, 0.0]]])).tolist()
        [[[1.0, 0.0]]]
    """
    return values if mask.dtype == torch.bool else values * _per_channel(mask, values)


def mean_weighted(
    values: Float64[Tensor, "batch *channels height width"], mask: PixelMask
) -> Float64[Tensor, " batch"]:
    """Compute the weighted mean over pixels and channels; nan for an empty mask.

    Args:
        values: computed from results of `masked_double`, so 0 where the mask is 0.
        mask: weight of each pixel, in [0, 1]; the same for all channels.

    Example:
        >>> mean_weighted(torch.tensor([[[2.0, 4.0]]]).double(), torch.tensor([[[0.5, 1.0]]])).tolist()
        [3.3333333333333335]
    """
    weights = _per_channel(mask.double(), values).expand(values.shape)
    return weighted(values, mask).flatten(1).sum(1) / weights.flatten(1).sum(1)


def best_scale(
    energy: Float64[Tensor, " *shape"], cross: Float64[Tensor, " *shape"], floor: float
) -> Float64[Tensor, " *shape"]:
    """Return the scale of a prediction that leaves the least squared error, ``sum(m t p) / sum(m p^2)``.

    Args:
        energy: ``sum(m p^2)``.
        cross: ``sum(m t p)``.
        floor: energy up to which the scale is 0.

    Raises:
        InputError: ``floor`` is negative.

    Example:
        >>> energy, cross = torch.tensor([2.0, 0.5]).double(), torch.tensor([1.0, 1.0]).double()
        >>> best_scale(energy, cross, floor=0.5)
        tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    if not floor >= 0:
        raise InputError(f"`floor` must be at least 0, got {floor:g}; 0 scales every prediction but zeros")
    has_energy = energy > floor
    # A divisor of 1 keeps the gradient finite where the quotient is not used.
    return torch.where(has_energy, cross / torch.where(has_energy, energy, 1.0), 0.0)


def as_channels(
    values: Float[Tensor, "batch *channels height width"],
) -> Float[Tensor, "batch all_channels height width"]:
    """Give images one axis of channels, of length 1 for gray images.

    Example:
        >>> as_channels(torch.zeros(2, 5, 5)).shape
        torch.Size([2, 1, 5, 5])
    """
    return values.unsqueeze(1).flatten(1, -3)


def result_dtype(prediction: Float[Tensor, "..."]) -> torch.dtype:
    """Return the dtype of a metric's result: the dtype of the prediction, but float32 for half precision.

    Example:
        >>> result_dtype(torch.zeros(1, dtype=torch.float16))
        torch.float32
    """
    return torch.promote_types(prediction.dtype, torch.float32)


def score_samples(
    errors: ErrorFunction,
    prediction: Float[Tensor, "batch *channels height width"],
    target: Float[Tensor, "batch *channels height width"],
    mask: PixelMask,
) -> Float[Tensor, " batch"]:
    """Score a few samples at a time, to limit the memory of float64 values.

    Args:
        errors: maps prediction, target and mask of some samples to one float64 error per sample.
        prediction: images with values of any range.
        target: images of the same shape.
        mask: weight of each pixel, in [0, 1].

    Returns:
        One error per sample, of the dtype that `result_dtype` gives for the prediction.

    Example:
        >>> image = torch.tensor([[[1.0]], [[2.0]]])
        >>> score_samples(lambda given, true, mask: given[:, 0, 0].double(), image, image, image > 0)
        tensor([1., 2.])
    """
    samples = max(1, chunk_length(prediction.device) // max(1, prediction[:1].numel()))
    chunks = zip(*(torch.split(values, samples) for values in (prediction, target, mask)), strict=True)
    return torch.cat([errors(*chunk) for chunk in chunks]).to(result_dtype(prediction))


def chunk_length(device: torch.device) -> int:
    """Return how many values to process at once: enough to fill a CPU's cache, or to keep a GPU busy.

    Example:
        >>> chunk_length(torch.device("cpu"))
        65536
    """
    return 2**16 if device.type == "cpu" else 2**22


def is_finite(values: Float64[Tensor, "batch *channels height width"]) -> Bool[Tensor, " batch"]:
    """Tell whether all values of a sample are finite and within the range of float32.

    Example:
        >>> is_finite(torch.tensor([[[1.0]], [[torch.nan]], [[1e39]]], dtype=torch.float64))
        tensor([ True, False, False])
    """
    largest = values.abs().flatten(1)
    if largest.shape[1] == 0:
        return torch.ones(len(values), dtype=torch.bool, device=values.device)
    return largest.amax(1) <= LARGEST


def _per_channel(mask: PixelMask, values: Tensor) -> Tensor:
    """Insert an axis of length 1 for each axis of channels."""
    batch, *channels, height, width = values.shape
    return mask.reshape(batch, *(1 for _ in channels), height, width)


def window_sums(
    prediction: Float[Tensor, "batch channels height width"],
    target: Float[Tensor, "batch channels height width"],
    mask: PixelMask,
    window: int,
    step: int,
) -> tuple[Float64[Tensor, "3 batch channels windows"], Bool[Tensor, " batch"]]:
    """Sum over all windows that lie wholly in the image, channel by channel.

    Args:
        prediction: images with values of any range.
        target: images of the same shape.
        mask: weight of each pixel, in [0, 1]. Pixels of weight 0 are never read.
        window: side of the square windows in pixels.
        step: distance between windows in pixels.

    Returns:
        ``sum(m p^2)``, ``sum(m t p)`` and ``sum(m t^2)`` of each window; and whether all values of a sample
        inside the mask are finite.

    Example:
        >>> prediction, target = torch.full((1, 1, 2, 4), 3.0), torch.full((1, 1, 2, 4), 2.0)
        >>> sums, finite = window_sums(prediction, target, torch.ones(1, 2, 4), window=2, step=2)
        >>> sums[:, 0, 0].tolist(), finite
        ([[36.0, 36.0], [24.0, 24.0], [16.0, 16.0]], tensor([True]))
    """
    side = gcd(window, step)
    # Strips of an image that fit in a processor's cache.
    height = max(1, chunk_length(prediction.device) // (prediction[..., 0, :].numel() * side or 1)) * side
    strips = zip(*(torch.split(values, height, -2) for values in (prediction, target, mask)), strict=True)
    parts = [_block_sums(given, true, weights, side) for given, true, weights in strips]
    blocks = torch.cat([sums for sums, _ in parts], -2)
    # Windows are sums of blocks: no cancellation, unlike differences of an integral image.
    pooled = avg_pool2d(blocks.flatten(0, 2).unsqueeze(1), window // side, step // side, divisor_override=1)
    sums = pooled.reshape(*blocks.shape[:3], pooled.shape[2] * pooled.shape[3])
    return sums, torch.stack([finite for _, finite in parts]).all(0)


def window_error(
    sums: Float64[Tensor, "3 batch *channels windows"], floor: float
) -> Float64[Tensor, " batch *channels"]:
    """Compute what the best scale of each window leaves of the target, as a share of the target.

    Args:
        sums: of each window, as `window_sums` returns them.
        floor: energy ``sum(m p^2)`` of a window up to which its scale is 0.

    Returns:
        ``sum_w min_a sum(m (t - a p)^2) / sum_w sum(m t^2)``; nan if the target is 0 in all windows.

    Raises:
        InputError: ``floor`` is negative.

    Example:
        >>> window_error(torch.tensor([[[4.0]], [[2.0]], [[3.0]]]).double(), floor=0).round(decimals=4)
        tensor([0.6667], dtype=torch.float64)
    """
    energy, cross, total = sums
    # The sum of squares with the best scale, in expanded form; rounding may make it slightly negative.
    errors = (total - best_scale(energy, cross, floor) * cross).clamp(min=0)
    return errors.sum(-1) / total.sum(-1)


def check_windows(height: int, width: int, window: int, step: int) -> None:
    """Refuse windows without pixels, and images smaller than a window.

    Args:
        height: of the images, in pixels.
        width: of the images, in pixels.
        window: side of the square windows in pixels.
        step: distance between windows in pixels.

    Raises:
        InputError: the image is smaller than a window, or ``window`` or ``step`` is below 1.

    Example:
        >>> check_windows(20, 20, window=20, step=10)
    """
    if window < 1 or step < 1:
        raise InputError(f"`window` and `step` must be at least 1 pixel, got {window} and {step}")
    if min(height, width) < window:
        raise InputError(
            f"images must be at least one window of {window}x{window} pixels, got {height}x{width} "
            "(height x width); render larger or pass a smaller `window`"
        )


def _block_sums(
    prediction: Float[Tensor, "batch channels height width"],
    target: Float[Tensor, "batch channels height width"],
    mask: PixelMask,
    side: int,
) -> tuple[Float64[Tensor, "3 batch channels rows columns"], Bool[Tensor, " batch"]]:
    """Sum squared prediction, product and squared target over full blocks; tell which samples are finite."""
    predicted, true = masked_double(prediction, mask), masked_double(target, mask)
    weighted_prediction = weighted(predicted, mask)
    products = weighted_prediction * predicted, weighted_prediction * true, weighted(true, mask) * true
    sums = torch.stack([_sum_blocks(product, side) for product in products])
    return sums, is_finite(predicted) & is_finite(true)


def _sum_blocks(
    values: Float64[Tensor, "batch channels height width"], side: int
) -> Float64[Tensor, "batch channels rows columns"]:
    batch, channels, height, width = values.shape
    rows, columns = height // side, width // side
    lines = values[..., : rows * side, :].reshape(batch, channels, rows, side, width).sum(3)
    return lines[..., : columns * side].reshape(batch, channels, rows, columns, side).sum(4)
