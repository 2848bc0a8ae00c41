"""Permutation tests of concepts: whole scenes, or images within shared scenes, are exchanged."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from candlelight.evaluation.concepts.rows import RowSource, SharedRows, row_norms
from candlelight.evaluation.concepts.sensitivity import GradientOf, derivatives_along
from candlelight.evaluation.run.intervals import (
    RESAMPLES,
    Score,
    group_numbers,
    replicate_interval,
    resampled_groups,
)
from candlelight.evaluation.views import Images
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.evaluation.views.named_streams import named_generator
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

ImageGroups = tuple[Sequence[str], Sequence[str]]  # group of each image of the concept, and of its control
# With fewer no two-sided p-value can be 0.05 or less, as exchanges come in mirrored pairs.
LEAST_EXCHANGES = 40


def known_groups(concept: Images, control: Images) -> ImageGroups | None:
    """Return the groups of the images of two views; None if every image has its own id as its group.

    Example:
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Pictures:
        ...     identity, known_ids = DataIdentity("pictures", "memory"), frozenset()
        ...     def __init__(self, ids, groups): self.ids, self.groups = ids, groups
        ...     def __len__(self): return len(self.ids)
        ...     def __getitem__(self, row): return torch.zeros(3, 2, 2)
        >>> names, vases = ("1.png", "2.png"), ("vase", "jug")
        >>> known_groups(Pictures(names, names), Pictures(names, names)) is None
        True
        >>> known_groups(Pictures(names, vases), Pictures(names, vases))
        (('vase', 'jug'), ('vase', 'jug'))
    """
    alone = all(tuple(view.groups) == tuple(view.ids) for view in (concept, control))
    return None if alone else (tuple(concept.groups), tuple(control.groups))


def count_exchanges(groups: ImageGroups) -> int:
    """Count the different results of `exchange_by_group`.

    Example:
        >>> count_exchanges((["a"] * 5, ["a"] * 3)), count_exchanges((list("abc"), list("def")))
        (56, 20)
        >>> count_exchanges((["a"] * 5, ["b"] * 5))  # two scenes cannot be told from two concepts
        1
    """
    inside, outside = (Counter(names) for names in groups)
    count = math.prod(
        math.comb(inside[name] + outside[name], inside[name]) for name in inside.keys() & outside.keys()
    )
    first, second = len(inside.keys() - outside.keys()), len(outside.keys() - inside.keys())
    return count * (math.comb(first + second, first) if min(first, second) > 1 else 1)


def exchange_by_group(
    groups: ImageGroups, keys: Float64[Tensor, "draws images"]
) -> Bool[Tensor, "draws images"]:
    """Exchange images between a concept set and its control so that dependence within groups does no harm.

    Images of a group that is in both sets are exchanged with each other, so each set keeps its number of
    them. Groups that are in one set alone are exchanged whole, so each set keeps its number of groups; they
    stay where a set has only one of them.

    Args:
        groups: group of each image.
        keys: random numbers; equal ones give equal exchanges.

    Returns:
        True for images that count as the concept's.

    Example:
        >>> keys = torch.tensor([[0.8, 0.2, 0.9, 0.3, 0.1]], dtype=torch.float64)
        >>> exchange_by_group((["a", "b", "b"], ["c", "d"]), keys)
        tensor([[False,  True,  True, False,  True]])
    """
    names = [*groups[0], *groups[1]]
    side = torch.arange(len(names)) < len(groups[0])
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    members = side.repeat(len(keys), 1)
    whole = []
    for found in rows.values():
        if len(set(side[found].tolist())) == 1:
            whole.append(found)
        else:
            members[:, found] = side[found][keys[:, found].argsort(1)]
    first = [found[0] for found in whole]
    if min(int(side[first].sum()), int((~side[first]).sum())) > 1:
        drawn = side[first][keys[:, first].argsort(1)]
        for number, found in enumerate(whole):
            members[:, found] = drawn[:, number, None]
    return members


Fitting = Literal["mean", "ridge"]
VectorLength = Literal["student", "fitted", "unit"]


def exchange_derivatives(
    concept: Float[Tensor, "concepts dim"] | RowSource,
    control: Float[Tensor, "controls dim"] | RowSource,
    gradients: Float[Tensor, "inputs dim"] | RowSource,
    *,
    seed: int,
    permutations: int = 999,
    groups: ImageGroups | None = None,
    fit: Fitting = "mean",
    length: VectorLength = "student",
    regularisation: float = 0.01,
) -> Float[Tensor, "draws inputs"]:
    """Compute the derivatives at all inputs along the concept vector, and along vectors of exchanged images.

    Each exchange moves images between the concept set and its control at random, keeps both sizes, and fits
    the vector anew on all images. Row 0 of the result belongs to the true sets, and the other rows to the
    exchanges. `input_scores` turns the rows into scores for `permutation_test`; see there for the hypothesis.

    Images that depend on each other, such as those of one scene, are not exchangeable one by one: without
    their ``groups``, sets of different scenes are found different too often.

    Blind to: dependence of images beyond their groups.

    Args:
        concept: activations of the concept images, flattened; at least 2, and 20 are advised.
        control: activations of the control images: the same scene without the variation of the concept, or
            with another one; at least 2, and 20 are advised. Use negatives (photographs) only as a second
            line: images of a scene are told from photographs whatever the concept, so exchangeability is
            false for them from the start, and a low p-value says no more than that the branch tells this
            scene from photographs.
        gradients: gradient by the activations for each input, flattened; at least one.
        seed: seed of the exchanges.
        permutations: number of exchanges B; p-values are multiples of 1 / (B + 1).
        groups: the group of each image, such as its scene, of the concept and of the control: images of a
            group in both sets are exchanged with each other, groups in one set alone are exchanged whole.
            None takes all images as independent.
        fit: see `gram_exchange_derivatives`.
        length: see `gram_exchange_derivatives`.
        regularisation: see `gram_exchange_derivatives`.

    Returns:
        Derivatives along the vectors, [1 + permutations, inputs], float64, on the device of ``concept``.

    Raises:
        InputError: there are too few rows, inputs or permutations, rows differ in length, values are not
            finite, ``regularisation`` is not above 0 and finite, groups allow too few exchanges for a
            p-value, or an option is misspelt.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> control = torch.randn(20, 3, generator=g)
        >>> concept = torch.randn(20, 3, generator=g) + torch.tensor([9.0, 0, 0])
        >>> slopes = torch.tensor([[-2.0, 0, 0]])
        >>> derivatives = exchange_derivatives(concept, control, slopes, seed=0, length="fitted")
        >>> derivatives.shape, derivatives[0].round()
        (torch.Size([1000, 1]), tensor([-18.], dtype=torch.float64))
    """
    check_shapes(
        concept=(concept, "concepts dim"),
        control=(control, "controls dim"),
        gradients=(gradients, "inputs dim"),
    )
    members = exchanged_members(len(concept), len(control), permutations, seed, groups).to(concept.device)
    gram, (products,) = SharedRows(control, [gradients]).stacked(concept)
    lengths = row_norms(gradients)
    return gram_exchange_derivatives(gram, products, lengths, members, fit, length, regularisation)


def exchanged_members(
    concepts: int, controls: int, permutations: int, seed: int, groups: ImageGroups | None = None
) -> Bool[Tensor, "draws images"]:
    """Draw the images that count as the concept's: row 0 is the truth, the others are random exchanges.

    Equal seeds and sizes give equal exchanges, so sets of one size are exchanged alike and the dependence
    between them stays; sets of another size have an independent stream.

    Args:
        concepts: images of the concept set, which come first; at least 2.
        controls: images of the control set, at least 2.
        permutations: number of random exchanges, at least 2.
        seed: seed of the exchanges.
        groups: as in `exchange_derivatives`.

    Returns:
        True for ``concepts`` images of each row, on the CPU; where whole groups differ in size, for another
        number in other rows.

    Raises:
        InputError: there are too few images, exchanges or permutations, or groups do not fit the images.

    Example:
        >>> exchanged_members(2, 2, permutations=2, seed=0)[0]
        tensor([ True,  True, False, False])
    """
    if min(concepts, controls) < 2:
        raise InputError(f"both sets need at least 2 images to exchange, got {concepts} and {controls}")
    if permutations < 2:
        raise InputError(f"`permutations` must be at least 2, got {permutations}; 999 is usual")
    stream = named_generator(seed, "exchange", concepts, controls)
    keys = torch.rand(permutations, concepts + controls, generator=stream, dtype=torch.float64)
    truth = torch.arange(concepts + controls)[None] < concepts
    if groups is None:
        return torch.cat([truth, keys.argsort(1) < concepts])
    if (len(groups[0]), len(groups[1])) != (concepts, controls):
        raise InputError(
            f"expected groups of {concepts} and {controls} images, got {len(groups[0])} and {len(groups[1])}"
        )
    if (possible := count_exchanges(groups)) < LEAST_EXCHANGES:
        raise InputError(
            f"groups allow {possible} different exchanges, so no p-value is possible; at least "
            f"{LEAST_EXCHANGES} are needed, from 4 groups in each set or from groups in both"
        )
    return torch.cat([truth, exchange_by_group(groups, keys)])


def gram_exchange_derivatives(
    gram: Float[Tensor, "images images"],
    products: Float[Tensor, "inputs images"],
    lengths: Float[Tensor, " inputs"],
    members: Bool[Tensor, "draws images"],
    fit: Fitting = "mean",
    length: VectorLength = "student",
    regularisation: float = 0.01,
) -> Float[Tensor, "draws inputs"]:
    """Compute as `exchange_derivatives`, given inner products.

    The vector of a row of ``members`` is ``v = alpha @ X``, and its derivatives are ``(G X^T) alpha``; no
    vector of length dim is made. With z = 1 / concepts for the concept's images and -1 / controls for the
    others, "mean" takes ``alpha = z``, so v is the difference of the means of the two sets (FastCAV,
    Schmalwasser et al. 2025). "ridge" takes ``alpha = (K + p n I)^-1 z`` with K the Gram matrix about the
    mean of the n images and p the penalty. This is the direction of the ridge classifier of `fit_cavs` with
    its free intercept, on all images without a split. K does not depend on the labels, so one Cholesky
    factor solves all rows.

    Prefer the defaults for tests. Derivatives along the fitted difference of means depend on the images
    through their products with the gradients alone, and say how much the loss changes, to first order, from
    the control's mean to the concept's. "student" divides them by the standard error of their mean over the
    inputs, given the spread of each set along the mean gradient (Welch's t). Without it, sets of unequal size
    that only differ in their spread are found different too often (Janssen 1997).

    The other choices depend on all directions of the images. With "unit", exchanges that mix two very
    different sets point along their difference too, and become as long as the true vector, so that a strong
    concept is never significant. "ridge" turns the vector away from directions in which the images vary,
    possibly towards gradients at a right angle to the difference of the sets.

    Args:
        gram: inner products of the images about any origin, in the order of ``members``; float64.
        products: products of the gradients with the same images, as `SharedRows.stacked` gives them.
        lengths: Euclidean norm of each gradient.
        members: images that count as the concept's, at least 2 in each row and at least 2 not.
        fit: "mean" or "ridge".
        length: "student" divides the vectors by a standard error, "unit" by their norm; "fitted" by nothing.
        regularisation: weight of ``|w|^2 / 2`` relative to the mean squared distance of the images from their
            mean, as in `fit_cavs`; "mean" ignores it.

    Returns:
        Derivatives along the vectors. A derivative of at most 1e-6 of the product of the lengths of gradient
        and vector (`derivatives_along`) is exactly 0, and so are all derivatives if all images are equal.

    Raises:
        InputError: as `exchange_derivatives`.

    Example:
        >>> rows = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
        >>> members = torch.tensor([[True, True, False, False], [True, False, True, False]])
        >>> products, lengths = 3 * rows[None], torch.tensor([3.0])
        >>> gram_exchange_derivatives(torch.outer(rows, rows), products, lengths, members, length="fitted")
        tensor([[6.],
                [0.]], dtype=torch.float64)
    """
    check_choice("fit", fit, Fitting)
    check_choice("length", length, VectorLength)
    check_shapes(
        gram=(gram, "images images"),
        products=(products, "inputs images"),
        lengths=(lengths, "inputs"),
        members=(members, "draws images"),
    )
    check_bool(members=members)
    if not 0 < regularisation < math.inf:
        raise InputError(f"`regularisation` must be above 0 and finite, got {regularisation}")
    if len(products) == 0:
        raise InputError("`gradients` needs at least one input, got none")
    if not bool(gram.isfinite().all()) or not bool(products.isfinite().all()):
        raise InputError("activations and gradients must be finite, got nan or inf; check the model")
    gram = (gram + gram.T) / 2
    means = gram.mean(0)
    gram = gram - means - means[:, None] + means.mean()
    alpha = _coefficients(gram, members, fit, regularisation)
    norms = ((alpha @ gram) * alpha).sum(1, keepdim=True).clamp(min=0).sqrt()
    derivatives = derivatives_along(alpha, products, norms[:, 0], lengths)
    if length == "student":
        norms = _standard_errors(products.mean(0), members)
    return derivatives if length == "fitted" else torch.nan_to_num(derivatives / norms, 0, 0, 0)


def _standard_errors(values: Tensor, members: Tensor) -> Tensor:
    """Compute the standard error of the difference between the means of the two sets, for each row."""
    values, inside = values - values.mean(), members.to(values.dtype)
    variance = torch.zeros_like(inside[:, :1])
    for part in (inside, 1 - inside):
        count = part.sum(1, keepdim=True)
        means = (part @ values)[:, None] / count
        variance += (part * (values - means) ** 2).sum(1, keepdim=True) / (count * (count - 1))
    # Images that are equal within each set have no spread; a floor keeps their statistic finite.
    errors = variance.sqrt()
    return errors.clamp(min=1e-9 * errors.max().item())


def _coefficients(gram: Tensor, members: Tensor, fit: Fitting, regularisation: float) -> Tensor:
    """Compute the coefficients of all vectors, given the Gram matrix about the mean of the images."""
    inside = members.to(gram.dtype)
    alpha = inside / inside.sum(1, keepdim=True) - (1 - inside) / (1 - inside).sum(1, keepdim=True)
    scale = gram.diagonal().mean().item()
    if fit == "mean" or scale == 0:
        return alpha
    penalised = gram.clone()
    penalised.diagonal().add_(regularisation * scale * len(gram))
    return torch.cholesky_solve(alpha.T, torch.linalg.cholesky(penalised)).T


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
