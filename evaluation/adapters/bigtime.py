"""BigTime, also called IIWW.

Z. Li, N. Snavely: Learning intrinsic image decomposition from watching the world, CVPR 2018. The adapter
follows the code of the repository at commit 20d8961. It was never run with the published weights.
"""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.adapters.adapted_network import AdaptedNetwork, choose_size, resize_bilinear
from candlelight.evaluation.adapters.cgintrinsics import CGI_SIZES, NETWORK_FILE, SQUARE
from candlelight.evaluation.adapters.checkout_file import run_checkout_file
from candlelight.evaluation.adapters.published_weights import load_exactly, read_published

# In Python 2 the quotient of integers was an integer; torch refuses 256.0 as a number of channels.
_HALF = (b"inner_nc/2", b"inner_nc//2")
# In `resize_img_arr` of the repository a second `if` overrules the bounds of 1.73.
_SIZES = CGI_SIZES[1:]
_WRAPPED = "model.model."


class BigTime(AdaptedNetwork):
    """Network of BigTime as a model of scene-linear reflectance and shading.

    Args:
        network: maps sRGB images, whose sides are multiples of 128, to the logarithms of gray linear shading,
            of linear reflectance in colour, and of the colour of the light [batch, 3], in this order. This is
            ``MultiUnetGenerator``; the repository's ``UnetWrapper`` around it multiplies all three by 0.4545
            for display, and is not used.
        files: that were read.
    """

    def __init__(self, network: nn.Module, files: dict[str, Path]) -> None:
        super().__init__("BigTime", files)
        self.network = network

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance and shading, which has one colour in each image; scene-linear, with one free scale
            each.
        """
        size = image.shape[-2:]
        resized = resize_bilinear(image, choose_size(size[0], size[1], _SIZES, SQUARE))
        log_shading, log_reflectance, log_light = self.network(resized)
        shading = torch.exp(log_shading + log_light[:, :, None, None])
        return resize_bilinear(torch.exp(log_reflectance), size), resize_bilinear(shading, size)


def load_bigtime(checkout: str | Path, weights: str | Path, device: str = "cpu") -> BigTime:
    """Load BigTime from a checkout of its repository, whose code is run, and its weights.

    The code is of Python 2; one division is replaced in memory. Never run with the published weights.

    Args:
        checkout: folder with ``models/networks.py``; the file imports h5py and scikit-image.
        weights: ``paper_final_net_G.pth``, a state dict of ``UnetWrapper`` or of ``MultiUnetGenerator``.
        device: torch device.

    Returns:
        The network in evaluation mode; layers are named ``network.model...``.

    Raises:
        InputError: a file is missing or cannot be used.

    Example:
        >>> load_bigtime("unsupervised-learning-intrinsic-images", "paper_final_net_G.pth")  # doctest: +SKIP
    """
    code = run_checkout_file(checkout, NETWORK_FILE, edit=_HALF)
    network = code.make("MultiUnetGenerator", 3, 3, 7)
    load_exactly(network, _unwrapped(read_published(weights)), str(weights))
    return BigTime(network, {**code.files, "weights": Path(weights)}).to(device).eval()


def _unwrapped(state: dict[str, Any]) -> dict[str, Any]:
    """Remove the name of the wrapper's member from all keys, if they have it."""
    if not all(str(name).startswith(_WRAPPED) for name in state):
        return state
    return {name.removeprefix("model."): values for name, values in state.items()}
