"""DenseNet: layers that read the outputs of all earlier layers of their block."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.models.backbones.backbone import Backbone, normalise_images

_BOTTLENECK = 4  # channels between the two convolutions of a layer, in units of `growth`


class DenseNet(Backbone):
    """DenseNet-BC (Huang et al., CVPR 2017, arXiv 1608.06993), with the names of torchvision's weights.

    Args:
        growth: channels that each layer adds.
        blocks: layers of each block; (6, 12, 24, 16) is DenseNet121.
        first: channels of the first convolution.
        classes: number of classes.
        coarse: whether the first convolution has 7x7 pixels and max pooling follows, as for large images; a
            fine beginning is a 3x3 convolution. Its stride is 2 either way.

    Example:
        >>> network = DenseNet(growth=4, blocks=(2, 3), first=8, classes=5, coarse=False)
        >>> network.explained_layer, network.maps(torch.rand(1, 3, 32, 48)).shape
        ('features.relu5', torch.Size([1, 20, 8, 12]))
    """

    explained_layer, head_layer = "features.relu5", "classifier"

    def __init__(self, *, growth: int, blocks: Sequence[int], first: int, classes: int, coarse: bool) -> None:
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        kernel = 7 if coarse else 3
        layers["conv0"] = nn.Conv2d(3, first, kernel, stride=2, padding=kernel // 2, bias=False)
        layers["norm0"], layers["relu0"] = nn.BatchNorm2d(first), nn.ReLU()
        if coarse:
            layers["pool0"] = nn.MaxPool2d(3, 2, padding=1)
        channels = first
        for number, count in enumerate(blocks, 1):
            layers[f"denseblock{number}"] = _dense_block(channels, growth, count)
            channels += growth * count
            if number < len(blocks):
                layers[f"transition{number}"] = _transition(channels)
                channels //= 2
        # The names of torchvision's four blocks, whatever the number of blocks.
        layers["norm5"], layers["relu5"] = nn.BatchNorm2d(channels), nn.ReLU()
        self.features = nn.Sequential(layers)
        self.classifier = nn.Linear(channels, classes)

    def maps(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        """Compute the normalised maps of all layers of the last block, see `Backbone.maps`."""
        return self.features(normalise_images(images))

    def logits(self, maps: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        """Compute the logits of the classes from the maps."""
        return self.classifier(maps.mean((2, 3)))


class _DenseLayer(nn.Module):
    """Append ``growth`` channels, computed from all channels so far."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        inner = _BOTTLENECK * growth
        self.norm1, self.relu1 = nn.BatchNorm2d(channels), nn.ReLU()
        self.conv1 = nn.Conv2d(channels, inner, 1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(inner), nn.ReLU()
        self.conv2 = nn.Conv2d(inner, growth, 3, padding=1, bias=False)

    def forward(
        self, image: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch more height width"]:
        inner = self.conv1(self.relu1(self.norm1(image)))
        return torch.cat([image, self.conv2(self.relu2(self.norm2(inner)))], 1)


def _dense_block(channels: int, growth: int, count: int) -> nn.Sequential:
    layers = {f"denselayer{n + 1}": _DenseLayer(channels + n * growth, growth) for n in range(count)}
    return nn.Sequential(OrderedDict(layers))


def _transition(channels: int) -> nn.Sequential:
    """Halve the channels, the height and the width."""
    layers: dict[str, nn.Module] = {"norm": nn.BatchNorm2d(channels), "relu": nn.ReLU()}
    layers |= {"conv": nn.Conv2d(channels, channels // 2, 1, bias=False), "pool": nn.AvgPool2d(2)}
    return nn.Sequential(OrderedDict(layers))
