"""Permutation test of concept sets: does the concept vector of a set point along the gradients?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.sensitivity import GradientOf
from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.evaluation.results.mean_intervals import Score, group_numbers
from candlelight.evaluation.results.resampled_intervals import RESAMPLES, replicate_interval, resampled_groups
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

InputScore = Literal["derivative", "share"]

# Exchanges whose statistics are equal in exact arithmetic count as equal in spite of rounding.
_TIE = 1e-9


@dataclass(frozen=True)
class PermutationTest:
    """Outcome of `permutation_test`, with one entry for each concept set.

    Attributes:
        score: score of the true sets.
        effect: score minus the mean over the exchanges, divided by their standard deviation; 0 if all are
            equal.
        p_value: two-sided p-value of each set alone.
        adjusted: p-value corrected for the number of sets.
        permutations: number of exchanges B.
    """

    score: Float[Tensor, " sets"]
    effect: Float[Tensor, " sets"]
    p_value: Float[Tensor, " sets"]
    adjusted: Float[Tensor, " sets"]
    permutations: int

    @property
    def resolution(self) -> float:
        """Smallest possible p-value, 1 / (B + 1); a level below it can never be reached."""
        return 1 / (self.permutations + 1)


def input_scores(
    derivatives: Float[Tensor, "draws inputs"],
    score: InputScore = "derivative",
    gradient_of: GradientOf = "loss",
) -> Float[Tensor, "draws inputs"]:
    """Score each input and vector, so that a higher mean over the inputs means a higher sensitivity.

    "share" is the definition of the paper: 1 where the concept lowers the loss (or raises the logit), else 0
    (Gupta et al. 2022, eq. 3). "derivative" is its smooth counterpart: how much the concept lowers the loss
    along the vector. It keeps the sign, because in eq. 3 a concept that lowers the loss at half of the inputs
    and raises it at the others is indifferent; a mean of absolute values would call it sensitive.

    Blind to: effects that cancel over the inputs, for both scores. "share" is often 0 or 1 for exchanged
    images too, if gradients of the inputs are similar, and then no set can be significant: test with
    "derivative". Inputs with large gradients outweigh others in "derivative".

    Args:
        derivatives: derivatives along vectors, as `exchange_derivatives` gives them.
        score: "derivative" or "share".
        gradient_of: the differentiated function, a loss or a logit.

    Returns:
        One score for each vector and input, float64.

    Raises:
        InputError: an option is misspelt.

    Example:
        >>> input_scores(torch.tensor([[-2.0, 0.5]])), input_scores(torch.tensor([[-2.0, 0.5]]), "share")
        (tensor([[ 2.0000, -0.5000]], dtype=torch.float64), tensor([[1., 0.]], dtype=torch.float64))
    """
    check_choice("score", score, InputScore)
    check_choice("gradient_of", gradient_of, GradientOf)
    check_shapes(derivatives=(derivatives, "draws inputs"))
    gains = -derivatives.double() if gradient_of == "loss" else derivatives.double()
    return gains if score == "derivative" else (gains > 0).double()


def permutation_test(scores: Float[Tensor, "sets draws"]) -> PermutationTest:
    """Test whether concept sets score differently than sets of images exchanged with their controls.

    Null hypothesis of a set: its images and those of its control are exchangeable with respect to what the
    concept vector points to; where `exchange_derivatives` knows groups, its groups are, or the images within
    each group that both share. Then the true labels are one draw among all labels, and a p-value of at most p
    comes up with a probability of at most p, however few images there are and whatever their distribution.
    With the defaults of `exchange_derivatives` it is enough that the products of images and gradients are
    exchangeable; the images may differ in every other direction. The paper's test,
    `candlelight.evaluation.concepts.sensitivity.significant`, takes runs that share images as independent,
    and rejects far too often. The distance of a score from the mean of all draws is compared in both
    directions, and the p-value is ``(1 + count) / (B + 1)`` with B exchanges (Phipson and Smyth 2010).

    ``adjusted`` holds for all sets of a run together: at most p is the probability that any of the sets
    without effect gets p or less. Distances are divided by the standard deviation of the draws of their set,
    and each is compared with the largest one over sets of each draw (single-step maxT, Westfall and Young
    1993). Holm's correction of 210 sets would need more than 4200 exchanges to reach 0.05, or 21,000 to reach
    0.01. The dependence between sets stays where the draws of sets correspond, as for sets of one size in
    `exchanged_members`. Independent draws of dependent sets make the largest distance larger, and so the test
    stricter.

    Blind to: the cause of a difference. Against photographs of other scenes exchangeability is false whatever
    the concept (see `exchange_derivatives`). Few images allow few exchanges: two sets of 3 images have 20,
    in pairs of equal distance, so no p-value is much below 0.1.

    Args:
        scores: mean over the inputs of `input_scores`, with the true set in column 0 and an exchange in each
            other column; at least 3 columns. Equal numbers of exchanges for all sets.

    Returns:
        Scores, effects and p-values; a set whose draws are all equal has p-value 1.

    Raises:
        InputError: there is no set, there are fewer than 2 exchanges, or scores are not finite.

    Example:
        >>> test = permutation_test(torch.tensor([[3.0, -1.0, 1.0, 0.0]]))
        >>> test.effect, test.p_value, test.resolution
        (tensor([3.], dtype=torch.float64), tensor([0.2500], dtype=torch.float64), 0.25)
    """
    _check_draws("scores", scores, "sets draws")
    distances = _distances(scores.double())
    largest = distances.amax(0, keepdim=True)
    return PermutationTest(
        scores[:, 0].double(),
        _effects(scores.double()),
        _share_reached(distances, distances[:, :1]),
        _share_reached(largest, distances[:, :1]),
        scores.shape[1] - 1,
    )


def effect_interval(
    scores: Float[Tensor, "draws inputs"],
    groups: Sequence[str],
    seed: int,
    resamples: int = RESAMPLES,
) -> Score:
    """Compute the effect of one set with a 95 % interval over test inputs, by resampled groups of inputs.

    The vectors stay fixed: the interval says how the effect would vary with other test inputs, and nothing of
    other concept images, which is the matter of the p-value. It may thus exclude 0 where the p-value is high.

    Args:
        scores: `input_scores` of one set, with the true set in row 0.
        groups: the group of each input, such as its scene; inputs of a group stay together.
        seed: seed of the resampling.
        resamples: number of resamples, at least 1.

    Returns:
        The effect of `PermutationTest`, with an interval as `replicate_interval` computes it: none with fewer
        than 6 groups.

    Raises:
        InputError: groups and inputs differ in number, or as `permutation_test`.

    Example:
        >>> scores = torch.tensor([[2.0, 2.0], [-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]])
        >>> effect_interval(scores, ["a", "b"], seed=0)
        Score(value=2.0, low=nan, high=nan)
    """
    _check_draws("scores", scores.T, "inputs draws")
    if len(groups) != scores.shape[1] or resamples < 1:
        raise InputError(
            f"expected a group for each input and resamples, got {len(groups)} groups for {scores.shape[1]} "
            f"inputs and {resamples} resamples"
        )
    numbers = group_numbers(groups)
    count = int(numbers.max()) + 1
    drawn = resampled_groups(count, seed, resamples)
    # How often each resample holds each group, and so each input.
    times = np.stack([np.bincount(draw, minlength=count) for draw in drawn])[:, numbers]
    weights = torch.from_numpy(times).to(scores.device, torch.float64)
    weights = weights / weights.sum(1, keepdim=True)
    value = _effects(scores.double().mean(1)[None]).item()
    return replicate_interval(value, _effects(weights @ scores.double().T).tolist(), count)


def _check_draws(name: str, scores: Tensor, axes: str) -> None:
    check_shapes(**{name: (scores, axes)})
    if len(scores) == 0 or scores.shape[1] < 3:
        raise InputError(
            f"`{name}` needs the true set and at least 2 exchanges, got shape {list(scores.shape)}"
        )
    if not bool(scores.isfinite().all()):
        raise InputError(f"`{name}` must be finite, got nan or inf; check the gradients behind them")


def _distances(scores: Tensor) -> Tensor:
    """Compute the distance of every draw from the mean of all draws, in standard deviations of all draws.

    Mean and deviation include the true set, so that all draws are treated alike, on which the level rests.
    """
    # Relative to the first draw, so that equal draws have a distance of exactly 0.
    deviations = scores - scores[:, :1]
    deviations = deviations - deviations.mean(1, keepdim=True)
    return torch.nan_to_num(deviations.abs() / deviations.square().mean(1, keepdim=True).sqrt(), 0)


def _effects(scores: Tensor) -> Tensor:
    """Compute the effect of each row of draws, whose first is the true set."""
    exchanged = scores[:, 1:] - scores[:, 1:2]
    away = scores[:, 0] - scores[:, 1] - exchanged.mean(1)
    return torch.where(away == 0, 0, away / exchanged.std(1))


def _share_reached(distances: Tensor, observed: Tensor) -> Tensor:
    """Compute the share of the draws, the true one included, that reach the observed distance."""
    reached = distances[:, 1:] >= observed * (1 - _TIE)
    return (1 + reached.sum(1)).double() / distances.shape[1]
