"""Agreement of densities and causal effects of regions, as a statistic of resampled images."""

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.coverage.causal_effects import rank_agreement, region_hits

CAUSAL_SCORES = ("agreement", "hit_rate", "hits_above_chance", "figure_ground")


class CausalStatistic:
    """Mean agreement and hits of one method over any choice of images.

    Args:
        density: density of each region, nan where an image does not show it.
        effect: size of the effect of each region, at least 0; nan where it is unknown or not shown.
        chance: rate of hits of the moved heatmap, `moved_hits`.
        dead: images whose heatmap is dead; chance is that of a region drawn at random.
        side_density: density of the part with the largest effect, and of the background.
        side_effect: size of the effect of both.

    Example:
        >>> density, effect = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[0.0, 0.5], [0.0, 0.5]])
        >>> chance, dead = np.array([0.25, 0.5]), np.array([False, False])
        >>> statistic = CausalStatistic(density, effect, chance, dead, density, effect)
        >>> statistic(np.array([0]))
        {'agreement': 1.0, 'hit_rate': 1.0, 'hits_above_chance': 0.75, 'figure_ground': 1.0}
        >>> statistic(np.array([1]))["agreement"]
        -1.0
    """

    def __init__(
        self,
        density: Float64[ndarray, "images regions"],
        effect: Float64[ndarray, "images regions"],
        chance: Float64[ndarray, " images"],
        dead: Bool[ndarray, " images"],
        side_density: Float64[ndarray, "images 2"],
        side_effect: Float64[ndarray, "images 2"],
    ) -> None:
        found, effects = torch.from_numpy(density), torch.from_numpy(effect)
        drawn = region_hits(_distinct(effects), effects).chance.numpy()
        defined = ~np.isnan(drawn)
        self.chance = np.where(defined, np.where(dead, drawn, chance), np.nan)
        self.agreement = _scored(rank_agreement(found, effects), dead, defined)
        self.hit = _scored(region_hits(found, effects).hit, dead, defined)
        found, effects = torch.from_numpy(side_density), torch.from_numpy(side_effect)
        defined = ~region_hits(_distinct(effects), effects).hit.isnan().numpy()
        self.side = _scored(region_hits(found, effects).hit, dead, defined)

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Compute the means over drawn images; nan if the effects leave all of them undefined."""
        columns = self.agreement, self.hit, self.chance, self.side
        agreement, hit, chance, side = (_mean(column[rows]) for column in columns)
        return dict(zip(CAUSAL_SCORES, (agreement, hit, hit - chance, side), strict=True))

    @property
    def mean_chance(self) -> float:
        """Hit rate of the heatmaps at a place that is drawn at random."""
        return _mean(self.chance)

    @property
    def undefined(self) -> int:
        """Number of images without a score."""
        return int(np.isnan(self.agreement).sum())


def _distinct(effects: Tensor) -> Tensor:
    """Make densities that differ in all regions: with these, scores are undefined by the effects alone."""
    return torch.arange(effects.shape[1], dtype=effects.dtype).expand_as(effects)


def _scored(
    scores: Tensor, dead: Bool[ndarray, " images"], defined: Bool[ndarray, " images"]
) -> Float64[ndarray, " images"]:
    """Return scores that are 0 for dead heatmaps and equal densities, and nan only where effects say so."""
    return np.where(defined, np.where(dead, 0, np.nan_to_num(scores.numpy())), np.nan)


def _mean(column: Float64[ndarray, " rows"]) -> float:
    kept = column[~np.isnan(column)]
    return float(kept.mean()) if len(kept) else float("nan")
