"""Pairs of an original and a distorted image, at levels that are evenly spaced."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor

from candlelight.loaders.views import DataIdentity

StimulusKind = Literal["rated", "transform"]
Side = Literal["left", "right"]
SIDES: tuple[Side, ...] = get_args(Side)


@dataclass(frozen=True)
class Stimulus:
    """A pair to show, without its pixels.

    Attributes:
        kind: "rated" for a rated pair, "transform" for an image and its transform.
        image: id of the pair or of the image.
        transform: name of the transform, as in `TransformFamily`; None for a rated pair.
        magnitude: common distance D of a rated pair; of a transform, in the unit of its family.
        level: number of the level, from 0.
        row: row of the view.
    """

    kind: StimulusKind
    image: str
    transform: str | None
    magnitude: float
    level: int
    row: int


@runtime_checkable
class StimulusSet(Protocol):
    """Pairs to show, and their pixels."""

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""
        ...

    @property
    def stimuli(self) -> tuple[Stimulus, ...]:
        """Each pair as often as it is shown."""
        ...

    def pictures(
        self, stimulus: Stimulus
    ) -> tuple[Float[Tensor, "3 height width"], Float[Tensor, "3 height width"]]:
        """Read or make the original and the distorted image: sRGB-encoded, in [0, 1]."""
        ...


def spaced_levels(first: float, last: float, count: int) -> tuple[float, ...]:
    """Space levels evenly, both ends among them.

    Example:
        >>> spaced_levels(0.3, 0.9, 3)
        (0.3, 0.6, 0.9)
    """
    values: Sequence[float] = np.linspace(first, last, count).round(9).tolist()
    return tuple(values)
