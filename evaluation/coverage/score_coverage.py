"""Compare explanation methods, such as hidden layers, by how well they cover objects or annotated parts."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

from evaluation.coverage.binarise_heatmaps import (
    BinariseCompat,
    Explanations,
    Pooling,
    check_axes,
    check_pooling,
    explanation_heatmap,
)
from evaluation.coverage.coverage_statistic import SCORES, CoverageStatistic
from evaluation.coverage.grad_cam import filter_maps
from evaluation.coverage.heatmap_streams import ExplanationStream, MaskStream, stream_iou
from evaluation.coverage.masks import check_masks, part_names, resize_images, resize_mask
from evaluation.inputs.predictions import Heatmaps, MissingResults
from evaluation.models.model_spec import NamedModel
from evaluation.results.mean_intervals import distinct_groups
from evaluation.results.resampled_intervals import resampled_interval
from evaluation.results.result import StatisticResult
from evaluation.running.batches import Fingerprint, check_srgb_image, make_provenance, read_batches
from evaluation.running.finished_steps import FinishedSteps, batch_key, model_key
from evaluation.running.hidden_layers import run_recorded
from evaluation.running.model_outputs import checked_heatmaps
from evaluation.running.named_models import decode, identify_models, run_model
from loaders.check_choice import check_choice
from loaders.errors import InputError
from loaders.views import Parts

METRIC, VERSION = "waiou", 2
PROPORTIONS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1)
HeatmapMethod = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch maps rows columns"]]
Method = HeatmapMethod | NamedModel | Heatmaps


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
        return filter_maps(run_recorded(model, [layer], images)[1][layer], layer)

    vars(heatmaps)["colour_space"] = getattr(model, "colour_space", "srgb")
    vars(heatmaps)["network"] = model
    return heatmaps


def score_coverage(
    methods: Mapping[str, Method],
    data: Parts,
    *,
    part_of: Sequence[str] | None = None,
    k: int = 1,
    proportions: Sequence[float] = PROPORTIONS,
    pooling: Pooling = "set",
    threshold_at: Literal["mask", "map"] = "mask",
    compat: BinariseCompat = "exact",
    iou_threshold: float = 0.0,
    reduce: Literal["mean", "sum"] = "mean",
    size: tuple[int, int] | None = None,
    batch_size: int = 16,
    missing: MissingResults = "error",
    device: str = "cpu",
    steps: FinishedSteps | None = None,
) -> dict[str, StatisticResult]:
    """Compare methods by the protocol of Behzadi-Khormouji and Oramas on objects or annotated parts.

    For each method, the proportion of marked points with the largest average IoU is chosen on the same
    images, as in the paper (sec. 5.6, Table 2); this raises the scores of all methods. A heatmap that is
    missing, not finite or constant is dead: no point is marked, its IoU is 0, and the result lists it as
    failed.

    Blind to: whether the model uses the marked points; everything that `part_iou` and `weigh_iou` are blind
    to; and parts smaller than a pixel of the heatmaps.

    Args:
        methods: by name: a callable from images to interpretation heatmaps (`layer_heatmaps` makes one of a
            layer), or `evaluation.inputs.predictions.Heatmaps` of another program. A callable receives
            sRGB-encoded images in [0, 1] on ``device``, or scene-linear images if its ``colour_space`` is
            "linear".
        data: images with masks, from `loaders.views.open_parts`.
        part_of: names of the parts to score; all parts if None.
        k: number of merged heatmaps, see `explanation_heatmap`.
        proportions: shares of points to try, see `set_threshold`.
        pooling: see `set_threshold`.
        threshold_at: "mask" computes thresholds on heatmaps of the size of the masks, so that exactly the
            chosen share is marked; "map" computes them at the heatmaps' own resolution. The paper does not
            specify it.
        compat: see `binarise`.
        iou_threshold: see `weigh_iou`.
        reduce: see `weigh_iou`.
        size: height and width to which images (linear light, antialiased) and masks (nearest pixel) are
            resized; needed if images have several sizes.
        batch_size: images per pass.
        missing: "error" refuses heatmaps without a file for an id; "fail" counts the id as dead.
        device: torch device of the methods.
        steps: keeps finished batches, so that an interrupted run resumes.

    Returns:
        A result for each method, higher is better; WAIoU has a 95 % interval over groups of images. The
        numbers are comparable among these methods only.

    Raises:
        InputError: there are no images, methods or parts, a layer does not exist, images or heatmaps have
            several sizes, or an argument is out of range.
    """
    _check_options(proportions, pooling, threshold_at, compat)
    if not methods:
        raise InputError("expected at least one method and one proportion, got none")
    named_models = identify_models(methods, [data], "srgb", missing)
    fingerprint = Fingerprint()
    explained, masks = _read(
        named_models, data, k, size, batch_size, device, fingerprint, steps or FinishedSteps()
    )
    parts = part_names(part_of, masks.annotated)
    at = masks.shape if threshold_at == "mask" else None
    thresholds = [stream.thresholds(proportions, pooling, at) for stream in explained]
    iou = stream_iou(explained, thresholds, masks, parts, compat)
    settings: dict[str, Any] = {"k": k, "pooling": pooling, "threshold_at": threshold_at, "compat": compat}
    settings |= {"iou_threshold": iou_threshold, "reduce": reduce, "size": size, "missing": missing}
    settings |= {"compared": list(methods), "parts": list(parts), "proportions": list(proportions)}
    weigh = CoverageStatistic(iou, iou_threshold, reduce, tuple(methods))
    dead = [stream.dead for stream in explained]
    return _results(named_models, data, weigh, dead, fingerprint.describe(data), settings)


def _check_options(
    proportions: Sequence[float],
    pooling: Pooling,
    threshold_at: Literal["mask", "map"],
    compat: BinariseCompat,
) -> None:
    check_choice("threshold_at", threshold_at, ("mask", "map"))
    check_choice("compat", compat, BinariseCompat)
    if not proportions:
        raise InputError("expected at least one method and one proportion, got none")
    for proportion in proportions:
        check_pooling(proportion, pooling)


def _results(
    named_models: Mapping[str, NamedModel],
    data: Parts,
    weigh: CoverageStatistic,
    dead: Sequence[Sequence[bool]],
    described: dict[str, Any],
    settings: dict[str, Any],
) -> dict[str, StatisticResult]:
    """Make the results of all methods, with intervals over groups of images."""
    scores, replicates = resampled_interval(weigh, data.groups, seed=0)
    groups = distinct_groups(data.groups)
    return {
        name: StatisticResult(
            make_provenance(METRIC, VERSION, "higher", named, described, settings),
            {metric: scores[f"{metric} {name}"] for metric in SCORES},
            {metric: replicates[f"{metric} {name}"] for metric in SCORES},
            groups,
            tuple(compress(data.ids, dead[number])),
            weigh.describe(number),
        )
        for number, (name, named) in enumerate(named_models.items())
    }


def _read(
    named_models: Mapping[str, NamedModel],
    data: Parts,
    k: int,
    size: tuple[int, int] | None,
    batch_size: int,
    device: str,
    fingerprint: Fingerprint,
    steps: FinishedSteps,
) -> tuple[list[ExplanationStream], MaskStream]:
    """Compute the explanations of each method for all images, and read the masks of the images."""
    explained, masks = [ExplanationStream(name) for name in named_models], MaskStream()
    run = {"metric": METRIC, "version": VERSION, "k": k, "size": size}
    keys = [model_key(named, device, **run) for named in named_models.values()]
    shape: tuple[int, ...] | None = size
    for batch in read_batches(
        data, batch_size, lambda item: check_srgb_image(item.image), fingerprint, "heatmaps"
    ):
        check_masks(batch)
        linear = resize_images(decode(batch.stack(lambda item: item.image)), size)
        shape = shape or tuple(linear.shape[2:])
        if tuple(linear.shape[2:]) != shape:
            sizes = [shape, tuple(linear.shape[2:])]
            raise InputError(f"images have several sizes, {sizes}; give one `size` to resize them to")
        for item in batch.items:
            masks.append({name: resize_mask(mask, size) for name, mask in item.masks.items()})
        for named, key, stream in zip(named_models.values(), keys, explained, strict=True):
            explain = partial(_fields, named, batch.ids, linear, device, k)
            stream.append(Explanations(**steps.get_or_compute(batch_key(key, batch, fingerprint), explain)))
    return explained, masks


def _fields(named: NamedModel, ids: Sequence[str], linear: Tensor, device: str, k: int) -> dict[str, Tensor]:
    explained, _ = compute_explanations(named, ids, linear, device, k)
    return {"heatmap": explained.heatmap, "members": explained.members}


def compute_explanations(
    named: NamedModel, ids: Sequence[str], linear: Tensor, device: str, k: int
) -> tuple[Explanations, Tensor]:
    """Compute the explanations of scene-linear images, on the CPU, and a flag for each: whether it failed.

    The explanation of a failed heatmap is 0 everywhere.
    """
    if isinstance(named.model, Heatmaps):
        maps, failed = named.model.read_batch(ids)
    else:
        maps, failed = run_model(named, linear, device, checked_heatmaps)
    check_axes(named.identity.name, maps, (linear.shape[2], linear.shape[3]))
    return explanation_heatmap(maps.masked_fill(failed[:, None, None, None], 0), k), failed
