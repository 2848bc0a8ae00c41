"""Write tensors and texts to a file of weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from loaders.errors import InputError
from loaders.files.safe_writing import replacing


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
