"""The networks that ship, and the files of their weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.models.published_weights import load_exactly, read_published, wrong_format
from candlelight.loaders.errors import DAMAGED, InputError
from candlelight.loaders.files.safe_writing import replacing

LEVELS = 4
MAX_WIDTH = 256
# Below this value an 8-bit image holds no usable colour; the logarithms from here to 1 span about 7.
_DARKEST = 1e-3
# Slope of the leaky ReLU: a unit that is always below 0 would not learn with slope 0.
_SLOPE = 0.1


class IntrinsicNet(nn.Module):
    """A U-Net with one encoder and two decoders, as an `IntrinsicModel` for any image size.

    Hidden layers for hooks, from the image to the outputs; each output is `batch channels height width` of
    the image padded to a multiple of 8 pixels:

    - ``encoder.0`` to ``encoder.3``, shared by both branches: 1, 2, 3 and 4 times ``width`` channels, size
      divided by 1, 2, 4 and 8;
    - ``reflectance.blocks.0`` to ``.2`` and ``shading.blocks.0`` to ``.2``, one branch each: 3, 2 and 1 times
      ``width`` channels, size divided by 4, 2 and 1;
    - ``reflectance.head`` and ``shading.head``: the outputs before their last nonlinearity.

    Args:
        width: channels at full resolution; the default makes about 130 000 parameters.
        seed: seed of the initial weights, which depend on nothing else.

    Raises:
        InputError: a width outside 1..256.

    Example:
        >>> network = IntrinsicNet(width=4, seed=0)
        >>> reflectance, shading = network(torch.rand(1, 3, 21, 30))
        >>> reflectance.shape, shading.shape
        (torch.Size([1, 3, 21, 30]), torch.Size([1, 3, 21, 30]))
    """

    colour_space = "linear"

    def __init__(self, *, width: int = 10, seed: int) -> None:
        super().__init__()
        if not 1 <= width <= MAX_WIDTH:
            raise InputError(f"`width` must lie in 1..{MAX_WIDTH}, got {width}")
        self.width = width
        sizes = [width * (level + 1) for level in range(LEVELS)]
        self.encoder = nn.ModuleList(
            _block(before, after) for before, after in zip([3, *sizes], sizes, strict=False)
        )
        self.reflectance = _Decoder(sizes)
        self.shading = _Decoder(sizes)
        generator = torch.Generator().manual_seed(seed)
        for name, values in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(values)
            else:
                nn.init.kaiming_normal_(values, a=_SLOPE, generator=generator)
            if name.endswith("head.weight"):
                # A nearly constant output at the start: large outputs may saturate the sigmoid for good.
                values.data *= 0.1

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
        """Decompose each image.

        Args:
            image: scene-linear Rec.709 in [0, 1].

        Returns:
            Reflectance in (0, 1) and shading above 0, scene-linear; after training their product approximates
            the diffuse part of the image.
        """
        height, width = image.shape[-2:]
        multiple = 2 ** (LEVELS - 1)
        padding = (0, -width % multiple, 0, -height % multiple)
        features = 1 + image.clamp(_DARKEST, 1).log() / 3.5
        features = functional.pad(features, padding, mode="replicate")
        skips = []
        for level, block in enumerate(self.encoder):
            features = block(functional.avg_pool2d(features, 2) if level else features)
            skips.append(features)
        reflectance = self.reflectance(skips)[..., :height, :width]
        shading = self.shading(skips)[..., :height, :width]
        return reflectance.sigmoid(), functional.softplus(shading)


class _Decoder(nn.Module):
    """Upsampling path from the coarsest features to one image."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        pairs = zip(sizes[:0:-1], sizes[-2::-1], strict=True)
        self.blocks = nn.ModuleList(_block(below + skip, skip) for below, skip in pairs)
        self.head = _convolution(sizes[0], 3)

    def forward(self, skips: list[Tensor]) -> Float[Tensor, "batch 3 height width"]:
        *finer, features = skips
        for block, skip in zip(self.blocks, reversed(finer), strict=True):
            larger = functional.interpolate(features, scale_factor=2.0, mode="bilinear", align_corners=False)
            features = block(torch.cat([larger, skip], dim=1))
        return self.head(features)


def _block(before: int, after: int) -> nn.Sequential:
    """Two convolutions."""
    return nn.Sequential(
        _convolution(before, after),
        nn.LeakyReLU(_SLOPE),
        _convolution(after, after),
        nn.LeakyReLU(_SLOPE),
    )


def _convolution(before: int, after: int) -> nn.Module:
    """Make a 3x3 convolution without initial weights, so that torch's global generator is not used."""
    return nn.Conv2d(before, after, 3, padding=1, device="meta").to_empty(device="cpu")


def write_weights(content: Mapping[str, Any], path: Path) -> Path:
    """Write content that `torch.load` reads with ``weights_only=True``, atomically, and return the path.

    Raises:
        InputError: the folder does not exist, cannot be written to or is full.
    """
    try:
        with replacing(path) as partial, partial.open("wb") as file:
            torch.save(dict(content), file)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; give a file in a folder that exists and has room"
        ) from error
    return path


def weights_format(path: str | Path) -> str | None:
    """Return the entry ``format`` of a file of weights without reading its weights; None for other files.

    Example:
        >>> weights_format("missing.pt") is None
        True
    """
    try:
        return read_published(path, mmap=True).get("format")
    except InputError:
        return None


_FORMAT = "candlelight intrinsic network 1"


def save_model(model: IntrinsicNet, path: str | Path, dtype: torch.dtype = torch.float32) -> Path:
    """Write the architecture and the weights of a network to a file atomically.

    Args:
        model: the network, on any device.
        path: file to write; an existing file is replaced.
        dtype: type of the stored weights; float16 makes a file of half the size.

    Returns:
        The path.

    Raises:
        InputError: a weight is not finite in ``dtype``; or the folder does not exist, cannot be written to or
            is full.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_model(IntrinsicNet(width=2, seed=0), Path(folder) / "network.pt")
        ...     load_model(path).width
        2
    """
    path = Path(path)
    state = {
        name: values.detach().to("cpu", dtype).contiguous() for name, values in model.state_dict().items()
    }
    if not all(values.isfinite().all() for values in state.values()):
        raise InputError(
            f"{path}: a weight is nan, infinite, or too large for {str(dtype).removeprefix('torch.')}; train "
            "with a smaller learning rate, or store 32 bits"
        )
    content = {"format": _FORMAT, "architecture": {"width": model.width}, "state": state}
    return write_weights(content, path)


def load_model(path: str | Path, device: str | torch.device = "cpu") -> IntrinsicNet:
    """Read a network that `save_model` wrote; code in the file is never executed.

    Args:
        path: the file.
        device: torch device of the network.

    Returns:
        The network in evaluation mode.

    Raises:
        InputError: the file does not exist, was not written by `save_model`, or is damaged.

    Example:
        >>> load_model("missing.pt")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected a file of weights, there is no missing.pt
    """
    content = read_published(path)
    try:
        network = _build(content)
    except DAMAGED as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"{path} was not written by `save_model`, or is damaged: {reason}; load other weights in a class "
            "of your own: file.py:Class"
        ) from error
    return network.to(device).eval()


def _build(content: Any) -> IntrinsicNet:
    if reason := wrong_format(content, _FORMAT):
        raise InputError(reason)
    network = IntrinsicNet(width=content["architecture"]["width"], seed=0)
    load_exactly(network, content.get("state"), "its weights")
    return network
