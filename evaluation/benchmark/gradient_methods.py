"""The methods of Grosse et al. 2009 that threshold gradients, each with its candidates.

R. Grosse, M. K. Johnson, E. H. Adelson, W. T. Freeman: Ground truth dataset and baseline evaluations for
intrinsic image algorithms, ICCV 2009, section 4.3. The candidates are those of the authors' code.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from candlelight.evaluation.models.integrate_gradients import GrayRule
from candlelight.evaluation.models.log_gradients import (
    Gradients,
    backward_differences,
    gray_of_raised,
    keep_strong,
    keep_strong_or_coloured,
    median_over_lights,
    plain_gray,
    raised_gray,
    split_colour,
)

_LightStack = Float[ndarray, "lights 3 height width"]
Thresholds = tuple[float, ...]
_STRONG = tuple((float(value),) for value in np.logspace(-3, 1, 15))
_COLOURED = tuple(product(*[[float(value) for value in np.logspace(-1.5, 0, 5)]] * 2))


@dataclass(frozen=True)
class GradientMethod:
    """A method that estimates the gradients of the log reflectance, with candidates for its thresholds.

    Attributes:
        name: abbreviation in the paper.
        thresholds: names of the thresholds, in natural log units; empty for a method without any.
        candidates: values of all thresholds, from which cross-validation chooses.
        takes_lights: whether the method needs images under several lights.
        gray: maps an image [3, height, width] to the gray image that the method decomposes. The authors'
            code raises dark channels for colour Retinex, their mean for gray Retinex, and for Weiss's method
            the lit images alone.
        estimate: maps an image [3, height, width] and images under other lights [lights, 3, height, width]
            (None if the method takes none) to the gradients of each candidate, in their order.
    """

    name: str
    thresholds: tuple[str, ...]
    candidates: tuple[Thresholds, ...]
    takes_lights: bool
    gray: GrayRule
    estimate: Callable[[Float[ndarray, "3 height width"], _LightStack | None], Iterator[Gradients]]


def _gray_retinex(image: Float[ndarray, "3 height width"], _: _LightStack | None) -> Iterator[Gradients]:
    gradients = backward_differences(np.log(raised_gray(image)))
    return (keep_strong(gradients, threshold) for (threshold,) in _STRONG)


def _colour_retinex(image: Float[ndarray, "3 height width"], _: _LightStack | None) -> Iterator[Gradients]:
    split = split_colour(image)
    return (keep_strong_or_coloured(split, *thresholds) for thresholds in _COLOURED)


def _weiss(_: Float[ndarray, "3 height width"], lights: _LightStack | None) -> Iterator[Gradients]:
    yield _median(lights)


def _weiss_retinex(_: Float[ndarray, "3 height width"], lights: _LightStack | None) -> Iterator[Gradients]:
    gradients = _median(lights)
    return (keep_strong(gradients, threshold) for (threshold,) in _STRONG)


def _median(lights: _LightStack | None) -> Gradients:
    assert lights is not None  # for the type checker: `takes_lights` is set
    return median_over_lights(lights)


GRADIENT_METHODS = {
    method.name: method
    for method in (
        GradientMethod("GR-RET", ("threshold",), _STRONG, False, raised_gray, _gray_retinex),
        GradientMethod(
            "COL-RET", ("brightness", "chroma"), _COLOURED, False, gray_of_raised, _colour_retinex
        ),
        GradientMethod("W", (), ((),), True, plain_gray, _weiss),
        GradientMethod("W+RET", ("threshold",), _STRONG, True, plain_gray, _weiss_retinex),
    )
}
