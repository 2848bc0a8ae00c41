"""Explanations for comparison that know the true effects of parts, or nothing at all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.coverage.control_explainers import centre_blob, uniform_noise
from candlelight.evaluation.coverage.part_removal import paint_parts, part_shapley
from candlelight.evaluation.coverage.removal_images import RemovalImages, TrueEffects

Maps = Float[Tensor, "_ height width"]


@dataclass(frozen=True)
class PaintedControl:
    """An explanation that paints a number for each region into its mask.

    Attributes:
        values: makes the numbers of a class, from the true effects and the class.
    """

    values: Callable[[TrueEffects, int], Float64[Tensor, " regions"]]

    def __call__(self, images: RemovalImages, truth: TrueEffects, targets: Int[Tensor, " images"]) -> Maps:
        """Paint a map for each class; masks that are widened share their pixels."""
        values = [self.values(truth, target).to(images.masks.device) for target in targets.tolist()]
        return torch.stack([paint_parts(one, images.masks) for one in values]).float()


def edge_strength(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 1 height width"]:
    """Compute the length of the gradient of the gray image by Sobel filters: an edge detector.

    An explanation that looks sensible and knows nothing of the network (Adebayo et al. 2018, sec. 5).

    Example:
        >>> edge_strength(torch.tensor([0.0, 0.0, 1.0]).expand(1, 3, 3, 3))[0, 0, 1]
        tensor([0., 4., 4.])
    """
    gray = functional.pad(images.mean(1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    across = gray.new_tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    gradients = functional.conv2d(gray, torch.stack([across, across.T])[:, None])
    return gradients.square().sum(1, keepdim=True).sqrt()


edge_strength.colour_space = "srgb"  # type: ignore[attr-defined]


def _effects(truth: TrueEffects, target: int) -> Float64[Tensor, " regions"]:
    return torch.cat([truth.rendered.drops()[:, target], truth.object_drops(target)])


def _without_objects(parts: Float64[Tensor, " parts"], truth: TrueEffects) -> Float64[Tensor, " regions"]:
    return functional.pad(parts, (0, len(truth.cleared)))


def _shapley(truth: TrueEffects, target: int) -> Float64[Tensor, " regions"]:
    return _without_objects(part_shapley(truth.rendered, target).values, truth)


def _sufficient(truth: TrueEffects, target: int) -> Float64[Tensor, " regions"]:
    found = truth.rendered.sufficient() or ()
    flags = [float(part in found) for part in range(truth.rendered.parts)]
    return _without_objects(truth.rendered.logits.new_tensor(flags), truth)


def _other_class(truth: TrueEffects, target: int) -> Float64[Tensor, " regions"]:
    """Return the effects on the class with the largest logit beside the explained one."""
    order = truth.rendered.logits[0].argsort(descending=True).tolist()
    others = [one for one in order if one != target]
    return _effects(truth, others[0] if others else target)


PAINTED: Mapping[str, PaintedControl] = {
    "true effects": PaintedControl(_effects),
    "shapley": PaintedControl(_shapley),
    "sufficient set": PaintedControl(_sufficient),
    "other class": PaintedControl(_other_class),
    "one class": PaintedControl(lambda truth, target: _effects(truth, truth.rendered.predicted)),
}
UNINFORMED: Mapping[str, Callable[[Tensor], Tensor]] = {
    "noise": uniform_noise,
    "centre": centre_blob,
    "edges": edge_strength,
}
