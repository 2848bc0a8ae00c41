"""Images of a view, scaled down for training."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from evaluation.running.batches import check_srgb_image
from evaluation.running.named_models import decode, encode
from loaders.views import Images


class SmallImages:
    """A view of images with the members of `loaders.views.Images`.

    Args:
        data: images, sRGB-encoded in [0, 1].
        size: longest side that `shrink_image` leaves.
    """

    def __init__(self, data: Images, size: int) -> None:
        self._data, self._size = data, size
        self.identity = replace(data.identity, image=f"scaled to at most {size} pixels")
        self.ids, self.groups, self.known_ids = data.ids, data.groups, data.known_ids

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, row: int) -> Float[Tensor, "3 height width"]:
        return shrink_image(check_srgb_image(self._data[row]), self._size)


def shrink_image(image: Float[Tensor, "3 height width"], size: int) -> Float[Tensor, "3 rows columns"]:
    """Average an image over larger pixels, in scene-linear colour, as a smaller camera would.

    Args:
        image: sRGB-encoded in [0, 1].
        size: longest side of the result; a smaller image stays as it is.

    Returns:
        The image, sRGB-encoded in [0, 1].

    Example:
        >>> import torch
        >>> board = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).expand(3, 2, 2)
        >>> shrink_image(board, 1).flatten()  # sRGB of a linear half
        tensor([0.7354, 0.7354, 0.7354])
    """
    height, width = image.shape[1:]
    if max(height, width) <= size:
        return image
    scale = size / max(height, width)
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    return encode(functional.adaptive_avg_pool2d(decode(image), shape)).clamp(0, 1)
