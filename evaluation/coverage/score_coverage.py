"""Compare explanation methods, such as hidden layers, by how well they cover objects or annotated parts."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import compress
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import kendalltau
from torch import Tensor, nn

from candlelight.evaluation.catalogue.coverage_options import HEATMAPS, CoverageOptions, Rank
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.coverage.control_explainers import CONTROLS, MASK_CONTROLS, ideal_coverage
from candlelight.evaluation.coverage.explained_images import (
    ExplainedImages,
    FittedClassifier,
    describe_network,
    explainer_provenance,
    first_users,
    fitted_runs,
    open_parts,
    read_training_images,
)
from candlelight.evaluation.coverage.explanations import (
    Explanation,
    PartMasks,
    explain_images,
    merge_explanation,
)
from candlelight.evaluation.coverage.filter_methods import filter_maps
from candlelight.evaluation.coverage.heatmap_streams import ExplanationStream, MaskStream, stream_iou
from candlelight.evaluation.coverage.network_dissection import ConceptStream, network_dissection
from candlelight.evaluation.coverage.thresholds import Explanations, check_masks, part_names, resize_mask
from candlelight.evaluation.coverage.topic_completeness import classifier_accuracy, completeness
from candlelight.evaluation.coverage.waiou import SCORES, CoverageStatistic, weigh_iou
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Batch
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.hidden_layers import check_images_first, evaluation_mode, run_recorded
from candlelight.evaluation.run.intervals import distinct_groups, replicate_interval, resampled_interval
from candlelight.evaluation.run.model_outputs import model_errors
from candlelight.evaluation.run.named_models import models_of_layers
from candlelight.evaluation.run.predictions import Heatmaps
from candlelight.evaluation.run.result import Result, StatisticResult
from candlelight.evaluation.run.steps import Step, model_key, run_batches
from candlelight.evaluation.views import PartImage
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode, resize_images
from candlelight.loaders.errors import InputError, argument

METRIC, VERSION = "waiou", 3
HeatmapMethod = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch maps rows columns"]]
Merge = tuple[int, Rank]  # k and rank of `merge_explanation`


def layer_heatmaps(model: nn.Module, layer: str) -> HeatmapMethod:
    """Make a method whose interpretation heatmaps are the channels of a hidden layer.

    Args:
        model: network that takes the images of `evaluate`.
        layer: name as ``model.named_modules()`` gives it; its output must be [batch, channels, h, w], or
            [batch, tokens, channels] of a transformer with square input.

    Returns:
        A model for ``evaluate("coverage", ...)``; it takes images in the colour space of the network.

    Example:
        >>> method = layer_heatmaps(nn.Sequential(nn.Conv2d(3, 5, 3, stride=2)), "0")
        >>> method(torch.zeros(2, 3, 9, 9)).shape
        torch.Size([2, 5, 4, 4])
    """

    def heatmaps(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch maps rows columns"]:
        values = run_recorded(model, [layer], images)[1][layer]
        check_images_first(model, layer, values, images)
        return filter_maps(values, layer)

    vars(heatmaps)["colour_space"] = getattr(model, "colour_space", "srgb")
    vars(heatmaps)["network"] = model
    vars(heatmaps)["hidden_layer"] = layer
    return heatmaps


def _compare_coverage(run: Run[CoverageOptions]) -> dict[str, Result]:
    """Compare methods by the protocol of Behzadi-Khormouji and Oramas on objects or annotated parts.

    A heatmap that is missing, not finite or constant is dead: no point is marked, its IoU is 0, and the
    result lists it as failed.

    Blind to: whether the model uses the marked points; everything that `part_iou` and `weigh_iou` are blind
    to; and parts smaller than a pixel of the heatmaps.

    The models are explanation methods: a fitted `ExplanationMethod`; a callable from images to interpretation
    heatmaps; `candlelight.evaluation.run.predictions.Heatmaps` of another program; a `MaskControl`, which
    explains by the masks alone; or networks, of which hidden layers (`layer_heatmaps`) or fitted methods are
    compared. Images are sRGB-encoded in [0, 1], on the device; callables whose ``colour_space`` is "linear"
    receive scene-linear images. They are resized in linear light, antialiased; masks by the nearest pixel.

    WAIoU of a method depends on the others in its comparison, so each control is scored in a comparison of
    its own. Those made of masks are compared with each other, too. Each classifier has a comparison of its
    own, on the same images.

    Returns:
        A result for each method with the scores ``waiou`` and ``mean_iou``, higher is better, and their 95 %
        intervals over groups of images. WAIoU is comparable among the methods of a comparison only. Details
        of its first result hold the controls and the scores with other values of the options.

    Raises:
        InputError: there are no images, methods or parts, a layer does not exist, images or heatmaps have
            several sizes, or a control has the name of a method.
    """
    data: ExplainedImages = run.data
    files = {name: one for name, one in run.models.items() if isinstance(one.model, Heatmaps)}
    networks = {name: one for name, one in run.models.items() if name not in files}
    layers = run.options.layer
    others = models_of_layers(networks, layers, layer_heatmaps) if layers or not data.sources else {}
    compared: list[tuple[Run[CoverageOptions], dict[str, Result], FittedClassifier | None]] = []
    results: dict[str, Result] = {}
    for fitted, one in fitted_runs(run):
        methods = {**(fitted.methods if fitted else {}), **others}
        if twice := sorted(methods.keys() & files.keys()):
            place = files[twice[0]].model.folder
            raise InputError(
                f"two models or files have the name `{twice[0]}`; give another name: NAME={place}"
            )
        own = replace(one, models={**methods, **files})
        found = _compare(own, data, fitted)
        compared.append((own, found, fitted))
        for name, result in found.items():
            # Layers and files take part in the comparison of each classifier.
            results[name if name not in results else f"{name}, {len(compared)}"] = result
    run.kept["compared"] = compared
    return results


def _compare(
    run: Run[CoverageOptions], data: ExplainedImages, fitted: FittedClassifier | None
) -> dict[str, Result]:
    """Compare methods on the same images."""
    options, view, names = run.options, run.data, list(run.models)
    masked = {name: MASK_CONTROLS[name] for name in ("object", "exact parts")}
    controls: dict[str, Any] = {} if options.quick else {**CONTROLS, **masked}
    if twice := sorted(controls.keys() & run.models.keys()):
        raise InputError(f"a method and a control have the name `{twice[0]}`; rename one")
    run = replace(run, evaluation=replace(run.evaluation, controls=controls))
    read = read_explanations(run)
    weigh = read.statistic(names, options)
    scores, replicates = resampled_interval(weigh, view.groups, seed=0)
    details = {name: weigh.describe(number, view.ids) for number, name in enumerate(names)}
    labels = fitted.source.numbers(data.factors) if fitted and data.factors else data.labels
    if labels is not None:
        _add_networks(details, read, run.models, labels)
    first = details[names[0]]
    if not options.quick:
        _add_alternatives(details, read, options, weigh)
        first["controls"] = _controls(read, names[0], list(controls), options)
        together = read.statistic(list(masked), options)
        first["mask_controls"] = {name: together.scores_of(name)["waiou"] for name in masked}
        for name, one in details.items():
            one["dissection"] = _dissection(read.concepts[name], read)
    if data.left_out:
        first["notes"] = [
            f"{len(view)} of {len(view) + data.left_out} images of DATA are scored: a classifier or a method "
            "has learned from the others"
        ]
    for name in fitted.methods if fitted else ():
        if fitted and hasattr(run.models[name].model, "topics"):
            details[name] |= _completeness(run, run.models[name], data, fitted, labels or ())
    return {
        name: StatisticResult(
            explainer_provenance(run, name, compared=names, parts=list(read.parts)),
            {metric: scores[f"{metric} {name}"] for metric in SCORES},
            {metric: replicates[f"{metric} {name}"] for metric in SCORES},
            distinct_groups(view.groups),
            tuple(compress(view.ids, read.stream(name, options).dead)),
            one,
        )
        for name, one in details.items()
    }


@dataclass
class ReadExplanations:
    """Explanation heatmaps of several methods and masks of the same images, on the device.

    Attributes:
        options: the options; their ``part`` names the scored parts.
        groups: group of each image.
        merges: how the maps of each image were merged.
        streams: heatmaps by method and merge; see `stream`.
        predicted: class of each image, by method; -1 where it is not known.
        masks: masks of the parts.
        concepts: maps of all concepts, by method; empty if they are not kept.
    """

    options: CoverageOptions
    groups: Sequence[str]
    merges: Sequence[Merge]
    streams: dict[tuple[str, Merge], ExplanationStream] = field(default_factory=dict)
    predicted: dict[str, list[int]] = field(default_factory=dict)
    masks: MaskStream = field(default_factory=MaskStream)
    concepts: dict[str, ConceptStream] = field(default_factory=dict)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Names of the scored parts."""
        return part_names(self.options.part or None, self.masks.annotated)

    def stream(self, name: str, options: CoverageOptions) -> ExplanationStream:
        """Look up the heatmaps of a method; a method with one map has the same ones for all merges."""
        merge = options.k, options.rank
        return self.streams.get((name, merge)) or self.streams[name, self.merges[0]]

    def statistic(self, names: Sequence[str], options: CoverageOptions) -> CoverageStatistic:
        """Binarise the heatmaps of methods that are compared, and compute their IoUs with the parts."""
        parts, streams = self.parts, [self.stream(name, options) for name in names]
        at = self.masks.shape if options.threshold_at == "mask" else None
        thresholds = [stream.thresholds(options.proportions, options.pooling, at) for stream in streams]
        iou = stream_iou(streams, thresholds, self.masks, parts, options.compat)
        return CoverageStatistic(iou, options, names, self.groups)

    def append(self, name: str, step: Mapping[str, Tensor]) -> None:
        """Append a step of `read_explanations`."""
        self.predicted.setdefault(name, []).extend(step["predicted"].tolist())
        for merge in self.merges:
            key = _field(merge)
            if f"heatmap {key}" in step:
                stream = self.streams.setdefault((name, merge), ExplanationStream(name))
                stream.append(Explanations(step[f"heatmap {key}"], step[f"members {key}"]))
        if "maps" in step:
            numbers = step["concepts"]
            kept = Explanation(step["maps"], numbers, numbers.float(), step["predicted"])
            self.concepts.setdefault(name, ConceptStream(name)).append(kept)


def read_explanations(run: Run[CoverageOptions]) -> ReadExplanations:
    """Explain the images of a run by each method, and read their masks.

    Maps are merged as the options say, first, and as their `CoverageOptions.alternatives`. Without ``quick``
    the maps of all concepts are kept, too.

    Raises:
        InputError: images or heatmaps have several sizes, a mask does not fit its image, or a method fails.
    """
    options = run.options
    others = () if options.quick else options.alternatives().values()
    merges = list(dict.fromkeys((one.k, one.rank) for one in (options, *others)))
    about = {"metric": METRIC, "version": VERSION, "merges": merges, "size": options.size}
    batches = run_batches(
        run.scored,
        run.data,
        partial(_prepare, run),
        partial(_explain, merges, not options.quick),
        fingerprint=run.fingerprint,
        settings={**about, "dissect": not options.quick},
        device=run.device,
        batch_size=run.batch_size,
        steps=run.steps,
        place=run.device,
    )
    read, shape = ReadExplanations(options, run.data.groups, merges), options.size
    for (linear, masks), made in batches:
        found = (linear.shape[2], linear.shape[3])
        shape = shape or found
        if found != shape:
            raise InputError(
                f"images have several sizes, {[shape, found]}; give one {argument('size')} to resize them to"
            )
        for one in masks:
            read.masks.append(one)
        for name, step in made.items():
            read.append(name, step)
    return read


_Prepared = tuple[Tensor, list[PartMasks]]


def _prepare(run: Run[CoverageOptions], batch: Batch[PartImage]) -> _Prepared:
    """Check images and masks, and resize them on the device, to scene-linear values."""
    check_masks(batch.ids, batch.items)
    for item in batch.items:
        check_srgb_image(item.image)
    linear, size = decode(batch.stack(lambda item: item.image).to(run.device)), run.options.size
    masks: list[PartMasks] = [
        {name: resize_mask(mask.to(run.device), size) for name, mask in item.masks.items()}
        for item in batch.items
    ]
    return resize_images(linear, size), masks


def _explain(
    merges: Sequence[Merge], dissect: bool, named: NamedModel, ids: Sequence[str], prepared: _Prepared, _: str
) -> Step:
    """Explain a batch, and merge its maps; with ``dissect`` keep the maps of all concepts."""
    explanation = explain_images(named, ids, *prepared)
    step = {"predicted": explanation.predicted}
    if dissect:
        step |= {"maps": explanation.maps, "concepts": explanation.concepts}
    for merge in merges if explanation.maps.shape[1] > 1 else merges[:1]:
        merged = merge_explanation(explanation, *merge)
        step |= {f"heatmap {_field(merge)}": merged.heatmap, f"members {_field(merge)}": merged.members}
    return step


def _field(merge: Merge) -> str:
    return f"{merge[0]} {merge[1]}"


def _controls(
    read: ReadExplanations, first: str, controls: Sequence[str], options: CoverageOptions
) -> dict[str, dict[str, float]]:
    """Score each control alone, and the masks of the parts at the resolution of the first method."""
    found = {name: read.statistic([name], options).scores_of(name) for name in controls}
    ideal = ideal_coverage(read.masks, read.parts, read.stream(first, options).shape, options, read.groups)
    alone = weigh_iou(ideal.iou[None], options.iou_threshold, options.reduce)
    found["ideal"] = {"waiou": float(alone.score), "mean_iou": float(ideal.iou.nanmean())}
    return found


def _dissection(stream: ConceptStream, read: ReadExplanations) -> dict[str, Any]:
    found = network_dissection(stream, read.masks, read.parts)
    counts = Counter(read.parts[label] for label in found.labels.tolist() if label >= 0)
    return {
        "concepts": int((found.images > 0).sum()),
        "labelled": found.detectors,
        "detectors": {part: counts[part] for part in read.parts if counts[part]},
    }


def _completeness(
    run: Run[CoverageOptions],
    method: NamedModel,
    data: ExplainedImages,
    fitted: FittedClassifier,
    labels: Sequence[int],
) -> dict[str, Any]:
    """Measure completeness of topics on the scored images, the accuracy behind them and without them."""
    assert data.factors is not None
    trained = fitted.training
    assert trained is not None  # topics have learned
    test = read_training_images(data.factors, range(len(data.factors)), labels, run.options.size)

    def measure() -> dict[str, Tensor]:
        topics = method.model
        with evaluation_mode(topics.head), model_errors(method.identity.name, test.images):
            train, tested = (topics.layer(some.images, some.labels) for some in (trained, test))
            found = completeness(topics.state()["topics"], topics.head, train, tested, topics.how)
            chance = 1 / topics.head(tested.activations[:1]).shape[1]
            whole = classifier_accuracy(topics.head, tested)
            behind = chance + found * (whole - chance)
        return {"measured": torch.tensor([found, behind, whole], dtype=torch.float64)}

    key = model_key(method, run.device, tested=test.sha256)
    measured = run.steps.get_or_compute(key, measure)["measured"].tolist()
    # Completeness is not defined for a classifier that is not better than chance.
    found, behind, whole = (None if math.isnan(value) else value for value in measured)
    return {"completeness": found, "accuracy": {"classifier": whole, "explained": behind}}


def _add_networks(
    details: Mapping[str, dict[str, Any]],
    read: ReadExplanations,
    methods: Mapping[str, NamedModel],
    labels: Sequence[int],
) -> None:
    """Add the accuracy of the network that each method explains, if the method predicts classes."""
    # Prototypes have a network of their own; the other methods explain one classifier.
    users = first_users({name: getattr(one.model, "classifier", None) for name, one in methods.items()})
    for name, found in details.items():
        predicted = read.predicted[name]
        if max(predicted) >= 0:
            found["network"] = describe_network(users[name], predicted, labels, read.groups)
            found["accuracy"] = {"explained": found["network"]["accuracy"][0]}


def _add_alternatives(
    details: Mapping[str, dict[str, Any]],
    read: ReadExplanations,
    options: CoverageOptions,
    weigh: CoverageStatistic,
) -> None:
    """Add WAIoU and the order of methods for other values of the options, and both scenarios."""
    names, here = list(details), [weigh.scores_of(name)["waiou"] for name in details]
    changes = details[names[0]]["sensitivity"] = []
    for setting, other in options.alternatives().items():
        found = read.statistic(names, other)
        changes.append({"setting": setting, **_order(found, names, read.groups, here)})
        if other.pooling != options.pooling:
            for one, average in zip(details.values(), found.average_iou()[:, :, 0].tolist(), strict=True):
                one["by_pooling"] = {options.pooling: one["average_iou"], other.pooling: average}


def _order(
    weigh: CoverageStatistic, names: Sequence[str], groups: Sequence[str], here: Sequence[float]
) -> dict[str, Any]:
    """Order methods by WAIoU, tell which neighbours differ, and compare the order with other scores."""
    scores, replicates = resampled_interval(weigh, groups, seed=0)
    values = [scores[f"waiou {name}"].value for name in names]
    order = [names[place] for place in np.argsort([-value for value in values], kind="stable")]
    differs = []
    for better, worse in itertools.pairwise(order):
        gain = np.subtract(replicates[f"waiou {better}"], replicates[f"waiou {worse}"])
        # The value is not used: an interval above 0 tells whether the neighbours differ.
        differs.append(replicate_interval(0.0, gain.tolist(), len(distinct_groups(groups))).low > 0)
    return {
        "scores": dict(zip(names, values, strict=True)),
        "order": order,
        "differs": differs,
        "agreement": float(kendalltau(here, values).statistic) if len(names) > 1 else None,
    }


COVERAGE = Evaluation(
    name=METRIC,
    version=VERSION,
    better="higher",
    options=CoverageOptions,
    reads=Reading(open=open_parts, space="srgb", files=HEATMAPS),
    study=_compare_coverage,
    page="candlelight.evaluation.coverage.coverage_report:COVERAGE_PAGE",
)
