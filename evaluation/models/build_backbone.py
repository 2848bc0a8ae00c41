"""Build a backbone by its name, and load public weights into it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from candlelight.evaluation.catalogue.training_options import BackboneName
from candlelight.evaluation.models.backbones import VGG, Backbone, DenseNet, ResNet
from candlelight.evaluation.models.published_weights import load_exactly, read_published, without_wrappers
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

_VGG19: dict[str, Any] = {
    "stages": [(64, 2), (128, 2), (256, 4), (512, 4), (512, 4)],
    "hidden": 4096,
    "side": 7,
}
# The small networks give maps of an eighth of the image's side, at which parts can still be told apart.
BACKBONES: dict[str, Callable[[int], Backbone]] = {
    "vgg19": lambda classes: VGG(**_VGG19, classes=classes, normalised=False),
    "vgg19_bn": lambda classes: VGG(**_VGG19, classes=classes, normalised=True),
    "densenet121": lambda classes: DenseNet(
        growth=32, blocks=(6, 12, 24, 16), first=64, classes=classes, coarse=True
    ),
    "resnet50": lambda classes: ResNet(blocks=(3, 4, 6, 3), width=64, classes=classes, coarse=True),
    "vgg_small": lambda classes: VGG(
        stages=[(16, 1), (32, 2), (64, 2), (128, 2)], hidden=128, side=2, classes=classes, normalised=True
    ),
    "densenet_small": lambda classes: DenseNet(
        growth=12, blocks=(4, 4, 4), first=24, classes=classes, coarse=False
    ),
    "resnet_small": lambda classes: ResNet(blocks=(2, 2, 2), width=16, classes=classes, coarse=False),
}
# Older files of DenseNet have `denselayer1.norm.1.weight` in place of `denselayer1.norm1.weight`.
_OLD_DENSE_LAYER = re.compile(r"(\.denselayer\d+\.(?:norm|conv))\.([12]\.)")


def build_backbone(name: BackboneName, classes: int, *, seed: int) -> Backbone:
    """Build a backbone with random initial weights.

    ``vgg19``, ``vgg19_bn``, ``densenet121`` and ``resnet50`` are the networks of the papers, for images of
    224 pixels; ``vgg_small``, ``densenet_small`` and ``resnet_small`` have the same building blocks, for
    images of 64 to 96 pixels, and can be trained on a CPU in minutes.

    Args:
        name: name of the architecture.
        classes: number of classes.
        seed: seed of the initial weights, which depend on nothing else.

    Returns:
        The network in evaluation mode, on the CPU.

    Raises:
        InputError: there is no such network, or there are fewer than 2 classes.

    Example:
        >>> network = build_backbone("resnet_small", 6, seed=0)
        >>> network(torch.rand(2, 3, 64, 64)).shape
        torch.Size([2, 6])
    """
    check_choice("name", name, BackboneName)
    if classes < 2:
        raise InputError(f"`classes` must be at least 2, got {classes}")
    with torch.device("meta"):  # without memory, and without a draw from the global generator
        network = BACKBONES[name](classes)
    network.to_empty(device="cpu")
    network.initialise(torch.Generator().manual_seed(seed))
    network.name = name
    return network.eval()


def load_backbone(name: BackboneName, path: str | Path, classes: int = 1000, *, seed: int = 0) -> Backbone:
    """Load public weights, such as torchvision's of ImageNet; code in the file is never run.

    If the file has another number of classes, its last linear layer is left out and keeps its random initial
    weights; everything else is loaded. The number alone decides: a file that has ``classes`` classes is
    loaded whole, even if they mean something else.

    Args:
        name: name of the architecture.
        path: file of ``torch.save`` with tensors by name. Counters of batch normalisation may be missing, and
            names of DenseNet may have the old spelling ``norm.1`` for ``norm1``.
        classes: number of classes of the network.
        seed: seed of the initial weights of a last layer of another size.

    Returns:
        The network in evaluation mode, on the CPU.

    Raises:
        InputError: there is no such network, the file does not exist, is damaged, or holds other names or
            shapes, or a weight is not finite.

    Example:
        >>> load_backbone("resnet50", "resnet50.pth")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected a file of weights, there is no resnet50.pth
    """
    check_choice("name", name, BackboneName)
    content = {_new_name(key): values for key, values in without_wrappers(read_published(path)).items()}
    network = build_backbone(name, classes, seed=seed)
    own = network.state_dict()
    found = content.get(f"{network.head_layer}.weight")
    if isinstance(found, Tensor) and found.ndim == 2 and len(found) != classes:
        for part in ("weight", "bias"):
            content[f"{network.head_layer}.{part}"] = own[f"{network.head_layer}.{part}"]
    load_exactly(network, content, f"{path}: {name}")
    for key, values in network.state_dict().items():
        if not bool(values.isfinite().all()):
            raise InputError(f"{path}: `{key}` has a value that is nan or infinite; download the file again")
    return network


def _new_name(key: Any) -> Any:
    return _OLD_DENSE_LAYER.sub(r"\1\2", key) if isinstance(key, str) else key
