"""Score one concept set against its negatives or its control."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.branches import Branches
from candlelight.evaluation.concepts.cav import fit_concept, fit_random
from candlelight.evaluation.concepts.exchange_groups import (
    LEAST_EXCHANGES,
    ImageGroups,
    count_exchanges,
)
from candlelight.evaluation.concepts.exchanged_vectors import exchanged_members, gram_exchange_derivatives
from candlelight.evaluation.concepts.named_generator import named_generator
from candlelight.evaluation.concepts.permutation_test import effect_interval, input_scores
from candlelight.evaluation.concepts.probe import common_size
from candlelight.evaluation.concepts.rows.gram import SharedRows, row_norms
from candlelight.evaluation.concepts.sensitivity import derivatives_along, significant
from candlelight.evaluation.concepts.set_scores import BRANCHES, BranchScore, Concept
from candlelight.evaluation.results.mean_intervals import Score
from candlelight.loaders.views import ConceptSet


@dataclass(frozen=True)
class SetScorer:
    """Images that are no concept, and the gradients; they are shared by all sets that are scored.

    Attributes:
        against: activations of the negatives, or of the control of one concept set.
        gradients: gradients at the test frames, by alignment of the loss.
        groups: the group of each test frame.
        fitting: arguments of `fit_concept` and `fit_random`.
        permutations: exchanges of the permutation test.
        seed: seed of all random draws.
    """

    against: Branches
    gradients: dict[str, Branches]
    groups: Sequence[str]
    fitting: dict[str, Any]
    permutations: int
    seed: int
    _random_scores: dict[tuple[str, str, int], Tensor] = field(default_factory=dict, init=False)

    def score(
        self, concept: Concept, chosen: ConceptSet, features: Branches, groups: ImageGroups | None
    ) -> dict[str, dict[str, BranchScore]]:
        """Score both branches on one concept set, in each alignment; the vectors are the same.

        ``groups`` are those of the images of the set and of the others; where they leave too few exchanges
        for the permutation test, there are no ``draws``.

        Raises:
            InputError: concept, negative and test images differ in size, or there are too few.
        """
        common_size([features.size, self.against.size, *(some.size for some in self.gradients.values())])
        return {name: self._score_branch(name, concept, chosen, features, groups) for name in BRANCHES}

    @cached_property
    def _shared(self) -> dict[str, SharedRows]:
        """Images of each branch that are no concept, and their products with the gradients."""
        return {
            name: SharedRows(
                getattr(self.against, name), [getattr(one, name) for one in self.gradients.values()]
            )
            for name in BRANCHES
        }

    @cached_property
    def _lengths(self) -> dict[tuple[str, str], Tensor]:
        """Norms of the gradients of each branch and alignment."""
        return {
            (branch, alignment): row_norms(getattr(one, branch))
            for branch in BRANCHES
            for alignment, one in self.gradients.items()
        }

    def _score_branch(
        self,
        branch: str,
        concept: Concept,
        chosen: ConceptSet,
        features: Branches,
        groups: ImageGroups | None,
    ) -> dict[str, BranchScore]:
        rows = getattr(features, branch)
        drawn = named_generator(self.seed, concept, sorted(chosen.fixed.items()))
        gram, products = self._shared[branch].stacked(rows)
        fit = fit_concept(gram, len(rows), drawn, **self.fitting)
        members = None
        if groups is None or count_exchanges(groups) >= LEAST_EXCHANGES:
            counts = len(rows), len(gram) - len(rows)
            members = exchanged_members(*counts, self.permutations, self.seed, groups).to(gram.device)
        scores = {}
        for alignment, product in zip(self.gradients, products, strict=True):
            lengths = self._lengths[branch, alignment]
            derivatives = derivatives_along(fit.weights, product, fit.norm, lengths)
            helps = derivatives < 0
            shares = helps.double().mean(1)
            cosines = torch.nan_to_num(derivatives / fit.norm[:, None] / lengths, 0, 0, 0)
            draws, effect = torch.zeros(0, 1), Score(math.nan, math.nan, math.nan)
            if members is not None:
                draws = input_scores(gram_exchange_derivatives(gram, product, lengths, members))
                effect = effect_interval(draws, self.groups, self.seed)
            scores[alignment] = BranchScore(
                frames=tuple(helps.double().mean(0).tolist()),
                spread=float(shares.std()),
                cosine=-float(cosines.mean()),
                accuracy=float(fit.accuracy.mean()),
                t_test_p=significant(shares, self._random(branch, alignment, len(rows))).p_value,
                effect=(effect.value, effect.low, effect.high),
                draws=tuple(draws.mean(1).tolist()),
                runs=tuple(shares.tolist()),
                vectors=float((fit.norm > 0).double().mean()),
            )
        return scores

    def _random(self, branch: str, alignment: str, images: int) -> Float[Tensor, " runs"]:
        """Score random vectors that are trained on as many rows as a concept set has."""
        gram, products = self._shared[branch].stacked()
        size = max(2, min(images, len(gram) // 2))
        if (branch, alignment, size) not in self._random_scores:
            drawn = named_generator(self.seed, "random", size)
            fit = fit_random(gram, size, drawn, **self.fitting)
            for name, product in zip(self.gradients, products, strict=True):
                lengths = self._lengths[branch, name]
                derivatives = derivatives_along(fit.weights, product, fit.norm, lengths)
                self._random_scores[branch, name, size] = (derivatives < 0).double().mean(1)
        return self._random_scores[branch, alignment, size]
