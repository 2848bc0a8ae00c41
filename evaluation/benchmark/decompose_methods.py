"""Decompose an object by a chosen method of the benchmark."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from candlelight.evaluation.benchmark.candidate_scores import (
    BenchmarkObject,
    GrayDecomposition,
    absolute_estimate,
    chosen_estimate,
    fixed_estimates,
)
from candlelight.evaluation.benchmark.cross_validation import two_halves
from candlelight.evaluation.benchmark.gradient_methods import GRADIENT_METHODS
from candlelight.evaluation.models.tap05 import train_tap05
from candlelight.evaluation.models.tap06 import train_tap06
from candlelight.loaders.views import DecomposedImage, Decompositions

BASELINE = "BAS"
FIXED_BASELINES = ("BAS shading", "BAS reflectance", "square root")  # in the order of `fixed_estimates`
TRAINED_METHODS: dict[str, Callable[[Sequence[DecomposedImage]], Any]] = {
    "TAP-05": train_tap05,
    "TAP-06": train_tap06,
}
METHODS = (BASELINE, *GRADIENT_METHODS, *TRAINED_METHODS)
_SEED = 0  # of the split into halves, where the data have no published one


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
