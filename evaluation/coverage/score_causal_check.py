"""Check explanations against rendered interventions: is the marked part the cause?"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.coverage.causal_effects import (
    CAUSAL_SCORES,
    CONVENTIONS,
    CausalStatistic,
    ChangedPixels,
    EffectScale,
    compared_effects,
)
from candlelight.evaluation.coverage.control_explainers import MaskControl
from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.fit_methods import describe_network, first_users
from candlelight.evaluation.coverage.grad_cam import check_logits
from candlelight.evaluation.coverage.measure_regions import (
    ALL_PARTS,
    Effects,
    Pointing,
    RegionNumbers,
    measure_effects,
    measure_ideal,
    measure_pointing,
    merged_heatmaps,
    shown_regions,
)
from candlelight.evaluation.coverage.thresholds import check_masks, check_pooling, resize_images
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import (
    Fingerprint,
    check_srgb_image,
    make_provenance,
    read_batches,
    weights_sha256,
)
from candlelight.evaluation.run.hidden_layers import evaluation_mode
from candlelight.evaluation.run.intervals import distinct_groups, mean_interval, resampled_interval
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.named_models import decode, identify_models
from candlelight.evaluation.run.result import Provenance, StatisticResult
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages, View
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

_TRIED = 16  # number of images on which a network is tried


def order_classes(classifier: NamedModel, values: Sequence[str]) -> tuple[str, ...]:
    """Order the values of a factor as the logits of a classifier.

    Args:
        classifier: a network; a transformers model names its classes in its configuration.
        values: values that are the classes.

    Returns:
        The names in the order of the logits; the values as they are, if the network names no classes.

    Raises:
        InputError: the network names other classes.

    Example:
        >>> from candlelight.evaluation.models import open_model
        >>> order_classes(open_model("mine=torch.nn:Flatten"), ["bird", "fish"])
        ('bird', 'fish')
    """
    known = getattr(getattr(classifier.model, "config", None), "id2label", None) or {}
    names = tuple(str(known[number]) for number in sorted(known))
    # Transformers fills in LABEL_0, LABEL_1, ... where the names are not known.
    if not names or all(name == f"LABEL_{number}" for number, name in enumerate(names)):
        return tuple(values)
    if set(names) != set(values):
        raise InputError(
            f"`{classifier.identity.name}` has the classes {_list(names)}, the images {_list(values)}; "
            "choose another factor (--label), or images of all classes (--fit)"
        )
    return names


def check_classifier(
    classifier: NamedModel,
    images: Float[Tensor, "images 3 height width"],
    classes: Sequence[str],
    device: str = "cpu",
) -> None:
    """Refuse a model that is no classifier of the classes, or whose logits do not depend on the images.

    The model runs once, on a few of the images.

    Args:
        classifier: the model, on ``device``.
        images: sRGB-encoded in [0, 1].
        classes: names of the classes.
        device: torch device.

    Raises:
        InputError: the model takes other images or raised an exception, or its logits are not finite, not one
            for each class, or the same for all images.

    Example:
        >>> from candlelight.evaluation.models import open_model
        >>> flat = open_model("mine=torch.nn:Flatten", default_space="srgb")
        >>> check_classifier(flat, torch.rand(2, 3, 1, 1), ["bird", "fish"])
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `mine` gives 3 logits, but the images have 2 classes: bird, \
fish; give images of all its classes (--fit), or another factor (--label)
    """
    name = classifier.identity.name
    if classifier.colour_space != "srgb":
        raise InputError(
            f"--method: `{name}` takes {classifier.colour_space} images; wrap it in a network of sRGB images"
        )
    some = images[:: max(1, len(images) // _TRIED)][:_TRIED].to(device)
    with evaluation_mode(classifier.model), torch.no_grad(), model_errors(name, some):
        output = classifier.model(some)
    try:
        logits = check_logits(output, len(some))
    except InputError as error:
        raise InputError(f"`{name}`: {error}; give a classifier") from None
    if logits.shape[1] != len(classes):
        raise InputError(
            f"`{name}` gives {logits.shape[1]} logits, but the images have {len(classes)} classes: "
            f"{_list(classes)}; give images of all its classes (--fit), or another factor (--label)"
        )
    if not bool(logits.isfinite().all()):
        raise InputError(f"`{name}` gives logits that are not finite, expected numbers; check its weights")
    if len(some) > 1 and bool((logits == logits[:1]).all()):
        raise InputError(
            f"`{name}` gives the same logits for all images, expected a trained classifier; train it again"
        )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


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
        network: the network, see `candlelight.evaluation.coverage.fit_methods.describe_network`.
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


METRIC, VERSION = "causal_check", 2
HeatmapCallable = Callable[[Float[Tensor, "batch 3 height width"]], Tensor]
ExplainedClassifier = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch classes"]]


class _Measured(NamedTuple):
    """Numbers of each image, and a description of the data.

    Attributes:
        effects: by the first method that explains the network.
        pointing: by method.
        ideal: by the first method that explains the network, and by resolution.
        data: a description of the data.
    """

    effects: dict[str, list[Effects]]
    pointing: dict[str, list[Pointing]]
    ideal: dict[tuple[str, tuple[int, int]], list[Pointing]]
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
    methods: Mapping[str, ExplanationMethod | HeatmapCallable | NamedModel | MaskControl],
    classifier: ExplainedClassifier | Mapping[str, ExplainedClassifier],
    data: View[CounterfactualImages],
    *,
    labels: Sequence[int] | None = None,
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

    Args:
        methods: by name: fitted explanation methods, or callables from images to heatmaps [batch, maps, rows,
            columns] or [batch, rows, columns]; larger is more relevant. Images are sRGB-encoded in [0, 1] and
            on ``device``. A `MaskControl` explains by the masks alone.
        classifier: gives logits [batch, classes] for the same images; a mapping by the name of the method if
            methods explain different classifiers.
        data: images with their counterfactuals, from `open_data("counterfactuals", ...)`.
        labels: class of each image, for the accuracy of the classifiers.
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
        hold ``chance``, the hit rate at a random place; ``undefined``, the number of images left out;
        ``resolution`` of the heatmaps and ``oracle``, the scores of heatmaps of this resolution that know
        the effects, see `candlelight.evaluation.coverage.measure_regions.measure_ideal`; ``network``, see
        `candlelight.evaluation.coverage.fit_methods.describe_network`; and ``regions``: for each
        region, and all parts together, the number of images with an effect, and means over images with their
        intervals of the effect with its sign, of its size, of density and of share.

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
    users, explained = _named_classifiers(classifier, named, data)
    run = _Run(scale, pixels, k, proportion, size, batch_size, device)
    measured = _measure(named, users, explained, data, run)
    settings = {"scale": scale, "pixels": pixels, "k": k, "proportion": proportion, "size": size}
    regions = region_order(list(measured.pointing.values()))
    networks = {
        user: describe_network(user, [one.predicted for one in effects], labels, data.groups)
        for user, effects in measured.effects.items()
    }
    results = {}
    for name, one in named.items():
        user, pointing = users[name], measured.pointing[name]
        about = make_provenance(METRIC, VERSION, "higher", one, measured.data, settings)
        if weights := weights_sha256(explained[user].model):
            about = replace(about, model=about.model | {"classifier_sha256": weights})
        effects = [its.regions for its in measured.effects[user]]
        ideal = measured.ideal[user, pointing[0].resolution]
        results[name] = causal_result(
            about, data, regions, MeasuredMethod(effects, pointing, ideal, networks[user])
        )
    return results


def _measure(
    methods: Mapping[str, NamedModel],
    users: Mapping[str, str],
    classifiers: Mapping[str, NamedModel],
    data: View[CounterfactualImages],
    run: _Run,
) -> _Measured:
    """Measure the regions of all images, for each classifier and each method."""
    fingerprint = Fingerprint()
    found = _Measured({name: [] for name in classifiers}, {name: [] for name in methods}, {}, {})
    for batch in read_batches(
        data, run.batch_size, lambda item: check_srgb_image(item.image), fingerprint, "causal check"
    ):
        check_masks(batch.ids, batch.items)
        shown = [shown_regions(item, run.size) for item in batch.items]
        for name, one in classifiers.items():
            for item, masks in zip(batch.items, shown, strict=True):
                how = run.scale, run.pixels, run.size, run.batch_size, run.device
                found.effects[name].append(measure_effects(one, item, masks, *how))
        linear = resize_images(decode(batch.stack(lambda item: item.image)), run.size)
        resolutions = set()
        for name, one in methods.items():
            effects = [its.regions for its in found.effects[users[name]][-len(shown) :]]
            merged = merged_heatmaps(one, batch.ids, linear, shown, run.k, run.device)
            found.pointing[name] += measure_pointing(merged, shown, effects, run.proportion)
            resolutions.add((users[name], found.pointing[name][-1].resolution))
        for user, resolution in resolutions:
            pairs = zip(shown, found.effects[user][-len(shown) :], strict=True)
            ideal = [measure_ideal(masks, its.regions, resolution) for masks, its in pairs]
            found.ideal.setdefault((user, resolution), []).extend(ideal)
    return found._replace(data=fingerprint.describe(data))


def _named_classifiers(
    classifier: ExplainedClassifier | Mapping[str, ExplainedClassifier],
    methods: Mapping[str, NamedModel],
    data: View[Any],
) -> tuple[dict[str, str], dict[str, NamedModel]]:
    """Identify the classifiers by the first method that explains each, which is told for every method."""
    if isinstance(classifier, Mapping):
        if lacking := methods.keys() - classifier.keys():
            raise InputError(f"`classifier` must name one for each method, got none for `{min(lacking)}`")
        networks = {name: classifier[name] for name in methods}
    else:
        networks = dict.fromkeys(methods, classifier)
    users = first_users(networks)
    return users, identify_models({user: networks[user] for user in users.values()}, [data], "srgb", None)
