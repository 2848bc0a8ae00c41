"""Agreement of densities and causal effects of regions, as a statistic of resampled images."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.coverage.causal_effects import rank_agreement, rank_correlation, region_hits

CAUSAL_SCORES = ("agreement", "hit_rate", "hits_above_chance", "figure_ground")
_Pair = tuple[Float64[ndarray, "images regions"], Float64[ndarray, "images regions"]]


class CausalStatistic:
    """Mean agreement and hits of one method over any choice of images.

    Args:
        density: density of each region, nan where an image does not show it.
        effect: size of the effect of each region, at least 0; nan where it is unknown or not shown.
        chance: rate of hits of the moved heatmap, `moved_hits`.
        dead: images whose heatmap is dead; chance is that of a region drawn at random.
        side_density: density of the part with the largest effect, and of the background.
        side_effect: size of the effect of both.
        conventions: by name of the score, for other conventions of `candlelight.evaluation.coverage.
            effect_conventions`: the number that the heatmap states for each region, and its effect.

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
        conventions: Mapping[str, _Pair] = MappingProxyType({}),
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
        self.conventions = {
            name: _convention_scores(torch.from_numpy(stated), torch.from_numpy(effects), dead)
            for name, (stated, effects) in conventions.items()
        }

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Compute the means over drawn images; nan if the effects leave all of them undefined."""
        columns = self.agreement, self.hit, self.chance, self.side
        agreement, hit, chance, side = (_mean(column[rows]) for column in columns)
        others = {name: _mean(column[rows]) for name, column in self.conventions.items()}
        return dict(zip(CAUSAL_SCORES, (agreement, hit, hit - chance, side), strict=True)) | others

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


def _convention_scores(
    stated: Tensor, effects: Tensor, dead: Bool[ndarray, " images"]
) -> Float64[ndarray, " images"]:
    defined = ~rank_correlation(_distinct(effects), effects).isnan().numpy()
    return _scored(rank_correlation(stated, effects), dead, defined)


def _scored(
    scores: Tensor, dead: Bool[ndarray, " images"], defined: Bool[ndarray, " images"]
) -> Float64[ndarray, " images"]:
    """Return scores that are 0 for dead heatmaps and equal densities, and nan only where effects say so."""
    return np.where(defined, np.where(dead, 0, np.nan_to_num(scores.numpy())), np.nan)


def _mean(column: Float64[ndarray, " rows"]) -> float:
    kept = column[~np.isnan(column)]
    return float(kept.mean()) if len(kept) else float("nan")
