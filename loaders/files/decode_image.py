"""Decode any common image file to sRGB pixels of a given size, safely.

An image is decoded, rotated by its EXIF orientation, converted to sRGB from its colour profile, laid over
white if it is transparent, and then scaled and cropped about its middle.
"""

import io
from contextlib import suppress
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image, ImageCms, ImageOps

from candlelight.loaders.errors import blaming
from candlelight.loaders.files.safe_decoding import open_image

IMAGE_SUFFIXES = frozenset(".bmp .gif .jpeg .jpg .png .ppm .tif .tiff .webp".split())


def decode_image(data: bytes, where: str, size: tuple[int, int]) -> UInt8[ndarray, "height width 3"]:
    """Decode an image, and scale and crop it to a size.

    The longer side is cropped equally at both ends. sRGB-encoded values are resampled (Lanczos). 16-bit gray
    is rounded to 8 bits; from 16-bit colour, Pillow keeps the upper 8 bits.

    Args:
        data: the bytes of the file.
        where: name of the file in messages.
        size: height and width, pixels.

    Returns:
        sRGB pixels.

    Raises:
        InputError: the file is damaged, has an unknown format, or claims more than
            `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    with blaming(f"{where}: cannot be read as an image", "replace or remove it"), open_image(data) as image:
        # `draft` decodes a large JPEG at a smaller size, for a fraction of the cost.
        image.draft("RGB", (2 * max(size), 2 * max(size)))
        upright = _srgb(ImageOps.exif_transpose(image))
        return np.asarray(ImageOps.fit(upright, size[::-1], Image.Resampling.LANCZOS))


def _srgb(image: Image.Image) -> Image.Image:
    """Turn any mode and profile into RGB, sRGB encoded."""
    if image.mode.startswith(("I", "F")):
        wide = np.asarray(image).astype(np.float64)
        if image.mode == "F" or not 0 <= wide.min() <= wide.max() <= 65535:
            raise ValueError("expected 8 or 16 bits per channel, got another type of numbers")
        return Image.fromarray(np.rint(wide / 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
        image.info["icc_profile"] = clear.info.get("icc_profile")
    profile = image.info.get("icc_profile")
    if profile and image.mode in ("RGB", "RGBA", "L", "CMYK"):
        # A damaged profile is ignored, as image viewers do.
        with suppress(ImageCms.PyCMSError, OSError):
            own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            return _converted(image if image.mode != "RGBA" else image.convert("RGB"), own)
    return image.convert("RGB")


def _converted(image: Image.Image, profile: Any) -> Image.Image:
    made = ImageCms.profileToProfile(image, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    assert made is not None  # None only for conversion in place
    return made
