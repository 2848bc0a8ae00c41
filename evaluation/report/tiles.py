"""Images as pixels for a page: encode, resize, outline masks, join side by side."""

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy import ndarray
from PIL import Image
from torch import Tensor

from candlelight.evaluation.report.blocks import PicturesBlock, png_picture
from candlelight.evaluation.views import Images
from candlelight.loaders.colour import to_display
from candlelight.loaders.looking.layer_pixels import Pixels
from candlelight.loaders.looking.sheet_rows import value_text
from candlelight.loaders.looking.sheet_tiles import BACKGROUND, LARGEST_TILE, SMALLEST_TILE
from candlelight.loaders.schema import FactorValue

_GAP = 4


def evenly_spaced_rows(count: int, most: int) -> list[int]:
    """Choose rows at equal distances, including the first and the last row.

    Example:
        >>> evenly_spaced_rows(10, 4), evenly_spaced_rows(2, 4)
        ([0, 3, 6, 9], [0, 1])
    """
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most)).tolist()})


def linear_pixels(image: Float[Tensor, "channels height width"]) -> Pixels:
    """Encode scene-linear gray or colour values with the sRGB curve; values above 1 are clipped.

    Example:
        >>> import torch
        >>> linear_pixels(torch.tensor([[[0.0, 0.5, 2.0]]]))[0, :, 1]
        array([  0, 188, 255], dtype=uint8)
    """
    shown = to_display(np.nan_to_num(image.numpy()).transpose(1, 2, 0))
    return np.repeat(shown, 3 // shown.shape[2], axis=2)


def encoded_pixels(image: Float[Tensor, "3 height width"]) -> Pixels:
    """Quantise sRGB-encoded values in [0, 1].

    Example:
        >>> import torch
        >>> encoded_pixels(torch.full((3, 1, 1), 0.5))[0, 0]
        array([128, 128, 128], dtype=uint8)
    """
    return np.rint(image.numpy().transpose(1, 2, 0) * 255).astype(np.uint8)


def scale_for_page(
    pixels: Pixels, mask: Bool[Tensor, "height width"] | None = None
) -> UInt8[ndarray, "rows columns 3"]:
    """Resize pixels for a page: average blocks of a large image, repeat the pixels of a small image.

    Pixels outside a mask become gray.

    Example:
        >>> large, small = np.zeros((300, 600, 3), np.uint8), np.zeros((60, 80, 3), np.uint8)
        >>> scale_for_page(large).shape, scale_for_page(small).shape
        ((150, 300, 3), (120, 160, 3))
    """
    step, factor = _scale(*pixels.shape[:2])
    reduced = np.asarray(Image.fromarray(pixels).reduce(step)) if step > 1 else pixels
    tile = reduced.repeat(factor, axis=0).repeat(factor, axis=1)
    if mask is not None:
        tile[~scale_mask_for_page(mask)] = BACKGROUND
    return tile


def scale_mask_for_page(mask: Bool[Tensor, "height width"]) -> Bool[ndarray, "rows columns"]:
    """Resize a mask like `scale_for_page` resizes an image, using every n-th pixel.

    Example:
        >>> import torch
        >>> scale_mask_for_page(torch.ones(300, 600, dtype=torch.bool)).shape
        (150, 300)
    """
    step, factor = _scale(*mask.shape)
    return mask.numpy()[::step, ::step].repeat(factor, axis=0).repeat(factor, axis=1)


def outline(pixels: Pixels, mask: Bool[ndarray, "height width"]) -> None:
    """Draw the border of a mask: a white line inside and a black line outside, visible on any colour.

    Example:
        >>> pixels, mask = np.full((7, 7, 3), 128, np.uint8), np.zeros((7, 7), bool)
        >>> mask[1:, 1:] = True
        >>> outline(pixels, mask)
        >>> pixels[:, 3, 0].tolist()
        [0, 255, 128, 128, 128, 128, 255]
    """
    pixels[~mask & _dilate(mask)] = 0
    pixels[mask & _dilate(~np.pad(mask, 1))[1:-1, 1:-1]] = 255


def join_horizontally(
    left: Pixels, right: UInt8[ndarray, "height other_width 3"]
) -> UInt8[ndarray, "height columns 3"]:
    """Join two tiles of equal height side by side, with a gray gap.

    Example:
        >>> join_horizontally(np.zeros((2, 3, 3), np.uint8), np.zeros((2, 3, 3), np.uint8)).shape
        (2, 10, 3)
    """
    return np.concatenate([left, np.full((len(left), _GAP, 3), 128, np.uint8), right], axis=1)


def values_text(values: dict[str, FactorValue]) -> str:
    """Write factors with their values.

    Example:
        >>> values_text({"size": 2.0, "color": "red"})
        'size 2, color red'
    """
    return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())


def _dilate(mask: Bool[ndarray, "height width"]) -> Bool[ndarray, "height width"]:
    """Add the four neighbours of each pixel to a mask."""
    wide = np.pad(mask, 1)
    return mask | wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]


def _scale(height: int, width: int) -> tuple[int, int]:
    """Return the side of the averaged blocks, and the number of repetitions of each pixel."""
    side = max(height, width)
    return -(-side // LARGEST_TILE), -(-SMALLEST_TILE // side)


_SHOWN = 6


def images_block(images: Images, text: str) -> PicturesBlock:
    """Show at most six images at equal distances.

    Args:
        images: a view of sRGB-encoded images.
        text: end of the caption "6 of 20 images of ...".
    """
    rows = evenly_spaced_rows(len(images.ids), _SHOWN)
    pictures = (
        png_picture(scale_for_page(encoded_pixels(images[row])), f"Image {images.ids[row]}.") for row in rows
    )
    return PicturesBlock(tuple(pictures), f"{len(rows)} of {len(images.ids)} images of {text}")
