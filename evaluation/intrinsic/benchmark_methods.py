"""Methods of the benchmark of Grosse et al. 2009, with their parameters chosen by cross-validation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.intrinsic.lmse import gray, lmse
from candlelight.evaluation.models.gradients import (
    FLOOR,
    Gradients,
    GrayRule,
    backward_differences,
    gray_of_raised,
    keep_strong,
    keep_strong_or_coloured,
    median_over_lights,
    plain_gray,
    raised_gray,
    split_colour,
)
from candlelight.evaluation.models.poisson import PoissonSolver, solve_absolute
from candlelight.evaluation.models.tap05 import train_tap05
from candlelight.evaluation.models.tap06 import train_tap06
from candlelight.evaluation.run.intervals import distinct_groups, group_numbers
from candlelight.evaluation.run.result import MeanResult
from candlelight.evaluation.views import DecomposedImage, Decompositions
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.mit import MIT_SETS

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


_TOGETHER = 5  # candidates solved at once, to limit memory


class GrayDecomposition(NamedTuple):
    """Gray reflectance and shading of one object, or of several candidates; both are 0 outside the mask."""

    reflectance: Float64[ndarray, "*candidates height width"]
    shading: Float64[ndarray, "*candidates height width"]


@dataclass(frozen=True, eq=False)
class BenchmarkObject:
    """An object of the benchmark: its arrays, and the solver of its mask, which is made at first use."""

    item: DecomposedImage

    @cached_property
    def pixels(self) -> Float64[ndarray, "3 height width"]:
        """Image, scene-linear Rec.709, white is 1."""
        return self.item.image.double().numpy()

    @cached_property
    def lights(self) -> Float64[ndarray, "lights 3 height width"] | None:
        """Images under other lights, scene-linear."""
        return None if self.item.lights is None else self.item.lights.double().numpy()

    @cached_property
    def mask(self) -> Bool[ndarray, "height width"]:
        """Pixels of the object."""
        return self.item.mask.numpy()

    @cached_property
    def solver(self) -> PoissonSolver:
        """Solver of the mask."""
        return PoissonSolver(self.mask)

    def gradients(self, method: GradientMethod) -> Iterator[Gradients]:
        """Estimate the gradients of the log reflectance for each candidate of a method."""
        return method.estimate(self.pixels, self.lights)

    def integrate(
        self, method: GradientMethod, solution: Float64[ndarray, "*candidates height width"]
    ) -> GrayDecomposition:
        """Return reflectance and shading of a log reflectance; their product is the method's gray image."""
        parts = np.exp(solution), method.gray(self.pixels) * np.exp(-solution)
        return GrayDecomposition(*(np.where(self.mask, part, 0.0) for part in parts))

    def in_colour(
        self, given: GrayDecomposition
    ) -> tuple[Float32[Tensor, "1 3 height width"], Float32[Tensor, "1 3 height width"]]:
        """Return a decomposition in the form and scale of `models.integrate_gradients`.

        The reflectance has the colours of the image and the largest value 1; the shading is gray.
        """
        colours = np.maximum(self.pixels, FLOOR)
        reflectance = given.reflectance * colours / colours.mean(0)
        largest = max(float(reflectance.max(initial=0.0)), np.finfo(float).tiny)
        scaled = reflectance / largest, np.broadcast_to(given.shading * largest, colours.shape)
        first, second = (torch.from_numpy(part.astype(np.float32))[None] for part in scaled)
        return first, second


def fixed_estimates(opened: BenchmarkObject) -> GrayDecomposition:
    """Return three decompositions that look at no gradient.

    All of the image is shading, and all is reflectance: the two choices of the baseline BAS (Grosse et al.
    2009, section 4.4.1). Last, both are the square root of the image: half of each gradient.
    """
    gray_image, ones = opened.mask * opened.pixels.mean(0), opened.mask.astype(np.float64)
    root = np.sqrt(gray_image)
    return GrayDecomposition(np.stack([ones, gray_image, root]), np.stack([gray_image, ones, root]))


def candidate_estimates(opened: BenchmarkObject, method: GradientMethod) -> Iterator[GrayDecomposition]:
    """Decompose an object by each candidate of a method, in their order, a few at a time."""
    every = opened.gradients(method)
    while some := list(islice(every, _TOGETHER)):
        down, right = (np.stack(parts) for parts in zip(*some, strict=True))
        yield opened.integrate(method, opened.solver(down, right))


def chosen_estimate(opened: BenchmarkObject, method: GradientMethod, number: int) -> GrayDecomposition:
    """Decompose an object by one candidate of a method."""
    gradients = next(islice(opened.gradients(method), number, None))
    return opened.integrate(method, opened.solver(*gradients))


def absolute_estimate(
    opened: BenchmarkObject, method: GradientMethod, number: int
) -> tuple[GrayDecomposition, float]:
    """Decompose an object by one candidate of a method with p = 1; return the solver's residual too."""
    gradients = next(islice(opened.gradients(method), number, None))
    solution = solve_absolute(*gradients, opened.solver)
    return opened.integrate(method, solution.image), solution.residual


def local_errors(
    opened: BenchmarkObject, estimate: GrayDecomposition, windows: Sequence[int] = (20,)
) -> Float64[Tensor, "windows candidates 2"]:
    """Compute the LMSE of reflectance and shading of estimates.

    Args:
        opened: the object.
        estimate: with an axis of candidates.
        windows: sides of the windows of `lmse` in pixels.
    """
    truths = (gray(part[None]).double() for part in (opened.item.reflectance, opened.item.shading))
    pairs = [
        (torch.from_numpy(given), truth.expand(given.shape))
        for given, truth in zip(estimate, truths, strict=True)
    ]
    mask = opened.item.mask.expand(pairs[0][0].shape)
    scores = [[lmse(given, truth, mask, window) for given, truth in pairs] for window in windows]
    return torch.stack([torch.stack(pair, 1) for pair in scores])


def choose_left_out(
    scores: Float[ndarray, "rows candidates"], groups: Sequence[str]
) -> Int[ndarray, " rows"]:
    """Choose for each row the candidate with the lowest mean score over the rows of all other groups.

    Args:
        scores: score of each candidate (thresholds of a method) on each row; lower is better. Rows with an
            undefined (nan) score are not counted.
        groups: object or scene of each row.

    Returns:
        Number of the chosen candidate, the first of equals.

    Raises:
        InputError: there are fewer than two groups.

    Example:
        >>> choose_left_out(np.array([[0.0, 1.0], [5.0, 1.0], [0.0, 3.0]]), ["a", "b", "c"]).tolist()
        [1, 0, 1]
    """
    numbers = group_numbers(groups)
    if len(distinct_groups(groups)) < 2:
        raise InputError("leave-one-out needs at least two objects or scenes, got one; add rows")
    chosen = np.empty(len(scores), np.int64)
    defined = ~np.isnan(scores).any(1)
    for group in np.unique(numbers):
        others = scores[defined & (numbers != group)]
        chosen[numbers == group] = others.sum(0).argmin() if len(others) else 0
    return chosen


def two_halves(groups: Sequence[str], seed: int) -> Bool[ndarray, " rows"]:
    """Split rows into two halves by group, for two-fold cross-validation.

    Args:
        groups: object or scene of each row.
        seed: of the random split. Objects of MIT Intrinsic Images are split into the published sets 1 and 2
            instead.

    Returns:
        Whether each row belongs to the first half.

    Raises:
        InputError: there are fewer than two groups.

    Example:
        >>> two_halves(["box", "deer", "cup1"], seed=0).tolist()
        [True, False, True]
    """
    names = distinct_groups(groups)
    if len(names) < 2:
        raise InputError("two-fold cross-validation needs at least two objects or scenes, got one; add rows")
    first = set(MIT_SETS["set1"])
    if not set(names) <= first | set(MIT_SETS["set2"]) or set(names) <= first or not set(names) & first:
        order = np.random.default_rng(seed).permutation(len(names))
        first = {names[number] for number in order[: (len(names) + 1) // 2]}
    return np.array([name in first for name in groups])


BASELINE = "BAS"
FIXED_BASELINES = ("BAS shading", "BAS reflectance", "square root")  # in the order of `fixed_estimates`
TRAINED_METHODS: dict[str, Callable[[Sequence[DecomposedImage]], Any]] = {
    "TAP-05": train_tap05,
    "TAP-06": train_tap06,
}
METHODS = (BASELINE, *GRADIENT_METHODS, *TRAINED_METHODS)
_SEED = 0  # of the split into halves, where the data have no published one


ABSOLUTE = " L1"  # ends the name of a method that is integrated with p = 1


def is_absolute(result: MeanResult) -> bool:
    """Tell whether a result is of a method that integrates gradients with p = 1."""
    return "residual" in result.details


class MethodChoice(NamedTuple):
    """A method, the number of the chosen candidate for each row, and whether p = 1."""

    method: str
    chosen: tuple[int, ...]
    absolute: bool = False


class MethodOutput(NamedTuple):
    """A decomposition, and the residual of the solver with p = 1; 0 for all other methods."""

    decomposition: GrayDecomposition
    residual: float = 0.0


@dataclass(frozen=True, eq=False)
class MethodDecomposer:
    """Decompose rows by chosen methods; trained methods are trained at first use.

    TAP-05 and TAP-06 are trained on one half of the objects for the other half (two-fold cross-validation).

    Attributes:
        data: images with their ground truth.
        choices: by name of the result.
    """

    data: Decompositions
    choices: Mapping[str, MethodChoice]
    _models: dict[tuple[str, bool], Any] = field(default_factory=dict)

    def __call__(self, name: str, row: int, opened: BenchmarkObject) -> MethodOutput:
        """Decompose one row, whose item is opened already."""
        choice = self.choices[name]
        if choice.method in TRAINED_METHODS:
            return MethodOutput(self._trained(choice.method, row, opened))
        number = choice.chosen[row]
        if choice.method == BASELINE:
            both = fixed_estimates(opened)
            return MethodOutput(GrayDecomposition(both.reflectance[number], both.shading[number]))
        method = GRADIENT_METHODS[choice.method]
        if choice.absolute:
            return MethodOutput(*absolute_estimate(opened, method, number))
        return MethodOutput(chosen_estimate(opened, method, number))

    def _trained(self, method: str, row: int, opened: BenchmarkObject) -> GrayDecomposition:
        halves = two_halves(self.data.groups, _SEED)
        key = method, bool(halves[row])
        if key not in self._models:
            rows = np.flatnonzero(halves != halves[row]).tolist()
            self._models[key] = TRAINED_METHODS[method]([self.data[other] for other in rows])
        reflectance, shading = self._models[key](opened.item.image[None], mask=opened.item.mask[None])
        return GrayDecomposition(*(part[0].double().mean(0).numpy() for part in (reflectance, shading)))
