"""Read colour from OpenEXR files; the package OpenEXR reads every compression, DWAB and half floats too."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from candlelight.loaders.errors import InputError, blaming
from candlelight.loaders.files.safe_decoding import MAX_PIXELS
from candlelight.loaders.public.public_files import PublicSource

_MAX_VALUES = 4 * MAX_PIXELS


def read_exr(path: Path, source: PublicSource, lone: bool = False) -> Float32[ndarray, "height width 3"]:
    """Read the channels R, G and B of a file with one part, as float32.

    Channels may carry the name of a layer (``color.R``). Channels without a layer are preferred, then the
    layer ``color``, then the only layer. Other channels of the file, such as depth, are not read. Channel Y,
    alone or with A, is gray and fills all three channels. Colours are those that the file stores: with A they
    are premultiplied. Luminance with chroma (Y, RY, BY), other sets without R, G and B, whole numbers and
    channels of lower resolution are refused.

    Args:
        path: the file.
        source: where to get the data set, for messages.
        lone: whether the only channel of a file is gray whatever its name, such as Z of depth.

    Raises:
        InputError: OpenEXR is not installed; or the file is missing, damaged, lacks the channels, or claims
            more than `candlelight.loaders.files.safe_decoding.MAX_PIXELS`.
    """
    source.require(path)
    try:
        import OpenEXR
    except ImportError:
        raise InputError(f"{path}: reading EXR needs OpenEXR; `pip install OpenEXR`") from None
    with blaming(f"{path} cannot be read as EXR", f"get it again from {source}"):
        with OpenEXR.File(str(path), separate_channels=True, header_only=True) as file:
            names = _channels(file, lone)
        with OpenEXR.File(str(path), separate_channels=True) as file:
            stored = [file.channels()[name] for name in names]
        for one in stored:
            if one.pixels.dtype.kind != "f" or (one.xSampling, one.ySampling) != (1, 1):
                raise InputError(
                    f"expected channels of floating-point numbers for every pixel, got `{one.name}` of "
                    f"{one.pixels.dtype}, {one.xSampling} x {one.ySampling} pixels to a number"
                )
        return np.stack([np.asarray(one.pixels, np.float32) for one in stored], axis=-1)


def _channels(file: Any, lone: bool) -> tuple[str, str, str]:
    """Choose three channels by the header, before any pixel is read."""
    if not file.parts:
        raise InputError("its header cannot be read, or OpenEXR is older than 3.4")
    if len(file.parts) != 1:
        raise InputError(f"expected one part, got {len(file.parts)}")
    header = file.header()
    low, high = (np.asarray(corner, np.int64) for corner in header["dataWindow"])
    width, height = (high - low + 1).tolist()
    if not 0 < height * width <= MAX_PIXELS or min(height, width) < 1:
        raise InputError(f"expected at most {MAX_PIXELS} pixels, got {height} x {width}")
    found = [channel.name for channel in header["channels"]]
    if height * width * len(found) > _MAX_VALUES:  # OpenEXR decodes all channels
        raise InputError(f"expected at most {_MAX_VALUES} values, got {height} x {width} x {len(found)}")
    layers = [name.removesuffix("R") for name in found if name == "R" or name.endswith(".R")]
    for layer in sorted(layers, key=lambda layer: (layer != "", layer != "color.")):
        if layer in ("", "color.") or len(layers) == 1:
            names = (f"{layer}R", f"{layer}G", f"{layer}B")
            if set(names) <= set(found):
                return names
    if {"Y"} <= set(found) <= {"Y", "A"}:  # Y with RY and BY is luminance and chroma, with X and Z a point
        return ("Y", "Y", "Y")
    if lone and len(found) == 1:
        return (found[0],) * 3
    raise InputError(f"expected the channels R, G and B, or Y alone, got {', '.join(found)}")
