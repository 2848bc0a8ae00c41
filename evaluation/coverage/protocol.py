"""Compare sources of heatmaps, such as hidden layers, by how well they cover objects or annotated parts."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from evaluation.coverage.annotations import AnnotatedImages, Annotation, Batch, By, read_annotated
from evaluation.coverage.heatmaps import (
    Explanations,
    Pooling,
    binarise,
    explanation_heatmap,
    set_threshold,
)
from evaluation.coverage.waiou import WAIoU, part_iou, weigh_iou
from evaluation.hidden import run_recorded
from evaluation.plain import to_plain
from loaders.errors import InputError

HeatmapMethod = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch maps rows columns"]]

PROPORTIONS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1)


@dataclass(frozen=True)
class CoverageScores:
    """How well each method covers each part.

    Attributes:
        methods: names, in the order of the rows of every table.
        parts: names, in the order of the columns.
        proportions: shares of points that were tried.
        average_iou: by method and proportion, mean IoU over all images and the parts that they show.
        curve: by method and proportion, WAIoU over all parts if all methods used that proportion.
        best_proportion: by method, where ``average_iou`` is largest.
        best: the comparison with every method at its best proportion.
        settings: everything else that was chosen.
    """

    methods: tuple[str, ...]
    parts: tuple[str, ...]
    proportions: tuple[float, ...]
    average_iou: Float[Tensor, "methods proportions"]
    curve: Float[Tensor, "methods proportions"]
    best_proportion: dict[str, float]
    best: WAIoU
    settings: dict[str, Any]

    @property
    def score(self) -> Float[Tensor, " methods"]:
        """WAIoU over all parts of each method at its best proportion; higher is better."""
        return self.best.score

    def to_json(self) -> str:
        """Strict JSON of all fields; nan becomes null."""
        result = {"metric": "waiou", "better": "higher", **asdict(self)}
        return json.dumps(to_plain(result), indent=2, allow_nan=False) + "\n"


def layer_heatmaps(model: nn.Module, layer: str) -> HeatmapMethod:
    """Take the channels of a hidden layer as interpretation heatmaps.

    Args:
        model: network that takes images as `score_coverage` gives them.
        layer: name as ``model.named_modules()`` gives it; its output must be [batch, channels, h, w].

    Returns:
        A method for `score_coverage`.

    Example:
        >>> method = layer_heatmaps(nn.Sequential(nn.Conv2d(3, 5, 3, stride=2)), "0")
        >>> method(torch.zeros(2, 3, 9, 9)).shape
        torch.Size([2, 5, 4, 4])
    """

    def heatmaps(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch maps rows columns"]:
        maps = run_recorded(model, [layer], images)[1][layer]
        if maps.ndim != 4:
            raise InputError(f"layer `{layer}` gives no maps: expected 4 axes, got {list(maps.shape)}")
        return maps

    return heatmaps


def score_coverage(
    methods: Mapping[str, HeatmapMethod],
    frames: AnnotatedImages,
    *,
    by: By = "type",
    part_of: Sequence[str] | None = None,
    k: int = 1,
    proportions: Sequence[float] = PROPORTIONS,
    pooling: Pooling = "set",
    threshold_at: Literal["mask", "map"] = "mask",
    strict: bool = False,
    iou_threshold: float = 0.0,
    reduce: Literal["mean", "sum"] = "mean",
    rows: Sequence[int] | None = None,
    size: tuple[int, int] | None = None,
    batch_size: int = 16,
    device: str = "cpu",
) -> CoverageScores:
    """Compare methods by the protocol of Behzadi-Khormouji and Oramas on objects or annotated parts.

    Parts are the object types that the frames show, all objects of a type together, or with ``by="part"`` the
    named parts of all objects, those of one name together; of a public data set, its annotated parts. For
    each method the proportion of marked points with the largest average IoU is chosen on the same images, as
    in the paper (sec. 5.6, Table 2), which flatters every method alike.

    Blind to: whether the model uses what is marked, what `part_iou` and `weigh_iou` are blind to, and
    parts smaller than a pixel of the heatmaps.

    Args:
        methods: by name, images to interpretation heatmaps; `layer_heatmaps` makes one of a layer. They
            are given scene-linear images in [0, 1] on ``device``.
        frames: image set with `image` and `object`, by part also with `part`; or, by part,
            `loaders.public.CUB70` or `loaders.public.CelebAMaskHQ`, in the paper's groups or others.
        by: what is a part, the type of an object or a part of one.
        part_of: names of the parts to use; all that occur if None.
        k: heatmaps that are merged, see `explanation_heatmap`.
        proportions: shares of points to try, see `set_threshold`.
        pooling: see `set_threshold`.
        threshold_at: find thresholds on heatmaps as large as the masks, which marks the share asked for,
            or at their own resolution. The paper does not say.
        strict: see `binarise`.
        iou_threshold: see `weigh_iou`.
        reduce: see `weigh_iou`.
        rows: rows to use; all if None.
        size: height and width that images (linear light, antialiased) and masks (nearest pixel) are brought
            to; needed where images have several. All masks are in memory, a byte for each pixel and part.
        batch_size: images per pass.
        device: torch device of the computation.

    Returns:
        Tables of all methods; higher is better.

    Raises:
        InputError: no frames, methods or parts; a missing layer; images of several sizes; an argument out
            of range.
    """
    chosen = list(range(len(frames)) if rows is None else rows)
    if not methods or not chosen or not proportions:
        raise InputError("expected at least one method, one frame and one proportion")
    explained, annotated = _explain(methods, read_annotated(frames, chosen, by, size, batch_size), k, device)
    parts = _part_names(part_of, annotated, by)
    masks = _part_masks(annotated, parts).to(device)

    def one_iou(one: Explanations, share: float) -> Float[Tensor, "images parts"]:
        return part_iou(_binary(one, share, masks, pooling, threshold_at, strict), masks)

    iou = torch.stack(
        [torch.stack([one_iou(one, share) for share in proportions]) for one in explained.values()]
    )
    average = iou.nanmean((2, 3))
    choice = average.argmax(1)
    best = iou[torch.arange(len(iou)), choice]
    curve = [weigh_iou(iou[:, share], iou_threshold, reduce).score for share in range(len(proportions))]
    return CoverageScores(
        methods=tuple(methods),
        parts=parts,
        proportions=tuple(proportions),
        average_iou=average,
        curve=torch.stack(curve, dim=1),
        best_proportion={name: proportions[int(i)] for name, i in zip(methods, choice, strict=True)},
        best=weigh_iou(best, iou_threshold, reduce),
        settings={
            "by": by,
            "k": k,
            "pooling": pooling,
            "threshold_at": threshold_at,
            "strict": strict,
            "iou_threshold": iou_threshold,
            "reduce": reduce,
            "size": size,
            "frames": len(chosen),
        },
    )


def _explain(
    methods: Mapping[str, HeatmapMethod], batches: Iterable[Batch], k: int, device: str
) -> tuple[dict[str, Explanations], list[Annotation]]:
    """Explanations of each method, and each image's masks by name."""
    found: dict[str, list[Explanations]] = {name: [] for name in methods}
    annotated = []
    for images, masks in batches:
        annotated += masks
        images = images.to(device)
        for name, method in methods.items():
            with torch.no_grad():
                found[name].append(explanation_heatmap(method(images), k))
    explained = {
        name: Explanations(torch.cat([e.heatmap for e in some]), torch.cat([e.members for e in some]))
        for name, some in found.items()
    }
    return explained, annotated


def _part_names(part_of: Sequence[str] | None, annotated: Sequence[Annotation], by: By) -> tuple[str, ...]:
    """Names asked for, all that occur if None."""
    shown = {name for masks in annotated for name in masks}
    parts = tuple(sorted(shown)) if part_of is None else tuple(part_of)
    if not parts or not shown.issuperset(parts):
        what, there = ("object types", "objects") if by == "type" else ("parts", "parts")
        raise InputError(
            f"`part_of` must name {what} that the frames show, got {list(parts)}; "
            f"expected some of: {', '.join(sorted(shown)) or f'none, the frames show no {there}'}"
        )
    return parts


def _part_masks(
    annotated: Sequence[Annotation], parts: Sequence[str]
) -> Bool[Tensor, "images parts height width"]:
    """Masks of each part in each frame, empty where it has none."""
    height, width = next(mask.shape for masks in annotated for mask in masks.values())
    stacked = torch.zeros(len(annotated), len(parts), height, width, dtype=torch.bool)
    for row, masks in enumerate(annotated):
        for column, name in enumerate(parts):
            if name in masks:
                stacked[row, column] = masks[name]
    return stacked


def _binary(
    explained: Explanations,
    proportion: float,
    masks: Tensor,
    pooling: Pooling,
    threshold_at: Literal["mask", "map"],
    strict: bool,
) -> Bool[Tensor, "images height width"]:
    """Binary explanations at the resolution of the masks."""
    resized = explained.resized(*masks.shape[2:])
    thresholds = set_threshold(resized if threshold_at == "mask" else explained, proportion, pooling)
    return binarise(resized.heatmap, thresholds, strict)
