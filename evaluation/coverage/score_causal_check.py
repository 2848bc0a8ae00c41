"""Compare explanation methods by whether they point at the regions on which predictions depend."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.coverage.binarise_heatmaps import check_pooling
from candlelight.evaluation.coverage.causal_effects import ChangedPixels, EffectScale
from candlelight.evaluation.coverage.causal_results import MeasuredMethod, causal_result, region_order
from candlelight.evaluation.coverage.explained_networks import describe_network, first_users
from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.mask_controls import MaskControl
from candlelight.evaluation.coverage.masks import check_masks, resize_images
from candlelight.evaluation.coverage.measure_regions import (
    Effects,
    Pointing,
    measure_effects,
    measure_ideal,
    measure_pointing,
    merged_heatmaps,
    shown_regions,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.result import StatisticResult
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
from candlelight.loaders.views import CounterfactualImages, View

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
    the `candlelight.evaluation.coverage.effect_conventions.CONVENTIONS`, and have scores of their own:

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
        data: images with their counterfactuals, from `candlelight.loaders.views.open_counterfactuals`.
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
        ``resolution`` of the heatmaps and ``ceiling``, the scores of heatmaps of this resolution that know
        the effects, see `candlelight.evaluation.coverage.measure_regions.measure_ideal`; ``network``, see
        `candlelight.evaluation.coverage.explained_networks.describe_network`; and ``regions``: for each
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
