"""Rated pairs spaced in the common distance D, for the threshold D_T."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.perception.experiment.stimuli import Stimulus, spaced_levels
from candlelight.evaluation.perception.transduction import normalised_dmos
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import DataIdentity, RatedPair
from candlelight.loaders.views.chosen_rows import ChosenRows


@dataclass(frozen=True, eq=False)
class RatedStimuli:
    """Rated pairs whose D is nearest to levels from the smallest D of the data to the largest.

    The levels are evenly spaced in D, and not at quantiles, because ratings crowd where distortions are
    plain. The repeats of a level go through different pairs, so that an observer does not learn one image;
    each keeps its own D.

    Args:
        view: from `candlelight.loaders.views.open_pairs`.
        levels: number of levels, at least 2.
        repeats: answers at each level.
        images: largest number of different pairs at each level.
        largest: largest D of the levels; None for that of the data.

    Raises:
        InputError: all pairs up to the largest D have one rating.
    """

    view: ChosenRows[RatedPair]
    levels: int
    repeats: int
    images: int
    largest: float | None = None

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""
        return self.view.identity

    @cached_property
    def stimuli(self) -> tuple[Stimulus, ...]:
        """Each pair as often as it is shown."""
        scores = torch.from_numpy(self.view.named.reader.mos[list(self.view.named.numbers)])
        distances = normalised_dmos(scores).numpy().round(9)  # as readable in the log
        first, last = float(distances.min()), float(distances.max())
        last = last if self.largest is None else min(last, self.largest)
        if last <= first:
            raise InputError(
                f"{self.identity.name}: expected pairs of different D, got D from {first:g} to {last:g}; "
                "take more pairs, or a larger largest D"
            )
        wanted = np.array(spaced_levels(first, last, self.levels))
        return tuple(
            Stimulus("rated", self.view.ids[row], None, float(distances[row]), level, row)
            for level, rows in enumerate(nearest_pairs(distances, wanted, self.images))
            for row in np.resize(rows, self.repeats).tolist()
        )

    def pictures(
        self, stimulus: Stimulus
    ) -> tuple[Float[Tensor, "3 height width"], Float[Tensor, "3 height width"]]:
        """Read the original and the distorted image."""
        pair = self.view[stimulus.row]
        return pair.reference, pair.distorted


def nearest_pairs(
    distances: Float64[ndarray, " pairs"], levels: Float64[ndarray, " levels"], most: int
) -> Iterator[list[int]]:
    """Find, for each level, the pairs nearest to it.

    Args:
        distances: D of the pairs.
        levels: wanted D.
        most: largest number of pairs at each level.

    Returns:
        For each level the rows of the nearest pairs, nearest first, among those that lie nearer to it than to
        another level; where there is none, the one nearest pair.

    Example:
        >>> distances = np.array([0.1, 0.12, 0.35, 0.9])
        >>> list(nearest_pairs(distances, np.array([0.1, 0.5, 0.9]), 5))
        [[0, 1], [2], [3]]
    """
    apart = np.abs(distances - levels[:, None])
    own = apart.argmin(0)
    for level, row in enumerate(apart):
        order = row.argsort(kind="stable")
        inside = order[own[order] == level][:most]
        yield (inside if len(inside) else order[:1]).tolist()
