"""USI3D, networks that translate between images, reflectance and shading.

Y. Liu, Y. Li, S. You, F. Lu: Unsupervised learning for intrinsic image decomposition from a single image,
CVPR 2020. The adapter follows the code of the repository at commit 0971396. It was never run with the
published weights.
"""

from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.adapters.adapted_network import AdaptedNetwork, resize_bilinear
from candlelight.evaluation.adapters.checkout_file import CheckoutFile, run_checkout_file
from candlelight.evaluation.adapters.published_weights import entry, load_exactly, read_published
from candlelight.loaders.errors import InputError

SIDE = 300
_ENTRIES = {"gen_i": "i", "gen_r": "r", "gen_s": "s", "fea_s": "fs"}
# In all configurations of the repository; the other numbers are read from the weights.
_FIXED = {"activ": "relu", "n_downsample": 2, "n_res": 4, "pad_type": "reflect"}
_GAMMA = 2.2


class USI3D(AdaptedNetwork):
    """Networks of USI3D as a model of scene-linear reflectance and shading.

    Reflectance times shading explains the encoded image. Both are raised to 2.2, so that the product explains
    the linear image.

    Args:
        code: defines ``AdaINGen`` and ``IntrinsicSplitor``.
        sizes: ``dim``, ``mlp_dim``, ``style_dim`` and ``n_layer`` of the networks.
        side: shorter side of the images that the networks are given, a multiple of 4.
        files: that were read.
    """

    def __init__(self, code: CheckoutFile, sizes: dict[str, int], side: int, files: dict[str, Path]) -> None:
        super().__init__(f"USI3D with a shorter side of {side} pixels", files)
        self.side = side
        options = {**_FIXED, **sizes}
        # The repository also has a network of the inverse, from two styles to one; decomposing leaves it out.
        self.gen_i, self.gen_r, self.gen_s = (code.make("AdaINGen", 3, 3, options) for _ in range(3))
        splitting = (sizes["style_dim"], sizes["mlp_dim"], sizes["n_layer"], _FIXED["activ"])
        self.fea_s = code.make("IntrinsicSplitor", *splitting)

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose sRGB images in [0, 1].

        Returns:
            Reflectance and shading in colour; scene-linear, in [0, 1].
        """
        size = image.shape[-2:]
        content, style = self.gen_i.encode(
            resize_bilinear(image, shorter_side_size(size[0], size[1], self.side))
        )
        of_reflectance, of_shading = self.fea_s(style)
        parts = self.gen_r.decode(content, of_reflectance), self.gen_s.decode(content, of_shading)
        reflectance, shading = (resize_bilinear(part.clamp(0, 1) ** _GAMMA, size) for part in parts)
        return reflectance, shading


def shorter_side_size(height: int, width: int, side: int) -> tuple[int, int]:
    """Return the size with the given shorter side; the longer one is rounded down to a multiple of 4.

    Example:
        >>> shorter_side_size(480, 642, 300)
        (300, 400)
    """
    long = side * max(height, width) // min(height, width) // 4 * 4
    return (side, long) if height <= width else (long, side)


def load_usi3d(
    checkout: str | Path, weights: str | Path, device: str = "cpu", shorter_side: int = SIDE
) -> USI3D:
    """Load USI3D from a checkout of its repository, whose code is run, and its weights.

    Never run with the published weights.

    Args:
        checkout: folder with ``networks.py``; the file imports torchvision.
        weights: a dictionary with the state dicts ``i``, ``r``, ``s`` and ``fs``. The sizes of the networks,
            which differ between the published files, are read from the shapes.
        device: torch device.
        shorter_side: of the images that the networks are given, a multiple of 4: 300 for weights of MIX and
            MPI, 220 for weights of MIT.

    Returns:
        The networks in evaluation mode; layers are named ``gen_r.dec.model...`` and so on.

    Raises:
        InputError: a file is missing or cannot be used.

    Example:
        >>> load_usi3d("USI3D", "gen-MIX.pt")  # doctest: +SKIP
    """
    if shorter_side < 4 or shorter_side % 4:
        raise InputError(f"`shorter_side` must be a multiple of 4, got {shorter_side}")
    code = run_checkout_file(checkout, "networks.py")
    content = read_published(weights)
    states = {name: entry(content, key, weights) for name, key in _ENTRIES.items()}
    model = USI3D(code, _sizes(states, weights), shorter_side, {**code.files, "weights": Path(weights)})
    for name, state in states.items():
        load_exactly(getattr(model, name), state, f"{weights}: `{_ENTRIES[name]}`")
    return model.to(device).eval()


def _sizes(states: dict[str, Any], weights: str | Path) -> dict[str, int]:
    """Read the sizes that the constructors need from the shapes of weights."""
    try:
        mlp_dim, style_dim = states["gen_r"]["mlp.model.0.fc.weight"].shape
        dim = len(states["gen_r"]["enc_content.model.0.conv.weight"])
        layers = [name for name in states["fea_s"] if name.endswith("fc.weight")]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{weights}: expected the weights of `AdaINGen` and `IntrinsicSplitor`; there is no matrix "
            "mlp.model.0.fc.weight or enc_content.model.0.conv.weight in the entry `r`"
        ) from error
    return {"dim": dim, "mlp_dim": mlp_dim, "style_dim": style_dim, "n_layer": len(layers)}
