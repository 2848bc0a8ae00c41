"""A classifier by the similarity of image patches to prototypes: ProtoPNet.

C. Chen, O. Li, C. Tao, A. J. Barnett, J. Su, C. Rudin: This Looks Like That: Deep Learning for Interpretable
Image Recognition, NeurIPS 2019.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.concepts.named_generator import named_generator
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.loaders.errors import InputError

# Epsilon of the similarity in the authors' program.
_SMALLEST = 1e-4


class PrototypePatches(NamedTuple):
    """Training patches that prototypes are equal to.

    Attributes:
        images: row of the training image of each prototype.
        rows: row of the patch in the backbone's map.
        columns: column of the patch in the backbone's map.
        distances: squared distance of the prototype from this patch before it was moved there.
    """

    images: Int[Tensor, " prototypes"]
    rows: Int[Tensor, " prototypes"]
    columns: Int[Tensor, " prototypes"]
    distances: Float[Tensor, " prototypes"]


def patch_distances(
    maps: Float[Tensor, "images dim height width"], prototypes: Float[Tensor, "prototypes dim"]
) -> Float[Tensor, "images prototypes height width"]:
    """Compute the squared L2 distance of each patch from each prototype.

    ``max(|x|^2 - 2 <x, p> + |p|^2, 0)``, with the products as a convolution.

    Args:
        maps: feature maps; a patch is the feature vector at one point.
        prototypes: prototypes of the same number of features.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> patch_distances(torch.tensor([1.0, 2.0]).reshape(1, 2, 1, 1), torch.tensor([[1.0, 0.0]]))
        tensor([[[[4.]]]])
    """
    check_shapes(maps=(maps, "images dim height width"), prototypes=(prototypes, "prototypes dim"))
    products = functional.conv2d(maps, prototypes[:, :, None, None])
    lengths = maps.square().sum(1, keepdim=True) + prototypes.square().sum(1)[:, None, None]
    return (lengths - 2 * products).relu()


def prototype_similarity(distances: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Compute the similarity of a squared distance: ``log((d + 1) / (d + 0.0001))``, from 9.21 down to 0.

    Example:
        >>> prototype_similarity(torch.tensor([0.0, 1.0]))
        tensor([9.2103, 0.6930])
    """
    return ((distances + 1) / (distances + _SMALLEST)).log()


class PrototypeNetwork(nn.Module):
    """Classify images by the largest similarity of a patch to each prototype.

    ``backbone``, two 1x1 convolutions with ReLU and sigmoid (``add_on``), `patch_distances` from the
    prototypes, `prototype_similarity` of the nearest patch, and a linear layer without bias (``last``). Each
    class has the same number of prototypes; prototype p belongs to class ``p // per_class``. At first the
    last layer has weight 1 from prototypes of a class to it, and -0.5 to others.

    Args:
        backbone: module from images to feature maps; it is used as it is, not copied.
        channels: channels of its maps.
        classes: number of classes, at least 2.
        per_class: prototypes of each class; the paper's 10.
        dim: features of a prototype; the paper's 128.
        seed: seed of the initial weights.

    Attributes:
        prototypes: [prototypes, dim].
        patches: training patches that the prototypes are equal to; None before `train_prototype_network`.

    Raises:
        InputError: a number is out of range.

    Example:
        >>> network = PrototypeNetwork(nn.Conv2d(3, 4, 2, stride=2), 4, 2, per_class=3, dim=5, seed=0)
        >>> logits, distances = network(torch.rand(1, 3, 8, 8))
        >>> logits.shape, distances.shape
        (torch.Size([1, 2]), torch.Size([1, 6]))
    """

    def __init__(
        self,
        backbone: nn.Module,
        channels: int,
        classes: int,
        *,
        per_class: int = 10,
        dim: int = 128,
        seed: int,
    ) -> None:
        super().__init__()
        if classes < 2:
            raise InputError(f"`classes` must be at least 2, got {classes}")
        for name, value in (("per_class", per_class), ("dim", dim)):
            if value < 1:
                raise InputError(f"`{name}` must be at least 1, got {value}")
        self.backbone, self.classes, self.per_class = backbone, classes, per_class
        # Layers on the "meta" device draw no initial weights from torch's own stream of random numbers.
        first, second = (
            nn.Conv2d(count, dim, 1, device="meta").to_empty(device="cpu") for count in (channels, dim)
        )
        self.add_on = nn.Sequential(first, nn.ReLU(), second, nn.Sigmoid())
        self.prototypes = nn.Parameter(torch.empty(classes * per_class, dim))
        self.last = nn.Linear(classes * per_class, classes, bias=False, device="meta").to_empty(device="cpu")
        self.patches: PrototypePatches | None = None
        draws = named_generator(seed, "prototype network")
        with torch.no_grad():
            for name, some in self.add_on.named_parameters():
                if name.endswith("bias"):
                    some.zero_()
                else:
                    nn.init.kaiming_normal_(some, nonlinearity="relu", generator=draws)
            self.prototypes.uniform_(generator=draws)
            self.last.weight.copy_(torch.where(self.belongs().T, 1.0, -0.5))

    def belongs(self) -> Bool[Tensor, "prototypes classes"]:
        """Tell which class each prototype belongs to."""
        device = self.prototypes.device
        owner = torch.arange(len(self.prototypes), device=device) // self.per_class
        return owner[:, None] == torch.arange(self.classes, device=device)

    def distances(
        self, maps: Float[Tensor, "images channels height width"]
    ) -> Float[Tensor, "images prototypes height width"]:
        """Compute the squared distance of each patch of the backbone's maps from each prototype."""
        return patch_distances(self.add_on(maps), self.prototypes)

    def classify(self, distances: Float[Tensor, "images prototypes"]) -> Float[Tensor, "images classes"]:
        """Compute logits from the least distance of each prototype."""
        return self.last(prototype_similarity(distances))

    def forward(
        self, images: Float[Tensor, "images 3 height width"]
    ) -> tuple[Float[Tensor, "images classes"], Float[Tensor, "images prototypes"]]:
        """Compute logits, and the least squared distance from each prototype."""
        nearest = self.distances(self.backbone(images)).amin((2, 3))
        return self.classify(nearest), nearest


@torch.no_grad()
def push_prototypes(
    network: PrototypeNetwork,
    images: Float[Tensor, "train 3 height width"],
    labels: Int[Tensor, " train"],
    batch_size: int = 64,
) -> PrototypePatches:
    """Move each prototype to the nearest patch of the training images of its class, the first of equal ones.

    Args:
        network: its prototypes change; it runs in evaluation mode.
        images: training images, sRGB-encoded in [0, 1].
        labels: their classes.
        batch_size: images that run together.

    Returns:
        The patch of each prototype, also in ``network.patches``.

    Raises:
        InputError: a class has no image, or a distance is not finite.

    Example:
        >>> network = PrototypeNetwork(nn.Identity(), 3, 2, per_class=1, dim=4, seed=0)
        >>> push_prototypes(network, torch.rand(2, 3, 1, 1), torch.tensor([1, 0])).images
        tensor([1, 0])
    """
    check_every_class(labels, network.classes)
    device, count = network.prototypes.device, len(network.prototypes)
    owners = torch.arange(count, device=device) // network.per_class
    least = torch.full((count,), torch.inf, device=device)
    places = torch.zeros(count, 3, dtype=torch.int64, device=device)
    chosen = network.prototypes.clone()
    with evaluation_mode(network):
        for start in range(0, len(images), batch_size):
            maps = network.add_on(network.backbone(images[start : start + batch_size].to(device)))
            known = labels[start : start + batch_size].to(device)
            distances = patch_distances(maps, network.prototypes)
            if not bool(distances.isfinite().all()):
                raise InputError("distances of patches must be finite, got nan or inf; check the backbone")
            distances = distances.masked_fill((known[:, None] != owners)[:, :, None, None], torch.inf)
            width, size = distances.shape[3], distances[0, 0].numel()
            found, place = distances.transpose(0, 1).flatten(1).min(1)
            better = found < least
            image, point = place // size, place % size
            row, column = point // width, point % width
            least = torch.where(better, found, least)
            here = torch.stack([start + image, row, column], 1)
            places = torch.where(better[:, None], here, places)
            chosen = torch.where(better[:, None], maps[image, :, row, column], chosen)
    network.prototypes.copy_(chosen)
    network.patches = PrototypePatches(places[:, 0], places[:, 1], places[:, 2], least)
    return network.patches


def check_every_class(labels: Int[Tensor, " train"], classes: int) -> None:
    """Refuse labels of which a class has no image, or that are no classes."""
    found = set(labels.tolist())
    if odd := found - set(range(classes)):
        raise InputError(f"labels must lie in 0..{classes - 1}, got {min(odd)}")
    if missing := set(range(classes)) - found:
        raise InputError(f"expected at least one training image of each class, class {min(missing)} has none")
