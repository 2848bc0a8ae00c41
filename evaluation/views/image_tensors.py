"""Images as tensors: checked, encoded and linear, resized in linear light."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.views.view_types import Images
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from candlelight.loaders.errors import InputError


def check_srgb_image(image: Tensor) -> Tensor:
    """Check that an image is float32, has three channels and lies in [0, 1], and return it.

    Raises:
        InputError: the image is not float32 [3, height, width] with sRGB-encoded values in [0, 1].

    Example:
        >>> check_srgb_image(torch.full((3, 1, 1), 128.0))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: expected images float32 [3, height, width], sRGB-encoded in \
[0, 1], got float32 [3, 1, 1] from 128 to 128
    """
    fits = isinstance(image, Tensor) and image.dtype == torch.float32 and image.ndim == 3 and len(image) == 3
    if not fits or not bool(((image >= 0) & (image <= 1)).all()):
        got = type(image).__name__
        if isinstance(image, Tensor):
            got = f"{str(image.dtype).removeprefix('torch.')} {list(image.shape)}"
            got += f" from {float(image.min()):g} to {float(image.max()):g}" if image.numel() else ""
        raise InputError(f"expected images float32 [3, height, width], sRGB-encoded in [0, 1], got {got}")
    return image


def decode(image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Convert sRGB-encoded values in [0, 1] to scene-linear values.

    Example:
        >>> decode(torch.tensor([0.0, 0.5, 1.0]))
        tensor([0.0000, 0.2140, 1.0000])
    """
    if image.device.type != "cpu":
        return torch.where(image <= 0.04045, image / 12.92, ((image + 0.055) / 1.055) ** 2.4)
    return torch.from_numpy(srgb_to_linear(image.numpy()))


def encode(image: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Convert scene-linear values to sRGB-encoded values in [0, 1]; values above 1 are clipped.

    Example:
        >>> encode(torch.tensor([0.0, 0.214, 4.0]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    if image.device.type != "cpu":
        clipped = image.clamp(0, 1)
        return torch.where(clipped <= 0.0031308, 12.92 * clipped, 1.055 * clipped ** (1 / 2.4) - 0.055)
    return torch.from_numpy(linear_to_srgb(image.numpy()))


def resize_images(images: Tensor, size: tuple[int, int] | None) -> Float[Tensor, "batch channels h w"]:
    """Resize linear images with an antialiasing filter; None does not resize."""
    if size is None or tuple(images.shape[2:]) == size:
        return images
    return functional.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)


class ResizedImages:
    """A view of images of one size, with the members of `candlelight.evaluation.views.Images`.

    Images are resized in scene-linear colour by antialiased bilinear interpolation, whatever their aspect
    ratio, exactly as by the argument ``size`` of `score_coverage`.

    Args:
        data: images, sRGB-encoded in [0, 1], of any sizes.
        size: height and width in pixels.

    Example:
        >>> from candlelight.evaluation.views import DataIdentity
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
