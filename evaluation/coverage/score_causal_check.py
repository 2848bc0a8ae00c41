"""Check explanations against rendered interventions: is the marked part the cause?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray

from candlelight.evaluation.catalogue.coverage_options import CausalCheckOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.coverage.causal_effects import (
    CAUSAL_SCORES,
    CONVENTIONS,
    CausalStatistic,
    compared_effects,
)
from candlelight.evaluation.coverage.control_explainers import CONTROLS, MASK_CONTROLS
from candlelight.evaluation.coverage.explained_images import (
    ExplainedImages,
    FittedClassifier,
    fitted_runs,
    open_counterfactuals,
)
from candlelight.evaluation.coverage.measure_regions import (
    ALL_PARTS,
    Effects,
    Pointing,
    RegionNumbers,
    check_counterfactuals,
    measure_effects,
    measure_ideal,
    measure_pointing,
    merged_heatmaps,
    shown_regions,
)
from candlelight.evaluation.coverage.method_comparison import describe_network, first_users
from candlelight.evaluation.coverage.thresholds import check_masks
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import read_batches
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.fingerprints import weights_sha256
from candlelight.evaluation.run.intervals import distinct_groups, mean_interval, resampled_interval
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.result import Provenance, Result, StatisticResult
from candlelight.evaluation.views import BACKGROUND_REGION, View
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode, resize_images
from candlelight.loaders.errors import InputError

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
        network: the network, see `candlelight.evaluation.coverage.method_comparison.describe_network`.
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
    """Make the result of a method; see `_check_causes`.

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
    oracle = _statistic(measured.ideal, effects, regions, names)(np.arange(len(data.groups)))
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
        "oracle": oracle,
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


@dataclass(frozen=True, eq=False)
class Checked:
    """Methods that were checked in one comparison, for the pictures of a page.

    Attributes:
        run: the methods, images and options.
        networks: the network that each method explains.
        results: results by method.
        classes: names of the classes; None if they are not known.
    """

    run: Run[CausalCheckOptions]
    networks: dict[str, Any]
    results: dict[str, StatisticResult]
    classes: Sequence[str] | None


def _check_causes(run: Run[CausalCheckOptions]) -> dict[str, Result]:
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

    Agreement is that of the size of the effect with the density. Other explanations are ideal by another of
    the `candlelight.evaluation.coverage.causal_effects.CONVENTIONS`, and have scores of their own:

    - ``mass_agreement``: with the sum over the region, as additive explanations state an effect;
    - ``signed_agreement`` and ``signed_mass_agreement``: of the effect with its sign with the mean and the
      sum. Only methods have them of which a heatmap has negative values.

    A heatmap that is constant or not finite is dead: its agreement and its hit are 0, chance is that of a
    region drawn at random, and the result lists the image as failed. Images are left out if their effects are
    all equal, or if fewer than two regions have pixels and a finite effect.

    Blind to: all that `causal_effects`, `region_density` and `rank_agreement` are blind to; with ``pixels``
    "all" to the light, which a counterfactual scene changes on the object as well.

    The models are explanation methods, or callables from images to heatmaps [batch, maps, rows, columns] or
    [batch, rows, columns], larger is more relevant, or `MaskControl`, beside the networks that they explain
    (`ExplainedImages`). With ``method`` the models are classifiers: their methods are fitted, and compared
    with controls. Images are sRGB-encoded in [0, 1], on the device.

    With ``pixels`` "region" the classifier sees counterfactuals of which only the pixels of the region are
    taken, so that the light that they throw on the rest has no effect. Images are resized in linear light,
    antialiased, and masks by the nearest pixel; a region may lose its pixels.

    Returns:
        A result for each method, higher is better, with 95 % intervals over groups of images. The details
        hold ``chance``, the hit rate at a random place; ``undefined``, the number of images left out;
        ``resolution`` of the heatmaps and ``oracle``, the scores of heatmaps of this resolution that know
        the effects, see `candlelight.evaluation.coverage.measure_regions.measure_ideal`; ``network``, see
        `candlelight.evaluation.coverage.method_comparison.describe_network`; and ``regions``: for each
        region, and all parts together, the number of images with an effect, and means over images with their
        intervals of the effect with its sign, of its size, of density and of share.

    Raises:
        InputError: there are no images or methods, or a method has no classifier.
    """
    checked = [_check(fitted, one, run.data) for fitted, one in fitted_runs(run)]
    run.kept["checked"] = checked
    return {name: result for one in checked for name, result in one.results.items()}


def _check(fitted: FittedClassifier | None, run: Run[CausalCheckOptions], data: ExplainedImages) -> Checked:
    """Check the methods of one classifier, or the user's own."""
    methods, given, labels = run.models, data.classifiers, data.labels
    if fitted:
        name, network = fitted.source.name, fitted.named.model
        controls: dict[str, Any] = {f"{name} {control}": CONTROLS[control] for control in ("noise", "centre")}
        controls |= {f"{name} {control}": MASK_CONTROLS[control] for control in ("object", "part areas")}
        methods = methods | identify_models(controls, [], "srgb", None)
        # A prototype network explains its own predictions.
        given = {key: getattr(one.model, "classifier", network) for key, one in methods.items()}
        values = data.view.factor_values(fitted.source.label)
        labels = fitted.source.known_numbers(values)
    if not isinstance(given, Mapping):
        given = dict.fromkeys(methods, given)
    if lacking := methods.keys() - {name for name, one in given.items() if one is not None}:
        raise InputError(f"`classifiers` must name the network of each method, got none for `{min(lacking)}`")
    networks, run = {name: given[name] for name in methods}, replace(run, models=methods)
    users = first_users(networks)
    explained = identify_models({user: networks[user] for user in users.values()}, [], "srgb", None)
    measured = _measure(run, users, explained)
    regions = region_order(list(measured.pointing.values()))
    described = {
        user: describe_network(user, [one.predicted for one in effects], labels, data.view.groups)
        for user, effects in measured.effects.items()
    }
    results = {}
    for name, pointing in measured.pointing.items():
        user, about = users[name], run.provenance(name)
        if weights := weights_sha256(explained[user].model):
            about = replace(about, model=about.model | {"classifier_sha256": weights})
        effects = [its.regions for its in measured.effects[user]]
        found = MeasuredMethod(
            effects, pointing, measured.ideal[user, pointing[0].resolution], described[user]
        )
        results[name] = causal_result(about, run.data, regions, found)
    return Checked(run, networks, results, fitted.source.classes if fitted else None)


class _Measured(NamedTuple):
    """Numbers of each image.

    Attributes:
        effects: by the first method that explains the network.
        pointing: by method.
        ideal: by the first method that explains the network, and by resolution.
    """

    effects: dict[str, list[Effects]]
    pointing: dict[str, list[Pointing]]
    ideal: dict[tuple[str, tuple[int, int]], list[Pointing]]


def _measure(
    run: Run[CausalCheckOptions], users: Mapping[str, str], classifiers: Mapping[str, NamedModel]
) -> _Measured:
    """Measure the regions of all images, for each classifier and each method."""
    options = run.options
    found = _Measured({name: [] for name in classifiers}, {name: [] for name in run.models}, {})
    for batch in read_batches(
        run.data, run.batch_size, lambda item: check_srgb_image(item.image), run.fingerprint, "causal check"
    ):
        check_masks(batch.ids, batch.items)
        for item in batch.items:
            check_counterfactuals(item)
        items = on_device(batch.items, run.device)
        shown = [shown_regions(item, options.size) for item in items]
        for name, one in classifiers.items():
            for item, masks in zip(items, shown, strict=True):
                found.effects[name].append(measure_effects(one, item, masks, options, run.batch_size))
        linear = resize_images(decode(torch.stack([item.image for item in items])), options.size)
        resolutions = set()
        for name, one in run.models.items():
            effects = [its.regions for its in found.effects[users[name]][-len(shown) :]]
            merged = merged_heatmaps(one, batch.ids, linear, shown, options.k)
            found.pointing[name] += measure_pointing(merged, shown, effects, options.proportion)
            resolutions.add((users[name], found.pointing[name][-1].resolution))
        for user, resolution in resolutions:
            pairs = zip(shown, found.effects[user][-len(shown) :], strict=True)
            ideal = [measure_ideal(masks, its.regions, resolution) for masks, its in pairs]
            found.ideal.setdefault((user, resolution), []).extend(ideal)
    return found


METRIC = "causal_check"
CAUSAL_CHECK = Evaluation(
    name=METRIC,
    version=2,
    better="higher",
    options=CausalCheckOptions,
    reads=Reading(open=open_counterfactuals, space="srgb"),
    study=_check_causes,
    page="candlelight.evaluation.coverage.causal_check_report:CAUSAL_CHECK_PAGE",
)
