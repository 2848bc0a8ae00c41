"""ResNet: blocks whose output is added to their input."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.models.backbones.backbone import Backbone, normalise_images

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
