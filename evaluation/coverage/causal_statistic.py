"""Agreement of densities and causal effects of regions, as a statistic of resampled images."""

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from numpy import ndarray

from evaluation.coverage.causal_effects import rank_agreement, region_hits

AGREEMENT_SCORES = ("agreement", "hit_rate", "hits_above_chance")


class CausalStatistic:
    """Mean agreement and hits of one method over any choice of images.

    Args:
        density: density of each region, nan where an image does not show it.
        effect: size of the effect of each region, at least 0; nan where it is unknown or not shown.
        dead: images whose heatmap is dead.

    Example:
        >>> density, effect = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[0.0, 0.5], [0.0, 0.5]])
        >>> statistic = CausalStatistic(density, effect, np.array([False, False]))
        >>> statistic(np.array([0])), statistic(np.array([1]))["agreement"]
        ({'agreement': 1.0, 'hit_rate': 1.0, 'hits_above_chance': 0.5}, -1.0)
    """

    def __init__(
        self,
        density: Float64[ndarray, "images regions"],
        effect: Float64[ndarray, "images regions"],
        dead: Bool[ndarray, " images"],
    ) -> None:
        found, effects = torch.from_numpy(density), torch.from_numpy(effect)
        # Any map with a different density in each region shows where the effects define a score.
        other = torch.arange(effects.shape[1], dtype=effects.dtype).expand_as(effects)
        self.chance = region_hits(other, effects).chance.numpy()
        defined = ~np.isnan(self.chance)
        scores = rank_agreement(found, effects), region_hits(found, effects).hit
        known = [np.where(dead, 0, np.nan_to_num(one.numpy())) for one in scores]
        self.agreement, self.hit = (np.where(defined, one, np.nan) for one in known)

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Compute the means over drawn images; nan if the effects leave all of them undefined."""
        agreement, hit, chance = (_mean(one[rows]) for one in (self.agreement, self.hit, self.chance))
        return dict(zip(AGREEMENT_SCORES, (agreement, hit, hit - chance), strict=True))

    @property
    def mean_chance(self) -> float:
        """Hit rate of a region that is drawn at random."""
        return _mean(self.chance)

    @property
    def undefined(self) -> int:
        """Number of images without a score."""
        return int(np.isnan(self.agreement).sum())


def _mean(column: Float64[ndarray, " rows"]) -> float:
    kept = column[~np.isnan(column)]
    return float(kept.mean()) if len(kept) else float("nan")
