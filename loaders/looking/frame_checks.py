"""What the checks of some frames say about an image set: over-exposed pixels, and light without albedo."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from candlelight.loaders.frames import frame_path, read_metadata
from candlelight.loaders.schema import Metadata
from candlelight.loaders.unexplained_light import unexplained_light

LOOKED_AT = 64  # frames
MUCH = 0.03  # share of pixels


def some_metadata(root: Path, set_name: str, indices: Int[ndarray, " n"]) -> list[Metadata]:
    """Read the metadata of at most `LOOKED_AT` frames of an image set.

    Args:
        root: folder of frames.
        set_name: the image set.
        indices: numbers of the complete samples; the chosen frames are spread evenly over them.

    Raises:
        InputError: metadata are damaged.
    """
    if not len(indices):
        return []
    chosen = indices[np.unique(np.linspace(0, len(indices) - 1, LOOKED_AT).round().astype(int))]
    return [read_metadata(frame_path(root, set_name, int(index))) for index in chosen]


def clipped_share(found: Sequence[Metadata]) -> float | None:
    """Average the share of over-exposed pixels over frames; None if there is none."""
    return float(np.mean([metadata.checks.clipped for metadata in found])) if found else None


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


def unexplained_line(found: Sequence[Metadata]) -> str:
    """Return `unexplained_light` of the worst of some frames, "" if all are right."""
    worst = max(found, key=lambda metadata: metadata.checks.identity_error or 0.0, default=None)
    return "" if worst is None else unexplained_light(worst)
