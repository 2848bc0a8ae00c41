"""Intrinsic models by the name or file that a user types."""

from pathlib import Path

from evaluation.models.baselines import BASELINES
from evaluation.models.protocols import IntrinsicModel
from evaluation.models.retinex import ColourRetinex
from evaluation.models.weights import load_model
from loaders.errors import InputError

RETINEX = "retinex"


def find_model(name: str, device: str = "cpu") -> IntrinsicModel:
    """Return the model of a name, or of a file that `save_model` wrote.

    Args:
        name: "retinex", a name of `BASELINES`, or a path.
        device: torch device that a network is put on.

    Raises:
        InputError: no such model; the message lists the names.

    Example:
        >>> find_model("retinex").chroma
        0.075
    """
    if name == RETINEX:
        return ColourRetinex()
    if name in BASELINES:
        return BASELINES[name]
    if Path(name).is_file():
        return load_model(Path(name), device)
    known = ", ".join([RETINEX, *BASELINES])
    raise InputError(f"model `{name}`: expected a file of weights, or one of: {known}")
