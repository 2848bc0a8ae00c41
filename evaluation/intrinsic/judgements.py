"""Scores against judgements of people: WHDR of reflectance, and the precision of shading on SAW labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from scipy import ndimage
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

from candlelight.evaluation.catalogue.intrinsic_options import DARKER_BY
from candlelight.evaluation.intrinsic.masked import result_dtype
from candlelight.evaluation.models.gradients import for_rows
from candlelight.evaluation.views import Comparisons
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.colour import linear_to_srgb
from candlelight.loaders.errors import InputError
from candlelight.loaders.image_gradients import gradient_magnitude, window_maximum

DARKEST_REFLECTANCE = 1e-10  # darker values are raised to it


def whdr(
    reflectance: Float[Tensor, "batch channels height width"],
    comparisons: Sequence[Comparisons],
    threshold: float = DARKER_BY,
) -> Float[Tensor, " batch"]:
    """Compute the weighted human disagreement rate of each image.

    ``sum_i w_i [J_i != H_i] / sum_i w_i`` over the comparisons of an image: Bell et al. 2014, eq. 2 and 3.
    H is the judgement and w its weight. For l, the mean of the channels at a point, raised to 1e-10, the
    prediction J is "point 1 is darker" if ``l2 / l1 > 1 + threshold``, "point 2 is darker" if
    ``l1 / l2 > 1 + threshold``, and "equal" otherwise. The score of a data set is the mean over images.

    Some programs compare gamma-encoded values, where the same threshold is another ratio: 0.10 on values of
    gamma 2.2 is ``1.1 ** 2.2 = 1.233`` on linear ones, so ``threshold=0.233`` gives their answers for gray
    reflectance, and nearly so for colours.

    Args:
        reflectance: predicted reflectance, scene-linear, in any scale. It may differ in size from the
            photograph, because the places of points are relative: the pixel is [int(y * height),
            int(x * width)].
        comparisons: judgements of each image, from `open_data("judgements", ...)`.
        threshold: smallest relative difference that counts as darker.

    Returns:
        One rate per image in [0, 1], lower is better; nan without comparisons, or if the prediction is not
        finite at a compared point. Blind to colour, to scale, to all pixels without a point, to how much
        darker a point is, and to shading.

    Raises:
        InputError: the numbers of images and comparisons differ, the threshold is negative, or a comparison
            has a point outside the image, another answer than 0, 1 and 2, or a weight that is not positive.

    Example:
        >>> points = torch.tensor([[[0.1, 0.5], [0.9, 0.5]]]).double()
        >>> darker_left = Comparisons(points, torch.tensor([1]), torch.tensor([0.7]).double())
        >>> images = torch.tensor([[[[0.2, 0.8]]], [[[0.5, 0.5]]]])
        >>> whdr(images, [darker_left, darker_left])
        tensor([0., 1.])
    """
    check_shapes(reflectance=(reflectance, "batch channels height width"))
    if len(comparisons) != len(reflectance):
        counts = f"{len(comparisons)} for {len(reflectance)} images"
        raise InputError(f"expected the `comparisons` of each image, got {counts}")
    if not 0 <= threshold < math.inf:
        raise InputError(f"`threshold` must be at least 0 and finite, got {threshold}; 0.1 is Bell et al.'s")
    rates = [_rate(image, made, threshold) for image, made in zip(reflectance, comparisons, strict=True)]
    found = torch.stack(rates) if rates else reflectance.new_zeros(0)
    return found.to(result_dtype(reflectance))


def _rate(
    image: Float[Tensor, "channels height width"], made: Comparisons, threshold: float
) -> Float64[Tensor, ""]:
    _check(made)
    points, darker, weight = (part.to(image.device) for part in (made.points, made.darker, made.score))
    columns, rows = (points * points.new_tensor([image.shape[2], image.shape[1]])).long().unbind(-1)
    values = image[:, rows, columns].double().mean(0)
    first, second = values.clamp(min=DARKEST_REFLECTANCE).unbind(1)
    answer = torch.zeros_like(darker)
    answer[second / first > 1 + threshold] = 1
    answer[first / second > 1 + threshold] = 2
    rate = (weight * (answer != darker)).sum() / weight.sum()
    return rate.masked_fill(~values.isfinite().all(), torch.nan)


def _check(made: Comparisons) -> None:
    inside = (made.points >= 0) & (made.points < 1)
    if not bool(inside.all()):
        raise InputError(
            f"points of comparisons must lie in [0, 1), got {float(made.points[~inside][0]):g}; divide x by "
            "the width and y by the height"
        )
    if not bool(((made.darker >= 0) & (made.darker <= 2)).all()):
        raise InputError(f"`darker` must be 0 (equal), 1 or 2, got {sorted(set(made.darker.tolist()))}")
    if not bool(((made.score > 0) & (made.score < math.inf)).all()):
        raise InputError(
            f"`score` must be positive and finite, got {float(made.score.min()):g} to "
            f"{float(made.score.max()):g}; leave out comparisons without weight"
        )


SAWVariant = Literal["kovacs2017", "cgintrinsics2018", "challenge2018"]
SMOOTH_LABEL, IGNORED_LABEL = 2, 100
_WINDOW = 10  # pixels
_CLASS_WEIGHTS = (1.0, 1.0, 2.0)
_DARKEST_SHADING = 1e-4
_ADDED = 1e-5  # to the denominators of CGIntrinsics


@dataclass(frozen=True)
class SAWCurve:
    """Precision and recall of smooth shading at each threshold.

    Attributes:
        score: average precision, the area under the curve; higher is better.
        recall: share of the smooth pixels that are found; it rises with the threshold.
        precision: share of smooth pixels among the pixels found.
    """

    score: Float64[Tensor, ""]
    recall: Float64[Tensor, " thresholds"]
    precision: Float64[Tensor, " thresholds"]


def saw_average_precision(
    shading: Float[Tensor, "batch channels height width"],
    labels: Int64[Tensor, "batch height width"],
    variant: SAWVariant,
    image: Float[Tensor, "batch 3 height width"] | None = None,
) -> SAWCurve:
    """Compute the average precision with which small gradients of shading find smooth pixels.

    A pixel counts as smooth if the Sobel gradient g of the predicted shading is below a threshold. One curve
    is made of the pixels of all photographs; label 2 (smooth) weighs as much as labels 0 (discontinuity of
    normal or depth) and 1 (boundary of a shadow) together. Papers report three variants, and their numbers
    are not comparable:

    * "kovacs2017", the original benchmark: g of linear gray shading, its maximum in windows of 10x10 pixels
      for all labels, 200 thresholds between 5e-5 and 0.99995. The authors show curves without a number; the
      area here begins at recall 0, with the precision of the first threshold, and ends at the recall of the
      last one.
    * "cgintrinsics2018", the "AP%" of Li and Snavely 2018: g of the logarithm of gray shading (raised to
      1e-4), the maximum in windows only for labels 0 and 1, 400 thresholds between log 1.001 and log 64; the
      area ends at recall 1 and precision 0.5, and 1e-5 is added to denominators. BigTime (Li and Snavely
      2018) takes thresholds up to log 8 instead. Their own networks are scored on shading of gamma 1/2.2,
      ``shading ** (1 / 2.2)``, which divides all gradients by 2.2; later papers score linear shading.
    * "challenge2018", their challenge AP: the same, but each connected region of label 2 has the mean Sobel
      gradient of the sRGB-encoded gray photograph as its weight, so that smooth shading under strong texture
      counts more. As in their program, the sum of weights of each photograph, threshold and answer is rounded
      down to an integer.

    Args:
        shading: predicted shading, scene-linear, of the size of the labels.
        labels: 0 and 1 not smooth, 2 smooth, 100 to be ignored, see `candlelight.loaders.public.SAW`.
        variant: one of the variants above.
        image: the photographs, scene-linear, clipped to [0, 1]; only "challenge2018" needs them.

    Returns:
        The curve; its ``score`` in [0, 1] is higher for better shading, about 0.5 for constant shading, and
        nan if a shading is not finite, or if there are no smooth or only smooth pixels. The weights of
        "challenge2018" depend on the photograph alone and are computed on the CPU (scipy). Blind to
        reflectance, to colour, to the direction of gradients, and to pixels without a label. "kovacs2017"
        depends on the scale of the shading; the others do so only below 1e-4.

    Raises:
        InputError: the shapes do not agree, there are other labels, the variant is unknown, or
            "challenge2018" is given no photographs.

    Example:
        >>> labels = torch.full((1, 12, 40), 2)
        >>> labels[..., 18:22] = torch.tensor([0, 0, 1, 1])
        >>> shadow = torch.where(torch.arange(40) < 20, 0.2, 1.0).expand(1, 1, 12, 40)
        >>> saw_average_precision(shadow, labels, "cgintrinsics2018").score
        tensor(1.0000, dtype=torch.float64)
        >>> saw_average_precision(torch.ones_like(shadow), labels, "cgintrinsics2018").score
        tensor(0.5000, dtype=torch.float64)
    """
    return saw_curve(count_smooth(shading, labels, variant, image).sum(0), variant)


def count_smooth(
    shading: Float[Tensor, "batch channels height width"],
    labels: Int64[Tensor, "batch height width"],
    variant: SAWVariant,
    image: Float[Tensor, "batch 3 height width"] | None = None,
) -> Float64[Tensor, "batch thresholds 3 2"]:
    """Count the pixels of each photograph by label and by answer, at every threshold: the first stage.

    Args:
        shading: see `saw_average_precision`.
        labels: see `saw_average_precision`.
        variant: see `saw_average_precision`.
        image: see `saw_average_precision`.

    Returns:
        Counts, or sums of weights, of the pixels of each label (0, 1, 2) that are not smooth (0) or smooth
        (1) by their gradient; nan for a photograph whose shading is not finite.

    Raises:
        InputError: see `saw_average_precision`.

    Example:
        >>> counts = count_smooth(torch.ones(1, 1, 2, 2), torch.tensor([[[0, 2], [2, 100]]]), "kovacs2017")
        >>> counts[0, -1].tolist()
        [[0.0, 1.0], [0.0, 0.0], [0.0, 2.0]]
    """
    check_choice("variant", variant, SAWVariant)
    check_shapes(
        shading=(shading, "batch channels height width"),
        labels=(labels, "batch height width"),
        **({} if image is None else {"image": (image, "batch 3 height width")}),
    )
    _check_labels(labels)
    if image is None and variant == "challenge2018":
        raise InputError('the variant "challenge2018" needs the photographs; pass `image`')
    thresholds = torch.from_numpy(saw_thresholds(variant)).to(shading.device)
    on_cpu = shading.device.type == "cpu"
    count = _count if on_cpu else _count_on_device

    def count_row(row: int) -> Float64[Tensor, "thresholds 3 2"]:
        shade, label, weight = shading[row].detach(), labels[row], None
        if image is not None and variant == "challenge2018":
            known = image[row].detach().cpu().numpy(), label.cpu().numpy()
            weight = torch.from_numpy(texture_weights(*known)).to(shading.device)
        gray = shade.double().mean(0).nan_to_num(0, 0, 0)
        counts = count(gray, label, weight, thresholds, variant)
        return torch.where(shade.isfinite().all(), counts, torch.nan)

    rows = for_rows(count_row, len(shading)) if on_cpu else [count_row(row) for row in range(len(shading))]
    found = torch.stack(rows) if rows else thresholds.new_zeros(0, len(thresholds), 3, 2)
    return found.trunc() if variant == "challenge2018" else found


def saw_curve(counts: Float64[Tensor, "thresholds 3 2"], variant: SAWVariant) -> SAWCurve:
    """Make the curve of precision and recall from the summed counts of photographs: the second stage.

    Args:
        counts: sum of the results of `count_smooth`.
        variant: the variant of the counts.

    Returns:
        See `saw_average_precision`. A class without pixels (0 or 1) has no weight, as in CGIntrinsics.

    Raises:
        InputError: the variant is unknown, or the counts have another shape or number of thresholds.

    Example:
        >>> same = torch.tensor([[2.0, 2], [0, 0], [1, 3]]).double().expand(200, 3, 2)  # at all thresholds
        >>> curve = saw_curve(same, "kovacs2017")
        >>> curve.recall.unique(), curve.precision.unique(), curve.score
        (tensor([0.7500], dtype=torch.float64), tensor([0.7500], dtype=torch.float64), \
tensor(0.5625, dtype=torch.float64))
    """
    check_choice("variant", variant, SAWVariant)
    check_shapes(counts=(counts, "thresholds 3 2"))
    if len(counts) != (wanted := len(saw_thresholds(variant))):
        raise InputError(
            f"`counts` must have the {wanted} thresholds of `{variant}`, got {len(counts)}; give the variant "
            "of `count_smooth`"
        )
    original = variant == "kovacs2017"
    added = 0 if original else _ADDED
    totals = counts.sum(-1, keepdim=True)
    weights = counts.new_tensor(_CLASS_WEIGHTS)[:, None] / (totals + added)
    balanced = torch.where(totals > 0, counts * weights, totals)  # totals keep a nan
    correct, found, smooth = balanced[:, 2, 1], balanced[:, :, 1].sum(1), balanced[:, 2].sum(1)
    precision, recall = correct / (found + added), correct / (smooth + added)
    if original:
        precision = precision.masked_fill(found == 0, 1.0)
    ends = [] if original else [(1.0, 0.5)]
    curve = torch.stack([recall, precision], 1)
    start = torch.stack([torch.zeros_like(recall[0]), precision[0]])
    path = torch.cat([start[None], curve, counts.new_tensor(ends).reshape(-1, 2)])
    score = torch.trapezoid(path[:, 1], path[:, 0])
    present = totals[..., 0].amax(0)
    decided = (present[2] > 0) & (present[:2].sum() > 0)
    return SAWCurve(torch.where(decided, score, torch.nan), recall, precision)


def saw_thresholds(variant: SAWVariant) -> Float64[ndarray, " thresholds"]:
    """Return the thresholds of the gradient in rising order.

    Example:
        >>> saw_thresholds("kovacs2017")[[0, -1]], np.exp(saw_thresholds("challenge2018")[[0, -1]]).round(4)
        (array([5.0000e-05, 9.9995e-01]), array([ 1.001, 64.   ]))
    """
    if variant == "kovacs2017":
        half = np.logspace(-4, 0, 100) / 2
        return np.sort(np.concatenate([half, 1 - half]))
    return np.log(np.concatenate([np.linspace(1.001, 1.5, 200), np.linspace(1.501, 64, 200)]))


def texture_weights(
    image: Float[ndarray, "3 height width"], labels: Int64[ndarray, "height width"]
) -> Float64[ndarray, "height width"]:
    """Compute the weights of smooth pixels in the challenge of Li and Snavely 2018.

    Args:
        image: a photograph, scene-linear, clipped to [0, 1].
        labels: see `saw_average_precision`.

    Returns:
        The mean Sobel gradient of the sRGB-encoded gray photograph over the connected region of label 2
        (neighbours share a side) that a pixel belongs to; 0 at other labels.
    """
    slope = gradient_magnitude(linear_to_srgb(image).mean(0, dtype=np.float64))
    regions, count = ndimage.label(labels == SMOOTH_LABEL)
    flat = regions.ravel()
    sizes = np.maximum(np.bincount(flat, minlength=count + 1), 1)
    means = np.bincount(flat, slope.ravel(), count + 1) / sizes
    means[0] = 0
    return means[regions]


_Gray = Float64[Tensor, "height width"]
_Labels = Int64[Tensor, "height width"]


def _count(
    gray: _Gray, labels: _Labels, weights: _Gray | None, thresholds: Tensor, variant: SAWVariant
) -> Float64[Tensor, "thresholds 3 2"]:
    """Count pixels below and not below each threshold: each label is sorted once, and no pixel compared."""
    marks, limits = labels.numpy().ravel(), thresholds.numpy()
    gradients = _gradients(gray.numpy(), labels.numpy(), variant).ravel()
    counts = np.empty((len(limits), 3, 2))
    for label in range(3):
        here = np.flatnonzero(marks == label)
        values = gradients[here]
        if weights is not None and label == SMOOTH_LABEL:
            order = values.argsort()
            sums = np.concatenate([[0.0], weights.numpy().ravel()[here[order]].cumsum()])
            below = sums[values[order].searchsorted(limits)]
            total = sums[-1]
        else:
            values.sort()
            below, total = values.searchsorted(limits), len(values)
        counts[:, label] = np.stack([total - below, below], axis=1)
    return torch.from_numpy(counts)


def _gradients(
    gray: Float64[ndarray, "height width"], labels: Int64[ndarray, "height width"], variant: SAWVariant
) -> Float64[ndarray, "height width"]:
    """Compute the gradient that decides on each pixel, by its label."""
    if variant == "kovacs2017":
        return window_maximum(gradient_magnitude(gray), _WINDOW)
    slope = gradient_magnitude(np.log(np.maximum(gray, _DARKEST_SHADING)))
    return np.where(labels == SMOOTH_LABEL, slope, window_maximum(slope, _WINDOW))


def _count_on_device(
    gray: _Gray, labels: _Labels, weights: _Gray | None, thresholds: Tensor, variant: SAWVariant
) -> Float64[Tensor, "thresholds 3 2"]:
    """Count as `_count` does, with tensors alone; on one core of a CPU it takes four to six times as long."""
    slope = _slope(gray if variant == "kovacs2017" else gray.clamp(min=_DARKEST_SHADING).log())
    before, after = _WINDOW // 2, _WINDOW - 1 - _WINDOW // 2
    padded = pad(slope[None, None], (before, after, before, after), value=-torch.inf)
    widest = max_pool2d(padded, _WINDOW, stride=1)[0, 0]
    smooth = labels == SMOOTH_LABEL
    gradients = widest if variant == "kovacs2017" else torch.where(smooth, slope, widest)
    counts = []
    for label in range(3):
        here = labels == label
        values, order = gradients[here].sort()
        weight = torch.ones_like(values)
        if weights is not None and label == SMOOTH_LABEL:
            weight = weights[here][order]
        sums = torch.cat([weight.new_zeros(1), weight.cumsum(0)])
        below = sums[torch.searchsorted(values, thresholds)]
        counts.append(torch.stack([sums[-1] - below, below], 1))
    return torch.stack(counts, 1)


def _slope(gray: _Gray) -> _Gray:
    """Compute the length of the gradient, as `gradient_magnitude` of numpy arrays does."""
    padded = pad(gray[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    down, right = padded[2:] - padded[:-2], padded[:, 2:] - padded[:, :-2]
    vertical = 2 * down[:, 1:-1] + (down[:, :-2] + down[:, 2:])
    horizontal = 2 * right[1:-1] + (right[:-2] + right[2:])
    return torch.hypot(horizontal, vertical)


def _check_labels(labels: Int64[Tensor, "batch height width"]) -> None:
    known = (labels == IGNORED_LABEL) | ((labels >= 0) & (labels <= SMOOTH_LABEL))
    if not bool(known.all()):
        raise InputError(f"`labels` must be 0, 1, 2 or 100, got {int(labels[~known][0])}")
