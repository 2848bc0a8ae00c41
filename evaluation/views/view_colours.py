"""Convert images of readers to the colour space of a view: readers' uint8 is sRGB, floats are linear."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from jaxtyping import Bool, Float, Float32, Shaped

from candlelight.loaders.colour import linear_to_srgb
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import SRGB8_TO_LINEAR
from candlelight.loaders.samples import Sample

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


def to_linear(image: Shaped[Tensor, "channels height width"]) -> Float32[Tensor, "3 height width"]:
    """Make an image scene-linear.

    Args:
        image: image with one or three channels; uint8 is sRGB-encoded, floats are already scene-linear.

    Returns:
        Scene-linear values; gray fills three channels.

    Raises:
        InputError: the dtype or the number of channels is not supported.

    Example:
        >>> import torch
        >>> to_linear(torch.full((1, 1, 1), 188, dtype=torch.uint8)).flatten()
        tensor([0.5029, 0.5029, 0.5029])
    """
    import torch

    checked = _in_three_channels(image)
    if checked.dtype == torch.uint8:
        return torch.from_numpy(SRGB8_TO_LINEAR[checked.numpy()])
    return checked.to(torch.float32)


def to_srgb(image: Shaped[Tensor, "channels height width"]) -> Float32[Tensor, "3 height width"]:
    """Encode an image with the sRGB curve.

    Args:
        image: image with one or three channels; uint8 is already sRGB-encoded, floats are scene-linear.

    Returns:
        sRGB-encoded values in [0, 1]; linear values above 1 are clipped, gray fills three channels.

    Raises:
        InputError: the dtype or the number of channels is not supported.

    Example:
        >>> import torch
        >>> to_srgb(torch.full((1, 1, 1), 0.5)).flatten(), to_srgb(torch.full((1, 1, 1), 51).byte()).flatten()
        (tensor([0.7354, 0.7354, 0.7354]), tensor([0.2000, 0.2000, 0.2000]))
    """
    import torch

    checked = _in_three_channels(image)
    if checked.dtype == torch.uint8:
        return checked.to(torch.float32) / 255
    return torch.from_numpy(linear_to_srgb(checked.to(torch.float32).numpy()))


def linear_layer(available: Collection[str]) -> str:
    """Choose the layer of frames from which `linear_image` makes an image.

    Example:
        >>> linear_layer(["image", "radiance"]), linear_layer(["image", "albedo"])
        ('radiance', 'image')
    """
    return "radiance" if "radiance" in available else "image"


def linear_image(sample: Sample, exposure: float) -> Float32[Tensor, "3 height width"]:
    """Make the scene-linear image of a frame: `radiance` times the exposure, or the decoded 8-bit `image`.

    Args:
        sample: row of a reader of frames.
        exposure: exposure of the set.
    """
    return to_linear(sample["radiance"]) * exposure if "radiance" in sample else to_linear(sample["image"])


def fill_unknown(
    values: Float[Tensor, "*batch channels height width"], known: Bool[Tensor, "*batch channels height width"]
) -> Float[Tensor, "*batch channels height width"]:
    """Give unknown channels the mean of the known channels of their pixel, so that they add no information.

    A score that compares two images filled in the same way compares known channels alone. Pixels without a
    known channel stay as they are.

    Example:
        >>> import torch
        >>> pixel = torch.tensor([0.2, 0.6, 0.0]).reshape(3, 1, 1)
        >>> fill_unknown(pixel, pixel > 0).flatten()
        tensor([0.2000, 0.6000, 0.4000])
    """
    count = known.sum(-3, keepdim=True)
    mean = values.where(known, values.new_zeros(())).sum(-3, keepdim=True) / count.clamp(min=1)
    return values.where(known | (count == 0), mean)


def _in_three_channels(image: Tensor) -> Tensor:
    import torch

    if image.dtype != torch.uint8 and not image.is_floating_point():
        raise InputError(
            f"expected an image of uint8 (sRGB-encoded) or floats (scene-linear), got {image.dtype}; scale "
            "integers of more bits to floats"
        )
    if len(image) not in (1, 3):
        raise InputError(f"expected an image of one or three channels, got {len(image)}")
    return image.expand(3, -1, -1)
