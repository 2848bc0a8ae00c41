"""Weighted human disagreement rate (WHDR): comparisons of two points against predicted reflectance.

S. Bell, K. Bala, N. Snavely: Intrinsic images in the wild, SIGGRAPH 2014.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.intrinsic.masked import result_dtype
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import Comparisons

DARKEST_REFLECTANCE = 1e-10  # darker values are raised to it


def whdr(
    reflectance: Float[Tensor, "batch channels height width"],
    comparisons: Sequence[Comparisons],
    threshold: float = 0.10,
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
        comparisons: judgements of each image, from `candlelight.loaders.views.open_judgements`.
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
