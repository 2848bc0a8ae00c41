"""The convolutional variational autoencoder of the disentanglement literature."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.loaders.errors import InputError, argument

IMAGE_SIDES = (32, 64)
MAX_CODES = 1024
_MAP_SIDE = 4  # of the encoder's last maps and the decoder's first ones
_HIDDEN = 256


class Posterior(NamedTuple):
    """A Gaussian for each code of each image, of independent codes.

    Attributes:
        means: means.
        log_variances: natural logarithms of the variances.
    """

    means: Float[Tensor, "batch codes"]
    log_variances: Float[Tensor, "batch codes"]

    def sample(self, noise: Float[Tensor, "batch codes"]) -> Float[Tensor, "batch codes"]:
        """Compute ``means + deviations * noise``, through which gradients flow to both.

        Example:
            >>> Posterior(torch.tensor([[1.0]]), torch.tensor([[0.0]])).sample(torch.tensor([[2.0]]))
            tensor([[3.]])
        """
        return self.means + (self.log_variances / 2).exp() * noise


class ConvVAE(nn.Module):
    """Encoder and decoder of Locatello et al. (ICML 2019), which CANDLE's authors trained.

    Called with images, it gives the means of their codes, so that it is an encoder for the causal metrics;
    `decode` is the decoder. For 64 x 64 pixels the encoder has convolutions 32-4-2, 32-4-2, 64-2-2, 64-2-2
    (channels, side, stride) and a linear layer of 256; the decoder has linear layers of 256 and 1024 and
    transposed convolutions 64, 32, 32, 3, all 4-2; all with ReLU except the last ones. For 32 x 32 pixels,
    which is ours, the last convolution of the encoder and a transposed one of 32 are left out.

    Args:
        codes: number of codes.
        side: height and width of the images, 32 or 64 pixels.
        seed: seed of the initial weights (Glorot and Bengio 2010, eq. 16; biases are 0), which depend on
            nothing else.

    Attributes:
        colour_space: images are sRGB-encoded in [0, 1].

    Raises:
        InputError: the number of codes lies outside 1..1024, or the side is neither 32 nor 64.

    Example:
        >>> network = ConvVAE(codes=5, side=32, seed=0)
        >>> codes = network(torch.rand(2, 3, 32, 32))
        >>> codes.shape, network.decode(codes).shape
        (torch.Size([2, 5]), torch.Size([2, 3, 32, 32]))
    """

    colour_space = "srgb"

    def __init__(self, *, codes: int = 10, side: int = 64, seed: int) -> None:
        super().__init__()
        if not 1 <= codes <= MAX_CODES:
            raise InputError(f"`codes` must lie in 1..{MAX_CODES}, got {codes}")
        if side not in IMAGE_SIDES:
            raise InputError(
                f"expected images of 32 or 64 pixels, got {side}; resize them ({argument('size', 'side')})"
            )
        self.codes, self.side = codes, side
        sizes = [(32, 4), (32, 4), (64, 2)] + [(64, 2)] * (side == 64)
        layers: list[nn.Module] = []
        before = 3
        for channels, kernel in sizes:
            layers += [nn.Conv2d(before, channels, kernel, 2, padding=(kernel - 2) // 2), nn.ReLU()]
            before = channels
        flat = 64 * _MAP_SIDE**2
        self.encoder = nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, _HIDDEN), nn.ReLU())
        self.means, self.log_variances = nn.Linear(_HIDDEN, codes), nn.Linear(_HIDDEN, codes)
        layers = [nn.Linear(codes, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, flat), nn.ReLU()]
        layers.append(nn.Unflatten(1, (64, _MAP_SIDE, _MAP_SIDE)))
        before = 64
        for channels in (64, *[32] * (1 + (side == 64))):
            layers += [nn.ConvTranspose2d(before, channels, 4, 2, padding=1), nn.ReLU()]
            before = channels
        self.decoder = nn.Sequential(*layers, nn.ConvTranspose2d(before, 3, 4, 2, padding=1))
        draw_glorot(self, seed)
        self.eval()

    def posterior(self, images: Float[Tensor, "batch 3 height width"]) -> Posterior:
        """Compute means and log-variances of the codes.

        Args:
            images: sRGB-encoded in [0, 1].

        Raises:
            InputError: the images have another size.
        """
        if tuple(images.shape[1:]) != (3, self.side, self.side):
            raise InputError(
                f"expected images [3, {self.side}, {self.side}], on which this network was trained, got "
                f"{list(images.shape[1:])}; resize them "
                f"({argument('size', 'candlelight.evaluation.coverage.ResizedImages')})"
            )
        features = self.encoder(images)
        return Posterior(self.means(features), self.log_variances(features))

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch codes"]:
        """Compute the means of the codes; see `posterior`."""
        return self.posterior(images).means

    def logits(self, codes: Float[Tensor, "batch codes"]) -> Float[Tensor, "batch 3 height width"]:
        """Compute images before the sigmoid, for the loss."""
        return self.decoder(codes)

    def decode(self, codes: Float[Tensor, "batch codes"]) -> Float[Tensor, "batch 3 height width"]:
        """Compute images, sRGB-encoded in [0, 1], by the sigmoid of `logits`."""
        return self.logits(codes).sigmoid()


def draw_glorot(network: nn.Module, seed: int) -> None:
    """Draw the weights of linear and convolutional layers as by Glorot and Bengio 2010, eq. 16; biases are 0.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> draw_glorot(layer, 0)
        >>> layer.bias.item(), bool((layer.weight.abs() <= 2**0.5).all())
        (0.0, True)
    """
    generator = torch.Generator().manual_seed(seed)
    for values in network.parameters():
        if values.ndim > 1:
            nn.init.xavier_uniform_(values, generator=generator)
        else:
            nn.init.zeros_(values)
