"""The form of all classifiers with convolutional layers: maps of an image, and logits of the maps."""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.loaders.errors import InputError

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
    """

    colour_space = "srgb"
    name = ""
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
