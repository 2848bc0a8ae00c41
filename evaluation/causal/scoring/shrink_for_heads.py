"""Small images for the network of the supervised codes."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.running.named_models import decode, encode

HEADS_SIDE = 64  # longest side of the images that the network takes, in pixels


def shrink_for_heads(image: Float[Tensor, "3 height width"]) -> Float[Tensor, "3 rows columns"]:
    """Average an sRGB-encoded image in linear light to at most `HEADS_SIDE` pixels a side.

    Example:
        >>> import torch
        >>> shrink_for_heads(torch.full((3, 240, 320), 0.5)).shape
        torch.Size([3, 48, 64])
    """
    height, width = image.shape[1:]
    scale = HEADS_SIDE / max(height, width)
    if scale >= 1:
        return image
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    return encode(functional.adaptive_avg_pool2d(decode(image), shape))
