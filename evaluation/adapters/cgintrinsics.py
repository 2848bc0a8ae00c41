"""CGIntrinsics, a network trained on renders.

Z. Li, N. Snavely: CGIntrinsics: better intrinsic image decomposition through physically-based rendering,
ECCV 2018. The adapter follows the code of the repository at commit 4b945eb. It was never run with the
published weights.
"""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.adapters.adapted_network import (
    AdaptedNetwork,
    choose_size,
    decode_srgb,
    resize_bilinear,
)
from candlelight.evaluation.adapters.checkout_file import run_checkout_file
from candlelight.evaluation.adapters.published_weights import load_exactly, read_published

NETWORK_FILE = "models/networks.py"
CGI_SIZES = ((1.73, (512, 256)), (1.41, (384, 256)), (1.15, (512, 384)))
SQUARE = (384, 384)


class CGIntrinsics(AdaptedNetwork):
    """Network of CGIntrinsics as a model of scene-linear reflectance and shading.

    Args:
        network: maps sRGB images, whose sides are multiples of 128, to the logarithms of gray linear
            reflectance and of gray linear shading, in this order.
        files: that were read.
    """

    def __init__(self, network: nn.Module, files: dict[str, Path]) -> None:
        super().__init__("CGIntrinsics", files)
        self.network = network

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 1 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance, the gray prediction times the chromaticity of the image (channels sum to 1, as in the
            training), and gray shading; scene-linear, with one free scale each.
        """
        size = image.shape[-2:]
        resized = resize_bilinear(image, choose_size(size[0], size[1], CGI_SIZES, SQUARE))
        log_reflectance, log_shading = self.network(resized)
        linear = decode_srgb(image).clamp(min=1e-4)
        chromaticity = linear / (linear.sum(1, keepdim=True) + 1e-6)
        gray = resize_bilinear(torch.exp(log_reflectance), size)
        return chromaticity * gray, resize_bilinear(torch.exp(log_shading), size)


def load_cgintrinsics(checkout: str | Path, weights: str | Path, device: str = "cpu") -> CGIntrinsics:
    """Load CGIntrinsics from a checkout of its repository, whose code is run, and its weights.

    Never run with the published weights.

    Args:
        checkout: folder with ``models/networks.py``; the file imports h5py, matplotlib and scikit-image.
        weights: ``cgintrinsics_iiw_saw_final_net_G.pth``, a state dict of ``MultiUnetGenerator``.
        device: torch device.

    Returns:
        The network in evaluation mode; layers are named ``network.model...``.

    Raises:
        InputError: a file is missing or cannot be used.

    Example:
        >>> load_cgintrinsics("CGIntrinsics", "cgintrinsics_iiw_saw_final_net_G.pth")  # doctest: +SKIP
    """
    code = run_checkout_file(checkout, NETWORK_FILE)
    network = code.make("MultiUnetGenerator", 3, 3, 7)
    load_exactly(network, read_published(weights), str(weights))
    return CGIntrinsics(network, {**code.files, "weights": Path(weights)}).to(device).eval()
