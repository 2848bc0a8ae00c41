"""TCAV scores of one layer: the share of images that a concept moves the wanted way, and how far it moves."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.cav import Fit, fit_concept, fit_random
from candlelight.evaluation.concepts.exchange_groups import ImageGroups
from candlelight.evaluation.concepts.exchanged_vectors import exchanged_members, gram_exchange_derivatives
from candlelight.evaluation.concepts.named_generator import named_generator
from candlelight.evaluation.concepts.permutation_test import input_scores
from candlelight.evaluation.concepts.rows.gram import SharedRows, row_norms
from candlelight.evaluation.concepts.rows.row_source import RowSource
from candlelight.evaluation.concepts.sensitivity import (
    GradientOf,
    Significance,
    derivatives_along,
    significant,
)


@dataclass(frozen=True, eq=False)
class TCAVScore:
    """Scores of one concept at one layer, float64.

    All are nan if no vector exists, because the concept's images and the negatives have equal activations.

    Attributes:
        shares: for each test image, the share of the runs in which its derivative has the wanted sign.
        gains: for each test image, the mean over the runs of its derivative along the vector of length 1;
            positive in the wanted direction.
        run_scores: TCAV score of each run: the share of test images with the wanted sign.
        run_gains: mean of the derivatives of each run over the test images.
        random_scores: TCAV scores of vectors between random subsets of the negatives; nan if their
            activations are all equal. At a layer after which the network is linear each is 0 or 1.
        random_gains: mean of the derivatives along these vectors, of length 1, over the test images.
        accuracy: mean held-out accuracy of the vectors; near 0.5 the layer does not represent the concept.
        flat: share of derivatives that are exactly 0, which count as insensitive.
        draws: mean of the test statistic for the concept and for each exchange with its control; empty
            without a control.
    """

    shares: Float[Tensor, " inputs"]
    gains: Float[Tensor, " inputs"]
    run_scores: Float[Tensor, " runs"]
    run_gains: Float[Tensor, " runs"]
    random_scores: Float[Tensor, " runs"]
    random_gains: Float[Tensor, " runs"]
    accuracy: Float[Tensor, ""]
    flat: Float[Tensor, ""]
    draws: Float[Tensor, " draws"]

    def significance(self, p: float) -> Significance | None:
        """Compare the runs with random vectors by the paper's t-test; None if either has no vector."""
        if bool(self.run_scores.isnan().any()) or bool(self.random_scores.isnan().any()):
            return None
        return significant(self.run_scores, self.random_scores, p)

    def describe(self, p: float) -> dict[str, Any]:
        """Collect the details of a result, without the scores of single images."""
        found = self.significance(p)
        return {
            "score": float(self.run_scores.mean()),
            "spread": float(self.run_scores.std()),
            "derivative": float(self.run_gains.mean()),
            "derivative_spread": float(self.run_gains.std()),
            "accuracy": float(self.accuracy),
            "flat": float(self.flat),
            "random": float(self.random_scores.mean()),
            "random_spread": float(self.random_scores.std()),
            "random_derivative": float(self.random_gains.mean()),
            "random_derivative_spread": float(self.random_gains.std()),
            "t_test_p": None if found is None else found.p_value,
            "significant": found is not None and found.passed,
        }


class LayerScorer:
    """Score concepts at one layer; the negatives and the gradients are shared by all concepts.

    Args:
        negatives: activations of the negative images, at least 4 rows.
        gradients: gradient of the target by the activations for each test image, at least one row.
        gradient_of: whether the target is a loss or a logit; it decides which sign counts.
        fitting: further arguments of `fit_cavs`: runs, classifier and regularisation.
        seed: seed of all draws. Concepts of one size are separated from the same negatives in each run.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> concept, negatives = torch.randn(20, 3, generator=g), torch.randn(30, 3, generator=g)
        >>> concept[:, 0] += 9
        >>> gradients = torch.tensor([[1.0, 0, 0], [-2.0, 0, 0]])
        >>> scorer = LayerScorer(negatives, gradients, "logit", {"runs": 5}, seed=0)
        >>> score = scorer.score(concept)
        >>> score.shares, score.gains.round()
        (tensor([1., 0.], dtype=torch.float64), tensor([ 1., -2.], dtype=torch.float64))
    """

    def __init__(
        self,
        negatives: Float[Tensor, "negatives dim"] | RowSource,
        gradients: Float[Tensor, "inputs dim"] | RowSource,
        gradient_of: GradientOf,
        fitting: Mapping[str, Any],
        seed: int,
    ) -> None:
        self._negatives, self._gradients = negatives, gradients
        self._gradient_of: GradientOf = gradient_of
        self._fitting, self._seed = dict(fitting), seed
        self._random: dict[int, tuple[Tensor, Tensor]] = {}

    @cached_property
    def _shared(self) -> SharedRows:
        return SharedRows(self._negatives, [self._gradients])

    @cached_property
    def _lengths(self) -> Tensor:
        return row_norms(self._gradients)

    def score(
        self,
        concept: Float[Tensor, "concepts dim"] | RowSource,
        control: Float[Tensor, "controls dim"] | RowSource | None = None,
        permutations: int = 999,
        groups: ImageGroups | None = None,
    ) -> TCAVScore:
        """Score one concept, and its exchanges with the control if there is one.

        Args:
            concept: activations of the concept images, at least 2 rows.
            control: activations of the control images, at least 2 rows.
            permutations: number of exchanges.
            groups: as in `exchange_derivatives`.

        Raises:
            InputError: there are too few rows, or they are not finite.
        """
        gram, (products,) = self._shared.stacked(concept)
        fit = fit_concept(gram, len(concept), named_generator(self._seed, "concept"), **self._fitting)
        helps, gains = self._counted(fit, products)
        draws = helps.new_zeros(0)
        if control is not None:
            draws = self._exchanged(concept, control, permutations, groups)
        random_scores, random_gains = self._random_scores(len(concept))
        return TCAVScore(
            shares=helps.mean(0),
            gains=gains.mean(0),
            run_scores=helps.mean(1),
            run_gains=gains.mean(1),
            random_scores=random_scores,
            random_gains=random_gains,
            accuracy=fit.accuracy.mean() if bool(fit.norm.any()) else helps.new_tensor(torch.nan),
            flat=(gains == 0).double().mean() if bool(fit.norm.any()) else helps.new_tensor(torch.nan),
            draws=draws,
        )

    def _counted(self, fit: Fit, products: Tensor) -> tuple[Tensor, Tensor]:
        """Tell for each run and image whether the sign is the wanted one, and how far the target moves."""
        derivatives = derivatives_along(fit.weights, products, fit.norm, self._lengths)
        if not bool(fit.norm.any()):
            return derivatives * torch.nan, derivatives * torch.nan
        unit = torch.nan_to_num(derivatives / fit.norm[:, None], 0, 0, 0)
        helps = input_scores(derivatives, "share", self._gradient_of)
        return helps, input_scores(unit, "derivative", self._gradient_of)

    def _random_scores(self, images: int) -> tuple[Tensor, Tensor]:
        """Score vectors between random subsets of the negatives, as large as the concept set if possible."""
        gram, (products,) = self._shared.stacked()
        size = max(2, min(images, len(gram) // 2))
        if size not in self._random:
            drawn = named_generator(self._seed, "random", size)
            fit = fit_random(gram, size, drawn, **self._fitting)
            helps, gains = self._counted(fit, products)
            self._random[size] = helps.mean(1), gains.mean(1)
        return self._random[size]

    def _exchanged(
        self,
        concept: Tensor | RowSource,
        control: Tensor | RowSource,
        permutations: int,
        groups: ImageGroups | None,
    ) -> Tensor:
        """Compute the statistic of `permutation_test` for the concept and for each exchange."""
        counts = len(concept), len(control)
        members = exchanged_members(*counts, permutations, self._seed, groups).to(concept.device)
        gram, (products,) = SharedRows(control, [self._gradients]).stacked(concept)
        derivatives = gram_exchange_derivatives(gram, products, self._lengths, members)
        return input_scores(derivatives, "derivative", self._gradient_of).mean(1)


def scores_to_step(scores: Mapping[str, TCAVScore]) -> dict[str, Tensor]:
    """Name all tensors of the scores at each layer, for `candlelight.evaluation.running.finished_steps`."""
    return {
        f"{number} {field.name}": getattr(score, field.name).cpu()
        for number, score in enumerate(scores.values())
        for field in fields(TCAVScore)
    }


def step_to_scores(step: Mapping[str, Tensor], layers: tuple[str, ...]) -> dict[str, TCAVScore]:
    """Make the scores at each layer of the tensors of `scores_to_step`."""
    return {
        layer: TCAVScore(**{field.name: step[f"{number} {field.name}"] for field in fields(TCAVScore)})
        for number, layer in enumerate(layers)
    }
