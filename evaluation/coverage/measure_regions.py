"""Measure each region of an image: its effect on a prediction, and how much a heatmap points at it."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import CausalCheckOptions, ChangedPixels
from candlelight.evaluation.coverage.causal_effects import (
    CONVENTIONS,
    causal_effects,
    ideal_heatmap,
    region_hits,
    region_share,
    stated_effects,
)
from candlelight.evaluation.coverage.control_explainers import area_averages
from candlelight.evaluation.coverage.explain_images import explain_images
from candlelight.evaluation.coverage.explanations import merge_explanation
from candlelight.evaluation.coverage.grad_cam import check_logits
from candlelight.evaluation.coverage.thresholds import (
    Explanations,
    binarise,
    is_dead,
    resize_heatmap,
    resize_mask,
    set_threshold,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.named_models import run_model
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages
from candlelight.evaluation.views.image_tensors import check_srgb_image, decode, resize_images
from candlelight.loaders.errors import InputError

ALL_PARTS = "all parts"  # region of the object as a whole
_PLACES = 8  # of each axis, to which heatmaps are moved
RegionMasks = Mapping[str, Bool[Tensor, "height width"]]
RegionNumbers = dict[str, tuple[float, ...]]  # numbers of each region that an image shows


def shown_regions(item: CounterfactualImages, size: tuple[int, int] | None) -> RegionMasks:
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
    item: CounterfactualImages, masks: RegionMasks, pixels: ChangedPixels
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
    return torch.cat([run_model(classifier, some, _logits)[0] for some in torch.split(linear, batch_size)])


class Effects(NamedTuple):
    """What the prediction for one image depends on.

    Attributes:
        regions: for each shown region with counterfactuals, the mean of `causal_effects` over them, with and
            without signs; nan if a logit is not finite.
        predicted: the predicted class; -1 if its logits are not finite.
    """

    regions: RegionNumbers
    predicted: int


def measure_effects(
    classifier: NamedModel,
    item: CounterfactualImages,
    masks: RegionMasks,
    options: CausalCheckOptions,
    batch_size: int,
) -> Effects:
    """Measure the effects of the shown regions of one image on the prediction of a classifier.

    Args:
        classifier: gives logits.
        item: the image with its counterfactuals, on the device of the classifier.
        masks: the shown regions, from `shown_regions`.
        options: scale of the effects, see `causal_effects`; pixels and size of the counterfactuals.
        batch_size: images per pass.

    Raises:
        InputError: the classifier gives no logits.
    """
    changed = changed_images(item, masks, options.pixels)
    logits = classify_changes(classifier, item, changed, options.size, batch_size)
    effects = causal_effects(logits[:1], logits[None, 1:], options.scale)[0]
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


def merged_heatmaps(
    method: NamedModel,
    ids: Sequence[str],
    linear: Float[Tensor, "images 3 height width"],
    masks: Sequence[RegionMasks],
    k: int,
) -> Explanations:
    """Explain images, and merge the k strongest maps of each at their own resolution.

    Args:
        method: gives heatmaps.
        ids: names of the images.
        linear: the images, on the device of the method.
        masks: the shown regions of each image, from `shown_regions`.
        k: see `merge_explanation`.

    Raises:
        InputError: the method gives no heatmaps.
    """
    return merge_explanation(explain_images(method, ids, linear, masks), k)


def measure_pointing(
    merged: Explanations, masks: Sequence[RegionMasks], effects: Sequence[RegionNumbers], proportion: float
) -> list[Pointing]:
    """Measure how much heatmaps point at the shown regions of images.

    Args:
        merged: heatmaps of the images, from `merged_heatmaps`.
        masks: the shown regions of each image, from `shown_regions`.
        effects: the effects of the regions of each image, from `measure_effects`.
        proportion: share of the points that are marked.
    """
    explained = merged.resized(*next(iter(masks[0].values())).shape)
    marked, dead = _mark(explained, proportion), is_dead(explained.heatmap).tolist()
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


def measure_ideal(masks: RegionMasks, effects: RegionNumbers, resolution: tuple[int, int]) -> Pointing:
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


def moved_hits(heatmap: Float[Tensor, "rows columns"], masks: RegionMasks, effects: RegionNumbers) -> float:
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


def _all_parts(masks: RegionMasks) -> RegionMasks:
    """Unite the shown parts; nothing if there are none."""
    parts = [mask for region, mask in masks.items() if region != BACKGROUND_REGION]
    return {ALL_PARTS: torch.stack(parts).any(0)} if parts else {}


def _mark(explained: Explanations, proportion: float) -> Bool[Tensor, "images height width"]:
    return binarise(explained.heatmap, set_threshold(explained, proportion, "image"))


def _logits(output: object, images: int, name: str) -> tuple[Tensor]:
    del name
    return (check_logits(output, images).float(),)
