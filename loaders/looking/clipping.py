"""How much of the pictures is over-exposed, by what frames say of themselves."""

from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from loaders.frames import frame_path, read_metadata

LOOKED_AT = 64
MUCH = 0.03


def clipped_share(root: Path, set_name: str, indices: Int[ndarray, " n"]) -> float | None:
    """Average the share of over-exposed pixels over frames of an image set, at most `LOOKED_AT` of them.

    Args:
        root: folder of frames.
        set_name: the image set.
        indices: numbers of the samples that are there; those looked at are spread evenly over them.

    Returns:
        A share from 0 to 1; None where there is no sample.

    Raises:
        InputError: metadata are damaged.
    """
    if not len(indices):
        return None
    chosen = indices[np.unique(np.linspace(0, len(indices) - 1, LOOKED_AT).round().astype(int))]
    found = [read_metadata(frame_path(root, set_name, int(index))).checks.clipped for index in chosen]
    return float(np.mean(found))


def clipping_line(share: float | None) -> str:
    """Say that much of the pictures is over-exposed; nothing where little is.

    Example:
        >>> clipping_line(0.36)
        '36% of the pixels of image are over-exposed; lower `exposure` or the lights'
        >>> clipping_line(0.01)
        ''
    """
    if share is None or share <= MUCH:
        return ""
    return f"{share:.0%} of the pixels of image are over-exposed; lower `exposure` or the lights"
