"""Some rows of a view, scaled down to squares for training."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor
from torch.nn import functional

from candlelight.loaders.views import DecomposedImage, Decompositions


class SmallRows:
    """Rows of a view with the members of `candlelight.loaders.views.Decompositions`.

    Args:
        data: images with their ground-truth decomposition.
        rows: row numbers; None for all.
        size: side of the squares that `shrink` makes; None leaves the images as they are.
    """

    def __init__(
        self, data: Decompositions, rows: Sequence[int] | None = None, size: int | None = None
    ) -> None:
        self._data, self._size = data, size
        self._rows = range(len(data)) if rows is None else rows
        self.identity = data.identity
        if size is not None:
            self.identity = replace(data.identity, image=f"scaled to squares of {size} pixels")
        self.ids = tuple(data.ids[row] for row in self._rows)
        self.groups = tuple(data.groups[row] for row in self._rows)
        self.known_ids, self.explains = data.known_ids, data.explains

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> DecomposedImage:
        item = self._data[self._rows[row]]
        return item if self._size is None else shrink(item, self._size)


def shrink(item: DecomposedImage, size: int) -> DecomposedImage:
    """Average a decomposition over larger pixels, and fill it up to a square outside the mask.

    Args:
        item: scene-linear layers.
        size: side of the square. The longer side of a larger image becomes as long; a smaller image keeps its
            pixels. A pixel stays in the mask if all of its parts are in it.

    Example:
        >>> import torch
        >>> item = DecomposedImage(*[torch.ones(3, 20, 40)] * 3, torch.ones(20, 40).bool())
        >>> small = shrink(item, 8)
        >>> small.image.shape, small.mask.sum()
        (torch.Size([3, 8, 8]), tensor(32))
    """
    height, width = item.mask.shape
    scale = min(1, size / max(height, width))
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    padding = (0, size - shape[1], 0, size - shape[0])

    def smaller(values: Tensor) -> Tensor:
        return functional.pad(functional.adaptive_avg_pool2d(values, shape), padding)

    image, reflectance, shading = map(smaller, (item.image, item.reflectance, item.shading))
    mask = smaller(item.mask[None].float())[0] == 1
    known = None if item.shading_known is None else smaller(item.shading_known.float()) == 1
    return DecomposedImage(image, reflectance, shading, mask, shading_known=known)
