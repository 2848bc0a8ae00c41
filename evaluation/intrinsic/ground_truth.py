"""The ground truth of a batch: true reflectance and shading, and regions of one material."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from candlelight.evaluation.views import DecomposedImage, RegionImage
from candlelight.evaluation.views.check_shapes import check_bool, check_shapes
from candlelight.evaluation.views.view_colours import fill_unknown
from candlelight.loaders.errors import InputError

_AXES = {"image": "3 height width", "reflectance": "3 height width", "shading": "channels height width"}


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """Images, true reflectance and shading (scene-linear), masks: see `evaluation.views.DecomposedImage`."""

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


def stack_ground_truth(items: Sequence[DecomposedImage]) -> GroundTruth:
    """Stack items of a view, whose images have one size, into a batch.

    Raises:
        InputError: an item does not have the shapes and dtypes of
            `candlelight.evaluation.views.DecomposedImage`; this can only happen with a view that the caller
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
        if len(item.shading) not in (0, 1, 3) or len(item.shading) != len(items[0].shading):
            counts = [len(one.shading) for one in items]
            raise InputError(f"`shading` must have 0, 1 or 3 channels in all images, got {counts}")
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


@dataclass(frozen=True)
class PlantedFault:
    """A known fault of a decomposition that is made of the true reflectance R and shading S.

    The decomposition is ``R S^leak (1 + noise n)`` and ``S R^leak (1 + noise n)`` with standard normal n in
    each pixel and channel, or 0.5 in both layers if it is constant.

    Example:
        >>> pair = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.25)
        >>> [layer[0].item() for layer in PlantedFault(leak=0.5)(*pair, "a")]
        [0.25, 0.1767766922712326]
    """

    noise: float = 0
    leak: float = 0
    constant: bool = False

    def __call__(
        self, reflectance: Float[Tensor, "*shape"], shading: Float[Tensor, "*shape"], name: str
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        """Make reflectance and shading of one image or several; equal names give equal noise."""
        if self.constant:
            return torch.full_like(reflectance, 0.5), torch.full_like(reflectance, 0.5)
        drawn = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        made = []
        for own, other in ((reflectance, shading), (shading, reflectance)):
            factor = 1 + self.noise * torch.randn(own.shape, generator=drawn).to(own.device)
            made.append(own * other.clamp(min=0) ** self.leak * factor)
        return made[0], made[1]


@dataclass(frozen=True, eq=False)
class RegionBatch:
    """Images, regions, true colours and masks; see `candlelight.evaluation.views.RegionImage`.

    ``colours`` is None if an image has no colours; an image with fewer regions than ``count`` has zeros in
    the last rows. ``mask`` is None if an image has no mask.
    """

    image: Float32[Tensor, "batch 3 height width"]
    regions: Int64[Tensor, "batch height width"]
    colours: Float32[Tensor, "batch count 3"] | None
    mask: Bool[Tensor, "batch height width"] | None
    count: int


def stack_regions(items: Sequence[RegionImage]) -> RegionBatch:
    """Stack items of a view, whose images have one size, into a batch.

    Raises:
        InputError: an item does not have the shapes and dtypes of `candlelight.evaluation.views.RegionImage`;
            this can only happen with a view that the caller wrote.

    Example:
        >>> one = RegionImage(torch.ones(3, 2, 2), torch.ones(2, 2).long(), torch.ones(1, 3))
        >>> stack_regions([one, one]).colours.shape
        torch.Size([2, 1, 3])
    """
    for item in items:
        _check(item)
    count = max([1, *(int(item.regions.max()) for item in items)])
    colours = None
    if all(item.colours is not None for item in items):
        colours = torch.zeros(len(items), count, 3)
        for row, item in enumerate(items):
            known = item.colours[:count]  # type: ignore[index]
            colours[row, : len(known)] = known
    masks = [item.mask for item in items if item.mask is not None]
    return RegionBatch(
        torch.stack([item.image for item in items]),
        torch.stack([item.regions for item in items]),
        colours,
        torch.stack(masks) if len(masks) == len(items) else None,
        count,
    )


def _check(item: RegionImage) -> None:
    check_shapes(image=(item.image, "3 height width"), regions=(item.regions, "height width"))
    if item.image.dtype != torch.float32:
        raise InputError(f"`image` must be float32, scene-linear, got {item.image.dtype}")
    if item.regions.dtype != torch.int64 or not item.regions.numel() or int(item.regions.min()) < 0:
        raise InputError(f"`regions` must be int64, >= 0 and not empty, got {item.regions.dtype}")
    if item.mask is not None:
        check_shapes(regions=(item.regions, "height width"), mask=(item.mask, "height width"))
        check_bool(mask=item.mask)
    if item.colours is None:
        return
    check_shapes(colours=(item.colours, "regions 3"))
    if int(item.regions.max()) > len(item.colours):
        raise InputError(
            f"`colours` must have a row for each region, got {len(item.colours)} for region "
            f"{int(item.regions.max())}"
        )
