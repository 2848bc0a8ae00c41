"""A batch of images with their ground-truth decomposition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.inputs.check_shapes import check_bool, check_shapes
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import DecomposedImage
from candlelight.loaders.views.view_colours import fill_unknown

_AXES = {"image": "3 height width", "reflectance": "3 height width", "shading": "channels height width"}


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """Images, true reflectance and shading (scene-linear), masks: see `loaders.views.DecomposedImage`."""

    image: Float[Tensor, "batch 3 height width"]
    reflectance: Float[Tensor, "batch 3 height width"]
    shading: Float[Tensor, "batch channels height width"]
    mask: Bool[Tensor, "batch height width"]
    lights: Float[Tensor, "batch lights 3 height width"] | None = None
    shading_known: Bool[Tensor, "batch channels height width"] | None = None

    def comparable(
        self, shading: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch channels height width"]:
        """Return predicted shading without the channels whose truth is unknown: `fill_unknown`, as the truth.

        Args:
            shading: predicted, with as many channels as the truth, or three.
        """
        known = self.shading_known
        return shading if known is None else fill_unknown(shading, known.expand_as(shading))

    def map(self, change: Callable[[Tensor], Tensor]) -> "GroundTruth":
        """Change each tensor."""
        layers = {name: change(getattr(self, name)) for name in (*_AXES, "mask")}
        lights, known = (None if x is None else change(x) for x in (self.lights, self.shading_known))
        return GroundTruth(**layers, lights=lights, shading_known=known)

    def to(self, device: torch.device) -> "GroundTruth":
        """Copy the batch to a device."""
        return self.map(lambda values: values.to(device))


def stack_ground_truth(items: Sequence[DecomposedImage]) -> GroundTruth:
    """Stack items of a view, whose images have one size, into a batch.

    Raises:
        InputError: an item does not have the shapes and dtypes of
            `candlelight.loaders.views.DecomposedImage`; this can only happen with a view that the caller
            wrote.

    Example:
        >>> one = DecomposedImage(*[torch.ones(3, 2, 2)] * 3, torch.ones(2, 2).bool())
        >>> stack_ground_truth([one]).mask.shape
        torch.Size([1, 2, 2])
    """
    for item in items:
        layers = {name: (getattr(item, name), axes) for name, axes in _AXES.items()}
        check_shapes(**layers, mask=(item.mask, "height width"))
        check_bool(mask=item.mask)
        for name, (layer, _) in layers.items():
            if layer.dtype != torch.float32:
                raise InputError(f"`{name}` must be float32, scene-linear, got {layer.dtype}")
        if len(item.shading) not in (1, 3) or len(item.shading) != len(items[0].shading):
            counts = [len(one.shading) for one in items]
            raise InputError(f"`shading` must have 1 channel, or 3, in all images, got {counts}")
    truth = {name: torch.stack([getattr(item, name) for item in items]) for name in (*_AXES, "mask")}
    stacks = [item.lights for item in items if item.lights is not None]
    return GroundTruth(
        **truth,
        lights=torch.stack(stacks) if len(stacks) == len(items) else None,
        shading_known=_stack_known(items),
    )


def _stack_known(items: Sequence[DecomposedImage]) -> Bool[Tensor, "batch channels height width"] | None:
    """Stack the known channels; None if all are known in all items."""
    if all(item.shading_known is None for item in items):
        return None
    every = (torch.ones_like(item.shading, dtype=torch.bool) for item in items)
    return torch.stack(
        [
            known if item.shading_known is None else item.shading_known
            for item, known in zip(items, every, strict=True)
        ]
    )
