"""Images of a view in one size, as `score_coverage` resizes them, to train the networks that it explains."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.coverage.masks import resize_images
from candlelight.evaluation.running.batches import check_srgb_image
from candlelight.evaluation.running.named_models import decode, encode
from candlelight.loaders.views import Images


class ResizedImages:
    """A view of images of one size, with the members of `candlelight.loaders.views.Images`.

    Images are resized in scene-linear colour by antialiased bilinear interpolation, whatever their aspect
    ratio, exactly as by the argument ``size`` of `score_coverage`.

    Args:
        data: images, sRGB-encoded in [0, 1], of any sizes.
        size: height and width in pixels.

    Example:
        >>> import torch
        >>> from candlelight.loaders.views import DataIdentity
        >>> class Board:
        ...     identity, ids, groups = DataIdentity("board", "memory"), ("board",), ("board",)
        ...     known_ids = frozenset(ids)
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row): return torch.tensor([[0.0, 1.0], [1.0, 0.0]]).expand(3, 2, 2)
        >>> ResizedImages(Board(), (1, 1))[0].flatten()  # sRGB of a linear half
        tensor([0.7354, 0.7354, 0.7354])
    """

    def __init__(self, data: Images, size: tuple[int, int]) -> None:
        self._data, self._size = data, size
        self.identity = replace(data.identity, image=f"resized to {size[0]} x {size[1]} pixels")
        self.ids, self.groups, self.known_ids = data.ids, data.groups, data.known_ids

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, row: int) -> Float[Tensor, "3 height width"]:
        linear = decode(check_srgb_image(self._data[row]))[None]
        return encode(resize_images(linear, self._size)[0])
