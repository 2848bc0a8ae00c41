"""Any common image file as sRGB pixels of one size, read without trusting it.

A picture is decoded, turned as its EXIF says, brought to sRGB where it carries another colour profile, laid
over white where it is transparent, and then scaled and cropped about its middle to the size asked for.
"""

import io
from contextlib import suppress
from typing import Any

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image, ImageCms, ImageOps

from loaders.errors import blaming
from loaders.files.image_files import open_image

IMAGE_SUFFIXES = frozenset(".bmp .gif .jpeg .jpg .png .ppm .tif .tiff .webp".split())


def decode_image(data: bytes, where: str, size: tuple[int, int]) -> UInt8[ndarray, "height width 3"]:
    """Decode a picture and bring it to a size.

    What is left over on the longer side is cut off, half on either end. Encoded values are resampled
    (Lanczos). 16 bits of gray are rounded to 8; of colour, Pillow keeps the upper 8.

    Args:
        data: the bytes of the file.
        where: what to call it if it cannot be read.
        size: height and width, pixels.

    Returns:
        sRGB pixels.

    Raises:
        InputError: the file is damaged, of another kind, or claims more than
            `loaders.files.image_files.MAX_PIXELS`.
    """
    with blaming(f"{where}: cannot be read as an image", "replace or remove it"), open_image(data) as image:
        # A JPEG decodes to half or less of its size for a fraction of the cost.
        image.draft("RGB", (2 * max(size), 2 * max(size)))
        upright = _srgb(ImageOps.exif_transpose(image))
        return np.asarray(ImageOps.fit(upright, size[::-1], Image.Resampling.LANCZOS))


def _srgb(image: Image.Image) -> Image.Image:
    """Turn any mode and profile into RGB, sRGB encoded."""
    if image.mode.startswith(("I", "F")):
        wide = np.asarray(image).astype(np.float64)
        if image.mode == "F" or not 0 <= wide.min() <= wide.max() <= 65535:
            raise ValueError("expected 8 or 16 bits a channel, got another kind of numbers")
        return Image.fromarray(np.rint(wide / 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
        image.info["icc_profile"] = clear.info.get("icc_profile")
    profile = image.info.get("icc_profile")
    if profile and image.mode in ("RGB", "RGBA", "L", "CMYK"):
        # A profile that is itself damaged is passed over, as viewers do.
        with suppress(ImageCms.PyCMSError, OSError):
            own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            return _converted(image if image.mode != "RGBA" else image.convert("RGB"), own)
    return image.convert("RGB")


def _converted(image: Image.Image, profile: Any) -> Image.Image:
    made = ImageCms.profileToProfile(image, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    assert made is not None  # it is None only when converting in place
    return made
