"""Warnings about an image set from the checks of some frames: over-exposed pixels, light without albedo."""

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


def spread_rows(count: int) -> list[int]:
    """Choose at most `LOOKED_AT` of ``count`` rows, spread evenly, the first among them.

    Example:
        >>> spread_rows(3), len(spread_rows(1000)), spread_rows(0)
        ([0, 1, 2], 64, [])
    """
    return np.unique(np.linspace(0, count - 1, LOOKED_AT).round().astype(int)).tolist() if count else []


def some_metadata(root: Path, set_name: str, indices: Int[ndarray, " n"]) -> list[Metadata]:
    """Read the metadata of at most `LOOKED_AT` frames of an image set.

    Args:
        root: folder of frames.
        set_name: the image set.
        indices: numbers of the complete samples; the chosen frames are spread evenly over them.

    Raises:
        InputError: metadata are damaged.
    """
    return [read_metadata(frame_path(root, set_name, int(indices[row]))) for row in spread_rows(len(indices))]


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
