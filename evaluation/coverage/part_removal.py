"""Scores of explanations by what parts of a rendered object do to a prediction when they are taken away.

The logit of the explained class is a game of the parts: `Game` holds its value for each rendered set of
parts. All functions are of one image, and of the parts that it shows.
"""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import Importance
from candlelight.evaluation.coverage.causal_effects import rank_correlation
from candlelight.evaluation.coverage.topics import regress_shapley, shapley_values
from candlelight.evaluation.views.check_shapes import check_shapes
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

IRRELEVANT = 0.05  # share of a logit; a smaller change is none (FunnyBirds)
THRESHOLDS = tuple(step / 20 for step in range(20))  # shares of the positive importance


@dataclass(frozen=True, eq=False)
class Game:
    """Outputs of a classifier for one image, with each rendered set of its parts.

    Attributes:
        present: the parts that are there, a row for each set; the first row has all of them.
        logits: output of the classifier for each set.

    Raises:
        InputError: the shapes do not agree, or not all parts are there in the first row.
    """

    present: Bool[Tensor, "sets parts"]
    logits: Float64[Tensor, "sets classes"]

    def __post_init__(self) -> None:
        check_shapes(present=(self.present, "sets parts"), logits=(self.logits, "sets classes"))
        if not bool(self.present[:1].all()) or not len(self.present):
            raise InputError("`present`: expected all parts in the first row")

    @property
    def parts(self) -> int:
        """Number of the parts."""
        return int(self.present.shape[1])

    @property
    def predicted(self) -> int:
        """Class of the largest logit, with all parts."""
        return int(self.logits[0].argmax())

    def row(self, kept: Collection[int]) -> int | None:
        """Find the row of the set with these parts alone; None if it was not rendered."""
        wanted = torch.tensor([part in kept for part in range(self.parts)], device=self.present.device)
        rows = (self.present == wanted).all(1).nonzero()
        return int(rows[0]) if len(rows) else None

    def values(self, kept: Sequence[Collection[int]]) -> Float64[Tensor, "_ classes"]:
        """Look up the logits of some sets; nan for a set that was not rendered."""
        rows = [self.row(one) for one in kept]
        nothing = torch.full_like(self.logits[0], torch.nan)
        return torch.stack([nothing if row is None else self.logits[row] for row in rows])

    def drops(self) -> Float64[Tensor, "parts classes"]:
        """Compute by how much each logit falls when one part is taken away: its true effect.

        Example:
            >>> present = torch.tensor([[True, True], [False, True], [True, False]])
            >>> Game(present, torch.tensor([[3.0], [1.0], [2.5]]).double()).drops()[:, 0]
            tensor([2.0000, 0.5000], dtype=torch.float64)
        """
        others = [set(range(self.parts)) - {part} for part in range(self.parts)]
        return self.logits[0] - self.values(others)

    def sufficient(self) -> frozenset[int] | None:
        """Find the smallest set of parts with which the prediction is that of the whole image.

        Of several such sets it is the one with the largest logit of the class; None without any.
        """
        right = [row for row, one in enumerate(self.logits) if int(one.argmax()) == self.predicted]
        found = [
            (int(self.present[row].sum()), -float(self.logits[row, self.predicted]), row) for row in right
        ]
        return frozenset(self.present[min(found)[2]].nonzero()[:, 0].tolist()) if found else None


def part_importance(
    maps: Float[Tensor, "maps height width"],
    masks: Bool[Tensor, "parts height width"],
    importance: Importance = "sum",
) -> Float64[Tensor, "maps parts"]:
    """Read the importance m_P of parts from maps.

    The sum of the signed map over the mask of the part (Hesse et al. 2023, sec. 4.1).

    Args:
        maps: explanations at the resolution of the masks; positive values speak for the class.
        masks: pixels of each part.
        importance: "sum"; "positive", the sum of the positive values; or "mean", which is not larger for
            larger parts.

    Raises:
        InputError: the shapes do not agree, or ``importance`` is misspelt.

    Example:
        >>> masks = torch.tensor([[[True, True, False]], [[False, False, True]]])
        >>> part_importance(torch.tensor([[[3.0, -1.0, 4.0]]]), masks)
        tensor([[2., 4.]], dtype=torch.float64)
    """
    check_choice("importance", importance, Importance)
    check_shapes(maps=(maps, "maps height width"), masks=(masks, "parts height width"))
    values = (maps.clamp(min=0) if importance == "positive" else maps).double()
    sums = values.flatten(1) @ masks.double().flatten(1).T
    return sums / masks.sum((1, 2)).clamp(min=1) if importance == "mean" else sums


class PartShapley(NamedTuple):
    """Shapley values of the parts of one image.

    Attributes:
        values: the values; nan if the sets do not determine them.
        error: standard error of each value; 0 if all sets of parts were rendered.
    """

    values: Float64[Tensor, " parts"]
    error: Float64[Tensor, " parts"]


def part_shapley(game: Game, target: int) -> PartShapley:
    """Compute the Shapley values of the parts: their effects, averaged over the order in which they come.

    `shapley_values` if all 2^n sets were rendered. Otherwise `regress_shapley` over the rendered sets, which
    need the empty one, with the jackknife's standard error over the sets; it is nan if a set is needed.

    Example:
        >>> present = torch.tensor([[True, True], [True, False], [False, True], [False, False]])
        >>> part_shapley(Game(present, torch.tensor([[5.0], [2.0], [0.0], [0.0]]).double()), 0).values
        tensor([3.5000, 1.5000], dtype=torch.float64)
    """
    present, logits = _distinct(game)
    count, values, empty = game.parts, logits[:, target], game.row(())
    if len(present) == 2**count:
        numbers = (present.long() << torch.arange(count, device=present.device)).sum(1)
        found = shapley_values(values[numbers.argsort()])
        return PartShapley(found, torch.zeros_like(found))
    inner = present.any(1) & ~present.all(1)
    subsets, values, sizes = present[inner], values[inner], present[inner].sum(1).tolist()
    weights = values.new_tensor([1 / (math.comb(count, size) * size * (count - size)) for size in sizes])

    def regress(kept: Tensor) -> Tensor:
        centred = subsets[kept].double() - subsets[kept].double().mean(1, keepdim=True)
        if empty is None or int(torch.linalg.matrix_rank(centred)) < count - 1:
            return values.new_full((count,), torch.nan)
        ends = float(game.logits[empty, target]), float(game.logits[0, target])
        return regress_shapley(subsets[kept], values[kept], weights[kept], *ends).to(values.device)

    every = torch.ones(len(subsets), dtype=torch.bool, device=present.device)
    left = [
        regress(every & (torch.arange(len(every), device=every.device) != one)) for one in range(len(every))
    ]
    spread = torch.stack(left) if left else values.new_full((1, count), torch.nan)
    variance = (spread - spread.mean(0)).square().sum(0) * (len(spread) - 1) / len(spread)
    return PartShapley(regress(every), variance.sqrt())


def _distinct(game: Game) -> tuple[Bool[Tensor, "sets parts"], Float64[Tensor, "sets classes"]]:
    """Leave out sets that were rendered twice."""
    seen = {tuple(one): row for row, one in reversed([*enumerate(game.present.tolist())])}
    rows = sorted(seen.values())
    return game.present[rows], game.logits[rows]


def pair_interactions(game: Game, target: int) -> Float64[Tensor, "parts parts"]:
    """Compute how much two parts do together beyond what each does alone.

    ``v(all) - v(all but i) - v(all but j) + v(all but both)``: positive for parts that need each other,
    negative for parts that stand in for each other. A map has no number for it.

    Returns:
        A symmetric table, 0 on its diagonal; nan where a set was not rendered.

    Example:
        >>> present = torch.tensor([[True, True], [True, False], [False, True], [False, False]])
        >>> pair_interactions(Game(present, torch.tensor([[1.0], [0.0], [0.0], [0.0]]).double()), 0)
        tensor([[0., 1.],
                [1., 0.]], dtype=torch.float64)
    """
    drops = game.drops()[:, target]
    found = torch.zeros(game.parts, game.parts, dtype=torch.float64, device=drops.device)
    pairs = itertools.combinations(range(game.parts), 2)
    for one, other in pairs:
        (without,) = game.values([set(range(game.parts)) - {one, other}])
        drop = game.logits[0, target] - without[target]
        found[one, other] = found[other, one] = drops[one] + drops[other] - drop
    return found


def rank_score(
    importance: Float64[Tensor, "maps parts"], effect: Float64[Tensor, " parts"]
) -> Float64[Tensor, " maps"]:
    """Correlate the ranks of parts by importance and by effect, from 0 to 1: ``(rho + 1) / 2``.

    Single deletion of Hesse et al. (2023, eq. 4) with the effects of single parts. Equal importances tell
    nothing and have 0.5. Numbers that differ by less than 1e-5 of the largest one are equal, so that no rank
    depends on rounding.

    Returns:
        The scores; nan if fewer than two parts have an effect that is known, or if all effects are equal.

    Example:
        >>> effect = torch.tensor([9.0, 2.0, 1.0]).double()
        >>> rank_score(torch.stack([effect, -effect]), effect)
        tensor([1., 0.], dtype=torch.float64)
    """
    importance, effect = _rounded(importance), _rounded(effect)
    known = effect[effect.isfinite()]
    if len(known) < 2 or bool((known == known[0]).all()):
        return importance.new_full((len(importance),), torch.nan)
    rho = rank_correlation(importance, effect.expand_as(importance)).nan_to_num(0)
    return (rho + 1) / 2


def _rounded(values: Float64[Tensor, "*maps parts"]) -> Float64[Tensor, "*maps parts"]:
    largest = values.abs().nan_to_num(0).amax(-1, keepdim=True)
    return torch.where(largest > 0, (values / largest * 1e5).round(), values)


def important_parts(
    importance: Float64[Tensor, " parts"], thresholds: Sequence[float] = THRESHOLDS
) -> Bool[Tensor, "thresholds parts"]:
    """Choose the parts that an explanation calls important, at each threshold.

    Their importance exceeds this share of the sum of all positive importances (Hesse et al. 2023, sec. 4.1).

    Example:
        >>> important_parts(torch.tensor([3.0, 1.0, -2.0]).double(), [0, 0.5])
        tensor([[ True,  True, False],
                [ True, False, False]])
    """
    shares = importance.new_tensor(list(thresholds))[:, None]
    return importance > shares * importance.clamp(min=0).sum()


def minimal_sets(own: Collection[str], others: Sequence[Collection[str]]) -> list[frozenset[str]]:
    """Find the smallest sets of a class's parts that no other class has, as a right classifier may use.

    Args:
        own: parts of the class.
        others: parts of each other class.

    Returns:
        All sets of which no subset tells the class as well; none if another class has all of its parts.

    Example:
        >>> [sorted(one) for one in minimal_sets("abc", ["abd", "bce"])]
        [['a', 'c']]
    """
    found: list[frozenset[str]] = []
    for size in range(1, len(own) + 1):
        for parts in map(frozenset, itertools.combinations(sorted(own), size)):
            told = not any(parts <= set(other) for other in others)
            if told and not any(one <= parts for one in found):
                found.append(parts)
    return found


class Checks(NamedTuple):
    """Checks of the important parts of an explanation, at each threshold; see `completeness_checks`."""

    controlled: Float64[Tensor, " thresholds"]
    preservation: Float64[Tensor, " thresholds"]
    deletion: Float64[Tensor, " thresholds"]
    distractibility: Float64[Tensor, " thresholds"]


def completeness_checks(
    game: Game,
    importance: Float64[Tensor, " regions"],
    irrelevant: Bool[Tensor, " regions"],
    sufficient: Sequence[frozenset[int]],
    thresholds: Sequence[float] = THRESHOLDS,
) -> Checks:
    """Check the important parts by rendering the image with them alone, and without them.

    The checks of Hesse et al. (2023, eq. 1 to 3 and sec. 4.2), of one image:

    - ``controlled``: largest share of a minimal set of the class (`minimal_sets`) that is called important;
    - ``preservation``: whether the prediction stays with the important parts alone;
    - ``deletion``: whether it changes without them;
    - ``distractibility``: share of the irrelevant regions that are not called important.

    Args:
        game: the image, with each set of its parts.
        importance: of the parts, then of other objects.
        irrelevant: regions whose absence does not change the prediction, of the same regions.
        sufficient: minimal sets of parts of the class.
        thresholds: see `important_parts`.

    Returns:
        Values from 0 to 1; nan without a minimal set, without irrelevant regions, and if a set of parts was
        not rendered.

    Example:
        >>> present = torch.tensor([[True, True], [True, False], [False, True], [False, False]])
        >>> game = Game(present, torch.tensor([[1.0, 0], [1.0, 0], [0, 1.0], [0, 1.0]]).double())
        >>> importance, irrelevant = torch.tensor([1.0, 0]).double(), torch.tensor([False, True])
        >>> checks = completeness_checks(game, importance, irrelevant, [frozenset([0])], [0])
        >>> [float(one) for one in checks]
        [1.0, 1.0, 1.0, 1.0]
    """
    chosen = important_parts(importance, thresholds)
    sets = [frozenset(one.nonzero()[:, 0].tolist()) for one in chosen[:, : game.parts]]
    rest = [set(range(game.parts)) - one for one in sets]
    kept, without = (_predictions(game, some) for some in (sets, rest))
    shares = [[len(one & parts) / len(parts) for parts in sufficient] or [torch.nan] for one in sets]
    controlled = importance.new_tensor([max(one) for one in shares])
    left = (~chosen & irrelevant).sum(1).double() / irrelevant.sum()
    same = (kept == game.predicted).double().masked_fill(kept < 0, torch.nan)
    other = (without != game.predicted).double().masked_fill(without < 0, torch.nan)
    return Checks(controlled, same, other, left)


def _predictions(game: Game, kept: Sequence[Collection[int]]) -> Int[Tensor, " sets"]:
    """Look up the predicted class of some sets; -1 for a set that was not rendered."""
    logits = game.values(kept)
    return logits.argmax(1).masked_fill(logits.isnan().any(1), -1)


class SharedParts(NamedTuple):
    """Two classes that share different parts with an image, for `target_sensitivity`.

    Attributes:
        classes: their numbers.
        parts: numbers of the parts of the image that the one class has and the other has not, for each.
    """

    classes: tuple[int, int]
    parts: tuple[tuple[int, ...], tuple[int, ...]]


def choose_shared_parts(
    game: Game, shown: Sequence[str], parts_of: Sequence[Collection[str]]
) -> SharedParts | None:
    """Choose the two classes whose shared parts the classifier tells apart best.

    Hesse et al. (2023, sec. 4.3) draw classes that share two parts each. Here the two logits must fall more
    without a class's own shared parts than the logit of the other class does, since otherwise the classifier
    does not use them, and a right explanation would count as wrong. Of several such pairs of classes, the one
    whose smaller difference is largest is chosen.

    Args:
        game: the image, with each set of its parts.
        shown: names of the parts.
        parts_of: names of the parts of each class, in the order of the logits.

    Returns:
        The pair; None if there is none.
    """
    shared = [{part for part, name in enumerate(shown) if name in parts} for parts in parts_of]
    drops, least, best = game.drops(), 0.0, None
    for one, other in itertools.combinations(range(len(parts_of)), 2):
        own = tuple(sorted(shared[one] - shared[other])), tuple(sorted(shared[other] - shared[one]))
        if game.predicted in (one, other) or not all(own):
            continue
        falls = [drops[list(parts)].sum(0) for parts in own]
        margins = float(falls[0][one] - falls[0][other]), float(falls[1][other] - falls[1][one])
        if min(margins) > least:
            least, best = min(margins), SharedParts((one, other), own)
    return best


def target_sensitivity(importance: Float64[Tensor, "2 parts"], shared: SharedParts) -> float:
    """Tell whether explanations of two classes point at the parts which these share with the image.

    Hesse et al. (2023, eq. 5): half a point for each class whose explanation gives its own shared parts more
    importance than the explanation of the other class does.

    Args:
        importance: of the parts, by the explanations of both classes.
        shared: the classes and their parts.

    Returns:
        0, 0.5 or 1. An importance that is not finite points at nothing.

    Example:
        >>> shared = SharedParts((1, 2), ((0,), (1,)))
        >>> target_sensitivity(torch.tensor([[0.9, 0.0], [0.2, 0.0]]).double(), shared)
        0.5
    """
    own = [importance[:, list(parts)].sum(1) for parts in shared.parts]
    return (float(own[0][0] > own[0][1]) + float(own[1][1] > own[1][0])) / 2


class PartCurves(NamedTuple):
    """Probability of a class along the order of an explanation.

    Attributes:
        deletion: with the parts taken away one by one, the most important first.
        insertion: with the parts put in one by one, the most important first.
    """

    deletion: Float64[Tensor, " steps"]
    insertion: Float64[Tensor, " steps"]


def part_curves(game: Game, importance: Float64[Tensor, " parts"], target: int) -> PartCurves:
    """Follow the probability of a class while parts are taken away, and while they are put in.

    The curves of Petsiuk et al. (2018, "RISE", sec. 4.2) with parts in place of pixels. Of equally important
    parts the first comes first.

    Returns:
        Parts + 1 probabilities; nan where a set was not rendered, and if an importance is not finite.

    Example:
        >>> present = torch.tensor([[True, True], [True, False], [False, True], [False, False]])
        >>> game = Game(present, torch.tensor([[9.0, 0], [9.0, 0], [0, 0], [0, 0]]).double())
        >>> part_curves(game, torch.tensor([1.0, 0.0]).double(), 0).deletion
        tensor([0.9999, 0.5000, 0.5000], dtype=torch.float64)
    """
    order = importance.argsort(descending=True, stable=True).tolist()
    kept = [order[step:] for step in range(game.parts + 1)]
    put = [order[:step] for step in range(game.parts + 1)]
    curves = [game.values(sets).softmax(1)[:, target] for sets in (kept, put)]
    known = importance.isfinite().all()
    return PartCurves(*(curve.where(known, torch.nan) for curve in curves))


def removal_infidelity(game: Game, importance: Float64[Tensor, " parts"], target: int) -> float:
    """Compute how far the sum of importances is from the effect of removing several parts at once.

    ``min_b sum_S (b sum_(i in S) m_i - (v(all) - v(all without S)))^2 / sum_S (v(all) - v(all without S))^2``
    over all rendered sets: the infidelity of Yeh et al. (2019, Definition 2.1) with removed parts as
    perturbation and its best scale b of at least 0. 0 is ideal; 1 is that of a map of zeros.

    Returns:
        A number from 0 to 1; nan without any effect.

    Example:
        >>> present = torch.tensor([[True, True], [True, False], [False, True], [False, False]])
        >>> game = Game(present, torch.tensor([[3.0], [2.0], [1.0], [0.0]]).double())
        >>> removal_infidelity(game, torch.tensor([20.0, 10.0]).double(), 0)
        0.0
    """
    present, logits = _distinct(game)
    effect = game.logits[0, target] - logits[:, target]
    stated = (~present).double() @ importance
    total, power = effect.square().sum(), stated.square().sum()
    if not float(total) > 0:
        return math.nan
    scale = ((stated @ effect) / power).clamp(min=0) if float(power) > 0 else power
    return float((scale * stated - effect).square().sum() / total)


def map_change(
    before: Float[Tensor, "height width"], after: Float[Tensor, "changes height width"]
) -> Float64[Tensor, " changes"]:
    """Compute by how much maps change: ``|after - before| / |before|`` (Euclidean norms of the maps).

    The largest one over small changes of the image is the maximal sensitivity of Yeh et al. (2019, eq. 3).

    Returns:
        Changes of at least 0; 1 for a map that is not finite, nan if ``before`` is 0 everywhere.

    Example:
        >>> map_change(torch.tensor([[3.0, 4.0]]), torch.tensor([[[3.0, 4.0]], [[3.0, -1.0]]]))
        tensor([0., 1.], dtype=torch.float64)
    """
    lost = ~after.flatten(1).isfinite().all(1)
    change = (after.masked_fill(lost[:, None, None], 0).double() - before.double()).flatten(1).norm(dim=1)
    length = before.double().norm()
    return change / length.where(length > 0, torch.nan)


def paint_parts(
    values: Float64[Tensor, " parts"], masks: Bool[Tensor, "parts height width"]
) -> Float64[Tensor, "height width"]:
    """Draw a map whose sum over each part is a given number: the ideal explanation of these numbers.

    Example:
        >>> paint_parts(torch.tensor([4.0]).double(), torch.tensor([[[True, True, False]]]))
        tensor([[2., 2., 0.]], dtype=torch.float64)
    """
    shares = values.nan_to_num(0) / masks.sum((1, 2)).clamp(min=1)
    return (shares[:, None, None] * masks).sum(0)
