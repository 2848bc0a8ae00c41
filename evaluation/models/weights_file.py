"""Write tensors and texts to a file of weights, and tell which kind of file it is."""

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251  which torch raises: nothing is pickled here
from typing import Any

import torch

from candlelight.loaders.errors import DAMAGED, InputError
from candlelight.loaders.files.safe_writing import replacing


def write_weights(content: Mapping[str, Any], path: Path) -> Path:
    """Write content that `torch.load` reads with ``weights_only=True``, atomically, and return the path.

    Raises:
        InputError: the folder does not exist, cannot be written to or is full.
    """
    try:
        with replacing(path) as partial, partial.open("wb") as file:
            torch.save(dict(content), file)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; give a file in a folder that exists and has room"
        ) from error
    return path


def weights_format(path: str | Path) -> str | None:
    """Return the entry ``format`` of a file of weights without reading its weights; None for other files.

    Example:
        >>> weights_format("missing.pt") is None
        True
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (*DAMAGED, UnpicklingError):
        return None
    return content.get("format") if isinstance(content, dict) else None
