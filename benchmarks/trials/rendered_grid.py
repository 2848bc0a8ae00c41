"""A full grid of rendered images, codes of its factors that are mixed by known amounts, and their scores."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.causal import (
    CounterfactualGenerativeness,
    counterfactual_generativeness,
    irs,
    select_codes,
)
from candlelight.evaluation.training.training_rows import factor_labels, label_values
from candlelight.evaluation.views import Factors
from candlelight.loaders.errors import InputError


class RenderedGrid(NamedTuple):
    """One image for each combination of factors, and the row of each combination."""

    values: dict[str, tuple[str, ...]]
    classes: Int[Tensor, "rows factors"]
    images: Float[Tensor, "rows 3 height width"]
    groups: tuple[str, ...]
    cells: Int[Tensor, "..."]

    @classmethod
    def read(cls, view: Factors, like: "RenderedGrid | None" = None) -> "RenderedGrid":
        """Read all images; with ``like``, number the values of its factors as it does."""
        if like is None:
            varied = [
                info.name for column, info in enumerate(view.factors) if len(set(view.table[:, column])) > 1
            ]
            values = {name: factor_labels(view, name)[1] for name in varied}
        else:
            values = like.values
        columns = [[values[name].index(value) for value in label_values(view, name)] for name in values]
        classes = torch.tensor(columns).T
        cells = torch.full(tuple((classes.amax(0) + 1).tolist()), -1)
        cells[tuple(classes.T)] = torch.arange(len(classes))
        if len(classes) != cells.numel() or bool((cells < 0).any()):
            raise InputError(
                f"expected one image for each of {cells.numel()} combinations, got {len(classes)} images, "
                f"none for {int((cells < 0).sum())} combinations"
            )
        return cls(values, classes, torch.stack([view[row] for row in range(len(view))]), view.groups, cells)

    def rows(self, classes: Int[Tensor, "batch factors"]) -> Int[Tensor, " batch"]:
        """Look up the row of each combination."""
        return self.cells[tuple(classes.T)]

    @property
    def steps(self) -> Int[Tensor, " factors"]:
        """The largest class of each factor, 1 for a factor of one class."""
        return (torch.tensor(self.cells.shape) - 1).clamp(min=1)


class MixedCodes(NamedTuple):
    """Codes of a grid, made with a matrix of factors and codes."""

    grid: RenderedGrid
    matrix: Float[Tensor, "factors codes"]

    @classmethod
    def with_share(cls, grid: RenderedGrid, share: float) -> "MixedCodes":
        """Add a share of the next factor to each factor."""
        one = torch.eye(len(grid.values), dtype=torch.float64)
        return cls(grid, one + share * one.roll(1, 0))

    def encode(self, rows: Int[Tensor, " batch"]) -> Float[Tensor, "batch codes"]:
        """Make the codes of rows."""
        return (self.grid.classes[rows] / self.grid.steps).double() @ self.matrix

    def nearest_rows(self, codes: Float[Tensor, "batch codes"]) -> Int[Tensor, " batch"]:
        """Find the row of the nearest classes."""
        numbers = codes @ self.matrix.inverse() * self.grid.steps
        # Halves go down, so that rounding errors do not decide.
        classes = (numbers - 1e-6).round().long().clamp(min=0)
        return self.grid.rows(classes.minimum(torch.tensor(self.grid.cells.shape) - 1))


def score_codes(
    codes: MixedCodes, rows: Int[Tensor, " scored"], heads: Any, accuracy: dict[str, float]
) -> tuple[CounterfactualGenerativeness, CounterfactualGenerativeness]:
    """Score codes by the heads, and by the true classes of the images that are looked up."""
    grid, given = codes.grid, codes.encode(rows)
    classes = grid.classes[rows]
    sets = select_codes(irs(given, classes))
    tops = torch.tensor([len(values) - 1 for values in grid.values.values()])

    def decode(some: Tensor) -> Tensor:
        return grid.images[codes.nearest_rows(some)]

    def decode_classes(some: Tensor) -> Tensor:  # as one pixel for each factor
        return (grid.classes[codes.nearest_rows(some)] / tops)[:, None, None]

    def classify(images: Tensor) -> list[Tensor]:
        found = (images[:, 0, 0] * tops).round().long()
        return [
            functional.one_hot(one, int(top) + 1).double() for one, top in zip(found.T, tops, strict=True)
        ]

    by_heads = counterfactual_generativeness(
        given, classes, sets, decode, heads, accuracy, images=grid.images[rows]
    )
    by_truth = counterfactual_generativeness(
        given, classes, sets, decode_classes, classify, accuracy, output="probabilities"
    )
    return by_heads, by_truth
