"""NIID-Net, whose shading is rendered from predicted normals and lighting.

J. Luo, Z. Huang, Y. Li, X. Zhou, G. Zhang, H. Bao: NIID-Net: adapting surface normal knowledge for intrinsic
image decomposition in indoor scenes, TVCG 2020. The adapter follows the code of the repository at commit
e79e2e7. It was never run with the published weights.
"""

from pathlib import Path

from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.adapters.adapted_network import AdaptedNetwork
from candlelight.evaluation.adapters.checkout_file import run_checkout_file
from candlelight.evaluation.adapters.published_weights import entry, load_exactly, read_published

_ENTRIES = {
    "NEM_coarse_model": "NEM_coarse_state_dict",
    "NEM_refine_model": "NEM_refine_state_dict",
    "IID_model": "IID_state_dict",
}


class NIID(AdaptedNetwork):
    """NIID-Net as a model of scene-linear reflectance and shading.

    Args:
        network: takes sRGB images of any size, which it resizes itself, and three flags (predict normals,
            reflectance, shading); returns normals, linear reflectance, lighting, linear gray shading and the
            rendered image, in this order and of the size of the image.
        files: that were read.
    """

    def __init__(self, network: nn.Module, files: dict[str, Path]) -> None:
        super().__init__("NIID-Net", files)
        self.network = network

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 1 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance and gray shading; scene-linear, as the network gives them.
        """
        _, reflectance, _, shading, _ = self.network(image, True, True, True)
        return reflectance, shading


def load_niid_net(checkout: str | Path, weights: str | Path, device: str = "cpu") -> NIID:
    """Load NIID-Net from a checkout of its repository, whose code is run, and its weights.

    Never run with the published weights.

    Args:
        checkout: folder with ``models/niid_net.py`` and the modules that it imports from ``models``.
        weights: ``final.pth.tar``, a dictionary with the state dicts of three parts of the network.
        device: torch device.

    Returns:
        The network in evaluation mode; layers are named ``network.IID_model...`` and so on.

    Raises:
        InputError: a file is missing or cannot be used.

    Example:
        >>> load_niid_net("NIID-Net", "final.pth.tar")  # doctest: +SKIP
    """
    code = run_checkout_file(checkout, "models/niid_net.py", siblings=True)
    network = code.make("NIIDNet")
    content = read_published(weights)
    for name, key in _ENTRIES.items():
        load_exactly(getattr(network, name), entry(content, key, weights), f"{weights}: `{key}`")
    return NIID(network, {**code.files, "weights": Path(weights)}).to(device).eval()
