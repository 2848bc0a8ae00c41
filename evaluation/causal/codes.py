"""Codes of images taken from a hidden layer of a network, for the causal metrics."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from evaluation.causal.protocol import Encoder
from evaluation.hidden import run_recorded
from evaluation.models.ground_truth import decode_image
from loaders.errors import InputError


def layer_codes(model: nn.Module, layer: str) -> Encoder:
    """Take the mean activation of each channel of a hidden layer as the codes of an image.

    Args:
        model: network that takes scene-linear images, such as `evaluation.models.IntrinsicNet`.
        layer: name as ``model.named_modules()`` gives it; its output must be [batch, channels, h, w].

    Returns:
        An encoder for `score_causal`, which gives it sRGB pixels in [0, 1].

    Example:
        >>> layer_codes(nn.Sequential(nn.Conv2d(3, 5, 3)), "0")(torch.zeros(2, 3, 9, 9)).shape
        torch.Size([2, 5])
    """

    def encode(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch codes"]:
        linear = decode_image((images * 255).round().to(torch.uint8))
        maps = run_recorded(model, [layer], linear)[1][layer]
        if maps.ndim != 4:
            raise InputError(f"layer `{layer}` gives no maps: expected 4 axes, got {list(maps.shape)}")
        return maps.mean((2, 3))

    return encode
