"""First steps of every masked image metric: inputs checked, float64, and nothing read outside the mask."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from evaluation.inputs.check_shapes import check_shapes
from loaders.errors import InputError

# Squares of larger values, and their sums, would overflow float64.
_LARGEST = torch.finfo(torch.float32).max

PixelMask = Bool[Tensor, "batch height width"] | Float[Tensor, "batch height width"]
ErrorFunction = Callable[[Tensor, Tensor, Tensor], Tensor]  # of some samples: prediction, target, mask


def check_masked(prediction: object, target: object, mask: object, axes: str) -> None:
    """Refuse images and masks that cannot be compared.

    Args:
        prediction: of shape ``axes``.
        target: of shape ``axes``.
        mask: [batch, height, width], boolean or weights in [0, 1].
        axes: as in `evaluation.inputs.check_shapes.check_shapes`.

    Raises:
        InputError: no tensors, shapes that do not agree, or a mask that is neither boolean nor weights.

    Example:
        >>> image = torch.ones(1, 2, 2)
        >>> check_masked(image, image, 255 * image, "batch height width")
        Traceback (most recent call last):
        loaders.errors.InputError: `mask` must lie from 0 to 1, got 255 to 255; divide 0/255 masks by 255
    """
    check_shapes(prediction=(prediction, axes), target=(target, axes), mask=(mask, "batch height width"))
    check_mask(mask)


def check_mask(mask: object) -> None:
    """Refuse a mask that is neither boolean nor weights in [0, 1].

    Args:
        mask: of any shape.

    Raises:
        InputError: another dtype; weights that are negative, above 1 or not finite.

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
    """Tell which predictions are not finite somewhere inside the mask.

    Their scores are nan, and they count as failures; a score that is nan without such a value has a truth
    or a mask that leaves it undefined. Float64 values that float32 cannot hold (above 3.4e38) count as
    infinite: their squares would overflow.

    Args:
        prediction: image or images, any range.
        mask: weight of each pixel, in [0, 1]. What lies where it is 0 is never read.

    Returns:
        One answer per sample.

    Raises:
        InputError: shapes that do not agree, or a mask that is neither boolean nor weights in [0, 1].

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
    """Return values as float64, 0 where the mask is 0.

    A product with the mask would let a NaN or an infinity outside it through; this does not.

    Args:
        values: image or images, any range.
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
    """Multiply values that are 0 where the mask is 0 by the mask; a boolean one leaves them as they are.

    Args:
        values: made of what `masked_double` returns.
        mask: weight of each pixel, in [0, 1]; the same for all channels.

    Example:
        >>> weighted(torch.tensor([[[2.0, 0.0]]]).double(), torch.tensor([[[0.5, 0.0]]])).tolist()
        [[[1.0, 0.0]]]
    """
    return values if mask.dtype == torch.bool else values * _per_channel(mask, values)


def mean_weighted(
    values: Float64[Tensor, "batch *channels height width"], mask: PixelMask
) -> Float64[Tensor, " batch"]:
    """Average values that are 0 where the mask is 0 over pixels and channels; nan for an empty mask.

    Args:
        values: made of what `masked_double` returns.
        mask: weight of each pixel, in [0, 1]; the same for all channels.

    Example:
        >>> mean_weighted(torch.tensor([[[2.0, 4.0]]]).double(), torch.tensor([[[0.5, 1.0]]])).tolist()
        [3.3333333333333335]
    """
    weights = _per_channel(mask.double(), values).expand(values.shape)
    return weighted(values, mask).flatten(1).sum(1) / weights.flatten(1).sum(1)


def result_dtype(prediction: Float[Tensor, "..."]) -> torch.dtype:
    """Dtype of a metric's result: that of the prediction, but never half precision.

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
    """Score a few samples at a time, which bounds the memory that float64 takes.

    Args:
        errors: from prediction, target and mask of some samples to one float64 error per sample.
        prediction: image or images, any range.
        target: of the same shape.
        mask: weight of each pixel, in [0, 1].

    Returns:
        One error per sample, in the precision of `result_dtype` of the prediction.

    Example:
        >>> image = torch.tensor([[[1.0]], [[2.0]]])
        >>> score_samples(lambda given, true, mask: given[:, 0, 0].double(), image, image, image > 0)
        tensor([1., 2.])
    """
    samples = max(1, chunk_length(prediction.device) // max(1, prediction[:1].numel()))
    chunks = zip(*(torch.split(values, samples) for values in (prediction, target, mask)), strict=True)
    return torch.cat([errors(*chunk) for chunk in chunks]).to(result_dtype(prediction))


def chunk_length(device: torch.device) -> int:
    """Count the values to work on at once: on a CPU as many as its cache holds, on a GPU as keep it busy.

    Example:
        >>> chunk_length(torch.device("cpu"))
        65536
    """
    return 2**16 if device.type == "cpu" else 2**22


def is_finite(values: Float64[Tensor, "batch *channels height width"]) -> Bool[Tensor, " batch"]:
    """Whether all values of a sample are finite, in float32 too.

    A NaN could vanish in a comparison, and an infinity be scaled away.

    Example:
        >>> is_finite(torch.tensor([[[1.0]], [[torch.nan]], [[1e39]]], dtype=torch.float64))
        tensor([ True, False, False])
    """
    largest = values.abs().flatten(1)
    if largest.shape[1] == 0:
        return torch.ones(len(values), dtype=torch.bool, device=values.device)
    return largest.amax(1) <= _LARGEST


def _per_channel(mask: PixelMask, values: Tensor) -> Tensor:
    """Insert an axis of length 1 for each axis of channels."""
    batch, *channels, height, width = values.shape
    return mask.reshape(batch, *(1 for _ in channels), height, width)
