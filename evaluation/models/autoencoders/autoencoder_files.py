"""Save a trained autoencoder with the settings of its training in a file of tensors and texts; load it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from candlelight.evaluation.adapters.published_weights import load_exactly, read_published, wrong_format
from candlelight.evaluation.models.autoencoders.conv_vae import ConvVAE
from candlelight.evaluation.models.weights_file import write_weights
from candlelight.loaders.errors import InputError

AUTOENCODER_FORMAT = "candlelight autoencoder 1"


class TrainedAutoencoder(NamedTuple):
    """A network of an autoencoder's file.

    Attributes:
        network: the network, in evaluation mode.
        training: settings, data and rows of the training, as `save_autoencoder` took them.
    """

    network: ConvVAE
    training: dict[str, Any]


def save_autoencoder(network: ConvVAE, path: str | Path, training: Mapping[str, Any]) -> Path:
    """Write the architecture, the weights and the settings of the training atomically.

    Args:
        network: the network, on any device.
        path: file to write; an existing file is replaced.
        training: JSON values: settings, data and rows of the training.

    Returns:
        The path.

    Raises:
        InputError: the folder does not exist, cannot be written to or is full.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network = ConvVAE(codes=2, side=32, seed=0)
        ...     path = save_autoencoder(network, Path(folder) / "vae.pt", {"model": "beta-vae"})
        ...     load_autoencoder(path).training
        {'model': 'beta-vae'}
    """
    state = {name: values.detach().cpu().contiguous() for name, values in network.state_dict().items()}
    content = {
        "format": AUTOENCODER_FORMAT,
        "architecture": {"codes": network.codes, "side": network.side},
        "state": state,
        "training": json.dumps(dict(training), sort_keys=True),
    }
    return write_weights(content, Path(path))


def load_autoencoder(path: str | Path, device: str | torch.device = "cpu") -> TrainedAutoencoder:
    """Read a network that `save_autoencoder` wrote; code in the file is never run.

    Args:
        path: the file.
        device: torch device of the network.

    Returns:
        The network, and the record of its training.

    Raises:
        InputError: the file does not exist, was not written by `save_autoencoder`, or is damaged.

    Example:
        >>> load_autoencoder("missing.pt")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected a file of weights, there is no missing.pt
    """
    content = read_published(path)
    if reason := wrong_format(content, AUTOENCODER_FORMAT):
        raise InputError(f"{path}: expected a file of `save_autoencoder`, {reason}")
    try:
        architecture: Any = content["architecture"]
        network = ConvVAE(codes=int(architecture["codes"]), side=int(architecture["side"]), seed=0)
        training = dict(json.loads(content["training"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: damaged: expected architecture and training of an autoencoder; train it again"
        ) from error
    load_exactly(network, content.get("state"), str(path))
    return TrainedAutoencoder(network.to(device).eval(), training)
