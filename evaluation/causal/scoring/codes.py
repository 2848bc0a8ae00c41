"""Codes of images from a hidden layer of a network, for the causal metrics."""

from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.causal.scoring.score_causal import Encoder
from candlelight.evaluation.running.hidden_layers import batch_axis, layer_outputs, run_recorded
from candlelight.loaders.errors import InputError


def layer_codes(model: nn.Module, layer: str) -> Encoder:
    """Make an encoder whose codes are the mean activations of the channels of a hidden layer.

    Args:
        model: the network.
        layer: name as ``model.named_modules()`` gives it. Its output must be [batch, channels, h, w] or
            [batch, tokens, channels] or [tokens, batch, channels], which is averaged over pixels or tokens,
            or [batch, channels].

    Returns:
        An encoder for `score_causal`; it takes images in the colour space of the network.

    Example:
        >>> import torch
        >>> layer_codes(nn.Sequential(nn.Conv2d(3, 5, 3)), "0")(torch.zeros(2, 3, 9, 9)).shape
        torch.Size([2, 5])
    """

    def encode(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch codes"]:
        values = run_recorded(model, [layer], images)[1][layer]
        if values.ndim == 4:
            return values.mean((2, 3))
        if values.ndim == 3:
            alone = layer_outputs(model, [layer], images[:1])[layer].alone
            return values.movedim(batch_axis(layer, values, len(images), alone), 0).mean(1)
        if values.ndim == 2:
            return values
        raise InputError(f"layer `{layer}` gives {list(values.shape)}; expected 2, 3 or 4 axes")

    vars(encode)["colour_space"] = getattr(model, "colour_space", "srgb")
    vars(encode)["network"] = model
    return encode
