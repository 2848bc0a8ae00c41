"""Convolutional autoencoders, and the files of their weights."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.models.network import write_weights
from candlelight.evaluation.models.published_weights import load_exactly, read_published, wrong_format
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


AUTOENCODER_FORMAT = "candlelight autoencoder 1"


class TrainedAutoencoder(NamedTuple):
    """A network of an autoencoder's file.

    Attributes:
        network: the network, in evaluation mode.
        training: settings, data and rows of the training, as `save_autoencoder` took them.
    """

    network: ConvVAE
    training: dict[str, Any]


def save_autoencoder(network: ConvVAE, path: str | Path, training: Mapping[str, Any]) -> Path:
    """Write the architecture, the weights and the settings of the training atomically.

    Args:
        network: the network, on any device.
        path: file to write; an existing file is replaced.
        training: JSON values: settings, data and rows of the training.

    Returns:
        The path.

    Raises:
        InputError: the folder does not exist, cannot be written to or is full.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network = ConvVAE(codes=2, side=32, seed=0)
        ...     path = save_autoencoder(network, Path(folder) / "vae.pt", {"model": "beta-vae"})
        ...     load_autoencoder(path).training
        {'model': 'beta-vae'}
    """
    state = {name: values.detach().cpu().contiguous() for name, values in network.state_dict().items()}
    content = {
        "format": AUTOENCODER_FORMAT,
        "architecture": {"codes": network.codes, "side": network.side},
        "state": state,
        "training": json.dumps(dict(training), sort_keys=True),
    }
    return write_weights(content, Path(path))


def load_autoencoder(path: str | Path, device: str | torch.device = "cpu") -> TrainedAutoencoder:
    """Read a network that `save_autoencoder` wrote; code in the file is never run.

    Args:
        path: the file.
        device: torch device of the network.

    Returns:
        The network, and the record of its training.

    Raises:
        InputError: the file does not exist, was not written by `save_autoencoder`, or is damaged.

    Example:
        >>> load_autoencoder("missing.pt")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected a file of weights, there is no missing.pt
    """
    content = read_published(path)
    if reason := wrong_format(content, AUTOENCODER_FORMAT):
        raise InputError(f"{path}: expected a file of `save_autoencoder`, {reason}")
    try:
        architecture: Any = content["architecture"]
        network = ConvVAE(codes=int(architecture["codes"]), side=int(architecture["side"]), seed=0)
        training = dict(json.loads(content["training"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: damaged: expected architecture and training of an autoencoder; train it again"
        ) from error
    load_exactly(network, content.get("state"), str(path))
    return TrainedAutoencoder(network.to(device).eval(), training)
