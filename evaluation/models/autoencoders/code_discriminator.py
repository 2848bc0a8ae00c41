"""The discriminator of FactorVAE, which tells codes of images from codes permuted among images."""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.models.autoencoders.conv_vae import draw_glorot

_WIDTH, _DEPTH = 1000, 6
_SLOPE = 0.2


class CodeDiscriminator(nn.Module):
    """Six linear layers of 1000 with leaky ReLU, and two logits (Kim and Mnih, ICML 2018, appendix A).

    Args:
        codes: number of codes.
        seed: seed of the initial weights, which depend on nothing else.

    Example:
        >>> import torch
        >>> CodeDiscriminator(5, seed=0)(torch.zeros(2, 5)).shape
        torch.Size([2, 2])
    """

    def __init__(self, codes: int, *, seed: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise([codes, *[_WIDTH] * _DEPTH]):
            layers += [nn.Linear(before, after), nn.LeakyReLU(_SLOPE)]
        self.layers = nn.Sequential(*layers, nn.Linear(_WIDTH, 2))
        draw_glorot(self, seed)

    def forward(self, codes: Float[Tensor, "batch codes"]) -> Float[Tensor, "batch 2"]:
        """Compute logits: first that the codes are of one image, second that they are permuted."""
        return self.layers(codes)
