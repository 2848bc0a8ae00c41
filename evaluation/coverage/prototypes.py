"""Prototype networks (ProtoPNet), their training, and their prototypes as an explanation method."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import StepLR

from candlelight.evaluation.catalogue.record import At, options_of
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.training.loop import Losses, Optimisation, Task, train_task
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.evaluation.views.named_streams import named_generator
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
    per_class: Annotated[int, At(least=1)] = 10
    dim: Annotated[int, At(least=1)] = 128
    warm_epochs: Annotated[int, At(least=0)] = 5
    epochs: Annotated[int, At(least=1)] = 30
    push_every: Annotated[int, At(least=1)] = 10
    last_epochs: Annotated[int, At(least=0)] = 20
    backbone_rate: Annotated[float, At(above=0)] = 1e-4
    rate: Annotated[float, At(above=0)] = 3e-3
    last_rate: Annotated[float, At(above=0)] = 1e-4
    step: Annotated[int, At(least=1)] = 5
    batch_size: Annotated[int, At(least=1)] = 80

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        for one in options_of(type(self)):
            one.check(getattr(self, one.name))


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
    train_task(_Stages(network.to(device), images, labels, how), how.seed)
    return network.requires_grad_(False)


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


_Stage = Literal["warm", "joint", "last"]


class _Stages(Task[tuple[_Stage, Tensor]]):
    """Train the network in stages: a part is an epoch, or a push and the epochs of the last layer after it.

    A batch is the stage and the row numbers.
    """

    def __init__(
        self, network: PrototypeNetwork, images: Tensor, labels: Tensor, how: PrototypeTraining
    ) -> None:
        self.network, self.images, self.how = network, images, how
        self.labels = labels.long().to(network.prototypes.device)
        self._order = named_generator(how.seed, "order of images")
        self._fixed: Tensor | None = None  # maps of the backbone, or distances, while these do not change
        self._parts: list[tuple[_Stage, int]] = []
        for epoch in range(1, how.epochs + 1):
            self._parts.append(("warm" if epoch <= how.warm_epochs else "joint", epoch))
            if epoch % how.push_every == 0 or epoch == how.epochs:
                self._parts.append(("last", epoch))
        self.ends = [epoch for _, epoch in self._parts]
        added: list[dict[str, Any]] = [
            {"params": list(network.add_on.parameters()), "weight_decay": _DECAY},
            {"params": [network.prototypes]},
        ]
        backbone: dict[str, Any] = {"params": network.backbone.parameters(), "lr": how.backbone_rate}
        backbone["weight_decay"] = _DECAY
        steps = how.step * -(-len(images) // how.batch_size)
        self.optimisations = {
            "warm": Optimisation(network, how.rate, groups=added),
            "joint": Optimisation(
                network, how.rate, groups=[backbone, *added], schedule=lambda adam: StepLR(adam, steps, 0.1)
            ),
            "last": Optimisation(network, how.last_rate, groups=[{"params": network.last.parameters()}]),
        }

    def batches(self, part: int) -> Iterator[tuple[_Stage, Tensor]]:
        stage, _ = self._parts[part]
        if stage == "last":
            push_prototypes(self.network, self.images, self.labels, self.how.batch_size)
        self.network.train(stage == "joint")
        if stage == "last":
            self._fixed = self._in_batches(lambda images: self.network(images)[1])
        elif stage == "joint":
            self._fixed = None
        elif part == 0 or self._parts[part - 1][0] == "last":
            self._fixed = self._in_batches(self.network.backbone)
        for _ in range(self.how.last_epochs if stage == "last" else 1):
            for rows in torch.split(
                torch.randperm(len(self.labels), generator=self._order), self.how.batch_size
            ):
                yield stage, rows

    def losses(self, batch: tuple[_Stage, Tensor]) -> Losses:
        stage, rows = batch
        if self._fixed is None:
            logits, nearest = self.network(self._on_device(rows))
        else:
            fixed = self._fixed[rows]
            nearest = fixed if stage == "last" else self.network.distances(fixed).amin((2, 3))
            logits = self.network.classify(nearest)
        loss = prototype_network_loss(self.network, logits, nearest, self.labels[rows])
        return Losses({stage: loss}, {"loss": loss})

    def _on_device(self, rows: Tensor | slice) -> Tensor:
        return self.images[rows].to(self.labels.device)

    @torch.no_grad()
    def _in_batches(self, run: Callable[[Tensor], Tensor]) -> Tensor:
        size = self.how.batch_size
        return torch.cat(
            [run(self._on_device(slice(at, at + size))) for at in range(0, len(self.images), size)]
        )


class PrototypeMethod:
    """Explanations by prototypes, an `ExplanationMethod`.

    The maps are the similarities of all patches to the prototypes of the class that the prototype network
    predicts: the WAIoU protocol (sec. 4), whose distances become similarities, so that larger means more of
    the prototype. The network is a classifier of its own, trained from the backbone: its predictions and its
    features differ from those of the classifier that the backbone comes from.

    Args:
        backbone: module from images to feature maps, see `train_prototype_network`.
        how: settings of the training.
        device: torch device for the training.

    Attributes:
        network: the trained network, after `fit`; its ``patches`` are the training patches of the prototypes.

    Example:
        >>> images = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        >>> how = PrototypeTraining(0, per_class=2, dim=4, warm_epochs=1, epochs=1)
        >>> method = PrototypeMethod(nn.MaxPool2d(2), how).fit(images, torch.tensor([0, 1, 0, 1]))
        >>> method.explain(images).maps.shape
        torch.Size([4, 2, 2, 2])
    """

    name = "ProtoPNet"

    def __init__(
        self, backbone: nn.Module, how: PrototypeTraining, device: str | torch.device = "cpu"
    ) -> None:
        self.backbone, self.how, self.device = backbone, how, device
        self.network: PrototypeNetwork | None = None

    def fit(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> "PrototypeMethod":
        """Train the network; see `train_prototype_network`."""
        self.network = train_prototype_network(self.backbone, images, labels, self.how, self.device)
        return self

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images; see `ExplanationMethod`.

        Raises:
            InputError: `fit` has not been called.
        """
        network = self._fitted()
        with torch.no_grad(), evaluation_mode(network):
            distances = network.distances(network.backbone(images))
            predicted = network.classify(distances.amin((2, 3))).argmax(1)
        first = predicted[:, None] * network.per_class
        concepts = first + torch.arange(network.per_class, device=predicted.device)
        maps = prototype_similarity(distances[torch.arange(len(images))[:, None], concepts])
        return Explanation(maps, concepts, maps.sum((2, 3)), predicted)

    def classifier(self, images: Float[Tensor, "images 3 height width"]) -> Float[Tensor, "images classes"]:
        """Compute the logits of the network that is explained.

        Raises:
            InputError: `fit` has not been called.
        """
        network = self._fitted()
        with torch.no_grad(), evaluation_mode(network):
            logits, _ = network(images)
        return logits

    def state(self) -> dict[str, Tensor]:
        """Collect the weights and the training patches that `fit` has learned.

        Raises:
            InputError: `fit` has not been called.
        """
        network = self._fitted()
        assert network.patches is not None
        patches = {f"patches.{name}": values for name, values in network.patches._asdict().items()}
        return {**network.state_dict(), **patches}

    def restore(self, state: Mapping[str, Tensor]) -> "PrototypeMethod":
        """Take the tensors of an earlier `fit`, and return the method itself."""
        classes, channels = len(state["last.weight"]), state["add_on.0.weight"].shape[1]
        per_class, dim = len(state["prototypes"]) // classes, self.how.dim
        network = PrototypeNetwork(
            copy.deepcopy(self.backbone), channels, classes, per_class=per_class, dim=dim, seed=self.how.seed
        )
        network.load_state_dict({name: values for name, values in state.items() if "patches." not in name})
        network.patches = PrototypePatches(*(state[f"patches.{name}"] for name in PrototypePatches._fields))
        self.network = network.to(self.device).eval().requires_grad_(False)
        return self

    def _fitted(self) -> PrototypeNetwork:
        if self.network is None:
            raise InputError("the prototypes are not known yet; call `fit` first")
        return self.network
