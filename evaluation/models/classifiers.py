"""Classifiers and factor heads, and the files of their weights."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.catalogue.training_options import BackboneName
from candlelight.evaluation.models.backbones import Backbone
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.network import weights_format, write_weights
from candlelight.evaluation.models.published_weights import load_exactly, read_published, wrong_format
from candlelight.evaluation.views import DataIdentity
from candlelight.loaders.errors import InputError


@dataclass(frozen=True)
class TrainedOn:
    """Label, data and rows of the training of a classifier.

    Explanation methods that learn should see the training rows alone, and be scored on others.

    Attributes:
        label: name of the factor whose values are the classes.
        data: name, layout, set and split of the data, before images are resized.
        size: height and width in pixels to which images were resized
            (`candlelight.evaluation.coverage.ResizedImages`); None for images of their own size.
        training_ids: ids of the rows whose images were learned.
        held_out_ids: ids of the rows that only measured the accuracy.

    Example:
        >>> training = TrainedOn("kind", DataIdentity("parts", "frames"), (64, 64), ("a", "c"), ("b",))
        >>> "b" in training.training_ids
        False
    """

    label: str
    data: DataIdentity
    size: tuple[int, int] | None
    training_ids: tuple[str, ...]
    held_out_ids: tuple[str, ...]


class FactorHeads(nn.Module):
    """A backbone whose last linear layer is cut into one head for each factor.

    Args:
        name: name of the architecture.
        classes: number of classes of each factor, by its name.
        seed: seed of the initial weights, which depend on nothing else.

    Attributes:
        colour_space: images are sRGB-encoded in [0, 1].
        network: the backbone; its classes are those of all factors in a row.
        classes: number of classes of each factor, by its name.

    Raises:
        InputError: there is no such architecture, no factor, or a factor with fewer than 2 classes.

    Example:
        >>> import torch
        >>> heads = FactorHeads("vgg_small", {"colour": 5, "size": 3}, seed=0)
        >>> [logits.shape for logits in heads(torch.rand(2, 3, 32, 32))]
        [torch.Size([2, 5]), torch.Size([2, 3])]
    """

    colour_space = "srgb"

    def __init__(self, name: BackboneName, classes: Mapping[str, int], *, seed: int) -> None:
        super().__init__()
        if not classes:
            raise InputError("expected at least one factor, got none")
        for factor, number in classes.items():
            if number < 2:
                raise InputError(
                    f"factor `{factor}`: expected at least 2 classes, got {number}; leave it out"
                )
        self.classes = dict(classes)
        self.network = build_backbone(name, sum(self.classes.values()), seed=seed)
        self.eval()

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Float[Tensor, "batch _"], ...]:
        """Compute the logits of the classes of each factor, in the order of ``classes``.

        Args:
            images: sRGB-encoded in [0, 1], of at least `SMALLEST_SIDE` pixels.

        Raises:
            InputError: a side of the images is too short.
        """
        return self.network(images).split(list(self.classes.values()), dim=1)


_FORMAT = "candlelight classifier 1"


class TrainedClassifier(NamedTuple):
    """A network of a classifier's file.

    Attributes:
        network: the network, in evaluation mode.
        classes: name of each class, in the order of the logits.
        training: label, data and rows of the training; None if the file does not record them.
    """

    network: Backbone
    classes: tuple[str, ...]
    training: TrainedOn | None


def save_classifier(
    network: Backbone, classes: Sequence[str], path: str | Path, training: TrainedOn | None = None
) -> Path:
    """Write the architecture, the weights, the names of the classes and the training rows atomically.

    Args:
        network: the network, of `build_backbone` or trained from one, on any device.
        classes: name of each class, in the order of the logits.
        path: file to write; an existing file is replaced.
        training: label, data and rows of the training; None if they are not known.

    Returns:
        The path.

    Raises:
        InputError: there are more or fewer names than classes; or the folder does not exist, cannot be
            written to or is full.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network = build_backbone("resnet_small", 2, seed=0)
        ...     path = save_classifier(network, ["bird", "fish"], Path(folder) / "network.pt")
        ...     load_classifier(path).classes
        ('bird', 'fish')
    """
    path = Path(path)
    if len(classes) != network.classes:
        raise InputError(f"expected names of {network.classes} classes, got {len(classes)} names")
    state = {name: values.detach().cpu().contiguous() for name, values in network.state_dict().items()}
    content = {
        "format": _FORMAT,
        "backbone": network.name,
        "classes": list(classes),
        "state": state,
        "training": None if training is None else asdict(training),
    }
    return write_weights(content, path)


def load_classifier(path: str | Path, device: str | torch.device = "cpu") -> TrainedClassifier:
    """Read a network that `save_classifier` wrote; code in the file is never run.

    Args:
        path: the file.
        device: torch device of the network.

    Returns:
        The network, the names of its classes, and the record of its training.

    Raises:
        InputError: the file does not exist, was not written by `save_classifier`, or is damaged.

    Example:
        >>> load_classifier("missing.pt")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected a file of weights, there is no missing.pt
    """
    content = read_published(path)
    if reason := wrong_format(content, _FORMAT):
        raise InputError(f"{path}: expected a file of `save_classifier`, {reason}")
    classes: Any = content.get("classes")
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise InputError(f"{path}: damaged: expected names of classes; train the network again")
    name: Any = content.get("backbone")
    network = build_backbone(name, len(classes), seed=0)
    load_exactly(network, content.get("state"), f"{path}: {name}")
    network.class_names, network.trained_on = tuple(classes), _training(content.get("training"), path)
    return TrainedClassifier(network.to(device), network.class_names, network.trained_on)


def is_classifier(path: str | Path) -> bool:
    """Tell whether `save_classifier` wrote a file, without reading its weights.

    Example:
        >>> is_classifier("missing.pt")
        False
    """
    return weights_format(path) == _FORMAT


def _training(found: Any, path: str | Path) -> TrainedOn | None:
    if found is None:
        return None
    try:
        return TrainedOn(**found | {"data": DataIdentity(**found["data"])})
    except (TypeError, KeyError):
        raise InputError(
            f"{path}: damaged: expected label, data, size and ids of the training; train the network again"
        ) from None
