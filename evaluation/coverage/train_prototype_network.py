"""Train a ProtoPNet in its three stages: warm-up, joint training with pushes, and the last layer alone."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.concepts.named_generator import named_generator
from candlelight.evaluation.coverage.prototype_network import (
    PrototypeNetwork,
    check_every_class,
    push_prototypes,
)
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bar import progress_bar

# Weights of the losses in the authors' program.
CLUSTER, SEPARATION, SPARSITY = 0.8, 0.08, 1e-4
_DECAY = 1e-3  # weight decay of the backbone and the add-on layers


@dataclass(frozen=True)
class PrototypeTraining:
    """How a ProtoPNet is trained; the defaults are those of the authors' program, but for ``epochs``.

    Attributes:
        seed: seed of the weights and the order; equal seeds give equal networks on one processor.
        per_class: prototypes of each class.
        dim: features of a prototype.
        warm_epochs: first epochs, in which the backbone does not change.
        epochs: epochs in all; the authors train 1000 and choose one by test accuracy.
        push_every: epochs from one push to the next; the last epoch ends with a push in any case.
        last_epochs: epochs of the last layer alone after each push.
        backbone_rate: learning rate of the backbone.
        rate: learning rate of the add-on layers and the prototypes.
        last_rate: learning rate of the last layer.
        step: joint epochs after which both rates fall to a tenth.
        batch_size: images per step.
    """

    seed: int
    per_class: int = 10
    dim: int = 128
    warm_epochs: int = 5
    epochs: int = 30
    push_every: int = 10
    last_epochs: int = 20
    backbone_rate: float = 1e-4
    rate: float = 3e-3
    last_rate: float = 1e-4
    step: int = 5
    batch_size: int = 80

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        for name in ("epochs", "push_every", "step", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` must be at least 1, got {getattr(self, name)}")
        for name in ("backbone_rate", "rate", "last_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"`{name}` must be above 0 and finite, got {getattr(self, name)}")


def train_prototype_network(
    backbone: nn.Module,
    images: Float[Tensor, "train 3 height width"],
    labels: Int[Tensor, " train"],
    how: PrototypeTraining,
    device: str | torch.device = "cpu",
) -> PrototypeNetwork:
    """Train a ProtoPNet (Chen et al. 2019) from a trained backbone.

    Adam minimises cross-entropy + 0.8 cluster - 0.08 separation + 0.0001 L1: the least squared distance of an
    image's patches from the prototypes of its class, and from those of other classes; the L1 norm is that of
    the last layer's weights between classes and prototypes of others. First the backbone stays fixed, then
    all but the last layer is trained. Every ``push_every`` epochs, prototypes move to training patches
    (`push_prototypes`) and the last layer is trained alone; the training ends so.

    Unlike in the authors' program, batch normalisation keeps its statistics while the backbone is fixed, so
    that prototypes remain equal to their patches after the last layer is trained. Images are not augmented.

    Blind to: the number of parts. Several prototypes of a class may become the same patch.

    Args:
        backbone: module from images to feature maps; it is copied. `split_network` makes one of a classifier.
        images: training images, sRGB-encoded in [0, 1].
        labels: class of each image, 0, 1, ...; each class has an image.
        how: settings of the training.
        device: torch device for training; the network stays there.

    Returns:
        The network in evaluation mode; ``patches`` tells the training patch of each prototype.

    Raises:
        InputError: shapes do not agree, there are fewer than two classes, a class has no image, the backbone
            gives no maps, or the training diverges.

    Example:
        >>> images = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        >>> how = PrototypeTraining(0, per_class=2, dim=4, warm_epochs=1, epochs=2)
        >>> network = train_prototype_network(nn.MaxPool2d(2), images, torch.tensor([0, 1, 0, 1]), how)
        >>> network.patches.images % 2  # images of the class of each prototype
        tensor([0, 0, 1, 1])
    """
    check_shapes(images=(images, "train 3 height width"), labels=(labels, "train"))
    if not len(images):
        raise InputError("expected at least one training image, got none")
    classes = int(labels.max()) + 1
    check_every_class(labels, classes)
    backbone = copy.deepcopy(backbone).to(device)
    with torch.no_grad(), evaluation_mode(backbone):
        maps = backbone(images[:1].to(device))
    if maps.ndim != 4:
        raise InputError(f"the backbone must give [batch, channels, h, w], got {list(maps.shape)}")
    network = PrototypeNetwork(
        backbone, maps.shape[1], classes, per_class=how.per_class, dim=how.dim, seed=how.seed
    )
    run = _Stages(network.to(device), images, labels, how)
    place = network.prototypes.device
    # Dropout in the backbone draws from torch's own stream, which is restored afterwards.
    with torch.random.fork_rng([] if place.type == "cpu" else [place], device_type=place.type):
        torch.manual_seed(how.seed)
        for epoch in progress_bar(range(how.epochs), desc="train", unit="epoch"):
            if epoch < how.warm_epochs:
                run.warm()
            else:
                run.joint()
            if (epoch + 1) % how.push_every == 0 or epoch + 1 == how.epochs:
                push_prototypes(network, images, labels, how.batch_size)
                run.last()
    return network.eval().requires_grad_(False)


def prototype_network_loss(
    network: PrototypeNetwork,
    logits: Float[Tensor, "batch classes"],
    nearest: Float[Tensor, "batch prototypes"],
    labels: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """Compute the loss of `train_prototype_network` for a batch.

    Args:
        network: the network, whose last layer has the L1 norm.
        logits: its logits.
        nearest: least squared distance of each prototype, as `PrototypeNetwork` returns it.
        labels: classes of the images.
    """
    belongs = network.belongs()
    own = belongs.T[labels]
    cluster = nearest.masked_fill(~own, torch.inf).amin(1).mean()
    separation = nearest.masked_fill(own, torch.inf).amin(1).mean()
    sparsity = network.last.weight.masked_fill(belongs.T, 0).abs().sum()
    loss = functional.cross_entropy(logits, labels)
    return loss + CLUSTER * cluster - SEPARATION * separation + SPARSITY * sparsity


class _Stages:
    """A network in training, and the optimisers of its stages."""

    def __init__(
        self, network: PrototypeNetwork, images: Tensor, labels: Tensor, how: PrototypeTraining
    ) -> None:
        self.network, self.images, self.how = network, images, how
        self.labels = labels.long().to(network.prototypes.device)
        self.order = named_generator(how.seed, "order of images")
        added = [
            {"params": list(network.add_on.parameters()), "lr": how.rate, "weight_decay": _DECAY},
            {"params": [network.prototypes], "lr": how.rate},
        ]
        backbone = {
            "params": list(network.backbone.parameters()),
            "lr": how.backbone_rate,
            "weight_decay": _DECAY,
        }
        self.warm_adam = torch.optim.Adam(added)
        self.joint_adam = torch.optim.Adam([backbone, *added])
        self.last_adam = torch.optim.Adam(network.last.parameters(), how.last_rate)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.joint_adam, how.step, 0.1)
        self.fixed: Tensor | None = None

    def warm(self) -> None:
        """Train the add-on layers and the prototypes for an epoch, on maps that are computed once."""
        self.network.eval()
        if self.fixed is None:
            self.fixed = self._in_batches(self.network.backbone)
        for rows in self._batches():
            nearest = self.network.distances(self.fixed[rows]).amin((2, 3))
            self._step(self.warm_adam, self.network.classify(nearest), nearest, rows)

    def joint(self) -> None:
        """Train all but the last layer for an epoch."""
        self.fixed = None
        self.network.train()
        for rows in self._batches():
            logits, nearest = self.network(self._on_device(rows))
            self._step(self.joint_adam, logits, nearest, rows)
        self.schedule.step()

    def last(self) -> None:
        """Train the last layer for its epochs, on distances that are computed once."""
        self.network.eval()
        nearest = self._in_batches(lambda images: self.network(images)[1])
        for _ in range(self.how.last_epochs):
            for rows in self._batches():
                self._step(self.last_adam, self.network.classify(nearest[rows]), nearest[rows], rows)

    def _step(self, adam: torch.optim.Adam, logits: Tensor, nearest: Tensor, rows: Tensor) -> None:
        loss = prototype_network_loss(self.network, logits, nearest, self.labels[rows])
        if not bool(loss.isfinite()):
            raise InputError(
                "the training diverged: its loss is nan or infinite; give smaller learning rates"
            )
        weights = [some for group in adam.param_groups for some in group["params"] if some.requires_grad]
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        for some, gradient in zip(weights, gradients, strict=True):
            some.grad = gradient
        adam.step()

    def _batches(self) -> Iterator[Tensor]:
        yield from torch.split(torch.randperm(len(self.labels), generator=self.order), self.how.batch_size)

    def _on_device(self, rows: Tensor | slice) -> Tensor:
        return self.images[rows].to(self.labels.device)

    @torch.no_grad()
    def _in_batches(self, run: Callable[[Tensor], Tensor]) -> Tensor:
        size = self.how.batch_size
        return torch.cat(
            [run(self._on_device(slice(at, at + size))) for at in range(0, len(self.images), size)]
        )
