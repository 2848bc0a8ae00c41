"""Conventions by which a heatmap states the effects of regions, and the heatmap that is ideal by each."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from candlelight.evaluation.coverage.causal_effects import region_density, region_mass


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
    heatmap = torch.zeros(next(iter(masks.values())).shape, dtype=torch.float64)
    for region, mask in masks.items():
        effect, size = (torch.tensor(one, dtype=torch.float64) for one in effects.get(region, (0.0, 0.0)))
        value = compared_effects(effect, size)[convention].nan_to_num(0.0)
        heatmap[mask] += value / mask.sum() if CONVENTIONS[convention].mass else value
    return heatmap
