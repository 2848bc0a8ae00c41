"""Write frames as OpenEXR: one file of many layers for each frame, with the names that Blender gives them."""

import os
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from candlelight.loaders.choices import choose_layers
from candlelight.loaders.errors import InputError, blaming, require_module
from candlelight.loaders.exports.export_loop import (
    ExportCounts,
    ExportFiles,
    ExportUnit,
    fitting_sets,
    layer_names,
    write_export,
)
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import LIGHT_PREFIX, Metadata, layer

_PASSES = {"radiance": "Combined", "depth": "Depth", "normal": "Normal", "position": "Position"}
_VIEW_LAYER = "ViewLayer"
# Red, green, blue and white of Rec.709 (ITU-R BT.709-6, 1.3 and 1.4), x and y each.
_REC709 = (0.64, 0.33, 0.30, 0.60, 0.15, 0.06, 0.3127, 0.3290)


def export_exr(
    frames: Path | str,
    out: Path | str,
    set_name: str | None = None,
    layers: Collection[str] | None = None,
) -> ExportCounts:
    """Write the complete samples of image sets as ``<set>/<number>.exr``, for Blender, Nuke and other tools.

    A file has one part with the channels of all layers (`exr_channels`), ZIP-compressed without loss: half
    precision where the layer has it, and for indices, which it holds exactly; full precision for depth and
    position. All values are those of the frame: depth is infinite where nothing is hit, and normals are in
    the camera's OpenCV axes. The layer ``image`` is not written: it is ``radiance`` times the exposure, in 8
    bits.

    Attributes of the file are the primaries and white of Rec.709, ``colorInteropID`` "lin_rec709_scene", and
    text: ``candlelight/id``, ``candlelight/exposure``, ``candlelight/factor/<name>`` for each factor, and
    ``candlelight/metadata``, the text of ``metadata.json``. Every layer is compared with its hash.

    Args:
        frames: folder of frames.
        out: folder to write: new, or started by the same export.
        set_name: the image set; None for all that have the layers.
        layers: names of the layers, without ``image``; None for all.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: there is no such set or layer, a set has no layer but ``image``, a frame is damaged, or
            the folder holds something else.
        ModuleNotFoundError: OpenEXR is not installed.

    Example:
        >>> export_exr(Path("nowhere"), Path("exr"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dataset.json is missing; name a folder of rendered \
frames
    """
    frames = Path(frames)
    if layers is not None and (not layers or "image" in layers):
        raise InputError(
            f"`layers`: expected layers of linear light, such as `radiance`, got "
            f"{', '.join(layers) or 'none'}; PNG files hold `image`"
        )
    fitting = fitting_sets(
        frames, set_name, lambda one: len(one.layers) > 1, "a layer other than `image`", layers
    )
    require_module("OpenEXR", "exr")
    sets = [
        FrameFolder(frames, name, [one for one in choose_layers(info.layers, layers) if one != "image"])
        for name, info in fitting.items()
    ]
    units = []
    for one in sets:
        names = exr_channels(one.layers)
        for row, index in enumerate(one.indices.tolist()):
            file = f"{one.set_name}/{index:06d}.exr"
            units.append(ExportUnit(file, partial(_file, file, one, row, names)))
    return write_export(
        Path(out),
        units,
        to="exr",
        sets=",".join(one.set_name for one in sets),
        layers=",".join(sorted({name for one in sets for name in one.layers})),
        recipe=sets[0].info.recipe.sha256,
    )


def exr_channels(layers: Collection[str]) -> dict[str, list[str]]:
    """Name the channels of layers as Blender does: ``ViewLayer.<pass>.<component>``.

    ``radiance`` is the pass Combined; ``depth``, ``normal`` and ``position`` are Depth, Normal and Position;
    ``light/<name>`` is Combined_<name>, the pass of a light group; other layers have their own names, like
    shader AOVs. Components are R, G, B of colours; X, Y, Z of directions and points; Z of depth; X of other
    single values.

    Args:
        layers: names of layers.

    Returns:
        Names of channels by layer, in the order of the array's channels.

    Raises:
        InputError: a layer is unknown, or two lights would have one name.

    Example:
        >>> channels = exr_channels(["depth", "light/left"])
        >>> channels["depth"], channels["light/left"][0]
        (['ViewLayer.Depth.Z'], 'ViewLayer.Combined_left.R')
    """
    names = layer_names(layers)
    passes = {
        name: f"Combined_{names[name].removeprefix('light_')}"
        for name in layers
        if name.startswith(LIGHT_PREFIX)
    }
    passes = {**names, **passes, **_PASSES}
    return {name: [f"{_VIEW_LAYER}.{passes[name]}.{one}" for one in _components(name)] for name in layers}


def _components(name: str) -> str:
    spec = layer(name)
    if spec.channels:
        return "RGB" if spec.colour_space else "XYZ"
    return "Z" if name == "depth" else "X"


def _file(file: str, frames: FrameFolder, row: int, names: dict[str, list[str]]) -> ExportFiles:
    frame = frames.frame(row, verify=True)
    return {file: partial(_write, frame=frame, names=names)}


def _write(path: Path, frame: Frame, names: dict[str, list[str]]) -> None:
    import OpenEXR  # not at module level: other exports work without it

    channels = {
        channel: np.ascontiguousarray(plane)
        for name, array in frame.layers.items()
        for channel, plane in zip(names[name], _planes(array), strict=True)
    }
    cure = "free space, or name another folder"
    with (
        OpenEXR.File(_header(frame.metadata), channels) as made,
        blaming(f"`{frame.metadata.id}` cannot be written", cure),
    ):
        made.write(os.fsencode(path))  # as bytes, because names of folders need not be UTF-8


def _planes(array: ndarray) -> list[ndarray]:
    """Return the channels of a layer; EXR has no 8-bit numbers, and half precision holds them exactly."""
    kept = array.astype(np.float16) if array.dtype == np.uint8 else array
    return list(np.moveaxis(kept, -1, 0)) if kept.ndim == 3 else [kept]


def _header(metadata: Metadata) -> dict[str, Any]:
    import OpenEXR

    factors = {f"factor/{name}": value for name, value in metadata.factors.items()}
    texts = {"id": metadata.id, "exposure": metadata.exposure, **factors, "metadata": metadata.to_json()}
    return {
        "type": OpenEXR.scanlineimage,
        "compression": OpenEXR.ZIP_COMPRESSION,
        "chromaticities": _REC709,
        "colorInteropID": "lin_rec709_scene",
        **{f"candlelight/{name}": str(value) for name, value in texts.items()},
    }
