"""First steps of every masked image metric: inputs checked, float64, and nothing read outside the mask."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from evaluation.shapes import check_shapes
from loaders.errors import InputError

# Squares of larger values, and their sums, would overflow float64.
_LARGEST = torch.finfo(torch.float32).max

Mask = Bool[Tensor, "batch height width"] | Float[Tensor, "batch height width"]


def check_masked(prediction: object, target: object, mask: object, axes: str) -> None:
    """Refuse images and masks that cannot be compared.

    Args:
        prediction: of shape ``axes``.
        target: of shape ``axes``.
        mask: [batch, height, width], boolean or weights in [0, 1].
        axes: as in `evaluation.shapes.check_shapes`.

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
    prediction: Float[Tensor, "batch *channels height width"], mask: Mask
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
    return ~_finite(masked_double(prediction, mask)[0])


def masked_double(
    values: Float[Tensor, "batch *channels height width"],
    mask: Mask,
) -> tuple[Float64[Tensor, "batch *channels height width"], Float64[Tensor, "batch *channels height width"]]:
    """Return values and weights as float64, both 0 where the mask is 0.

    A product with the mask would let a NaN or an infinity outside it through; this does not.

    Args:
        values: image or images, any range.
        mask: weight of each pixel, in [0, 1]; the same for all channels.

    Returns:
        The values, and the mask repeated over the channels.

    Example:
        >>> mask = torch.tensor([[[True, False]]])
        >>> values, weight = masked_double(torch.tensor([[[2.0, torch.nan]]]), mask)
        >>> values.tolist(), weight.tolist()
        ([[[2.0, 0.0]]], [[[1.0, 0.0]]])
    """
    batch, *channels, height, width = values.shape
    weight = mask.double().reshape(batch, *(1 for _ in channels), height, width).expand(values.shape)
    return torch.where(weight > 0, values.double(), 0.0), weight


def result_dtype(prediction: Float[Tensor, "..."]) -> torch.dtype:
    """Dtype of a metric's result: that of the prediction, but never half precision.

    Example:
        >>> result_dtype(torch.zeros(1, dtype=torch.float16))
        torch.float32
    """
    return torch.promote_types(prediction.dtype, torch.float32)


def as_scores(
    errors: Float64[Tensor, " batch"],
    predicted: Float64[Tensor, "batch *channels height width"],
    true: Float64[Tensor, "batch *channels height width"],
    dtype: torch.dtype,
) -> Float[Tensor, " batch"]:
    """Make errors nan where the prediction or the truth is not finite inside the mask.

    Without this a NaN could vanish in a comparison, and an infinity be scaled away.

    Args:
        errors: one per sample.
        predicted: from `masked_double`.
        true: from `masked_double`.
        dtype: of the result.

    Example:
        >>> values = torch.tensor([[[1.0]], [[torch.nan]]], dtype=torch.float64)
        >>> as_scores(torch.zeros(2, dtype=torch.float64), values, values, torch.float32)
        tensor([0., nan])
    """
    return errors.masked_fill(~(_finite(predicted) & _finite(true)), torch.nan).to(dtype)


def _finite(values: Float64[Tensor, "batch *channels height width"]) -> Bool[Tensor, " batch"]:
    """Whether all values of a sample are finite, in float32 too."""
    return (values.abs() <= _LARGEST).flatten(1).all(1)
