"""From the interpretation heatmaps of a method to binary explanations (Behzadi-Khormouji and Oramas)."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from torch.nn import functional

from evaluation.inputs.check_choice import check_choice
from evaluation.inputs.check_shapes import check_shapes
from loaders.errors import InputError

Pooling = Literal["set", "image"]
BinariseCompat = Literal["exact", "waiou2023"]


@dataclass(frozen=True)
class Explanations:
    """One explanation heatmap per image.

    Attributes:
        heatmap: [images, height, width].
        members: [images, k], ascending numbers of the maps that it was made from.

    Raises:
        InputError: shapes that do not agree, or heatmaps that are not finite floats.
    """

    heatmap: Float[Tensor, "images height width"]
    members: Int[Tensor, "images k"]

    def __post_init__(self) -> None:
        """Check what `set_threshold` relies on."""
        check_shapes(heatmap=(self.heatmap, "images height width"), members=(self.members, "images k"))
        _check_heatmap(self.heatmap)

    def resized(self, height: int, width: int) -> "Explanations":
        """The same heatmaps at another resolution, bilinear (the paper does not say how).

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
    """Resample finite heatmaps, bilinear; see `Explanations.resized`."""
    if heatmap.shape[1:] == (height, width):
        return heatmap
    # About the minimum: points tied there stay tied, and a constant map stays constant.
    least = heatmap.amin((1, 2), keepdim=True)
    larger = functional.interpolate(
        (heatmap - least)[:, None], (height, width), mode="bilinear", align_corners=False
    )
    return larger[:, 0] + least


def explanation_heatmap(heatmaps: Real[Tensor, "images maps height width"], k: int) -> Explanations:
    """Merge the k strongest interpretation heatmaps of each image.

    ``S_t = sum_uv r_t(u, v)``, and the maximum at each place over the k maps of largest S (eq. 1 and 2 of
    "A Protocol for Evaluating Model Interpretation Methods from Visual Explanations").

    Blind to: the extent of a map. A weak response everywhere outranks a strong one in a spot, and maps of
    different scale are compared as they are.

    Args:
        heatmaps: interpretation heatmaps r_t, larger is more relevant; integers are taken as float32.
        k: how many are merged, 1 to the number of maps; the paper does not give its value.

    Returns:
        Heatmaps, and the set of maps that each was made from; the first of equal maps goes first.

    Raises:
        InputError: a dimension is missing, ``k`` is out of range, or heatmaps are not finite.

    Example:
        >>> maps = torch.tensor([[[[1.0, 0.0]], [[0.0, 2.0]], [[0.0, 0.5]]]])
        >>> explanation_heatmap(maps, 2)
        Explanations(heatmap=tensor([[[1., 2.]]]), members=tensor([[0, 1]]))
    """
    check_shapes(heatmaps=(heatmaps, "images maps height width"))
    heatmaps = heatmaps if heatmaps.is_floating_point() else heatmaps.float()
    if not 1 <= k <= heatmaps.shape[1]:
        raise InputError(f"`k` must be 1 to {heatmaps.shape[1]}, the number of heatmaps, got {k}")
    total = heatmaps.flatten(2).sum(2, dtype=torch.float64)
    if not bool(total.isfinite().all()):
        raise InputError("`heatmaps` must be finite, got nan or inf; check the method")
    members = total.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values
    picked = heatmaps.gather(1, members[:, :, None, None].expand(-1, -1, *heatmaps.shape[2:]))
    return Explanations(picked.amax(1), members)


def set_threshold(
    explanations: Explanations, proportion: float, pooling: Pooling = "set"
) -> Float[Tensor, " images"]:
    """Find the intensity above which a given proportion of the points lies.

    The ``1 - proportion`` quantile of the intensities (sec. 3.3): over all heatmaps made from the same
    set of maps (SetHM), or over each heatmap (IndivHM). The paper interpolates the cumulative
    distribution of a histogram whose bins it does not give; this is its limit for fine bins, exact, with
    linear interpolation between neighbouring values, for any number of points.

    Blind to: ties. If more than the proportion share the largest value, all of those pass or none.

    Args:
        explanations: heatmaps at the resolution at which they will be binarised, or at their own.
        proportion: share of the points, in (0, 1). The paper's text has 0.01 % to 0.1 %, its Table 2
            0.01 to 0.1: as a share of points the latter makes sense.
        pooling: "set" for SetHM, "image" for IndivHM.

    Returns:
        One threshold per image, in the dtype of the heatmaps.

    Raises:
        InputError: a proportion out of range, or a misspelt ``pooling``.

    Example:
        >>> heatmap = torch.arange(1.0, 6.0).reshape(1, 1, 5)
        >>> set_threshold(Explanations(heatmap, torch.tensor([[0]])), 0.25)
        tensor([4.])
    """
    check_pooling(proportion, pooling)
    heatmap = explanations.heatmap
    if pooling == "image":
        group = torch.arange(len(heatmap), device=heatmap.device)
    else:
        group = torch.unique(explanations.members, dim=0, return_inverse=True)[1]
    thresholds = heatmap.new_zeros(len(heatmap))
    for number in range(int(group.max()) + 1 if len(group) else 0):
        chosen = group == number
        thresholds[chosen] = _quantile(heatmap[chosen].flatten(), 1 - proportion)
    return thresholds


def check_pooling(proportion: float, pooling: str) -> None:
    """Refuse what `set_threshold` does."""
    check_choice("pooling", pooling, Pooling)
    if not 0 < proportion < 1:
        raise InputError(f"`proportion` must lie between 0 and 1, got {proportion}")


def _quantile(values: Float[Tensor, " points"], level: float) -> Float[Tensor, ""]:
    """Linearly interpolated quantile; `torch.quantile` stops at 16 million values."""
    position = (len(values) - 1) * level
    lower = min(int(position), len(values) - 1)
    low = values.kthvalue(lower + 1).values
    high = values.kthvalue(min(lower + 2, len(values))).values
    return torch.lerp(low, high, position - lower)


def binarise(
    heatmap: Float[Tensor, "images height width"],
    thresholds: Float[Tensor, " images"],
    compat: BinariseCompat = "exact",
) -> Bool[Tensor, "images height width"]:
    """Mark the points that reach their image's threshold and lie above the map's minimum.

    Departs from the paper's ``B = b(H, tau)`` (sec. 3.2), which marks all points that reach the threshold:
    where most of a map is 0, as after a ReLU, the threshold is 0 and that marks everything, so an explainer
    that gives zeros for every image covers every part. Here points tied at a map's minimum are never
    marked; a constant map marks nothing (`is_dead` tells such maps).

    Args:
        heatmap: explanation heatmaps at the resolution of the annotation masks.
        thresholds: one per image, from `set_threshold`.
        compat: "exact" leaves the minimum unmarked; "waiou2023" is the paper's rule, ``H >= tau``.

    Returns:
        The binary maps.

    Raises:
        InputError: shapes that do not agree, values that are not finite floats, or a misspelt ``compat``.

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
    if compat == "exact" and len(heatmap):
        reached &= heatmap > heatmap.amin((1, 2), keepdim=True)
    return reached


def is_dead(heatmap: Float[Tensor, "images height width"]) -> Bool[Tensor, " images"]:
    """Tell which heatmaps are constant: they explain nothing, and `binarise` marks nothing in them.

    Args:
        heatmap: explanation heatmaps.

    Returns:
        One answer per image.

    Raises:
        InputError: a dimension is missing, or the values are not finite floats.

    Example:
        >>> is_dead(torch.tensor([[[0.2, 0.2]], [[0.0, 0.2]]]))
        tensor([ True, False])
    """
    check_shapes(heatmap=(heatmap, "images height width"))
    _check_heatmap(heatmap)
    if not len(heatmap):
        return torch.zeros(0, dtype=torch.bool, device=heatmap.device)
    return heatmap.amin((1, 2)) == heatmap.amax((1, 2))


def _check_heatmap(heatmap: Tensor) -> None:
    if not heatmap.is_floating_point():
        raise InputError(f"`heatmap` must be floating point, got {heatmap.dtype}; convert it with .float()")
    if len(heatmap) and not heatmap.numel():
        raise InputError(f"`heatmap` needs at least one point in each map, got {list(heatmap.shape)}")
    # A nan is both extremes, which are found several times as fast as all values are looked at.
    if len(heatmap) and not bool(torch.stack(heatmap.aminmax()).isfinite().all()):
        raise InputError("`heatmap` must be finite, got nan or inf; check the method")


def check_axes(name: str, maps: Float[Tensor, "images maps rows columns"], size: tuple[int, int]) -> None:
    """Refuse heatmaps whose channels come last: read as maps they would give other numbers, and no error.

    They have not the proportions of the image, by a factor of two, while their first two axes have.

    Args:
        name: of the method.
        maps: its heatmaps.
        size: height and width of the images.

    Raises:
        InputError: such heatmaps.

    Example:
        >>> check_axes("mine", torch.zeros(1, 60, 80, 4), (60, 80))
        Traceback (most recent call last):
        loaders.errors.InputError: mine: expected heatmaps [maps, rows, columns], got [60, 80, 4] for images \
of 60 x 80, which looks like channels last; move them to the front
    """
    count, rows, columns = maps.shape[1:]
    if _stretch(rows, columns, size) > 2 and _stretch(count, rows, size) < 1.1:
        raise InputError(
            f"{name}: expected heatmaps [maps, rows, columns], got {list(maps.shape[1:])} for images of "
            f"{size[0]} x {size[1]}, which looks like channels last; move them to the front"
        )


def _stretch(rows: int, columns: int, size: tuple[int, int]) -> float:
    """How far the proportions of a map are from those of the image, at least 1."""
    ratio = rows * size[1] / (columns * size[0])
    return max(ratio, 1 / ratio)
