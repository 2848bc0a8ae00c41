"""Write frames in the layout of CANDLE: ``<id>.png`` and ``<id>.json`` in one folder."""

import json
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.exports.export_loop import (
    ExportCounts,
    ExportFiles,
    ExportUnit,
    fitting_sets,
    write_export,
)
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.schema import CameraRecord, Metadata, ObjectRecord, SetInfo

CandleLayout = Literal["flat", "nested"]
Bounds = Literal["exact", "faithful"]
Box = list[list[int]]  # [[x low, y low], [x high, y high]], pixels, y from the bottom

CANDLE_FACTORS = ("scene", "lights", "object_type", "color", "size", "rotation")


def export_candle(
    frames: Path | str,
    out: Path | str,
    layout: CandleLayout = "flat",
    bounds: Bounds = "exact",
    set_name: str | None = None,
) -> ExportCounts:
    """Write the complete samples of an image set in the layout of CANDLE.

    CANDLE, Reddy, Godfrey L and Balasubramanian, AAAI 2022, supplement section 4. The id is the sample's
    number in its set; for the recipe `candle` that is the position in the full grid. Images are RGBA, as
    published. Every image is compared with its hash. The ``.json`` of a sample is written last: a second
    call finds the samples that have it, and writes the others.

    Args:
        frames: folder of frames.
        out: folder to write: new, or started by the same export.
        layout: "flat" puts ``scene``, ``lights`` and ``objects`` at the top of the JSON, as the second
            release does; "nested" puts them under the id, as the first release does, without ``lights``.
        bounds: "exact" bounds fit the image and end at its border; "faithful" bounds ignore the small
            turns of the camera and may leave the image, as published. Both count y from the bottom.
        set_name: the image set; None for the only set that has CANDLE's factors.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: no set has CANDLE's factors, or several have them and none is named; a frame is damaged
            or lacks a camera or corners; the folder holds something else.

    Example:
        >>> export_candle(Path("nowhere"), Path("candle"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dataset.json is missing; name a folder of rendered \
frames
    """
    frames, out = Path(frames), Path(out)
    sets = fitting_sets(frames, set_name, _has_candles_factors, f"the factors {', '.join(CANDLE_FACTORS)}")
    if len(sets) > 1:
        raise InputError(f"{frames}: several sets have CANDLE's factors; name one of {', '.join(sets)}")
    opened = FrameFolder(frames, next(iter(sets)), layers=("image",))

    def files(row: int, name: str) -> ExportFiles:
        frame = opened.frame(row, verify=True)
        entry = candle_metadata(frame.metadata, opened.set_info.width, opened.set_info.height, bounds)
        image = np.pad(frame.layers["image"], ((0, 0), (0, 0), (0, 1)), constant_values=255)
        text = json.dumps(entry if layout == "flat" else {name: entry}, indent=4)
        return {f"{name}.png": encode_png(image), f"{name}.json": text.encode()}

    units = [
        ExportUnit(f"{index}.json", partial(files, row, str(index)))
        for row, index in enumerate(opened.indices.tolist())
    ]
    recipe = opened.info.recipe.sha256
    return write_export(
        out, units, to="candle", layout=layout, bounds=bounds, set=opened.set_name, recipe=recipe
    )


def candle_metadata(metadata: Metadata, width: int, height: int, bounds: Bounds = "exact") -> dict[str, Any]:
    """Return the content of CANDLE's JSON for a sample.

    Labels are the factors' values, even where the object's true yaw differs from ``rotation``.

    Args:
        metadata: metadata of the sample.
        width: pixels.
        height: pixels.
        bounds: as in `export_candle`.

    Raises:
        InputError: the sample has no camera or not exactly one object, or its bounds cannot be computed.
    """
    if len(metadata.objects) != 1:
        raise InputError(f"`{metadata.id}`: expected one object, as CANDLE has, got {len(metadata.objects)}")
    if metadata.camera is None:
        raise InputError(f"`{metadata.id}`: its metadata has no camera, without which there are no bounds")
    labels = {name: metadata.factors[name] for name in CANDLE_FACTORS}
    scene, lights = labels.pop("scene"), labels.pop("lights")
    try:
        box = projected_bounds(metadata.objects[0], metadata.camera, width, height, bounds)
    except InputError as error:
        raise InputError(f"`{metadata.id}`: {error}") from None
    name = f"{str(labels['object_type']).capitalize()}_0"
    return {"scene": scene, "lights": lights, "objects": {name: {**labels, "bounds": box}}}


def projected_bounds(
    record: ObjectRecord, camera: CameraRecord, width: int, height: int, bounds: Bounds = "exact"
) -> Box:
    """Bound the projections of the eight corners of an object's bounding box.

    Args:
        record: the object.
        camera: the camera.
        width: pixels.
        height: pixels.
        bounds: as in `export_candle`.

    Returns:
        [[x low, y low], [x high, y high]] in pixels, y from the bottom, rounded outwards.

    Raises:
        InputError: the frame was rendered before corners were recorded, or a corner lies behind the camera.

    Example:
        A cube of 2 m stands 10 m ahead of a camera of 50 pixels focal length, its base at camera height:

        >>> camera = CameraRecord.model_validate(
        ...     {"intrinsics": [[50, 0, 16], [0, 50, 12], [0, 0, 1]], "world_to_camera": np.eye(4).tolist()}
        ... )
        >>> corners = [c for x in (-1, 1) for y in (-2, 0) for z in (10, 12) for c in (x, y, z)]
        >>> cube = ObjectRecord(
        ...     type="cube", material="red", base_color=None, size=2, rotation=0, location=(0, 0, 11),
        ...     corners=corners,
        ... )
        >>> projected_bounds(cube, camera, 32, 24)
        [[11, 12], [21, 22]]
    """
    if record.corners is None:
        raise InputError("its metadata has no corners of the object's bounding box; render it again")
    aimed = bounds == "faithful" and camera.aimed is not None
    pose = np.array(camera.aimed if aimed else camera.world_to_camera)
    points = _project(np.array(record.corners).reshape(8, 3), pose, np.array(camera.intrinsics))
    points[:, 1] = height - points[:, 1]
    low, high = np.floor(points.min(axis=0)), np.ceil(points.max(axis=0))
    if bounds == "exact":
        low, high = (np.clip(corner, 0, (width, height)) for corner in (low, high))
    return [low.astype(int).tolist(), high.astype(int).tolist()]


def _project(
    points: Float64[ndarray, "n 3"], pose: Float64[ndarray, "4 4"], intrinsics: Float64[ndarray, "3 3"]
) -> Float64[ndarray, "n 2"]:
    """Project world points to pixels, y down."""
    seen = points @ pose[:3, :3].T + pose[:3, 3]
    if not (seen[:, 2] > 0).all():
        raise InputError("the object's bounding box reaches behind the camera, so it has no bounds")
    image = seen @ intrinsics.T
    # A rounding error of half a millionth of a pixel must not push a bound outwards by a whole pixel.
    return (image[:, :2] / image[:, 2:]).round(6)


def _has_candles_factors(set_info: SetInfo) -> bool:
    return set(CANDLE_FACTORS) <= {factor.name for factor in set_info.factors}
