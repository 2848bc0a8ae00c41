"""The share of over-exposed pixels of an image set, from the metadata of some frames."""

from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from candlelight.loaders.frames import frame_path, read_metadata

LOOKED_AT = 64  # frames
MUCH = 0.03  # share of pixels


def clipped_share(root: Path, set_name: str, indices: Int[ndarray, " n"]) -> float | None:
    """Average the share of over-exposed pixels over frames of an image set, at most `LOOKED_AT` of them.

    Args:
        root: folder of frames.
        set_name: the image set.
        indices: numbers of the complete samples; the chosen frames are spread evenly over them.

    Returns:
        A share from 0 to 1; None if there is no sample.

    Raises:
        InputError: metadata are damaged.
    """
    if not len(indices):
        return None
    chosen = indices[np.unique(np.linspace(0, len(indices) - 1, LOOKED_AT).round().astype(int))]
    found = [read_metadata(frame_path(root, set_name, int(index))).checks.clipped for index in chosen]
    return float(np.mean(found))


def clipping_line(share: float | None) -> str:
    """Return a warning if more than `MUCH` of the pixels are over-exposed, "" otherwise.

    Example:
        >>> clipping_line(0.36)
        '36% of the pixels of image are over-exposed; lower `exposure` or the lights'
        >>> clipping_line(0.01)
        ''
    """
    if share is None or share <= MUCH:
        return ""
    return f"{share:.0%} of the pixels of image are over-exposed; lower `exposure` or the lights"
