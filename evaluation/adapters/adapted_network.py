"""The common part of published networks: sRGB images in, scene-linear reflectance and shading out."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from candlelight.evaluation.adapters.published_weights import hash_files

NEVER_RUN = "adapter never run with the published weights"


class AdaptedNetwork(nn.Module):
    """A published network with its conversion from images and to reflectance and shading.

    Attributes:
        colour_space: of the images that it takes: sRGB-encoded, in [0, 1].
        version: method, and what was never checked; part of the identity in a result.
        sha256: hash of the code and the weights that were read.
    """

    colour_space: ClassVar[Literal["srgb"]] = "srgb"

    def __init__(self, method: str, files: dict[str, Path]) -> None:
        super().__init__()
        self.version = f"{method}, {NEVER_RUN}"
        self.sha256 = hash_files(files)


def resize_bilinear(
    images: Float[Tensor, "batch channels height width"], size: Sequence[int]
) -> Float[Tensor, "batch channels rows columns"]:
    """Resize bilinearly, with an antialiasing filter where images shrink.

    Example:
        >>> resize_bilinear(torch.tensor([[[[0.0, 1.0]]]]), (1, 1)).item()
        0.5
    """
    if tuple(images.shape[-2:]) == tuple(size):
        return images
    return functional.interpolate(images, tuple(size), mode="bilinear", antialias=True)


def choose_size(
    height: int, width: int, sizes: Sequence[tuple[float, tuple[int, int]]], square: tuple[int, int]
) -> tuple[int, int]:
    """Choose one of the sizes of a network by the aspect ratio.

    Args:
        height: of the image.
        width: of the image.
        sizes: bounds of height / width, the largest first, and the size of images above each; images below
            the reciprocal of a bound have this size with height and width exchanged.
        square: size of all other images.

    Example:
        >>> choose_size(480, 640, [(1.41, (384, 256)), (1.15, (512, 384))], (384, 384))
        (384, 512)
    """
    ratio = height / width
    for bound, (long, short) in sizes:
        if ratio > bound:
            return long, short
        if ratio < 1 / bound:
            return short, long
    return square


def decode_srgb(encoded: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Decode sRGB values in [0, 1] to scene-linear ones, on any device and with gradients.

    Example:
        >>> decode_srgb(torch.tensor([0.0, 0.5, 1.0]))
        tensor([0.0000, 0.2140, 1.0000])
    """
    return torch.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
