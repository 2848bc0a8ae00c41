"""Usual scores of attribution maps: deletion and insertion of pixels, pointing game, randomised layers."""

import copy
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.coverage.explainers import module_of
from candlelight.evaluation.coverage.filter_methods import check_logits
from candlelight.evaluation.coverage.thresholds import is_dead, resize_heatmap
from candlelight.evaluation.intrinsic.ssim import ssim
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

BlankImage = Literal["gray", "blur"]
CurveMode = Literal["deletion", "insertion"]
Similarity = Literal["spearman", "ssim"]


def baseline_images(
    images: Float[Tensor, "images 3 height width"], baseline: BlankImage
) -> Float[Tensor, "images 3 height width"]:
    """Make images that show nothing: even gray, or the images blurred until little can be recognised.

    The blur of the sRGB values is Gaussian, with a standard deviation of a twentieth of the shorter side and
    mirrored borders.

    Args:
        images: sRGB-encoded in [0, 1].
        baseline: "gray", 0.5 everywhere; or "blur".

    Raises:
        InputError: the baseline is misspelt.

    Example:
        >>> baseline_images(torch.zeros(1, 3, 1, 2), "gray")[0, 0]
        tensor([[0.5000, 0.5000]])
    """
    check_choice("baseline", baseline, BlankImage)
    if baseline == "gray":
        return torch.full_like(images, 0.5)
    deviation, blurred = min(images.shape[2:]) / 20, images
    for axis, side in ((2, images.shape[2]), (3, images.shape[3])):
        reach = min(round(3 * deviation), side - 1)
        steps = torch.arange(-reach, reach + 1, device=images.device, dtype=images.dtype)
        weights = (-(steps.square()) / (2 * deviation**2)).exp()
        kernel = (weights / weights.sum()).reshape(1, 1, *((-1, 1) if axis == 2 else (1, -1)))
        padding = (0, 0, reach, reach) if axis == 2 else (reach, reach, 0, 0)
        padded = functional.pad(blurred, padding, mode="reflect")
        blurred = functional.conv2d(padded, kernel.expand(3, -1, -1, -1), groups=3)
    return blurred


def pixel_curves(
    classify: Callable[[Tensor], Tensor],
    images: Float[Tensor, "images 3 height width"],
    maps: Float[Tensor, "images rows columns"],
    targets: Int[Tensor, " images"],
    baseline: BlankImage | Float[Tensor, "images 3 height width"] = "gray",
    steps: int = 50,
    mode: CurveMode = "deletion",
) -> Float[Tensor, "images points"]:
    """Follow the score of a class while pixels are deleted or inserted, the most relevant ones first.

    Deletion starts from the image and ends with the baseline, insertion the other way round (Petsiuk et al.
    2018, sec. 4). At point i of ``steps``, ``i / steps`` of the pixels are exchanged.
    `curve_area` gives the score of a map: lower is better for deletion, higher for insertion.

    Blind to: what single pixels are to an image. A network has learned none with holes, so that its score may
    fall because the image is strange. Equal values are taken in the order of rows.

    Args:
        classify: gives scores [images, classes], such as probabilities; gradients are switched off.
        images: sRGB-encoded in [0, 1].
        maps: larger is more relevant; resized bilinearly to the images.
        targets: class of each image.
        baseline: see `baseline_images`; or images of one's own.
        steps: number of steps; each classifies all images once.
        mode: "deletion" or "insertion".

    Returns:
        The class's score at each of the ``steps + 1`` points; nan for an image whose map is not finite.

    Raises:
        InputError: shapes do not agree, ``steps`` is below 1, or ``baseline`` or ``mode`` is misspelt.

    Example:
        >>> image = torch.tensor([[0.0, 1.0]]).expand(1, 3, 1, 2)
        >>> right = image[:, 0]  # a map that finds the bright pixel, for a class that looks for brightness
        >>> def brightness(images):
        ...     return images.mean((1, 2, 3))[:, None]
        >>> pixel_curves(brightness, image, right, torch.tensor([0]), torch.zeros_like(image), 2)
        tensor([[0.5000, 0.0000, 0.0000]])
    """
    check_choice("mode", mode, CurveMode)
    check_shapes(
        images=(images, "images 3 height width"),
        maps=(maps, "images rows columns"),
        targets=(targets, "images"),
    )
    if steps < 1:
        raise InputError(f"`steps` must be at least 1, got {steps}")
    blank = baseline if isinstance(baseline, Tensor) else baseline_images(images, baseline)
    check_shapes(images=(images, "images 3 height width"), baseline=(blank, "images 3 height width"))
    start, end = (images, blank) if mode == "deletion" else (blank, images)
    lost, (height, width) = ~maps.flatten(1).isfinite().all(1), images.shape[2:]
    large = resize_heatmap(maps.masked_fill(lost[:, None, None], 0), height, width).flatten(1)
    order = large.argsort(dim=1, descending=True, stable=True).argsort(1).reshape(-1, 1, height, width)
    points = []
    for step in range(steps + 1):
        with torch.no_grad():
            scores = classify(torch.where(order < step * height * width // steps, end, start))
        points.append(check_logits(scores, len(images)).gather(1, targets[:, None])[:, 0])
    return torch.stack(points, 1).masked_fill(lost[:, None], torch.nan)


def curve_area(curves: Float[Tensor, "images points"]) -> Float[Tensor, " images"]:
    """Compute the area under curves over the share of exchanged pixels, by trapezoids.

    Raises:
        InputError: a curve has fewer than two points.

    Example:
        >>> curve_area(torch.tensor([[1.0, 0.5, 0.0]]))
        tensor([0.5000])
    """
    check_shapes(curves=(curves, "images points"))
    if curves.shape[1] < 2:
        raise InputError(f"`curves` must have at least 2 points, got {curves.shape[1]}")
    return torch.trapezoid(curves, dx=1 / (curves.shape[1] - 1), dim=1)


def pointing_hits(
    maps: Float[Tensor, "images rows columns"],
    masks: Bool[Tensor, "images height width"],
    tolerance: float = 15,
) -> Float[Tensor, " images"]:
    """Tell whether the largest value of a map lies in a region, or near it: the pointing game.

    Zhang et al. 2018, sec. 4: a hit is a maximum within 15 pixels of an annotated object. The accuracy is
    the mean over images, here of all classes together.

    Blind to: all other values of the map, and to whether the network looks at the region.

    Args:
        maps: larger is more relevant; resized bilinearly to the masks.
        masks: the region of each image.
        tolerance: largest distance in pixels, at least 0.

    Returns:
        1 for a hit and 0 for a miss; of several largest values, the share that hits. 0 if the map is constant
        or not finite, nan if the region is empty.

    Raises:
        InputError: shapes do not agree, masks are not boolean, or the tolerance is below 0.

    Example:
        >>> masks = torch.tensor([[[True, False, False, False]]])
        >>> maps = torch.tensor([[[0.0, 0.0, 1.0, 0.0]]])
        >>> pointing_hits(maps, masks, 1), pointing_hits(maps, masks, 2)
        (tensor([0.]), tensor([1.]))
    """
    check_shapes(maps=(maps, "images rows columns"), masks=(masks, "images height width"))
    check_bool(masks=masks)
    if not tolerance >= 0:
        raise InputError(f"`tolerance` must be at least 0, got {tolerance}")
    lost = ~maps.flatten(1).isfinite().all(1)
    large = resize_heatmap(maps.masked_fill(lost[:, None, None], 0), *masks.shape[1:])
    reach = int(tolerance)
    steps = torch.arange(-reach, reach + 1, device=maps.device)
    disc = (steps[:, None].square() + steps.square() <= tolerance**2).to(maps.dtype)
    near = functional.conv2d(masks[:, None].to(maps.dtype), disc[None, None], padding=reach)[:, 0] > 0.5
    largest = large == large.amax((1, 2), keepdim=True)
    share = (largest & near).sum((1, 2)) / largest.sum((1, 2))
    share = share.masked_fill(lost | is_dead(large), 0).to(maps.dtype)
    return share.masked_fill(~masks.flatten(1).any(1), torch.nan)


def cascade_layers(network: nn.Module) -> list[str]:
    """List the layers with weights of their own, from the output to the input, for `randomised_similarity`.

    Example:
        >>> cascade_layers(nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2)))
        ['3', '0']
    """
    modules = list(network.named_modules())
    return [
        name
        for name, one in reversed(modules)
        if name and next(one.parameters(recurse=False), None) is not None
    ]


def randomised_similarity(
    network: nn.Module,
    explain: Callable[[Tensor, Tensor], Tensor],
    images: Float[Tensor, "images 3 height width"],
    targets: Int[Tensor, " images"],
    layers: Sequence[str],
    seed: int = 0,
    measure: Similarity = "spearman",
) -> Float[Tensor, "layers images"]:
    """Compare maps with those of the network after its layers were randomised, one after the other.

    Cascading randomisation of Adebayo et al. 2018: the layers are randomised in the given order, and
    stay so, and the map after each is compared with the first one. Weights become normal draws with the mean
    and the standard deviation of the layer's own; buffers, such as the statistics of a normalisation, stay.
    An explanation that depends on what the network has learned becomes dissimilar.

    Blind to: whether the map is right. Maps that follow edges of the image stay similar, whatever they say.

    Args:
        network: the network, whose weights are changed and restored.
        explain: explains images by the network as it then is: images and classes to maps [images, rows,
            columns], as `candlelight.evaluation.coverage.explainers.Explainer.explain`.
        images: sRGB-encoded in [0, 1].
        targets: class of each image, the same for all comparisons.
        layers: names of modules in the order of randomisation, such as those of `cascade_layers`.
        seed: seed of the draws, which are made on the CPU.
        measure: "spearman", the rank correlation of the values with their signs; or "ssim", the structural
            similarity of maps of at least 11 x 11 points, each of which is scaled to [0, 1].

    Returns:
        Similarity after each layer, at most 1; nan where a map is not finite, and for "spearman" constant.

    Raises:
        InputError: there is no such layer, ``measure`` is misspelt, or maps are too small for SSIM.

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten(2))
        >>> found = randomised_similarity(
        ...     network, lambda images, _: images[:, 0], torch.rand(1, 3, 4, 4), torch.tensor([0]), ["0"]
        ... )
        >>> found  # a map that ignores the network
        tensor([[1.]])
    """
    check_choice("measure", measure, Similarity)
    modules = [module_of(network, layer) for layer in layers]
    kept, draws = copy.deepcopy(list(network.parameters())), torch.Generator().manual_seed(seed)
    before, found = explain(images, targets), []
    try:
        for module in modules:
            with torch.no_grad():
                for weights in module.parameters():
                    drawn = torch.randn(weights.shape, generator=draws).to(weights)
                    weights.copy_(weights.mean() + weights.std(correction=0) * drawn)
            found.append(_similarity(before, explain(images, targets), measure))
    finally:
        with torch.no_grad():
            for weights, first in zip(network.parameters(), kept, strict=True):
                weights.copy_(first)
    return torch.stack(found)


def _similarity(
    one: Float[Tensor, "images rows columns"],
    other: Float[Tensor, "images rows columns"],
    measure: Similarity,
) -> Float[Tensor, " images"]:
    pair = torch.stack([one, other])
    if measure == "ssim":
        low, high = (pair.flatten(2).amin(2), pair.flatten(2).amax(2))
        pair = (pair - low[..., None, None]) / (high - low).clamp(min=torch.finfo(pair.dtype).tiny)[
            ..., None, None
        ]
        return ssim(pair[0], pair[1], torch.ones_like(one, dtype=torch.bool))
    ranks = torch.stack([torch.stack([_ranks(values) for values in maps.flatten(1)]) for maps in pair])
    ranks = ranks - ranks.mean(2, keepdim=True)
    found = (ranks[0] * ranks[1]).sum(1) / ranks.square().sum(2).prod(0).sqrt()
    return found.clamp(-1, 1).to(one.dtype).masked_fill(~pair.flatten(2).isfinite().all(2).all(0), torch.nan)


def _ranks(values: Float[Tensor, " points"]) -> Float[Tensor, " points"]:
    """Rank values; equal ones share their mean rank."""
    _, places, counts = torch.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum(0).double() - (counts - 1) / 2)[places]
