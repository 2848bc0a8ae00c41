"""Scores of every candidate of a method on one object, with one factorisation for all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.benchmark.gradient_methods import GradientMethod
from candlelight.evaluation.intrinsic.lmse import gray, lmse
from candlelight.evaluation.models.absolute_poisson import solve_absolute
from candlelight.evaluation.models.log_gradients import FLOOR, Gradients
from candlelight.evaluation.models.poisson import PoissonSolver
from candlelight.loaders.views import DecomposedImage

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
