"""Heatmaps as marked points: masks, quantiles over index sets, and the thresholds of SetHM."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.catalogue.coverage_options import BinariseCompat, Pooling
from candlelight.evaluation.views import PartImage
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument


def check_masks(ids: Sequence[str], items: Sequence[PartImage]) -> None:
    """Refuse masks that are not boolean or not as large as their image.

    Raises:
        InputError: a mask has another dtype or size; the message names the image and the part.
    """
    for name, item in zip(ids, items, strict=True):
        for part, mask in item.masks.items():
            if mask.dtype != torch.bool or mask.shape != item.image.shape[1:]:
                raise InputError(
                    f"`{name}`, part `{part}`: expected a mask bool {list(item.image.shape[1:])}, got "
                    f"{str(mask.dtype).removeprefix('torch.')} {list(mask.shape)}"
                )


def part_names(part_of: Sequence[str] | None, annotated: Sequence[Collection[str]]) -> tuple[str, ...]:
    """Check the names of the parts to score.

    Args:
        part_of: names of the parts; None for all parts in the images, sorted.
        annotated: for each image, the names of its masks.

    Raises:
        InputError: there is no part, or no image shows a named part.
    """
    shown = {name for masks in annotated for name in masks}
    parts = tuple(sorted(shown)) if part_of is None else tuple(part_of)
    if not parts or not shown.issuperset(parts):
        named, known = (", ".join(some) or "none" for some in (parts, sorted(shown)))
        raise InputError(
            f"{argument('part')}: expected parts that the images show, got {named}; they show {known}"
        )
    return parts


def resize_mask(mask: Bool[Tensor, "h w"], size: tuple[int, int] | None) -> Bool[Tensor, "h2 w2"]:
    """Resize a mask by the nearest pixel; None does not resize."""
    if size is None or tuple(mask.shape) == size:
        return mask
    return functional.interpolate(mask[None, None].to(torch.uint8), size, mode="nearest-exact")[0, 0].bool()


POINTS_IN_MEMORY = 2**23  # up to this number, points are ordered in memory; more are counted in passes
_BINS = 2**16  # number of bins in a pass, for half of the bits of a float32
Read = Callable[[], Iterator[Float32[Tensor, " points"]]]


def quantiles(read: Read, count: int, levels: Sequence[float]) -> Float32[Tensor, " levels"]:
    """Compute linearly interpolated quantiles of points that need not fit in memory.

    The points are counted in two passes: by the upper half of the bits of a float32, then by the lower half.

    Args:
        read: yields all points, in pieces; called once, or twice for more than `POINTS_IN_MEMORY` points.
        count: number of points, at least one; all points are finite.
        levels: share of the points below each quantile, in [0, 1].

    Returns:
        The quantiles, on the device of the points.

    Example:
        >>> points = torch.arange(5.0)
        >>> quantiles(lambda: iter([points[:2], points[2:]]), 5, [0.5, 0.875])
        tensor([2.0000, 3.5000])
    """
    if count <= POINTS_IN_MEMORY:
        return row_quantiles(torch.cat(list(read()))[None], levels)[0]
    ranks, weights = _ranks(count, levels)
    low, high = _counted(read, ranks)
    return torch.lerp(low, high, weights.to(low))


def row_quantiles(
    points: Float[Tensor, "rows points"], levels: Sequence[float]
) -> Float[Tensor, "rows levels"]:
    """Compute linearly interpolated quantiles of each row; see `quantiles`.

    Example:
        >>> row_quantiles(torch.arange(5.0)[None], [0.5, 0.875])
        tensor([[2.0000, 3.5000]])
    """
    count = points.shape[1]
    ranks, weights = _ranks(count, levels)
    largest = points.topk(count - int(ranks.min()), dim=1).values
    low, high = largest[:, count - 1 - ranks].unbind(1)
    return torch.lerp(low, high, weights.to(points))


def _ranks(count: int, levels: Sequence[float]) -> tuple[Int[Tensor, "2 levels"], Float[Tensor, " levels"]]:
    """Compute the ranks on both sides of each quantile, and the weight of the higher one."""
    positions = torch.tensor([(count - 1) * level for level in levels], dtype=torch.float64)
    lower = positions.long()
    return torch.stack([lower, (lower + 1).clamp(max=count - 1)]), positions - lower


def _counted(read: Read, ranks: Int[Tensor, "2 levels"]) -> Float32[Tensor, "2 levels"]:
    """Find the points of given ranks: a first count gives their upper bits, a second count the lower bits."""
    counts = (torch.bincount(_ordered(points) >> 16, minlength=_BINS) for points in read())
    below = reduce(torch.add, counts).cumsum(0)
    ranks = ranks.to(below.device)
    upper = torch.searchsorted(below, ranks, right=True)
    wanted, number = torch.unique(upper, return_inverse=True)
    numbers = torch.full_like(below, len(wanted))
    numbers[wanted] = torch.arange(len(wanted), device=below.device)
    cells = below.new_zeros(len(wanted) * _BINS)
    for points in read():
        ordered = _ordered(points)
        place = numbers[ordered >> 16]
        chosen = place < len(wanted)
        cell = place[chosen] * _BINS + (ordered[chosen] & (_BINS - 1))
        cells += torch.bincount(cell, minlength=len(cells))
    within = ranks - functional.pad(below, (1, 0))[upper]
    inside = cells.reshape(-1, _BINS).cumsum(1)[number]
    lower = torch.searchsorted(inside, within[..., None], right=True)[..., 0]
    return _floats(upper * _BINS + lower)


def _ordered(points: Float32[Tensor, " points"]) -> Int[Tensor, " points"]:
    """Map floats to integers from 0 to 2^32 - 1 in the same order."""
    bits = points.view(torch.int32).long()
    return torch.where(bits < 0, -1 - bits, bits + 2**31)


def _floats(ordered: Int[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
    """Map the integers of `_ordered` back to floats."""
    bits = torch.where(ordered < 2**31, -1 - ordered, ordered - 2**31)
    return bits.to(torch.int32).view(torch.float32)


@dataclass(frozen=True)
class Explanations:
    """One explanation heatmap per image.

    Attributes:
        heatmap: [images, height, width].
        members: [images, k], ascending numbers of the maps that were merged.

    Raises:
        InputError: the shapes do not agree, or heatmaps are not finite floats.
    """

    heatmap: Float[Tensor, "images height width"]
    members: Int[Tensor, "images k"]

    def __post_init__(self) -> None:
        """Check what `set_threshold` relies on."""
        check_shapes(heatmap=(self.heatmap, "images height width"), members=(self.members, "images k"))
        _check_heatmap(self.heatmap)

    def resized(self, height: int, width: int) -> "Explanations":
        """Resize the heatmaps bilinearly; the paper does not specify the interpolation.

        Args:
            height: rows of the annotation masks.
            width: columns of the annotation masks.
        """
        if self.heatmap.shape[1:] == (height, width):
            return self
        return Explanations(resize_heatmap(self.heatmap, height, width), self.members)


def resize_heatmap(
    heatmap: Float[Tensor, "images h w"], height: int, width: int
) -> Float[Tensor, "images height width"]:
    """Resize finite heatmaps bilinearly; see `Explanations.resized`."""
    if heatmap.shape[1:] == (height, width):
        return heatmap
    # The minimum is subtracted, so that points at the minimum stay equal and a constant map stays constant.
    least = heatmap.amin((1, 2), keepdim=True)
    larger = functional.interpolate(
        (heatmap - least)[:, None], (height, width), mode="bilinear", align_corners=False
    )
    return larger[:, 0] + least


def set_threshold(
    explanations: Explanations, proportion: float, pooling: Pooling = "set"
) -> Float[Tensor, " images"]:
    """Find the intensity that a given proportion of the points exceeds.

    The threshold is the ``1 - proportion`` quantile of the intensities (sec. 3.3), either over all heatmaps
    that were merged from the same set of maps (SetHM), or over each heatmap (IndivHM). The paper interpolates
    the cumulative histogram but does not give its bins. This quantile is the limit for fine bins, with linear
    interpolation between neighbouring values, for any number of points.

    Blind to: ties. If more points than the proportion have the largest value, either all or none of these
    points are marked.

    Args:
        explanations: heatmaps at their own resolution, or at the resolution of the masks.
        proportion: share of the points, in (0, 1). The paper's text has 0.01 % to 0.1 %, its Table 2
            0.01 to 0.1; only the values of the table are plausible shares.
        pooling: "set" for SetHM, "image" for IndivHM.

    Returns:
        One threshold per image, in the dtype of the heatmaps.

    Raises:
        InputError: the proportion is out of range, or ``pooling`` is misspelt.

    Example:
        >>> heatmap = torch.arange(1.0, 6.0).reshape(1, 1, 5)
        >>> set_threshold(Explanations(heatmap, torch.tensor([[0]])), 0.25)
        tensor([4.])
    """
    check_choice("pooling", pooling, Pooling)
    if not 0 < proportion < 1:
        raise InputError(f"`proportion` must lie between 0 and 1, got {proportion}")
    heatmap = explanations.heatmap
    if pooling == "image":
        return row_quantiles(heatmap.flatten(1), [1 - proportion])[:, 0]
    group = torch.unique(explanations.members, dim=0, return_inverse=True)[1]
    thresholds = heatmap.new_zeros(len(heatmap))
    for number in group.unique():
        chosen = group == number
        thresholds[chosen] = row_quantiles(heatmap[chosen].reshape(1, -1), [1 - proportion])[0]
    return thresholds


def binarise(
    heatmap: Float[Tensor, "images height width"],
    thresholds: Float[Tensor, " images"],
    compat: BinariseCompat = "exact",
) -> Bool[Tensor, "images height width"]:
    """Mark the points that reach their image's threshold and lie above the map's minimum.

    The paper's rule ``B = b(H, tau)`` (sec. 3.2) marks all points that reach the threshold. If most of a map
    is 0, as after a ReLU, the threshold is 0 and the paper's rule marks every point: a method that returns
    only zeros would cover every part. Here points at a map's minimum are never marked, so a constant map
    marks nothing (see `is_dead`).

    Args:
        heatmap: explanation heatmaps at the resolution of the annotation masks.
        thresholds: one threshold per image, from `set_threshold`.
        compat: "exact" leaves the minimum unmarked; "waiou2023" is the paper's rule, ``H >= tau``.

    Returns:
        The binary maps.

    Raises:
        InputError: the shapes do not agree, values are not finite floats, or ``compat`` is misspelt.

    Example:
        >>> heatmap, thresholds = torch.tensor([[[0.0, 1.0]]]), torch.tensor([0.0])
        >>> binarise(heatmap, thresholds), binarise(heatmap, thresholds, "waiou2023")
        (tensor([[[False,  True]]]), tensor([[[True, True]]]))
    """
    check_choice("compat", compat, BinariseCompat)
    check_shapes(heatmap=(heatmap, "images height width"), thresholds=(thresholds, "images"))
    _check_heatmap(heatmap)
    if not bool(thresholds.isfinite().all()):
        raise InputError("`thresholds` must be finite, got nan or inf; take them from `set_threshold`")
    reached = heatmap >= thresholds[:, None, None]
    if compat == "exact":
        reached &= heatmap > heatmap.amin((1, 2), keepdim=True)
    return reached


def is_dead(heatmap: Float[Tensor, "images height width"]) -> Bool[Tensor, " images"]:
    """Tell which heatmaps are constant, so that `binarise` marks no point in them.

    Args:
        heatmap: explanation heatmaps.

    Returns:
        One flag per image.

    Raises:
        InputError: a dimension is missing, or the values are not finite floats.

    Example:
        >>> is_dead(torch.tensor([[[0.2, 0.2]], [[0.0, 0.2]]]))
        tensor([ True, False])
    """
    check_shapes(heatmap=(heatmap, "images height width"))
    _check_heatmap(heatmap)
    return heatmap.amin((1, 2)) == heatmap.amax((1, 2))


def _check_heatmap(heatmap: Tensor) -> None:
    if not heatmap.is_floating_point():
        raise InputError(f"`heatmap` must be floating point, got {heatmap.dtype}; convert it with .float()")
    if len(heatmap) and not heatmap.numel():
        raise InputError(f"`heatmap` needs at least one point in each map, got {list(heatmap.shape)}")
    # If any value is nan, both extremes are nan; `aminmax` is several times as fast as `isfinite` of all.
    if len(heatmap) and not bool(torch.stack(heatmap.aminmax()).isfinite().all()):
        raise InputError("`heatmap` must be finite, got nan or inf; check the method")
