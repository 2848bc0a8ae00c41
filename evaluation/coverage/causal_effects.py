"""Effects of rendered interventions on a classifier.

And their agreement with heatmaps by several conventions.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from numpy import ndarray
from torch import Tensor

from candlelight.evaluation.catalogue.coverage_options import EffectScale
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice


class RegionHits(NamedTuple):
    """Whether the region that a heatmap points at most is the one with the largest effect.

    Attributes:
        hit: 1 or 0; of several regions with the highest density, the share that has the largest effect. nan
            if the effects are all equal, or fewer than two regions have an effect and a density.
        chance: expected hit of a region that is drawn at random, 1 / regions if one effect is the largest.
    """

    hit: Float[Tensor, " images"]
    chance: Float[Tensor, " images"]


def causal_effects(
    logits: Float[Tensor, "images classes"],
    changed: Float[Tensor, "images changes classes"],
    scale: EffectScale = "probability",
) -> Float[Tensor, "images changes"]:
    """Compute the effect of interventions on the class that a classifier predicts for the original image.

    ``p_c(counterfactual) - p_c(original)`` with ``c`` the class of the largest logit of the original image:
    negative if the change takes away evidence for the class. The mean over images is the causal concept
    effect of Goyal, Feder, Shalit and Kim (2019, arXiv:1907.07165), because rendered counterfactuals differ
    in the intervention alone.

    Blind to: the size of the change. A region whose new colour resembles the old one has a small effect
    whatever the classifier looks at; and a saturated probability hides effects, which "logit" shows.

    Args:
        logits: output of the classifier for the original images.
        changed: its output for the counterfactuals of each image.
        scale: "probability" compares softmax probabilities, "logit" the logits of class c.

    Returns:
        The signed effects; nan where a logit of the original or of the counterfactual is not finite.

    Raises:
        InputError: the shapes do not agree, or ``scale`` is misspelt.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0]])
        >>> causal_effects(logits, torch.tensor([[[1.0, 0.0], [2.0, 0.0]]]), "logit")
        tensor([[-1.,  0.]])
    """
    check_choice("scale", scale, EffectScale)
    check_shapes(logits=(logits, "images classes"), changed=(changed, "images changes classes"))
    finite = logits.isfinite().all(1)[:, None] & changed.isfinite().all(2)
    before, after = logits[:, None], changed
    if scale == "probability":
        before, after = before.softmax(2), after.softmax(2)
    chosen = logits.argmax(1)[:, None, None]
    effect = after.gather(2, chosen.expand(-1, changed.shape[1], -1)) - before.gather(2, chosen)
    return effect[:, :, 0].masked_fill(~finite, torch.nan)


def region_density(
    heatmap: Float[Tensor, "images height width"], regions: Bool[Tensor, "images regions height width"]
) -> Float[Tensor, "images regions"]:
    """Compute how densely a heatmap covers regions, relative to the whole image.

    ``(mean of the region - minimum) / (mean of the image - minimum)``: 1 for a region as intense as the
    image, whatever its area. Adding a number to a heatmap or scaling it changes nothing.

    Blind to: where in a region the heatmap is large.

    Args:
        heatmap: explanation heatmaps at the resolution of the regions; larger is more relevant.
        regions: pixels of each region.

    Returns:
        Densities of at least 0; nan for a region without pixels, for a constant heatmap, and for a heatmap
        with a value that is not finite.

    Raises:
        InputError: the shapes do not agree, or the regions are not boolean.

    Example:
        >>> regions = torch.tensor([[[[True, False, False]], [[False, True, True]]]])
        >>> region_density(torch.tensor([[[4.0, 0.0, 2.0]]]), regions)
        tensor([[2.0000, 0.5000]])
    """
    _check_regions(heatmap, regions)
    above = heatmap.double()
    above = above - above.amin((1, 2), keepdim=True)
    inside = torch.einsum("ihw,irhw->ir", above, regions.double()) / regions.sum((2, 3))
    return (inside / above.mean((1, 2))[:, None]).to(heatmap.dtype)


def region_mass(
    heatmap: Float[Tensor, "images height width"], regions: Bool[Tensor, "images regions height width"]
) -> Float[Tensor, "images regions"]:
    """Sum a heatmap over regions.

    Additive explanations state the effect of a region by this sum: all values of an image add up to the
    change of the prediction.

    Blind to: where in a region the heatmap is large; and, unlike `region_density`, not to a number that is
    added to the heatmap, which adds to a region in proportion to its area.

    Args:
        heatmap: explanation heatmaps at the resolution of the regions; 0 is not relevant, and negative values
            speak against the prediction.
        regions: pixels of each region.

    Returns:
        Sums with their signs; nan for a region without pixels, for a constant heatmap, and for a heatmap with
        a value that is not finite.

    Raises:
        InputError: the shapes do not agree, or the regions are not boolean.

    Example:
        >>> regions = torch.tensor([[[[True, False, False]], [[False, True, True]]]])
        >>> region_mass(torch.tensor([[[4.0, 1.0, -3.0]]]), regions)
        tensor([[ 4., -2.]])
    """
    _check_regions(heatmap, regions)
    inside = torch.einsum("ihw,irhw->ir", heatmap.double(), regions.double())
    constant = heatmap.amin((1, 2)) == heatmap.amax((1, 2))
    unknown = constant | ~heatmap.isfinite().all(2).all(1)
    return inside.masked_fill(unknown[:, None] | ~regions.any(3).any(2), torch.nan).to(heatmap.dtype)


def region_share(
    marked: Bool[Tensor, "images height width"], regions: Bool[Tensor, "images regions height width"]
) -> Float[Tensor, "images regions"]:
    """Compute the share of the marked points that lies in each region.

    Blind to: the area of a region, with which its share grows.

    Args:
        marked: marked points of a heatmap, from `binarise`.
        regions: pixels of each region.

    Returns:
        Shares in [0, 1], float32; nan for a region without pixels, and if no point is marked.

    Raises:
        InputError: the shapes do not agree, or an argument is not boolean.

    Example:
        >>> regions = torch.tensor([[[[True, False, False]], [[False, True, True]]]])
        >>> region_share(torch.tensor([[[True, False, False]]]), regions)
        tensor([[1., 0.]])
    """
    check_bool(marked=marked)
    _check_regions(marked, regions)
    inside = (marked[:, None] & regions).sum((2, 3)) / marked.sum((1, 2))[:, None]
    return inside.masked_fill(~regions.any(3).any(2), torch.nan)


def rank_agreement(
    density: Float[Tensor, "images regions"], effect: Float[Tensor, "images regions"]
) -> Float[Tensor, " images"]:
    """Correlate the ranks of regions by density and by the size of the effect (Spearman).

    Equal values share their mean rank. Regions that have no density or no effect (nan) take no part.

    Blind to: the sizes themselves: a region without any real effect but with noise has a rank, too.

    Args:
        density: how densely a heatmap covers the regions, from `region_density`.
        effect: causal effects of the regions; their signs are ignored.

    Returns:
        Correlations in [-1, 1]; nan if fewer than two regions remain, or if all densities or all effects are
        equal.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> rank_agreement(torch.tensor([[0.5, 1.0, 3.0]]), torch.tensor([[0.0, -0.2, 0.9]]))
        tensor([1.])
    """
    kept = _kept(density, effect)
    return _spearman(density, effect.abs(), kept)


def rank_correlation(
    stated: Float[Tensor, "images regions"], effect: Float[Tensor, "images regions"]
) -> Float[Tensor, " images"]:
    """Correlate the ranks of two numbers of each region, with their signs (Spearman).

    Equal values share their mean rank. Regions where one of the numbers is nan take no part.

    Args:
        stated: how much of the prediction a heatmap ascribes to each region.
        effect: how much depends on it.

    Returns:
        Correlations in [-1, 1]; nan if fewer than two regions remain, or if all values of one kind are equal.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> rank_correlation(torch.tensor([[0.5, 0.0, -3.0]]), torch.tensor([[0.9, 0.0, -0.2]]))
        tensor([1.])
    """
    check_shapes(stated=(stated, "images regions"), effect=(effect, "images regions"))
    return _spearman(stated, effect, ~(stated.isnan() | effect.isnan()))


def region_hits(
    density: Float[Tensor, "images regions"], effect: Float[Tensor, "images regions"]
) -> RegionHits:
    """Tell whether the region of the highest density is the region of the largest effect.

    Args:
        density: see `rank_agreement`.
        effect: see `rank_agreement`.

    Returns:
        Hits beside what chance gives; see `RegionHits`.

    Raises:
        InputError: the shapes do not agree.

    Example:
        >>> region_hits(torch.tensor([[0.5, 1.0, 3.0]]), torch.tensor([[0.0, -0.2, 0.9]]))
        RegionHits(hit=tensor([1.]), chance=tensor([0.3333]))
    """
    kept = _kept(density, effect)
    densest, strongest = _largest(density, kept), _largest(effect.abs(), kept)
    undefined = (kept.sum(1) < 2) | (strongest == kept).all(1)
    hit = (densest & strongest).sum(1).double() / densest.sum(1)
    chance = strongest.sum(1).double() / kept.sum(1)
    return RegionHits(*(one.to(density.dtype).masked_fill(undefined, torch.nan) for one in (hit, chance)))


def _check_regions(heatmap: Tensor, regions: Tensor) -> None:
    check_shapes(heatmap=(heatmap, "images height width"), regions=(regions, "images regions height width"))
    check_bool(regions=regions)


def _kept(density: Tensor, effect: Tensor) -> Bool[Tensor, "images regions"]:
    check_shapes(density=(density, "images regions"), effect=(effect, "images regions"))
    return ~(density.isnan() | effect.isnan())


def _spearman(one: Tensor, other: Tensor, kept: Bool[Tensor, "images regions"]) -> Float[Tensor, " images"]:
    ranks = torch.stack([_centred_ranks(one, kept), _centred_ranks(other, kept)])
    products = (ranks[0] * ranks[1]).sum(1)
    return (products / ranks.square().sum(2).prod(0).sqrt()).clamp(-1, 1).to(one.dtype)


def _centred_ranks(
    values: Float[Tensor, "images regions"], kept: Bool[Tensor, "images regions"]
) -> Float[Tensor, "images regions"]:
    """Rank the kept values of each image, less their mean rank; 0 for the others. Ranks may be halves."""
    one, other = values.double()[:, :, None], values.double()[:, None, :]
    # Each pair adds 1 to the larger value, or a half to both of equal ones, so ranks are exact.
    ranks = ((one > other).double() + 0.5 * (one == other) - 0.5) * (kept[:, :, None] & kept[:, None, :])
    return ranks.sum(2).masked_fill(~kept, 0)


def _largest(
    values: Float[Tensor, "images regions"], kept: Bool[Tensor, "images regions"]
) -> Bool[Tensor, "images regions"]:
    left_out = values.masked_fill(~kept, -torch.inf)
    return kept & (left_out == left_out.amax(1, keepdim=True))


class Convention(NamedTuple):
    """How a heatmap states the effect of a region.

    Attributes:
        mass: by the sum over the region, as additive explanations do; else by the mean.
        signed: with the sign, positive where the region speaks for the predicted class; else the size alone.
    """

    mass: bool
    signed: bool


CONVENTIONS: Mapping[str, Convention] = {  # by the name of the score; the first is the default
    "agreement": Convention(mass=False, signed=False),
    "mass_agreement": Convention(mass=True, signed=False),
    "signed_agreement": Convention(mass=False, signed=True),
    "signed_mass_agreement": Convention(mass=True, signed=True),
}


def stated_effects(
    heatmap: Float[Tensor, "images height width"], regions: Bool[Tensor, "images regions height width"]
) -> dict[str, Float[Tensor, "images regions"]]:
    """Read the effect of each region from heatmaps, by each of the `CONVENTIONS`.

    ====================== ======================= =====================================
    convention             number of a region      effect that it is compared with
    ====================== ======================= =====================================
    agreement              `region_density`        size
    mass_agreement         size of `region_mass`   size
    signed_agreement       mean                    p_c(original) - p_c(counterfactual)
    signed_mass_agreement  `region_mass`           the same
    ====================== ======================= =====================================

    Only the density does not depend on a number that is added to the heatmap.

    Args:
        heatmap: explanation heatmaps at the resolution of the regions; positive values speak for the
            predicted class.
        regions: pixels of each region.

    Returns:
        Numbers by convention; nan for a region without pixels, and for a heatmap that is constant or not
        finite.

    Raises:
        InputError: the shapes do not agree, or the regions are not boolean.

    Example:
        >>> regions = torch.tensor([[[[True, False, False]], [[False, True, True]]]])
        >>> for name, numbers in stated_effects(torch.tensor([[[3.0, -2.0, -4.0]]]), regions).items():
        ...     print(name, numbers[0].tolist())
        agreement [2.3333332538604736, 0.3333333432674408]
        mass_agreement [3.0, 6.0]
        signed_agreement [3.0, -3.0]
        signed_mass_agreement [3.0, -6.0]
    """
    mass = region_mass(heatmap.double(), regions)
    # Rounded at the end, so that regions of equal values have equal means.
    mean, mass = (one.to(heatmap.dtype) for one in (mass / regions.sum((2, 3)), mass))
    numbers = region_density(heatmap, regions), mass.abs(), mean, mass
    return dict(zip(CONVENTIONS, numbers, strict=True))


def compared_effects(
    effect: Float64[Tensor, "*shape"], size: Float64[Tensor, "*shape"]
) -> dict[str, Float64[Tensor, "*shape"]]:
    """Return the effects with which the numbers of `stated_effects` are compared, by convention.

    Args:
        effect: mean of `causal_effects`; negative if the change takes away evidence for the class.
        size: mean of their sizes.

    Example:
        >>> found = compared_effects(torch.tensor(-0.5).double(), torch.tensor(0.5).double())
        >>> [float(one) for one in found.values()]
        [0.5, 0.5, 0.5, 0.5]
    """
    return {name: -effect if convention.signed else size for name, convention in CONVENTIONS.items()}


def ideal_heatmap(
    convention: str,
    masks: Mapping[str, Bool[Tensor, "height width"]],
    effects: Mapping[str, tuple[float, ...]],
) -> Float64[Tensor, "height width"]:
    """Make the heatmap that states the effects of disjoint regions exactly, by one of the `CONVENTIONS`.

    Blind to: effects of regions that are not known (nan) or not listed; these have the value 0.

    Args:
        convention: name of the convention.
        masks: pixels of each region, at least one.
        effects: effect and its size, see `compared_effects`.

    Returns:
        A heatmap with one value in each region.

    Example:
        >>> head = torch.tensor([[True, False, False]])
        >>> masks, effects = {"head": head, "body": ~head}, {"head": (-0.5, 0.5), "body": (0.25, 0.25)}
        >>> for name in ("agreement", "mass_agreement", "signed_mass_agreement"):
        ...     print(ideal_heatmap(name, masks, effects)[0].tolist())
        [0.5, 0.25, 0.25]
        [0.5, 0.125, 0.125]
        [0.5, -0.125, -0.125]
    """
    heatmap = torch.zeros_like(next(iter(masks.values())), dtype=torch.float64)
    for region, mask in masks.items():
        effect, size = (torch.tensor(one, dtype=torch.float64) for one in effects.get(region, (0.0, 0.0)))
        value = compared_effects(effect, size)[convention].nan_to_num(0.0)
        heatmap[mask] += value / mask.sum() if CONVENTIONS[convention].mass else value
    return heatmap


CAUSAL_SCORES = ("agreement", "hit_rate", "hits_above_chance", "figure_ground")
_Pair = tuple[Float64[ndarray, "images regions"], Float64[ndarray, "images regions"]]


class CausalStatistic:
    """Mean agreement and hits of one method over any choice of images.

    Args:
        density: density of each region, nan where an image does not show it.
        effect: size of the effect of each region, at least 0; nan where it is unknown or not shown.
        chance: rate of hits of the moved heatmap, `moved_hits`.
        dead: images whose heatmap is dead; chance is that of a region drawn at random.
        side_density: density of the part with the largest effect, and of the background.
        side_effect: size of the effect of both.
        conventions: by name of the score, for other `CONVENTIONS`: the number that the heatmap states for
            each region, and its effect.

    Example:
        >>> density, effect = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[0.0, 0.5], [0.0, 0.5]])
        >>> chance, dead = np.array([0.25, 0.5]), np.array([False, False])
        >>> statistic = CausalStatistic(density, effect, chance, dead, density, effect)
        >>> statistic(np.array([0]))
        {'agreement': 1.0, 'hit_rate': 1.0, 'hits_above_chance': 0.75, 'figure_ground': 1.0}
        >>> statistic(np.array([1]))["agreement"]
        -1.0
    """

    def __init__(
        self,
        density: Float64[ndarray, "images regions"],
        effect: Float64[ndarray, "images regions"],
        chance: Float64[ndarray, " images"],
        dead: Bool[ndarray, " images"],
        side_density: Float64[ndarray, "images 2"],
        side_effect: Float64[ndarray, "images 2"],
        conventions: Mapping[str, _Pair] = MappingProxyType({}),
    ) -> None:
        found, effects = torch.from_numpy(density), torch.from_numpy(effect)
        drawn = region_hits(_distinct(effects), effects).chance.numpy()
        defined = ~np.isnan(drawn)
        self.chance = np.where(defined, np.where(dead, drawn, chance), np.nan)
        self.hit = _scored(region_hits(found, effects).hit, dead, defined)
        found, effects = torch.from_numpy(side_density), torch.from_numpy(side_effect)
        defined = ~region_hits(_distinct(effects), effects).hit.isnan().numpy()
        self.side = _scored(region_hits(found, effects).hit, dead, defined)
        self.agreements = {}
        for name, (stated, one) in {"agreement": (density, effect), **conventions}.items():
            effects = torch.from_numpy(one)
            defined = ~rank_correlation(_distinct(effects), effects).isnan().numpy()
            self.agreements[name] = _scored(
                rank_correlation(torch.from_numpy(stated), effects), dead, defined
            )

    def __call__(self, rows: Int[ndarray, " rows"]) -> dict[str, float]:
        """Compute the means over drawn images; nan if the effects leave all of them undefined."""
        hit, chance, side = (_mean(column[rows]) for column in (self.hit, self.chance, self.side))
        others = {name: _mean(column[rows]) for name, column in self.agreements.items()}
        scores = others.pop("agreement"), hit, hit - chance, side
        return dict(zip(CAUSAL_SCORES, scores, strict=True)) | others

    @property
    def mean_chance(self) -> float:
        """Hit rate of the heatmaps at a place that is drawn at random."""
        return _mean(self.chance)

    @property
    def undefined(self) -> int:
        """Number of images without a score."""
        return int(np.isnan(self.hit).sum())


def _distinct(effects: Tensor) -> Tensor:
    """Make densities that differ in all regions: with these, scores are undefined by the effects alone."""
    return torch.arange(effects.shape[1], dtype=effects.dtype).expand_as(effects)


def _scored(
    scores: Tensor, dead: Bool[ndarray, " images"], defined: Bool[ndarray, " images"]
) -> Float64[ndarray, " images"]:
    """Return scores that are 0 for dead heatmaps and equal densities, and nan only where effects say so."""
    return np.where(defined, np.where(dead, 0, np.nan_to_num(scores.numpy())), np.nan)


def _mean(column: Float64[ndarray, " rows"]) -> float:
    kept = column[~np.isnan(column)]
    return float(kept.mean()) if len(kept) else float("nan")
