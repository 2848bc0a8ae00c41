"""The convolutional parts of AlexNet, VGG16 and SqueezeNet 1.1, with the names of torchvision's files.

A. Krizhevsky: One weird trick for parallelizing convolutional neural networks, arXiv 1404.5997, 2014; K.
Simonyan, A. Zisserman: Very deep convolutional networks for large-scale image recognition, ICLR 2015; F. N.
Iandola et al.: SqueezeNet, arXiv 1602.07360, 2016. torchvision itself is not needed: its compiled part must
fit the build of torch, and breaks an environment where it does not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


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
