"""Check explanations against rendered interventions: is the marked part the cause?"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import HEATMAPS, CausalCheckOptions, ChangedPixels
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.coverage.causal_effects import (
    CONVENTIONS,
    CausalStatistic,
    causal_effects,
    compared_effects,
    ideal_heatmap,
    region_hits,
    region_share,
    stated_effects,
)
from candlelight.evaluation.coverage.control_explainers import CONTROLS, MASK_CONTROLS, area_averages
from candlelight.evaluation.coverage.explained_images import (
    describe_network,
    explained_networks,
    explainer_provenance,
    first_users,
    fitted_runs,
    open_counterfactuals,
)
from candlelight.evaluation.coverage.explanations import PartMasks, explain_images, merge_explanation
from candlelight.evaluation.coverage.filter_methods import check_logits
from candlelight.evaluation.coverage.thresholds import (
    Explanations,
    binarise,
    check_masks,
    is_dead,
    resize_heatmap,
    resize_mask,
    set_threshold,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import read_batches
from candlelight.evaluation.run.evaluate import Run, on_device
from candlelight.evaluation.run.fingerprints import weights_sha256
from candlelight.evaluation.run.intervals import distinct_groups, mean_interval, resampled_interval
from candlelight.evaluation.run.named_models import identify_models, run_model
from candlelight.evaluation.run.result import Provenance, Result, StatisticResult
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages, View
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode, resize_images
from candlelight.loaders.errors import InputError

ALL_PARTS = "all parts"  # region of the object as a whole
_SIDES = ALL_PARTS, BACKGROUND_REGION  # the last two of all regions
_CONTROLS, _MASKS = ("noise", "centre"), ("object", "part areas")
_PLACES = 8  # of each axis, to which heatmaps are moved
RegionNumbers = dict[str, tuple[float, ...]]  # numbers of each region that an image shows


def shown_regions(item: CounterfactualImages, size: tuple[int, int] | None) -> PartMasks:
    """Return the masks of the regions that have pixels, resized as `resize_mask` does.

    Raises:
        InputError: no region has pixels.
    """
    masks = {region: resize_mask(mask, size) for region, mask in item.masks.items()}
    shown = {region: mask for region, mask in masks.items() if bool(mask.any())}
    if not shown:
        raise InputError(
            "expected regions with pixels in each image, got none; add the background as a region"
        )
    return shown


def check_counterfactuals(item: CounterfactualImages) -> None:
    """Refuse counterfactuals of another size than their image, or out of range.

    Raises:
        InputError: as described.
    """
    for region, images in item.changed.items():
        if images.shape[1:] != item.image.shape:
            sizes = f"{list(item.image.shape)}, got {list(images.shape[1:])}"
            raise InputError(f"counterfactuals of `{region}`: expected images of {sizes}")
        for image in images:
            check_srgb_image(image)


def changed_images(
    item: CounterfactualImages, masks: PartMasks, pixels: ChangedPixels
) -> dict[str, Float[Tensor, "_ 3 _ _"]]:
    """Return the counterfactuals of the shown regions; see `measure_effects` for the arguments."""
    changed = {region: images for region, images in item.changed.items() if region in masks}
    if pixels == "region":
        changed = {region: images.where(item.masks[region], item.image) for region, images in changed.items()}
    return changed


def classify_changes(
    classifier: NamedModel,
    item: CounterfactualImages,
    changed: Mapping[str, Float[Tensor, "_ 3 _ _"]],
    size: tuple[int, int] | None,
    batch_size: int,
) -> Float[Tensor, "images classes"]:
    """Compute the logits of an image, then of its counterfactuals in their order."""
    linear = resize_images(decode(torch.cat([item.image[None], *changed.values()])), size)

    def logits(output: object, images: int, _: str) -> tuple[Tensor]:
        return (check_logits(output, images).float(),)

    return torch.cat([run_model(classifier, some, logits)[0] for some in torch.split(linear, batch_size)])


class Effects(NamedTuple):
    """Regions on which the prediction for one image depends.

    Attributes:
        regions: for each shown region with counterfactuals, the mean of `causal_effects` over them, with and
            without signs; nan if a logit is not finite.
        predicted: the predicted class; -1 if its logits are not finite.
    """

    regions: RegionNumbers
    predicted: int


def measure_effects(
    classifier: NamedModel, item: CounterfactualImages, masks: PartMasks, run: Run[CausalCheckOptions]
) -> Effects:
    """Measure the effects of the shown regions of one image on the prediction of a classifier.

    Raises:
        InputError: the classifier gives no logits.
    """
    changed = changed_images(item, masks, run.options.pixels)
    logits = classify_changes(classifier, item, changed, run.options.size, run.batch_size)
    effects = causal_effects(logits[:1], logits[None, 1:], run.options.scale)[0]
    by_region = zip(changed, torch.split(effects, [len(images) for images in changed.values()]), strict=True)
    numbers: RegionNumbers = {
        region: (float(some.mean()), float(some.abs().mean())) for region, some in by_region
    }
    return Effects(numbers, int(logits[0].argmax()) if bool(logits[0].isfinite().all()) else -1)


class Pointing(NamedTuple):
    """How much the heatmap of one image points at its regions.

    Attributes:
        regions: of each shown region, and of `ALL_PARTS`, the number by each of the `CONVENTIONS`, then the
            `region_share`; nan if dead.
        chance: rate of hits of the heatmap after it was moved, see `moved_hits`.
        dead: whether the heatmap is constant or not finite.
        signed: whether the heatmap has negative values, so that it can state the sign of an effect.
        resolution: rows and columns of the heatmap as the method gives it.
    """

    regions: RegionNumbers
    chance: float
    dead: bool
    signed: bool
    resolution: tuple[int, int]


def measure_pointing(
    merged: Explanations, masks: Sequence[PartMasks], effects: Sequence[RegionNumbers], proportion: float
) -> list[Pointing]:
    """Measure how much heatmaps point at the shown regions of images.

    Args:
        merged: heatmaps of the images.
        masks: the shown regions of each image, from `shown_regions`.
        effects: the effects of the regions of each image, from `measure_effects`.
        proportion: share of the points that are marked.
    """
    explained = merged.resized(*next(iter(masks[0].values())).shape)
    thresholds = set_threshold(explained, proportion, "image")
    marked, dead = binarise(explained.heatmap, thresholds), is_dead(explained.heatmap).tolist()
    found = []
    for place, (its, effect) in enumerate(zip(masks, effects, strict=True)):
        shown = {**its, **_all_parts(its)}
        regions = torch.stack(list(shown.values()))[None]
        stated = stated_effects(explained.heatmap[place, None], regions).values()
        columns = torch.cat([*stated, region_share(marked[place, None], regions)]).float()
        numbers = {name: tuple(column) for name, column in zip(shown, columns.T.tolist(), strict=True)}
        heatmap = merged.heatmap[place]
        rows, points = heatmap.shape
        signed, chance = bool((heatmap < 0).any()), moved_hits(heatmap, its, effect)
        found.append(Pointing(numbers, chance, dead[place], signed, (rows, points)))
    return found


def measure_ideal(masks: PartMasks, effects: RegionNumbers, resolution: tuple[int, int]) -> Pointing:
    """Measure how much an explanation that knows the effects points at the regions, at some resolution.

    The number of each convention is that of its own `ideal_heatmap`, averaged over the area of each cell and
    resized to the image as the heatmaps of methods are. The chance is that of the heatmap of densities.

    Blind to: better heatmaps. No proof says that the averaged heatmap is the best one of its resolution.

    Args:
        masks: the shown regions of an image, from `shown_regions`.
        effects: their effects, from `measure_effects`.
        resolution: rows and columns of a method's heatmaps.

    Returns:
        Numbers of the `CONVENTIONS` alone, without the share of marked points.
    """
    shown = {**masks, **_all_parts(masks)}
    regions = torch.stack(list(shown.values()))[None]
    columns, heatmaps = [], []
    for name in CONVENTIONS:
        cells = area_averages(ideal_heatmap(name, masks, effects), resolution)
        heatmaps.append(cells.float())
        heatmap = resize_heatmap(cells[None], *regions.shape[2:])
        # In float64 up to here, so that regions of equal effects have equal numbers.
        columns.append(stated_effects(heatmap, regions)[name][0].float())
    numbers = {
        region: tuple(row) for region, row in zip(shown, torch.stack(columns, 1).tolist(), strict=True)
    }
    dead = bool(is_dead(heatmaps[0][None]))
    return Pointing(numbers, moved_hits(heatmaps[0], masks, effects), dead, True, resolution)


def moved_hits(heatmap: Float[Tensor, "rows columns"], masks: PartMasks, effects: RegionNumbers) -> float:
    """Compute how often a heatmap hits the region of the largest effect if its place is a matter of chance.

    The heatmap is moved to the 8 x 8 places of a regular grid, and what leaves it on one side enters on the
    other: the moved maps have its values and its smoothness, so the sizes of the regions favour each of them
    as they favour it. A map whose points are drawn independently hits as often as its moved maps, on average.

    Args:
        heatmap: an explanation heatmap at its own resolution.
        masks: regions, at the resolution of the image.
        effects: effect of each region, and its size.

    Returns:
        The mean of `region_hits` over the moved maps; nan where `region_hits` is undefined.

    Example:
        >>> masks = {"one": torch.eye(4) > 0, "others": torch.eye(4) == 0}
        >>> moved_hits(torch.eye(4), masks, {"one": (-0.5, 0.5), "others": (0.0, 0.0)})
        0.25
    """
    kept = [region for region in masks if region in effects]
    if not kept:
        return math.nan
    rows, columns = ({place * count // _PLACES for place in range(_PLACES)} for count in heatmap.shape)
    moved = torch.stack([heatmap.roll(to, (0, 1)) for to in itertools.product(sorted(rows), sorted(columns))])
    regions = torch.stack([masks[region] for region in kept])
    inside = resize_heatmap(moved, *regions.shape[1:]).double().flatten(1) @ regions.double().flatten(1).T
    # Of one heatmap, the mean of a region orders the regions as its density does.
    means = (inside / regions.sum((1, 2))).to(heatmap.dtype).double()  # rounded as densities are
    sizes = means.new_tensor([effects[region][1] for region in kept])
    return float(region_hits(means, sizes.expand_as(means)).hit.mean())


def _all_parts(masks: PartMasks) -> PartMasks:
    """Unite the shown parts; nothing if there are none."""
    parts = [mask for region, mask in masks.items() if region != BACKGROUND_REGION]
    return {ALL_PARTS: torch.stack(parts).any(0)} if parts else {}


def causal_result(
    about: Provenance,
    data: View[Any],
    regions: Sequence[str],
    measured: tuple[Sequence[RegionNumbers], Sequence[Pointing], Sequence[Pointing]],
    network: Mapping[str, Any],
) -> StatisticResult:
    """Make the result of a method; see `_check_causes`.

    Args:
        about: origin of the result.
        data: the images.
        regions: all regions: parts by name, all parts together, and the background.
        measured: of each image, effects of the regions on the network that the method explains, how much the
            method's heatmaps point at the regions, and how much explanations that know the effects do.
        network: the network, from `describe_network`.
    """
    effects_of, pointing_of, ideal = measured
    pointing = _table([one.regions for one in pointing_of], regions, len(CONVENTIONS) + 1)
    effects = _table(effects_of, regions, 2)
    effects[:, -2] = _largest_part(effects[:, :-2], effects[:, :-2, 1])[0]
    signed = any(one.signed for one in pointing_of)
    names = [name for name, convention in CONVENTIONS.items() if signed or not convention.signed]
    statistic = _statistic(pointing_of, effects, regions, names)
    scores, replicates = resampled_interval(statistic, data.groups, seed=0)
    columns = {  # with the range at which intervals are cut
        "effect": (effects[:, :, 0], -math.inf, math.inf),
        "effect_size": (effects[:, :, 1], 0.0, math.inf),
        "density": (pointing[:, :, 0], 0.0, math.inf),
        "share": (pointing[:, :, -1], 0.0, 1.0),
    }
    described: list[dict[str, Any]] = []
    for place, region in enumerate(regions):
        found: dict[str, Any] = {"region": region, "images": int((~np.isnan(effects[:, place, 0])).sum())}
        for name, (table, least, largest) in columns.items():
            mean = mean_interval(table[:, place].tolist(), data.groups).within(least, largest)
            found[name] = [mean.value, mean.low, mean.high]
        described.append(found)
    details: dict[str, Any] = {
        "regions": described,
        "chance": statistic.mean_chance,
        "undefined": statistic.undefined,
        "resolution": list(pointing_of[0].resolution),
        "oracle": _statistic(ideal, effects, regions, names)(np.arange(len(data.groups))),
        "network": network,
    }
    if statistic.undefined:
        left = f"{statistic.undefined} of {len(data.groups)} images are left out"
        details["notes"] = [f"{left}: no two regions have different effects"]
    failed = tuple(compress(data.ids, [one.dead for one in pointing_of]))
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
        if name in names
    }
    return CausalStatistic(density[:, ranked], size[:, ranked], chance, dead, *sides, conventions)


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


def _check_causes(run: Run[CausalCheckOptions]) -> dict[str, Result]:
    """Compare explanation methods by whether they point at the regions on which predictions depend.

    Each image comes with counterfactuals in which one region, a part or the background, was changed. The
    effect of a region is the mean size of `causal_effects` over its counterfactuals. A method points at the
    region as much as `region_density` says, on the original image. The scores are means over images:

    - ``agreement``: rank correlation of effect and density over the regions, `rank_agreement`;
    - ``hit_rate``: whether the region of the largest effect is the one pointed at most, `region_hits`;
    - ``hits_above_chance``: the hit rate less that of the same heatmaps at a place drawn at random,
      `moved_hits`;
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
    [batch, rows, columns], larger is more relevant, `Heatmaps` of another program, or `MaskControl`, beside
    the networks that they explain (`ExplainedImages`). With data by name the models are classifiers: their
    methods are fitted, and compared with controls; `Heatmaps` are taken as explanations of each. Images are
    sRGB-encoded in [0, 1], on the device.

    With ``pixels`` "region" the classifier sees counterfactuals of which only the pixels of the region are
    taken, so that the light that they throw on the rest has no effect. Images are resized in linear light,
    antialiased, and masks by the nearest pixel; a region may lose its pixels.

    Returns:
        A result for each method, higher is better, with 95 % intervals over groups of images. The details
        hold ``chance``, the hit rate at a random place; ``undefined``, the number of images left out;
        ``resolution`` of the heatmaps and ``oracle``, the scores of heatmaps of this resolution that know
        the effects, see `measure_ideal`; ``network``, see
        `candlelight.evaluation.coverage.explained_images.describe_network`; and ``regions``: for each
        region, and all parts together, the number of images with an effect, and means over images with their
        intervals of the effect with its sign, of its size, of density and of share.

    Raises:
        InputError: there are no images or methods, or a method has no classifier.
    """
    results: dict[str, Result] = {}
    run.kept["checked"] = checked = []
    for fitted, own in fitted_runs(run):
        classes = (fitted.source.classes or None) if fitted else None
        controls = {
            **{one: CONTROLS[one] for one in _CONTROLS},
            **{one: MASK_CONTROLS[one] for one in _MASKS},
        }
        methods, networks, labels = explained_networks(fitted, own, run, controls if fitted else {})
        own = replace(own, models=methods)
        results |= _check(own, networks, labels)
        checked.append((own, networks, classes))
    return results


def _check(
    run: Run[CausalCheckOptions], networks: Mapping[str, Any], labels: Sequence[int] | None
) -> dict[str, Result]:
    """Check methods of which each explains a network."""
    users, groups = first_users(networks), run.data.groups
    explained = identify_models({user: networks[user] for user in users.values()}, [], "srgb", None)
    effects_of, pointing_of, ideal = _measure(run, users, explained)
    shown = {region for rows in pointing_of.values() for row in rows for region in row.regions}
    regions = [*sorted(shown - {*_SIDES}), *_SIDES]
    results: dict[str, Result] = {}
    for name, pointing in pointing_of.items():
        user, about = users[name], explainer_provenance(run, name)
        if weights := weights_sha256(explained[user].model):
            about = replace(about, model=about.model | {"classifier_sha256": weights})
        effects = [one.regions for one in effects_of[user]]
        network = describe_network(user, [one.predicted for one in effects_of[user]], labels, groups)
        measured = effects, pointing, ideal[user, pointing[0].resolution]
        results[name] = causal_result(about, run.data, regions, measured, network)
    return results


def _measure(
    run: Run[CausalCheckOptions], users: Mapping[str, str], classifiers: Mapping[str, NamedModel]
) -> tuple[
    dict[str, list[Effects]], dict[str, list[Pointing]], dict[tuple[str, tuple[int, int]], list[Pointing]]
]:
    """Measure the regions of all images.

    Returns:
        Effects by the first method that explains the network, pointing by method, and that of explanations
        which know the effects, by network and resolution; each for all images.
    """
    options = run.options
    effects_of: dict[str, list[Effects]] = {name: [] for name in classifiers}
    pointing: dict[str, list[Pointing]] = {name: [] for name in run.models}
    ideal: dict[tuple[str, tuple[int, int]], list[Pointing]] = {}
    for batch in read_batches(
        run.data, run.batch_size, lambda item: check_srgb_image(item.image), run.fingerprint, "causal check"
    ):
        check_masks(batch.ids, batch.items)
        for item in batch.items:
            check_counterfactuals(item)
        items = on_device(batch.items, run.device)
        shown = [shown_regions(item, options.size) for item in items]
        effects: dict[str, list[RegionNumbers]] = {}
        for name, one in classifiers.items():
            new = [measure_effects(one, *pair, run) for pair in zip(items, shown, strict=True)]
            effects[name] = [its.regions for its in new]
            effects_of[name] += new
        linear = resize_images(decode(torch.stack([item.image for item in items])), options.size)
        resolutions = set()
        for name, one in run.models.items():
            merged = merge_explanation(explain_images(one, batch.ids, linear, shown), options.k)
            pointing[name] += measure_pointing(merged, shown, effects[users[name]], options.proportion)
            resolutions.add((users[name], pointing[name][-1].resolution))
        for user, resolution in resolutions:
            pairs = zip(shown, effects[user], strict=True)
            ideal.setdefault((user, resolution), []).extend(
                measure_ideal(*pair, resolution) for pair in pairs
            )
    return effects_of, pointing, ideal


CAUSAL_CHECK = Evaluation(
    name="causal_check",
    version=2,
    better="higher",
    options=CausalCheckOptions,
    reads=Reading(open=open_counterfactuals, space="srgb", files=HEATMAPS),
    study=_check_causes,
    page="candlelight.evaluation.coverage.causal_check_report:CAUSAL_CHECK_PAGE",
)
