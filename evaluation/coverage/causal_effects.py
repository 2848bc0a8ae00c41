"""Causal effects of regions on a prediction, and whether a heatmap points at the regions that have them."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes
from candlelight.loaders.check_choice import check_choice

EffectScale = Literal["probability", "logit"]
ChangedPixels = Literal["all", "region"]


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
    return _spearman(density, effect.abs(), _kept(density, effect))


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
