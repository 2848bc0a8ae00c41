"""What every masked image metric does first: float64, and nothing read outside the mask."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

Mask = Bool[Tensor, "batch height width"] | Float[Tensor, "batch height width"]


def masked_double(
    values: Float[Tensor, "batch *channels height width"],
    mask: Mask,
) -> tuple[Float64[Tensor, "batch *channels height width"], Float64[Tensor, "batch *channels height width"]]:
    """Return values and weights as float64, both 0 where the mask is 0.

    A product with the mask would let a NaN or an infinity outside it through; this does not.

    Args:
        values: image or images, any range.
        mask: weight of each pixel, >= 0; the same for all channels.

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
