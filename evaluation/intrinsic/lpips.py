"""LPIPS (Zhang et al. 2018), with the features of its networks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import conv2d

from candlelight.evaluation.intrinsic.masked import (
    PixelMask,
    check_masked,
    is_finite,
    masked_double,
    score_samples,
)
from candlelight.evaluation.models.published_weights import without_wrappers
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import DAMAGED, InputError, argument, nearest_file


@dataclass(frozen=True)
class FeatureStack:
    """Layers of a network, and those after which LPIPS compares features.

    Example:
        >>> stack = FEATURE_STACKS["squeeze"]
        >>> values = torch.rand(1, 3, 17, 17)
        >>> for layer in stack.build():
        ...     values = layer(values)
        >>> values.shape[1] == stack.channels[-1]
        True
    """

    name: str
    build: Callable[[], nn.Sequential]
    compared: tuple[int, ...]
    """Indices of the layers after which features are compared."""
    channels: tuple[int, ...]
    """Channels of those features."""
    smallest: int
    """Shortest side of an image, in pixels, of which the last layer has an output."""
    file: str
    """torchvision's file of weights; its last part begins the SHA-256 of its bytes."""


class _Fire(nn.Module):
    """SqueezeNet's module: few channels, then as many of 1x1 as of 3x3 convolutions."""

    def __init__(self, before: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(before, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(
        self, image: Float[Tensor, "batch before height width"]
    ) -> Float[Tensor, "batch after height width"]:
        few = functional.relu(self.squeeze(image))
        return functional.relu(torch.cat([self.expand1x1(few), self.expand3x3(few)], 1))


def _alexnet() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU()),
    )


def _vgg16() -> nn.Sequential:
    layers: list[nn.Module] = []
    before = 3
    for width, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        layers += [nn.MaxPool2d(2, 2)] if layers else []
        for _ in range(convolutions):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
            before = width
    return nn.Sequential(*layers)


def _squeezenet() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(_Fire(64, 16, 64), _Fire(128, 16, 64), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(_Fire(128, 32, 128), _Fire(256, 32, 128), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(_Fire(256, 48, 192), _Fire(384, 48, 192), _Fire(384, 64, 256), _Fire(512, 64, 256)),
    )


FEATURE_STACKS = {
    "alex": FeatureStack(
        "AlexNet",
        _alexnet,
        compared=(1, 4, 7, 9, 11),
        channels=(64, 192, 384, 256, 256),
        smallest=31,
        file="alexnet-owt-7be5be79.pth",
    ),
    "vgg": FeatureStack(
        "VGG16",
        _vgg16,
        compared=(3, 8, 15, 22, 29),
        channels=(64, 128, 256, 512, 512),
        smallest=16,
        file="vgg16-397923af.pth",
    ),
    "squeeze": FeatureStack(
        "SqueezeNet 1.1",
        _squeezenet,
        compared=(1, 4, 7, 9, 10, 11, 12),
        channels=(64, 128, 256, 384, 384, 512, 512),
        smallest=17,
        file="squeezenet1_1-b8a52dc0.pth",
    ),
}


# Mean and standard deviation of ImageNet's colours, for values from -1 to 1.
_SHIFT = (-0.030, -0.088, -0.188)
_SCALE = (0.458, 0.448, 0.450)
_EPSILON = 1e-10  # beside the length of a feature; torchmetrics has 1e-8


@dataclass(frozen=True, eq=False)
class LPIPS:
    """Distance between images in the features of a network; `load_lpips` makes it.

    Args:
        stack: the network's layers and those to compare.
        features: the layers with weights, on any device.
        heads: a weight >= 0 for each channel of each compared layer, [1, channels, 1, 1], on that device.

    Example:
        >>> stack = FEATURE_STACKS["squeeze"]
        >>> heads = tuple(torch.ones(1, width, 1, 1) for width in stack.channels)
        >>> untrained = LPIPS(stack, stack.build().requires_grad_(False), heads)
        >>> image = torch.rand(1, 3, 20, 20)
        >>> untrained(image, image, torch.ones(1, 20, 20))
        tensor([0.])
    """

    stack: FeatureStack
    features: nn.Sequential
    heads: tuple[Float[Tensor, "1 _ 1 1"], ...]

    def __call__(
        self,
        prediction: Float[Tensor, "batch 3 height width"],
        target: Float[Tensor, "batch 3 height width"],
        mask: PixelMask,
    ) -> Float[Tensor, " batch"]:
        """Compute the distance of each sample, in float32.

        ``sum_l mean_xy sum_c w_lc (u_lc - v_lc)^2``: Zhang et al. 2018, eq. 1; u and v are the features of
        both images after layer l, divided by their length at each place.

        Args:
            prediction: images in [0, 1], sRGB. Other values are taken as they are.
            target: ground truth, likewise.
            mask: pixels of weight 0 are outside and never read, and black in both images; all other weights
                count alike.

        Returns:
            One distance per sample, >= 0, lower is better; nan if the prediction is not finite inside the
            mask (a failed prediction, see `is_failed`), if the target is not finite there, or if the mask is
            empty. The mean is over the whole frame, so equal errors count less in a small mask. Blind to what
            the network was not trained to see; not a metric of physical quantities.

        Raises:
            InputError: the shapes do not agree, the mask is neither boolean nor weights in [0, 1], or the
                image is too small for the last layer.
        """
        check_masked(prediction, target, mask, "batch 3 height width")
        height, width = prediction.shape[2:]
        if min(height, width) < self.stack.smallest:
            side = self.stack.smallest
            raise InputError(
                f"LPIPS with {self.stack.name} needs images of at least {side}x{side} pixels, got "
                f"{height}x{width} (height x width); render larger"
            )
        return score_samples(self._distances, prediction, target, mask)

    def _distances(
        self,
        prediction: Float[Tensor, "batch 3 height width"],
        target: Float[Tensor, "batch 3 height width"],
        mask: PixelMask,
    ) -> Float64[Tensor, " batch"]:
        images = masked_double(prediction, mask), masked_double(target, mask)
        is_usable = is_finite(images[0]) & is_finite(images[1]) & (mask > 0).flatten(1).any(1)
        values = torch.cat(images).float()
        shift, scale = (values.new_tensor(numbers)[:, None, None] for numbers in (_SHIFT, _SCALE))
        values = (2 * values - 1 - shift) / scale
        distances: list[Tensor] = []
        for index, layer in enumerate(self.features):
            values = layer(values)
            if index in self.stack.compared:
                lengths = torch.linalg.vector_norm(values, dim=1, keepdim=True)
                one, other = (values / (lengths + _EPSILON)).chunk(2)
                head = self.heads[len(distances)]
                distances.append(conv2d((one - other).square(), head).mean((1, 2, 3)).double())
        return torch.stack(distances).sum(0).masked_fill(~is_usable, torch.nan)


def load_lpips(
    network: str, backbone: str | Path, heads: str | Path, device: str | torch.device = "cpu"
) -> LPIPS:
    """Read the weights of LPIPS; code in the files is never executed.

    Args:
        network: "alex" (most papers), "vgg" or "squeeze".
        backbone: torchvision's file of that network trained on ImageNet, from
            https://download.pytorch.org/models: ``alexnet-owt-7be5be79.pth``, ``vgg16-397923af.pth`` or
            ``squeezenet1_1-b8a52dc0.pth``.
        heads: ``lpips/weights/v0.1/alex.pth``, ``vgg.pth`` or ``squeeze.pth`` of the Python package lpips.
            Heads of version 0.0 have the same form and cannot be told from these.
        device: torch device of the weights, and of the images that will be compared.

    Returns:
        The distance; its weights need no gradient.

    Raises:
        InputError: another network, a file that does not exist, is damaged, or holds other weights, or a
            device that cannot be used.

    Example:
        >>> load_lpips("vgg16", "vgg16-397923af.pth", "vgg.pth")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `network` must be one of: alex, vgg, squeeze; got vgg16; did \
you mean `vgg`?
    """
    check_choice("network", network, tuple(FEATURE_STACKS))
    stack = FEATURE_STACKS[network]
    with torch.device("meta"):  # without memory, and without a draw from the global generator
        features = stack.build()
    layout = {f"features.{name}": values.shape for name, values in features.state_dict().items()}
    from_torch = f"{stack.file} from https://download.pytorch.org/models"
    state = _load(Path(backbone), layout, from_torch)
    features.load_state_dict(
        {name.removeprefix("features."): values for name, values in state.items()}, assign=True
    )
    shapes = {f"lin{n}.model.1.weight": (1, width, 1, 1) for n, width in enumerate(stack.channels)}
    from_lpips = f"lpips/weights/v0.1/{network}.pth from the Python package lpips"
    weights = _load(Path(heads), shapes, from_lpips)
    if not all(bool((values >= 0).all()) for values in weights.values()):
        raise InputError(f"{heads} is not {from_lpips}: expected weights of at least 0, got others")
    try:
        moved = tuple(values.to(device) for values in weights.values())
        return LPIPS(stack, features.requires_grad_(False).to(device).eval(), moved)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"{argument('device')} {device}: not usable here: {str(error).splitlines()[0][:200]}"
        ) from None


def open_lpips(place: str, device: str | torch.device = "cpu") -> tuple[LPIPS, tuple[Path, Path]]:
    """Read the weights of LPIPS from a folder with both files of `load_lpips` under their own names.

    Args:
        place: ``FOLDER`` or ``NETWORK:FOLDER``; the network is "alex" unless given.
        device: as of `load_lpips`.

    Returns:
        The distance, and the files of the backbone and of the heads.

    Raises:
        InputError: see `load_lpips`.

    Example:
        >>> open_lpips("vgg:nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected vgg16-397923af.pth from ..., but \
nowhere/vgg16-397923af.pth does not exist...
    """
    network, _, folder = place.partition(":")
    if network not in FEATURE_STACKS or not folder:
        network, folder = "alex", place
    files = Path(folder) / FEATURE_STACKS[network].file, Path(folder) / f"{network}.pth"
    return load_lpips(network, *files, device), files


def _load(path: Path, shapes: Mapping[str, Sequence[int]], wanted: str) -> dict[str, Tensor]:
    """Read the weights of these names; files may hold others too, such as those of a classifier."""
    if not path.is_file():
        raise InputError(f"expected {wanted}, but {path} does not exist{nearest_file(path)}")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(content, dict):
            raise InputError("it holds no weights by name")
        content = without_wrappers(content)
        for name, shape in shapes.items():
            found = content.get(name)
            if not isinstance(found, Tensor) or list(found.shape) != list(shape):
                got = list(found.shape) if isinstance(found, Tensor) else "nothing"
                raise InputError(f"expected `{name}` {list(shape)}, got {got}")
            if not found.is_floating_point():
                kind = str(found.dtype).removeprefix("torch.")
                raise InputError(f"expected `{name}` of floats, got {kind}")
    except (*DAMAGED, UnpicklingError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, UnpicklingError):  # torch's own message recommends to run the code in the file
            reason = "it holds no weights, or more than weights"
        raise InputError(f"{path} is not {wanted}, or is damaged: {reason}") from error
    return {name: content[name].float() for name in shapes}
