"""Controls that are made of the masks of the parts, and know nothing of the model that is explained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.loaders.views import BACKGROUND_REGION

PartMasks = Mapping[str, Bool[Tensor, "height width"]]


@dataclass(frozen=True)
class MaskControl:
    """An explanation that is made of the masks of an image.

    Attributes:
        draw: makes maps of the masks of the parts, of which there is at least one.
    """

    draw: Callable[[PartMasks], Float[Tensor, "maps height width"]]

    def __call__(self, masks: Sequence[PartMasks], size: tuple[int, int]) -> Explanation:
        """Explain images by their masks.

        Args:
            masks: masks of each image; the mask of the background is left out.
            size: height and width of the images.

        Returns:
            The maps, whose class is not known; an image without parts has no concepts.

        Example:
            >>> masks = {"head": torch.tensor([[True, False]]), "background": torch.tensor([[False, True]])}
            >>> MASK_CONTROLS["object"]([masks], (1, 2)).maps
            tensor([[[[1., 0.]]]])
        """
        parts = [{name: mask for name, mask in one.items() if name != BACKGROUND_REGION} for one in masks]
        drawn = [self.draw(some) if some else torch.zeros(0, *size) for some in parts]
        count = max(1, *(len(maps) for maps in drawn))
        maps = torch.stack([torch.cat([some, some.new_zeros(count - len(some), *size)]) for some in drawn])
        numbers = torch.arange(count)
        concepts = torch.stack([numbers.where(numbers < len(some), torch.tensor(-1)) for some in drawn])
        return Explanation(maps, concepts, maps.sum((2, 3)), torch.full((len(maps),), -1))


def object_mask(masks: PartMasks) -> Float[Tensor, "1 height width"]:
    """Unite the masks of all parts: one map, which covers each part and tells none from the others.

    Example:
        >>> object_mask({"head": torch.tensor([[True, False]]), "tail": torch.tensor([[False, True]])})
        tensor([[[1., 1.]]])
    """
    return torch.stack(list(masks.values())).any(0).float()[None]


def exact_parts(masks: PartMasks) -> Float[Tensor, "maps height width"]:
    """Return the mask of each part as a map of its own, of which the k largest are merged.

    Example:
        >>> exact_parts({"head": torch.tensor([[True, False]]), "tail": torch.tensor([[False, True]])})
        tensor([[[1., 0.]],
        <BLANKLINE>
                [[0., 1.]]])
    """
    return torch.stack(list(masks.values())).float()


def part_areas(masks: PartMasks) -> Float[Tensor, "1 height width"]:
    """Give each part the share of the image that it covers: the larger the part, the more relevant.

    Example:
        >>> part_areas({"head": torch.tensor([[True, False, False, False]])})
        tensor([[[0.2500, 0.0000, 0.0000, 0.0000]]])
    """
    parts = torch.stack(list(masks.values())).float()
    return (parts * parts.mean((1, 2), keepdim=True)).sum(0, keepdim=True)


def mask_control_note(waiou: Mapping[str, float | None] | None) -> str:
    """Tell that the mask of the object is better than the exact parts, if it is; else nothing.

    Args:
        waiou: WAIoU of "object" and of "exact parts", compared with each other; None if it is not known.

    Example:
        >>> print(mask_control_note({"object": 0.5, "exact parts": 0.25}))
        WAIoU prefers the mask of the whole object (0.5) to the exact masks of the parts (0.25), compared \
with each other: it rewards maps that overlap many parts, and does not show that a method tells parts apart
    """
    whole, exact = ((waiou or {}).get(name) for name in ("object", "exact parts"))
    if whole is None or exact is None or not whole > exact:
        return ""
    return (
        f"WAIoU prefers the mask of the whole object ({whole:.3g}) to the exact masks of the parts "
        f"({exact:.3g}), compared with each other: it rewards maps that overlap many parts, and does not "
        "show that a method tells parts apart"
    )


MASK_CONTROLS: Mapping[str, MaskControl] = {
    "object": MaskControl(object_mask),
    "exact parts": MaskControl(exact_parts),
    "part areas": MaskControl(part_areas),
}
