"""VGG: stages of 3x3 convolutions, halved by max pooling, and three linear layers."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.models.backbones.backbone import Backbone, normalise_images


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
