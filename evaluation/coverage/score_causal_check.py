"""Compare explanation methods by whether they point at the regions on which predictions depend."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.coverage.binarise_heatmaps import check_pooling
from candlelight.evaluation.coverage.causal_effects import ChangedPixels, EffectScale
from candlelight.evaluation.coverage.causal_statistic import CausalStatistic
from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.masks import check_masks, resize_images
from candlelight.evaluation.coverage.measure_regions import (
    ALL_PARTS,
    Pointing,
    RegionNumbers,
    measure_effects,
    measure_pointing,
    shown_regions,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.mean_intervals import distinct_groups, mean_interval
from candlelight.evaluation.results.resampled_intervals import resampled_interval
from candlelight.evaluation.results.result import Provenance, StatisticResult
from candlelight.evaluation.running.batches import (
    Fingerprint,
    check_srgb_image,
    make_provenance,
    read_batches,
    weights_sha256,
)
from candlelight.evaluation.running.named_models import decode, identify_models
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import BACKGROUND_REGION, CounterfactualImages, View

METRIC, VERSION = "causal_check", 2
_SIDES = ALL_PARTS, BACKGROUND_REGION  # the last two of all regions
_RANGES = {  # at which intervals of means are cut
    "effect": (-math.inf, math.inf),
    "effect_size": (0.0, math.inf),
    "density": (0.0, math.inf),
    "share": (0.0, 1.0),
}
_SHARED = ""  # key of the classifier of all methods
HeatmapCallable = Callable[[Float[Tensor, "batch 3 height width"]], Tensor]
ExplainedClassifier = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch classes"]]


class _Measured(NamedTuple):
    """Numbers of each image, by classifier and by method, and a description of the data."""

    effects: dict[str, list[RegionNumbers]]
    pointing: dict[str, list[Pointing]]
    data: dict[str, Any]


class _Run(NamedTuple):
    """Arguments of `score_causal_check` for the pass over the images."""

    scale: EffectScale
    pixels: ChangedPixels
    k: int
    proportion: float
    size: tuple[int, int] | None
    batch_size: int
    device: str


def score_causal_check(
    methods: Mapping[str, ExplanationMethod | HeatmapCallable | NamedModel],
    classifier: ExplainedClassifier | Mapping[str, ExplainedClassifier],
    data: View[CounterfactualImages],
    *,
    scale: EffectScale = "probability",
    pixels: ChangedPixels = "all",
    k: int = 1,
    proportion: float = 0.05,
    size: tuple[int, int] | None = None,
    batch_size: int = 16,
    device: str = "cpu",
) -> dict[str, StatisticResult]:
    """Compare explanation methods by whether they point at the regions on which predictions depend.

    Each image comes with counterfactuals in which one region, a part or the background, was changed. The
    effect of a region is the mean size of `causal_effects` over its counterfactuals. A method points at the
    region as much as `region_density` says, on the original image. The scores are means over images:

    - ``agreement``: rank correlation of effect and density over the regions, `rank_agreement`;
    - ``hit_rate``: whether the region of the largest effect is the one pointed at most, `region_hits`;
    - ``hits_above_chance``: the hit rate less that of the same heatmaps at a place drawn at random,
      `candlelight.evaluation.coverage.measure_regions.moved_hits`;
    - ``figure_ground``: whether the denser one of the object and the background is the one of the larger
      effect; the part of the largest effect stands for the object. Chance gives a half, less for a map of a
      few large values.

    A heatmap that is constant or not finite is dead: its agreement and its hit are 0, chance is that of a
    region drawn at random, and the result lists the image as failed. Images are left out if their effects are
    all equal, or if fewer than two regions have pixels and a finite effect.

    Blind to: all that `causal_effects`, `region_density` and `rank_agreement` are blind to; with ``pixels``
    "all" to the light, which a counterfactual scene changes on the object as well.

    Args:
        methods: by name: fitted explanation methods, or callables from images to heatmaps [batch, maps, rows,
            columns] or [batch, rows, columns]; larger is more relevant. Images are sRGB-encoded in [0, 1] and
            on ``device``.
        classifier: gives logits [batch, classes] for the same images; a mapping by the name of the method if
            methods explain different classifiers.
        data: images with their counterfactuals, from `candlelight.loaders.views.open_counterfactuals`.
        scale: see `causal_effects`.
        pixels: "all" shows the classifier the counterfactuals as they are; "region" takes only the pixels of
            the region from them, so that the light that they throw on the rest has no effect.
        k: number of merged maps of each image, see `merge_explanation`.
        proportion: share of the points of each heatmap that are marked, for the shares of the details.
        size: height and width to which images (linear light, antialiased) and masks (nearest pixel) are
            resized; a region may lose its pixels.
        batch_size: images per pass.
        device: torch device of methods and classifiers.

    Returns:
        A result for each method, higher is better, with 95 % intervals over groups of images. The details
        hold ``chance``, the hit rate at a random place, ``undefined``, the number of images left out, and
        ``regions``: for each region, and all parts together, the number of images with an effect, and means
        over images with their intervals of the effect with its sign, of its size, of density and of share.

    Raises:
        InputError: there are no images or methods, a method has no classifier, or an argument is out of
            range.
    """
    check_choice("scale", scale, EffectScale)
    check_choice("pixels", pixels, ChangedPixels)
    check_pooling(proportion, "image")
    if k < 1:
        raise InputError(f"`k` must be at least 1, got {k}")
    named = identify_models(methods, [data], "srgb", None)
    explained = _named_classifiers(classifier, named, data)
    measured = _measure(named, explained, data, _Run(scale, pixels, k, proportion, size, batch_size, device))
    settings = {"scale": scale, "pixels": pixels, "k": k, "proportion": proportion, "size": size}
    shown = {region for rows in measured.pointing.values() for row in rows for region in row.regions}
    regions = [*sorted(shown - {*_SIDES}), *_SIDES]
    results = {}
    for name, one in named.items():
        key = _key(name, explained)
        about = make_provenance(METRIC, VERSION, "higher", one, measured.data, settings)
        if weights := weights_sha256(explained[key].model):
            about = replace(about, model=about.model | {"classifier_sha256": weights})
        results[name] = _result(about, data, regions, measured.effects[key], measured.pointing[name])
    return results


def _measure(
    methods: Mapping[str, NamedModel],
    classifiers: Mapping[str, NamedModel],
    data: View[CounterfactualImages],
    run: _Run,
) -> _Measured:
    """Measure the regions of all images, for each classifier and each method."""
    fingerprint = Fingerprint()
    effects: dict[str, list[RegionNumbers]] = {name: [] for name in classifiers}
    pointing: dict[str, list[Pointing]] = {name: [] for name in methods}
    for batch in read_batches(
        data, run.batch_size, lambda item: check_srgb_image(item.image), fingerprint, "causal check"
    ):
        check_masks(batch.ids, batch.items)
        shown = [shown_regions(item, run.size) for item in batch.items]
        for name, one in classifiers.items():
            for item, masks in zip(batch.items, shown, strict=True):
                how = run.scale, run.pixels, run.size, run.batch_size, run.device
                effects[name].append(measure_effects(one, item, masks, *how))
        linear = resize_images(decode(batch.stack(lambda item: item.image)), run.size)
        for name, one in methods.items():
            its = effects[_key(name, classifiers)][-len(shown) :]
            pointing[name] += measure_pointing(
                one, batch.ids, linear, shown, its, run.k, run.proportion, run.device
            )
    return _Measured(effects, pointing, fingerprint.describe(data))


def _key(method: str, classifiers: Mapping[str, NamedModel]) -> str:
    return method if method in classifiers else _SHARED


def _named_classifiers(
    classifier: ExplainedClassifier | Mapping[str, ExplainedClassifier],
    methods: Mapping[str, NamedModel],
    data: View[Any],
) -> dict[str, NamedModel]:
    """Identify the classifiers by method, or the classifier of all methods."""
    if not isinstance(classifier, Mapping):
        return identify_models({_SHARED: classifier}, [data], "srgb", None)
    if lacking := methods.keys() - classifier.keys():
        raise InputError(f"`classifier` must name one for each method, got none for `{min(lacking)}`")
    return identify_models({name: classifier[name] for name in methods}, [data], "srgb", None)


def _result(
    about: Provenance,
    data: View[Any],
    regions: Sequence[str],
    measured_effects: Sequence[RegionNumbers],
    pointing_of: Sequence[Pointing],
) -> StatisticResult:
    effects, pointing = (
        _table(measured_effects, regions),
        _table([one.regions for one in pointing_of], regions),
    )
    chance, dead = (np.array([getattr(one, field) for one in pointing_of]) for field in ("chance", "dead"))
    density = pointing[:, :, 0]
    effects[:, -2], part_density = _largest_part(effects[:, :-2], density[:, :-2])
    size = effects[:, :, 1]
    ranked = [place for place, region in enumerate(regions) if region != ALL_PARTS]
    sides = np.stack([part_density, density[:, -1]], 1), size[:, -2:]
    statistic = CausalStatistic(density[:, ranked], size[:, ranked], chance, dead, *sides)
    scores, replicates = resampled_interval(statistic, data.groups, seed=0)
    columns = {
        "effect": effects[:, :, 0],
        "effect_size": size,
        "density": density,
        "share": pointing[:, :, 1],
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
    }
    if statistic.undefined:
        details["notes"] = [
            f"{statistic.undefined} of {len(data.groups)} images are left out: no two regions have different "
            "effects"
        ]
    failed = tuple(compress(data.ids, dead))
    return StatisticResult(about, scores, replicates, distinct_groups(data.groups), failed, details)


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


def _table(rows: Sequence[RegionNumbers], regions: Sequence[str]) -> Float64[ndarray, "images regions 2"]:
    """Make a table of two numbers for each image and region; nan where an image lacks the region."""
    missing = (np.nan, np.nan)
    return np.array([[row.get(region, missing) for region in regions] for row in rows], dtype=np.float64)


def _mean(
    column: Float64[ndarray, " images"], groups: Sequence[str], least: float, largest: float
) -> list[float]:
    """Compute a mean over images that show the region, with its interval, cut at the range of the values."""
    score = mean_interval(column.tolist(), groups).within(least, largest)
    return [score.value, score.low, score.high]
