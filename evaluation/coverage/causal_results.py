"""Make the result of the causal check of a method from the numbers of each image."""

import math
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.coverage.causal_statistic import CAUSAL_SCORES, CausalStatistic
from candlelight.evaluation.coverage.effect_conventions import CONVENTIONS, compared_effects
from candlelight.evaluation.coverage.measure_regions import ALL_PARTS, Pointing, RegionNumbers
from candlelight.evaluation.results.mean_intervals import distinct_groups, mean_interval
from candlelight.evaluation.results.resampled_intervals import resampled_interval
from candlelight.evaluation.results.result import Provenance, StatisticResult
from candlelight.loaders.views import BACKGROUND_REGION, View

_SIDES = ALL_PARTS, BACKGROUND_REGION  # the last two of all regions
_RANGES = {  # at which intervals of means are cut
    "effect": (-math.inf, math.inf),
    "effect_size": (0.0, math.inf),
    "density": (0.0, math.inf),
    "share": (0.0, 1.0),
}


class MeasuredMethod(NamedTuple):
    """Numbers of each image.

    Attributes:
        effects: effects of the regions on the network that the method explains.
        pointing: how much the method's heatmaps point at the regions.
        ideal: how much explanations that know the effects do, at the resolution of the method's heatmaps.
        network: the network, see `candlelight.evaluation.coverage.explained_networks.describe_network`.
    """

    effects: Sequence[RegionNumbers]
    pointing: Sequence[Pointing]
    ideal: Sequence[Pointing]
    network: Mapping[str, Any]


def region_order(pointing: Sequence[Sequence[Pointing]]) -> list[str]:
    """List all regions that an image shows: parts by name, all parts together, and the background."""
    shown = {region for rows in pointing for row in rows for region in row.regions}
    return [*sorted(shown - {*_SIDES}), *_SIDES]


def causal_result(
    about: Provenance, data: View[Any], regions: Sequence[str], measured: MeasuredMethod
) -> StatisticResult:
    """Make the result of a method; see `candlelight.evaluation.coverage.score_causal_check`.

    Args:
        about: origin of the result.
        data: the images.
        regions: all regions, from `region_order`.
        measured: numbers of each image.
    """
    pointing = _table([one.regions for one in measured.pointing], regions, len(CONVENTIONS) + 1)
    effects = _effects(measured.effects, regions)
    signed = any(one.signed for one in measured.pointing)
    names = [name for name, convention in CONVENTIONS.items() if signed or not convention.signed]
    statistic = _statistic(measured.pointing, effects, regions, names)
    scores, replicates = resampled_interval(statistic, data.groups, seed=0)
    ceiling = _statistic(measured.ideal, effects, regions, names)(np.arange(len(data.groups)))
    columns = {
        "effect": effects[:, :, 0],
        "effect_size": effects[:, :, 1],
        "density": pointing[:, :, 0],
        "share": pointing[:, :, -1],
    }
    described = [
        {"region": region, "images": int((~np.isnan(effects[:, place, 0])).sum())}
        | {name: _mean(table[:, place], data.groups, *_RANGES[name]) for name, table in columns.items()}
        for place, region in enumerate(regions)
    ]
    details: dict[str, Any] = {
        "regions": described,
        "chance": statistic.mean_chance,
        "undefined": statistic.undefined,
        "resolution": list(measured.pointing[0].resolution),
        "ceiling": ceiling,
        "network": measured.network,
    }
    if statistic.undefined:
        details["notes"] = [
            f"{statistic.undefined} of {len(data.groups)} images are left out: no two regions have different "
            "effects"
        ]
    failed = tuple(compress(data.ids, [one.dead for one in measured.pointing]))
    return StatisticResult(about, scores, replicates, distinct_groups(data.groups), failed, details)


def _statistic(
    pointing_of: Sequence[Pointing],
    effects: Float64[ndarray, "images regions 2"],
    regions: Sequence[str],
    names: Sequence[str],
) -> CausalStatistic:
    """Make the statistic of heatmaps, by the named conventions."""
    stated = _table([one.regions for one in pointing_of], regions, len(CONVENTIONS))
    chance, dead = (np.array([getattr(one, field) for one in pointing_of]) for field in ("chance", "dead"))
    density, size = stated[:, :, 0], effects[:, :, 1]
    part_density = _largest_part(effects[:, :-2], density[:, :-2])[1]
    ranked = [place for place, region in enumerate(regions) if region != ALL_PARTS]
    sides = np.stack([part_density, density[:, -1]], 1), size[:, -2:]
    compared = compared_effects(*torch.from_numpy(effects).unbind(2))
    conventions = {
        name: (stated[:, ranked, place], compared[name].numpy()[:, ranked])
        for place, name in enumerate(CONVENTIONS)
        if name in names and name not in CAUSAL_SCORES
    }
    return CausalStatistic(density[:, ranked], size[:, ranked], chance, dead, *sides, conventions)


def _effects(
    measured: Sequence[RegionNumbers], regions: Sequence[str]
) -> Float64[ndarray, "images regions 2"]:
    """Tabulate effects with and without signs; all parts together have those of the largest part."""
    effects = _table(measured, regions, 2)
    effects[:, -2] = _largest_part(effects[:, :-2], effects[:, :-2, 1])[0]
    return effects


def _largest_part(
    effects: Float64[ndarray, "images parts 2"], density: Float64[ndarray, "images parts"]
) -> tuple[Float64[ndarray, "images 2"], Float64[ndarray, " images"]]:
    """Return effect and density of the part with the largest effect; nan if no part has an effect.

    Several parts with the largest effect have the mean of their densities.
    """
    if not effects.shape[1]:
        return np.full((len(effects), 2), np.nan), np.full(len(effects), np.nan)
    sizes = np.nan_to_num(effects[:, :, 1], nan=-1.0)
    largest = sizes == sizes.max(1, keepdims=True)
    mean = (np.where(largest, density, 0).sum(1)) / largest.sum(1)
    return effects[np.arange(len(effects)), sizes.argmax(1)], mean


def _table(
    rows: Sequence[RegionNumbers], regions: Sequence[str], count: int
) -> Float64[ndarray, "images regions numbers"]:
    """Make a table of ``count`` numbers for each image and region; nan where an image lacks the region."""
    missing = (np.nan,) * count
    return np.array([[row.get(region, missing)[:count] for region in regions] for row in rows], np.float64)


def _mean(
    column: Float64[ndarray, " images"], groups: Sequence[str], least: float, largest: float
) -> list[float]:
    """Compute a mean over images that show the region, with its interval, cut at the range of the values."""
    score = mean_interval(column.tolist(), groups).within(least, largest)
    return [score.value, score.low, score.high]
