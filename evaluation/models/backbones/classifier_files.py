"""Save a trained backbone with its classes and its training rows in a file of tensors and texts; load it."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from candlelight.evaluation.adapters.published_weights import load_exactly, read_published, wrong_format
from candlelight.evaluation.models.backbones.backbone import Backbone
from candlelight.evaluation.models.backbones.build_backbone import build_backbone
from candlelight.evaluation.models.backbones.trained_on import TrainedOn
from candlelight.evaluation.models.weights_file import weights_format, write_weights
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import DataIdentity

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
    return TrainedClassifier(network.to(device), tuple(classes), _training(content.get("training"), path))


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
