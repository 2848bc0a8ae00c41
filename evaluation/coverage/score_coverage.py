"""Compare explanation methods, such as hidden layers, by how well they cover objects or annotated parts."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import compress
from typing import Any

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray
from scipy.stats import kendalltau
from torch import Tensor, nn

from candlelight.evaluation.coverage.control_explainers import MaskControl, ideal_coverage
from candlelight.evaluation.coverage.coverage_statistic import SCORES, CoverageStatistic
from candlelight.evaluation.coverage.explanations import ExplanationMethod
from candlelight.evaluation.coverage.fit_methods import describe_network, first_users
from candlelight.evaluation.coverage.grad_cam import filter_maps
from candlelight.evaluation.coverage.heatmap_streams import stream_iou
from candlelight.evaluation.coverage.network_dissection import ConceptStream, network_dissection
from candlelight.evaluation.coverage.open_parameters import OpenParameters
from candlelight.evaluation.coverage.read_explanations import ReadExplanations, read_explanations
from candlelight.evaluation.coverage.thresholds import part_names
from candlelight.evaluation.coverage.waiou import weigh_iou
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Fingerprint, make_provenance
from candlelight.evaluation.run.hidden_layers import check_images_first, run_recorded
from candlelight.evaluation.run.intervals import distinct_groups, replicate_interval, resampled_interval
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.predictions import Heatmaps, MissingResults
from candlelight.evaluation.run.result import StatisticResult
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import Parts
from candlelight.loaders.errors import InputError

METRIC, VERSION = "waiou", 3
HeatmapMethod = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch maps rows columns"]]
Method = HeatmapMethod | ExplanationMethod | NamedModel | Heatmaps | MaskControl
_DEFAULTS = OpenParameters()


def layer_heatmaps(model: nn.Module, layer: str) -> HeatmapMethod:
    """Make a method whose interpretation heatmaps are the channels of a hidden layer.

    Args:
        model: network that takes the images of `score_coverage`.
        layer: name as ``model.named_modules()`` gives it; its output must be [batch, channels, h, w], or
            [batch, tokens, channels] of a transformer with square input.

    Returns:
        A method for `score_coverage`; it takes images in the colour space of the network.

    Example:
        >>> import torch
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


def score_coverage(
    methods: Mapping[str, Method],
    data: Parts,
    parameters: OpenParameters = _DEFAULTS,
    *,
    part_of: Sequence[str] | None = None,
    controls: Mapping[str, Method] | None = None,
    labels: Sequence[int] | None = None,
    sensitivity: bool = False,
    dissect: bool = False,
    size: tuple[int, int] | None = None,
    batch_size: int = 16,
    missing: MissingResults = "error",
    device: str = "cpu",
    steps: FinishedSteps | None = None,
) -> dict[str, StatisticResult]:
    """Compare methods by the protocol of Behzadi-Khormouji and Oramas on objects or annotated parts.

    A heatmap that is missing, not finite or constant is dead: no point is marked, its IoU is 0, and the
    result lists it as failed.

    Blind to: whether the model uses the marked points; everything that `part_iou` and `weigh_iou` are blind
    to; and parts smaller than a pixel of the heatmaps.

    Args:
        methods: by name: a fitted `ExplanationMethod`; a callable from images to interpretation heatmaps
            (`layer_heatmaps` makes one of a layer); or `candlelight.evaluation.run.predictions.Heatmaps`
            of another program; a `MaskControl` explains by the masks alone. Fitted methods and callables
            receive sRGB-encoded images in [0, 1] on ``device``; callables whose
            ``colour_space`` is "linear" receive scene-linear images.
        data: images with masks, from `open_data("parts", ...)`.
        parameters: parameters that the paper leaves open.
        part_of: names of the parts to score; all parts if None.
        controls: methods each of which is scored in a comparison of its own, because WAIoU of a method
            depends on the others in its comparison. Those made of masks are compared with each other, too.
        labels: class of each image, for the accuracy of the networks that methods explain.
        sensitivity: also score with each of `OpenParameters.alternatives`.
        dissect: also find the parts that the concepts of each method detect, see `network_dissection`.
        size: height and width to which images (linear light, antialiased) and masks (nearest pixel) are
            resized; needed if images have several sizes.
        batch_size: images per pass.
        missing: "error" refuses heatmaps without a file for an id; "fail" counts the id as dead.
        device: torch device of the methods.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each method with the scores ``waiou`` and ``mean_iou``, higher is better, and their 95 %
        intervals over groups of images. WAIoU is comparable among these methods only. Details of the first
        result hold the controls and the alternatives.

    Raises:
        InputError: there are no images, methods or parts, a layer does not exist, images or heatmaps have
            several sizes, a control has the name of a method, or an argument is out of range.
    """
    controls = controls or {}
    if twice := sorted(set(methods) & set(controls)):
        raise InputError(f"a method and a control have the name `{twice[0]}`; rename one")
    if not methods:
        raise InputError("expected at least one method, got none")
    named_models = identify_models({**methods, **controls}, [data], "srgb", missing)
    others = parameters.alternatives() if sensitivity else {}
    merges = list(dict.fromkeys((one.k, one.rank) for one in (parameters, *others.values())))
    fingerprint = Fingerprint()
    read = read_explanations(
        named_models,
        data,
        merges,
        dissect=dissect,
        size=size,
        batch_size=batch_size,
        device=device,
        fingerprint=fingerprint,
        steps=steps or FinishedSteps(),
        run={"metric": METRIC, "version": VERSION},
    )
    parts = part_names(part_of, read.masks.annotated)
    names = list(methods)
    weigh = _statistic(read, names, parts, parameters, data.groups)
    scores, replicates = resampled_interval(weigh, data.groups, seed=0)
    settings: dict[str, Any] = asdict(parameters) | {"size": size, "missing": missing}
    settings |= {"compared": names, "parts": list(parts)}
    details = [weigh.describe(number, data.ids) for number in range(len(names))]
    if labels is not None:
        _add_accuracy(details, read, named_models, labels, data.groups)
    if sensitivity:
        _add_alternatives(details, read, names, parts, parameters, data.groups, weigh)
    if controls:
        details[0]["controls"] = _controls(read, names, list(controls), parts, parameters, data.groups)
        masked = [name for name in controls if isinstance(named_models[name].model, MaskControl)]
        if len(masked) > 1:
            together = _statistic(read, masked, parts, parameters, data.groups)
            details[0]["mask_controls"] = {name: _scores(together, name)["waiou"] for name in masked}
    if read.concepts is not None:
        for name, one in zip(names, details, strict=True):
            one["dissection"] = _dissection(read.concepts[name], read, parts)
    merge = parameters.k, parameters.rank
    return {
        name: StatisticResult(
            make_provenance(
                METRIC, VERSION, "higher", named_models[name], fingerprint.describe(data), settings
            ),
            {metric: scores[f"{metric} {name}"] for metric in SCORES},
            {metric: replicates[f"{metric} {name}"] for metric in SCORES},
            distinct_groups(data.groups),
            tuple(compress(data.ids, read.stream(name, merge).dead)),
            details[number],
        )
        for number, name in enumerate(names)
    }


def _statistic(
    read: ReadExplanations,
    names: Sequence[str],
    parts: Sequence[str],
    parameters: OpenParameters,
    groups: Sequence[str],
) -> CoverageStatistic:
    """Binarise the heatmaps of methods that are compared, and compute their IoUs with the parts."""
    streams = [read.stream(name, (parameters.k, parameters.rank)) for name in names]
    at = read.masks.shape if parameters.threshold_at == "mask" else None
    thresholds = [stream.thresholds(parameters.proportions, parameters.pooling, at) for stream in streams]
    iou: Float64[ndarray, "methods proportions images parts"] = stream_iou(
        streams, thresholds, read.masks, parts, parameters.compat
    )
    return CoverageStatistic(iou, parameters, names, groups)


def _scores(weigh: CoverageStatistic, name: str) -> dict[str, float]:
    found = weigh(np.arange(weigh.iou.shape[2]))
    return {metric: found[f"{metric} {name}"] for metric in SCORES}


def _controls(
    read: ReadExplanations,
    names: Sequence[str],
    controls: Sequence[str],
    parts: Sequence[str],
    parameters: OpenParameters,
    groups: Sequence[str],
) -> dict[str, dict[str, float]]:
    """Score each control alone, and the masks of the parts at the resolution of the first method."""
    found = {name: _scores(_statistic(read, [name], parts, parameters, groups), name) for name in controls}
    ideal = ideal_coverage(
        read.masks,
        parts,
        read.stream(names[0], read.merges[0]).shape,
        parameters.proportions,
        pooling=parameters.pooling,
        threshold_at=parameters.threshold_at,
        compat=parameters.compat,
        groups=groups if parameters.choose == "others" else None,
    )
    alone = weigh_iou(ideal.iou[None], parameters.iou_threshold, parameters.reduce)
    found["ideal"] = {"waiou": float(alone.score), "mean_iou": float(ideal.iou.nanmean())}
    return found


def _dissection(stream: ConceptStream, read: ReadExplanations, parts: Sequence[str]) -> dict[str, Any]:
    found = network_dissection(stream, read.masks, parts)
    counts = found.labels[found.labels >= 0].bincount(minlength=len(parts)).tolist()
    detectors = {part: count for part, count in zip(parts, counts, strict=True) if count}
    return {
        "concepts": int((found.images > 0).sum()),
        "labelled": found.detectors,
        "detectors": detectors,
    }


def _add_accuracy(
    details: list[dict[str, Any]],
    read: ReadExplanations,
    named_models: Mapping[str, NamedModel],
    labels: Sequence[int],
    groups: Sequence[str],
) -> None:
    """Add the accuracy of the network that each method explains, if the method predicts classes."""
    # Prototypes have a network of their own; the other methods explain one classifier.
    own = {name: getattr(one.model, "classifier", None) for name, one in named_models.items()}
    users = first_users(own)
    for name, found in zip(own, details, strict=False):  # the controls come last
        predicted = read.predicted[name]
        if max(predicted) >= 0:
            found["network"] = describe_network(users[name], predicted, labels, groups)
            found["accuracy"] = {"explained": found["network"]["accuracy"][0]}


def _add_alternatives(
    details: list[dict[str, Any]],
    read: ReadExplanations,
    names: Sequence[str],
    parts: Sequence[str],
    parameters: OpenParameters,
    groups: Sequence[str],
    weigh: CoverageStatistic,
) -> None:
    """Add WAIoU and the order of methods for other values of the open parameters, and both scenarios."""
    here = [_scores(weigh, name)["waiou"] for name in names]
    details[0]["sensitivity"] = []
    for setting, other in parameters.alternatives().items():
        found = _statistic(read, names, parts, other, groups)
        details[0]["sensitivity"].append({"setting": setting, **_order(found, names, groups, here)})
        if other.pooling != parameters.pooling:
            for one, average in zip(details, found.average_iou().tolist(), strict=True):
                one["by_pooling"] = {parameters.pooling: one["average_iou"], other.pooling: average}


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
