"""Classification networks: ResNet, VGG and DenseNet."""

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from candlelight.evaluation.models.classifiers import TrainedOn

SMALLEST_SIDE = 32  # pixels; the deepest networks halve an image five times
# Mean and standard deviation of ImageNet's sRGB colours, by which public weights expect images normalised.
_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


class Backbone(nn.Module, ABC):
    """A classifier of sRGB images in two steps: maps of the last convolutional layer, and logits of the maps.

    Explanations read or replace the maps between the steps: ``network(images)`` is
    ``network.logits(network.maps(images))``.

    Attributes:
        colour_space: images are sRGB-encoded in [0, 1]; the network normalises them itself.
        name: name of the architecture, one of `BackboneName`; set by `build_backbone`.
        explained_layer: name of the submodule whose output are the maps.
        head_layer: name of the last linear layer, which has one row of weights for each class.
        class_names: names of the classes in the order of the logits, from the file; None if not known.
        trained_on: label, data and rows of the training, from the file; None if not known.
    """

    colour_space = "srgb"
    name = ""
    class_names: tuple[str, ...] | None = None
    trained_on: "TrainedOn | None" = None
    explained_layer: str
    head_layer: str

    @property
    def head(self) -> nn.Linear:
        """The last linear layer."""
        head = self.get_submodule(self.head_layer)
        assert isinstance(head, nn.Linear)
        return head

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.head.out_features

    @abstractmethod
    def maps(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        """Compute the output of the last convolutional layer, after its normalisation and ReLU: >= 0.

        Args:
            images: sRGB-encoded in [0, 1].

        Raises:
            InputError: a side of the images is shorter than `SMALLEST_SIDE`.
        """

    @abstractmethod
    def logits(self, maps: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        """Compute the logits of the classes from the maps."""

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch classes"]:
        """Compute the logits of the classes; softmax makes probabilities of them."""
        return self.logits(self.maps(images))

    def steps(self) -> tuple[nn.Module, nn.Module]:
        """Return the two steps as modules that share the weights: images to maps, and maps to logits."""
        return _Step(self, "maps"), _Step(self, "logits")

    def initialise(self, generator: torch.Generator) -> None:
        """Draw initial weights; they depend on nothing but the generator.

        Convolutions and hidden linear layers are drawn as by He et al. (ICCV 2015, eq. 10); the weights of
        the last layer are so small that all classes begin with nearly the same probability.
        """
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_parameters()
            elif isinstance(module, nn.Conv2d | nn.Linear):
                std = 0.01 if module is self.head else math.sqrt(2 / module.weight[0].numel())
                nn.init.normal_(module.weight, 0, std, generator=generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


class _Step(nn.Module):
    """One step of a backbone, by the name of its method."""

    def __init__(self, network: Backbone, step: str) -> None:
        super().__init__()
        self.network, self.step = network, step

    def forward(self, given: Tensor) -> Tensor:
        return getattr(self.network, self.step)(given)


def normalise_images(
    images: Float[Tensor, "batch 3 height width"],
) -> Float[Tensor, "batch 3 height width"]:
    """Normalise sRGB images by the mean and standard deviation of ImageNet, as public weights expect.

    Raises:
        InputError: a side is shorter than `SMALLEST_SIDE`.

    Example:
        >>> normalise_images(torch.full((1, 3, 32, 32), 0.485))[0, :, 0, 0]
        tensor([0.0000, 0.1295, 0.3511])
    """
    height, width = images.shape[2:]
    if min(height, width) < SMALLEST_SIDE:
        raise InputError(
            f"expected images of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels, got {height} x {width} "
            "(height x width); render or scale them larger"
        )
    mean, std = (images.new_tensor(values)[:, None, None] for values in (_MEAN, _STD))
    return (images - mean) / std


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


_EXPANSION = 4  # channels of a block's output, in units of its inner channels


class ResNet(Backbone):
    """ResNet with bottleneck blocks (He et al., CVPR 2016, arXiv 1512.03385), named as torchvision's weights.

    The stride of a stage is in the 3x3 convolution of its first block, for which torchvision's weights were
    trained; in the paper it is in the 1x1 convolution before.

    Args:
        blocks: blocks of each stage; (3, 4, 6, 3) is ResNet50.
        width: channels of the first convolution, and inner channels of the first stage.
        classes: number of classes.
        coarse: whether the first convolution has 7x7 pixels and max pooling follows, as for large images; a
            fine beginning is a 3x3 convolution. Its stride is 2 either way.

    Example:
        >>> import torch
        >>> network = ResNet(blocks=(1, 2), width=4, classes=5, coarse=False)
        >>> network.explained_layer, network.maps(torch.rand(1, 3, 32, 48)).shape
        ('layer2', torch.Size([1, 32, 8, 12]))
    """

    head_layer = "fc"

    def __init__(self, *, blocks: Sequence[int], width: int, classes: int, coarse: bool) -> None:
        super().__init__()
        kernel = 7 if coarse else 3
        self.conv1 = nn.Conv2d(3, width, kernel, stride=2, padding=kernel // 2, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1) if coarse else nn.Identity()
        self._stages = [f"layer{number + 1}" for number in range(len(blocks))]
        channels = width
        for number, (name, count) in enumerate(zip(self._stages, blocks, strict=True)):
            inner, stride = width * 2**number, 1 if number == 0 else 2
            stage = [_Bottleneck(channels, inner, stride)]
            channels = _EXPANSION * inner
            stage += [_Bottleneck(channels, inner, 1) for _ in range(count - 1)]
            self.add_module(name, nn.Sequential(*stage))
        self.fc = nn.Linear(channels, classes)
        self.explained_layer = self._stages[-1]

    def maps(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        """Compute the output of the last stage, see `Backbone.maps`."""
        maps = self.maxpool(self.relu(self.bn1(self.conv1(normalise_images(images)))))
        for name in self._stages:
            maps = self.get_submodule(name)(maps)
        return maps

    def logits(self, maps: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        """Compute the logits of the classes from the maps."""
        return self.fc(maps.mean((2, 3)))


class _Bottleneck(nn.Module):
    """A 1x1, a 3x3 and a 1x1 convolution beside a shortcut."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        after = _EXPANSION * inner
        self.conv1, self.bn1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, after, 1, bias=False), nn.BatchNorm2d(after)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or channels != after:
            projection = nn.Conv2d(channels, after, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(after))

    def forward(
        self, image: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch after rows columns"]:
        inner = functional.relu(self.bn1(self.conv1(image)))
        inner = functional.relu(self.bn2(self.conv2(inner)))
        return functional.relu(self.bn3(self.conv3(inner)) + self.downsample(image))


class VGG(Backbone):
    """VGG (Simonyan and Zisserman, ICLR 2015, arXiv 1409.1556), with the names of torchvision's weights.

    The maps are those before the last max pooling. After the pooling they are averaged to ``side`` x
    ``side`` places, so that images of any size fit the linear layers.

    Args:
        stages: channels and number of convolutions of each stage; VGG19 is the paper's configuration E.
        hidden: channels of the two hidden linear layers.
        side: places along each side of the input of the linear layers.
        classes: number of classes.
        normalised: whether batch normalisation follows each convolution (Ioffe and Szegedy, ICML 2015).

    Example:
        >>> import torch
        >>> network = VGG(stages=[(4, 1), (8, 2)], hidden=16, side=2, classes=5, normalised=True)
        >>> network.explained_layer, network.maps(torch.rand(1, 3, 32, 48)).shape
        ('features.9', torch.Size([1, 8, 16, 24]))
    """

    def __init__(
        self, *, stages: Sequence[tuple[int, int]], hidden: int, side: int, classes: int, normalised: bool
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for channels, convolutions in stages:
            for _ in range(convolutions):
                layers.append(nn.Conv2d(before, channels, 3, padding=1))
                layers += [nn.BatchNorm2d(channels)] if normalised else []
                layers.append(nn.ReLU())
                before = channels
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(side)
        self.classifier = nn.Sequential(
            *(nn.Linear(before * side**2, hidden), nn.ReLU(), nn.Dropout(0.5)),
            *(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.5)),
            nn.Linear(hidden, classes),
        )
        self.explained_layer, self.head_layer = f"features.{len(layers) - 2}", "classifier.6"

    def maps(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channels rows columns"]:
        """Compute the maps before the last max pooling, see `Backbone.maps`."""
        return self.features[:-1](normalise_images(images))

    def logits(self, maps: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        """Compute the logits of the classes from the maps."""
        return self.classifier(self.avgpool(self.features[-1](maps)).flatten(1))
