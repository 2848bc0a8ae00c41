"""Measure each region of an image: its effect on a prediction, and how much a heatmap points at it."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.coverage.binarise_heatmaps import (
    Explanations,
    binarise,
    is_dead,
    set_threshold,
)
from candlelight.evaluation.coverage.causal_effects import (
    ChangedPixels,
    EffectScale,
    causal_effects,
    region_density,
    region_share,
)
from candlelight.evaluation.coverage.explanations import merge_explanation
from candlelight.evaluation.coverage.grad_cam import check_logits
from candlelight.evaluation.coverage.masks import resize_images, resize_mask
from candlelight.evaluation.coverage.read_explanations import explain_images
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.running.batches import check_srgb_image
from candlelight.evaluation.running.named_models import decode, run_model
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import BACKGROUND_REGION, CounterfactualImages

ALL_PARTS = "all parts"  # region of the object as a whole
RegionMasks = Mapping[str, Bool[Tensor, "height width"]]
RegionNumbers = dict[str, tuple[float, float]]  # two numbers for each region that an image shows


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


def changed_images(
    item: CounterfactualImages, masks: RegionMasks, pixels: ChangedPixels
) -> dict[str, Float[Tensor, "_ 3 _ _"]]:
    """Return the counterfactuals of the shown regions; see `measure_effects` for arguments and errors."""
    changed = {region: images for region, images in item.changed.items() if region in masks}
    for region, images in changed.items():
        if images.shape[1:] != item.image.shape:
            sizes = f"{list(item.image.shape)}, got {list(images.shape[1:])}"
            raise InputError(f"counterfactuals of `{region}`: expected images of {sizes}")
        for image in images:
            check_srgb_image(image)
    if pixels == "region":
        changed = {region: images.where(item.masks[region], item.image) for region, images in changed.items()}
    return changed


def classify_changes(
    classifier: NamedModel,
    item: CounterfactualImages,
    changed: Mapping[str, Float[Tensor, "_ 3 _ _"]],
    size: tuple[int, int] | None,
    batch_size: int,
    device: str,
) -> Float[Tensor, "images classes"]:
    """Compute the logits of an image, then of its counterfactuals in their order, on the CPU."""
    linear = resize_images(decode(torch.cat([item.image[None], *changed.values()])), size)
    return torch.cat(
        [run_model(classifier, some, device, _logits)[0] for some in torch.split(linear, batch_size)]
    )


def measure_effects(
    classifier: NamedModel,
    item: CounterfactualImages,
    masks: RegionMasks,
    scale: EffectScale,
    pixels: ChangedPixels,
    size: tuple[int, int] | None,
    batch_size: int,
    device: str,
) -> RegionNumbers:
    """Measure the effects of the shown regions of one image on the prediction of a classifier.

    Args:
        classifier: gives logits.
        item: the image with its counterfactuals.
        masks: the shown regions, from `shown_regions`.
        scale: see `causal_effects`.
        pixels: see `candlelight.evaluation.coverage.score_causal_check.score_causal_check`.
        size: size of the images for the classifier.
        batch_size: images per pass.
        device: torch device of the classifier.

    Returns:
        For each shown region with counterfactuals, the mean of `causal_effects` over them, with and without
        signs; nan if a logit is not finite.

    Raises:
        InputError: a counterfactual has another size than the image, or the classifier gives no logits.
    """
    changed = changed_images(item, masks, pixels)
    logits = classify_changes(classifier, item, changed, size, batch_size, device)
    effects = causal_effects(logits[:1], logits[None, 1:], scale)[0]
    by_region = zip(changed, torch.split(effects, [len(images) for images in changed.values()]), strict=True)
    return {region: (float(some.mean()), float(some.abs().mean())) for region, some in by_region}


def measure_pointing(
    method: NamedModel,
    ids: Sequence[str],
    linear: Float[Tensor, "images 3 height width"],
    masks: Sequence[RegionMasks],
    k: int,
    proportion: float,
    device: str,
) -> tuple[list[RegionNumbers], list[bool]]:
    """Measure how much the heatmaps of a method point at the shown regions of images.

    Returns:
        For each image and region, and for `ALL_PARTS`, `region_density` and `region_share`, nan for a dead
        heatmap; and whether the heatmap is dead.

    Raises:
        InputError: the method gives no heatmaps.
    """
    explained = merge_explanation(explain_images(method, ids, linear, device), k)
    explained = explained.resized(linear.shape[2], linear.shape[3])
    marked = _mark(explained, proportion)
    numbers = []
    for heatmap, points, its in zip(explained.heatmap, marked, masks, strict=True):
        shown = {**its, **_all_parts(its)}
        regions = torch.stack(list(shown.values()))[None]
        density, share = region_density(heatmap[None], regions)[0], region_share(points[None], regions)[0]
        numbers.append(dict(zip(shown, zip(density.tolist(), share.tolist(), strict=True), strict=True)))
    return numbers, is_dead(explained.heatmap).tolist()


def _all_parts(masks: RegionMasks) -> RegionMasks:
    """Unite the shown parts; nothing if there are none."""
    parts = [mask for region, mask in masks.items() if region != BACKGROUND_REGION]
    return {ALL_PARTS: torch.stack(parts).any(0)} if parts else {}


def _mark(explained: Explanations, proportion: float) -> Bool[Tensor, "images height width"]:
    return binarise(explained.heatmap, set_threshold(explained, proportion, "image"))


def _logits(output: object, images: int, name: str) -> tuple[Tensor]:
    del name
    return (check_logits(output, images).float(),)
