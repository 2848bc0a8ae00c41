"""Sums over windows of images, which the variants of LMSE share."""

from math import gcd

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.nn.functional import avg_pool2d

from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    best_scale,
    chunk_length,
    is_finite,
    masked_double,
    weighted,
)
from candlelight.loaders.errors import InputError


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
