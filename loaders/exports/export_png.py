"""Write frames as PNG: a folder for each layer, and the scales by which its pixels become values."""

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float64, UInt8, UInt16
from numpy import ndarray
from pydantic import Field

from candlelight.loaders.exports.export_loop import (
    ExportCounts,
    ExportFiles,
    ExportUnit,
    fitting_sets,
    layer_names,
    write_export,
)
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import IMAGE, METADATA
from candlelight.loaders.schema import Record, layer

_LARGEST = 65535
_MIDDLE = 32767  # pixel of 0 in layers with a sign
_METRES = 1e-3
# Largest radiance in units of the value that `image` shows as white. The step of radiances is then smaller
# than the smallest step of 8-bit sRGB, 1 / (255 x 12.92).
HEADROOM_OVER_WHITE = 16.0
_SIDE_FILE = "scales.json"


class PngScale(Record):
    """How pixels of one layer become values: ``value = offset + scale * pixel``.

    ``files`` is the pattern of the file names, filled in with the sample's number. Of 16 bits, pixel 65535
    means its value or more, and the smallest pixel its value or less. Pixel ``infinite`` means infinity.
    """

    files: str
    bits: int
    scale: float
    offset: float = 0.0
    infinite: int | None = None
    unit: str
    colour_space: str
    meaning: str


class PngScalesRecord(Record):
    """``scales.json``: the scales of all layers by set and layer."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1
    name: str
    licence: str
    recipe_sha256: str
    sets: dict[str, dict[str, PngScale]]


def export_png(
    frames: Path | str,
    out: Path | str,
    set_name: str | None = None,
    layers: Collection[str] | None = None,
) -> ExportCounts:
    """Write the complete samples of image sets as ``<set>/<layer>/<number>.png``, for tools without EXR.

    ``image``, ``object`` and ``part`` have 8 bits and are exact. Other layers have 16 bits and fixed scales:

    - ``albedo``, ``roughness`` and ``metallic``: 0 to 1; linear.
    - ``radiance``, ``shading``, ``residual`` and ``light/<name>``: 0 to `HEADROOM_OVER_WHITE` times the value
      that ``image`` shows as white; linear. Larger values, and values below 0, are clipped.
    - ``depth``: millimetres, at most 65.535 m; 0 where nothing is hit.
    - ``normal``: -1 is 0, 0 is 32767, 1 is 65534; ``position``: millimetres from -32.767 m.

    Values within these ranges change by half a step at most. ``OUT/scales.json`` is a `PngScalesRecord`, with
    step and offset of each layer; `decode_pixels` applies them. ``<set>/metadata/<number>.json`` is the text
    of ``metadata.json``. Every layer is compared with its hash.

    Args:
        frames: folder of frames.
        out: folder to write: new, or started by the same export.
        set_name: the image set; None for all that have the layers.
        layers: names of the layers; None for all.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: there is no such set or layer, a frame is damaged, or the folder holds something else.

    Example:
        >>> export_png(Path("nowhere"), Path("png"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dataset.json is missing; name a folder of rendered \
frames
    """
    frames = Path(frames)
    sets = [FrameFolder(frames, name, layers) for name in fitting_sets(frames, set_name, layers=layers)]
    info = sets[0].info
    scales = {one.set_name: _set_scales(one) for one in sets}
    record = PngScalesRecord(
        name=info.name, licence=info.licence, recipe_sha256=info.recipe.sha256, sets=scales
    )
    text = record.model_dump_json(by_alias=True, indent=2) + "\n"
    units = [ExportUnit(_SIDE_FILE, lambda: {_SIDE_FILE: text.encode()}, 0)]
    for one in sets:
        for row, index in enumerate(one.indices.tolist()):
            last = f"{one.set_name}/metadata/{index:06d}.json"
            files = partial(_files, last, one, row, scales[one.set_name])
            units.append(ExportUnit(last, files))
    return write_export(
        Path(out),
        units,
        to="png",
        sets=",".join(scales),
        layers=",".join(sorted({name for some in scales.values() for name in some})),
        recipe=info.recipe.sha256,
    )


def encode_pixels(array: ndarray, scale: PngScale) -> UInt8[ndarray, "..."] | UInt16[ndarray, "..."]:
    """Round the values of a layer to pixels: the inverse of `decode_pixels`, within half a step.

    Args:
        array: the layer, of any shape.
        scale: its scale.

    Example:
        >>> depth = PngScale(
        ...     files="", bits=16, scale=0.001, infinite=0, unit="metres", colour_space="", meaning="depth"
        ... )
        >>> encode_pixels(np.array([0.0, 1.2344, 80, np.inf], np.float32), depth)
        array([    1,  1234, 65535,     0], dtype=uint16)
    """
    if scale.bits == 8:
        return array
    pixels = np.rint((array.astype(np.float64) - scale.offset) / scale.scale)
    lowest = 0 if scale.infinite is None else 1
    pixels = pixels.clip(lowest, _LARGEST)
    if scale.infinite is not None:
        pixels[np.isinf(array)] = scale.infinite
    return pixels.astype(np.uint16)


def decode_pixels(
    pixels: UInt8[ndarray, "*shape"] | UInt16[ndarray, "*shape"], scale: PngScale
) -> Float64[ndarray, "*shape"]:
    """Turn pixels of a layer into values: ``offset + scale * pixel``.

    Args:
        pixels: content of the PNG file, red first.
        scale: the layer's scale in ``scales.json``.

    Example:
        >>> normal = PngScale(
        ...     files="", bits=16, scale=1 / 32767, offset=-1, unit="", colour_space="", meaning="normal"
        ... )
        >>> decode_pixels(np.array([0, 32767, 65534], np.uint16), normal)
        array([-1.,  0.,  1.])
    """
    values = scale.offset + scale.scale * pixels.astype(np.float64)
    return values if scale.infinite is None else np.where(pixels == scale.infinite, np.inf, values)


def _set_scales(frames: FrameFolder) -> dict[str, PngScale]:
    names = layer_names(frames.layers)
    white = HEADROOM_OVER_WHITE / frames.set_info.exposure
    return {
        name: _layer_scale(name, f"{frames.set_name}/{names[name]}/%06d.png", white) for name in frames.layers
    }


def _layer_scale(name: str, files: str, white: float) -> PngScale:
    spec = layer(name)
    told: dict[str, Any] = {"files": files, "unit": spec.unit, "colour_space": spec.colour_space}
    told["meaning"] = spec.meaning
    if spec.dtype == "uint8":
        return PngScale(bits=8, scale=1.0, **told)
    if name == "depth":
        return PngScale(bits=16, scale=_METRES, infinite=0, **told)
    if name == "position":
        return PngScale(bits=16, scale=_METRES, offset=-_MIDDLE * _METRES, **told)
    if name == "normal":
        return PngScale(bits=16, scale=1 / _MIDDLE, offset=-1.0, **told)
    return PngScale(bits=16, scale=(1.0 if spec.unit == "0..1" else white) / _LARGEST, **told)


def _files(last: str, frames: FrameFolder, row: int, scales: dict[str, PngScale]) -> ExportFiles:
    frame, folder = frames.frame(row, verify=True), frames.path(row)
    files = {
        scales[name].files % frame.metadata.index: encode_png(encode_pixels(array, scales[name]))
        for name, array in frame.layers.items()
        if name != "image"
    }
    if "image" in frame.layers:
        files[scales["image"].files % frame.metadata.index] = (folder / IMAGE).read_bytes()
    return {**files, last: (folder / METADATA).read_bytes()}
