"""Decode codes to images, some codes of which an intervention sets to other values."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.inputs.check_shapes import check_shapes
from candlelight.loaders.errors import InputError

Decoder = Callable[[Float[Tensor, "batch codes"]], Float[Tensor, "batch channels height width"]]


@dataclass(frozen=True)
class DecodedCounterfactuals:
    """Decoded images of a few rows, in the colour space of the decoder.

    Attributes:
        rows: row numbers.
        original: images of the codes as they are.
        inside: images with the codes of one factor at their baseline.
        outside: images with all other codes at their baseline.
    """

    rows: tuple[int, ...]
    original: Float[Tensor, "shown channels height width"]
    inside: Float[Tensor, "kept shown channels height width"]
    outside: Float[Tensor, "kept shown channels height width"]


def decode_codes(
    decoder: Decoder,
    codes: Float[Tensor, "batch codes"],
    values: Float[Tensor, "batch codes"],
    changed: Bool[Tensor, " codes"],
) -> Float[Tensor, "batch channels height width"]:
    """Decode codes of which some are set to other values, and check the images.

    Args:
        decoder: gives images in [0, 1] of codes.
        codes: code vectors.
        values: values of the codes that are set.
        changed: codes that are set.

    Raises:
        InputError: the decoder does not give an image in [0, 1] for each row.

    Example:
        >>> codes = torch.tensor([[0.1, 0.2]])
        >>> changed = torch.tensor([False, True])
        >>> decode_codes(lambda z: z[:, :, None, None], codes, codes + 0.5, changed).flatten()
        tensor([0.1000, 0.7000])
    """
    images = decoder(torch.where(changed, values, codes))
    check_shapes(codes=(codes, "batch codes"), decoder=(images, "batch channels height width"))
    if not bool(((images >= 0) & (images <= 1)).all()):
        raise InputError(
            f"the decoder must give images in [0, 1], got {float(images.min()):g} to "
            f"{float(images.max()):g}; apply a sigmoid to logits, or clamp"
        )
    return images


def resize_decoded(decoder: Decoder, shape: torch.Size) -> Decoder:
    """Resize the images of a decoder to a height and width, if they differ.

    Example:
        >>> small = resize_decoded(lambda z: z[:, :, None, None].expand(-1, -1, 8, 8), torch.Size([2, 2]))
        >>> small(torch.ones(1, 3)).shape
        torch.Size([1, 3, 2, 2])
    """

    def resized(codes: Float[Tensor, "batch codes"]) -> Float[Tensor, "batch channels height width"]:
        decoded = decoder(codes)
        if decoded.ndim != 4 or decoded.shape[2:] == shape:
            return decoded
        return functional.interpolate(decoded, shape, mode="bilinear", antialias=True)

    return resized
