"""Save a trained `IntrinsicNet` in a file of tensors and numbers, and load it."""

from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here
from typing import Any

import torch

from candlelight.evaluation.adapters.published_weights import load_exactly, wrong_format
from candlelight.evaluation.models.network import IntrinsicNet
from candlelight.evaluation.models.weights_file import write_weights
from candlelight.loaders.errors import DAMAGED, InputError

_FORMAT = "candlelight intrinsic network 1"


def save_model(model: IntrinsicNet, path: str | Path, dtype: torch.dtype = torch.float32) -> Path:
    """Write the architecture and the weights of a network to a file atomically.

    Args:
        model: the network, on any device.
        path: file to write; an existing file is replaced.
        dtype: type of the stored weights; float16 makes a file of half the size.

    Returns:
        The path.

    Raises:
        InputError: a weight is not finite in ``dtype``; or the folder does not exist, cannot be written to or
            is full.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_model(IntrinsicNet(width=2, seed=0), Path(folder) / "network.pt")
        ...     load_model(path).width
        2
    """
    path = Path(path)
    state = {
        name: values.detach().to("cpu", dtype).contiguous() for name, values in model.state_dict().items()
    }
    if not all(values.isfinite().all() for values in state.values()):
        raise InputError(
            f"{path}: a weight is nan, infinite, or too large for {str(dtype).removeprefix('torch.')}; train "
            "with a smaller learning rate, or store 32 bits"
        )
    content = {"format": _FORMAT, "architecture": {"width": model.width}, "state": state}
    return write_weights(content, path)


def load_model(path: str | Path, device: str | torch.device = "cpu") -> IntrinsicNet:
    """Read a network that `save_model` wrote; code in the file is never executed.

    Args:
        path: the file.
        device: torch device of the network.

    Returns:
        The network in evaluation mode.

    Raises:
        InputError: the file does not exist, was not written by `save_model`, or is damaged.

    Example:
        >>> load_model("missing.pt")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected a file of `save_model`, but missing.pt does not exist
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"expected a file of `save_model`, but {path} does not exist")
    try:
        network = _build(torch.load(path, map_location="cpu", weights_only=True))
    except (*DAMAGED, UnpicklingError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        if "weights_only" in reason:  # torch's own message recommends to run the code in the file
            reason = "it holds more than tensors"
        raise InputError(
            f"{path} was not written by `save_model`, or is damaged: {reason}; load other weights in a class "
            "of your own: file.py:Class"
        ) from error
    return network.to(device).eval()


def _build(content: Any) -> IntrinsicNet:
    if reason := wrong_format(content, _FORMAT):
        raise InputError(reason)
    network = IntrinsicNet(width=content["architecture"]["width"], seed=0)
    load_exactly(network, content.get("state"), "its weights")
    return network
