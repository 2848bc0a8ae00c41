"""Write captures in the layout of MIT Intrinsic Images: ``data/<object>/*.png``, 16 bits, linear."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float64, UInt16
from numpy import ndarray
from pydantic import Field

from candlelight.loaders.errors import InputError
from candlelight.loaders.exports.capture_frames import (
    MAIN,
    OWN,
    SECOND,
    CaptureFrames,
    IntrinsicDifferences,
    by_paper,
    by_passes,
    diffuse,
    find_captures,
    items_and_lights,
    measure_differences,
    read_captures,
)
from candlelight.loaders.exports.export_loop import ExportCounts, ExportFiles, ExportUnit, write_export
from candlelight.loaders.exports.intrinsic_images import ColourImage, Intrinsic, ObjectMask
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.schema import LightRecord, RecipeRecord, Record

IntrinsicMethod = Literal["paper", "passes"]
MIT_WHITE = 255 * 255  # largest value of the data set's images and masks
# Highlights keep values up to this many times the object's brightest diffuse value in any light.
HEADROOM = 2.0
_SIDE_FILE = "captures.json"


class CaptureRecord(Record):
    """Scales and errors of one object's files.

    ``units`` are 16-bit values per unit of scene radiance (colour files), of shading and of reflectance.
    ``k`` satisfies diffuse = reflectance x shading / k, within ``reconstruction`` (relative RMSE over the
    object). ``saturated`` is the share of object pixels with a clipped channel, file by file.
    """

    size: tuple[int, int]
    units: dict[str, float]
    k: float
    reconstruction: float
    saturated: dict[str, float]
    comparison: IntrinsicDifferences


class CapturesRecord(Record):
    """``captures.json``: the method, the light sources under each light, and each object's scales."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1
    by: IntrinsicMethod
    recipe: RecipeRecord
    licence: str
    lights: dict[str, tuple[LightRecord, ...]]
    objects: dict[str, CaptureRecord]

    def to_json(self) -> str:
        """Return the text of ``captures.json``."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def export_mit(
    frames: Path | str, out: Path | str, by: IntrinsicMethod = "paper", set_name: str | None = None
) -> ExportCounts:
    """Write an image set of captures in the layout of the MIT Intrinsic Images dataset.

    ``out/data/<object>/`` holds ``original diffuse reflectance specular light01 .. light10`` (RGB) and
    ``shading mask`` (gray): 16-bit PNG, linear, 0 outside the object. ``out/captures.json`` is a
    `CapturesRecord`, written last.

    Args:
        frames: folder of frames or pack; its set has the factors ``item``, ``light`` (``main``,
            ``second``, ``light01`` and so on) and ``material`` (``own``, and ``uniform`` under the first
            two).
        out: folder to write: new, or started by the same export.
        by: "paper" derives the images from captures by equations 2, 4 and 5 of Grosse et al. 2009, with the
            original D + 2 G of diffuse light D and gloss G, because a render has no polariser;
            "passes" takes them from the frame's layers, with the original D + G.
        set_name: the image set; may be left out where there is only one.

    Returns:
        How many objects were written now, and how many were found.

    Raises:
        InputError: a factor, layer or frame is missing, a label cannot name a file, or ``out`` holds
            something else.

    Example:
        >>> export_mit(Path("frames"), Path("mit")).written  # doctest: +SKIP
        2
    """
    opened = open_frames(Path(frames), set_name)
    names, lights = items_and_lights(opened)
    rows = find_captures(opened, names, lights)
    info = opened.info
    records: dict[str, CaptureRecord] = {}

    def developed(name: str) -> ExportFiles:
        images, records[name] = _develop(read_captures(opened, rows, name), name, by)
        return {f"data/{name}/{image}.png": encode_png(pixels) for image, pixels in images.items()}

    def side_file() -> ExportFiles:
        for name in names:
            if name not in records:  # its images are of an earlier call
                developed(name)
        record = CapturesRecord(
            by=by,
            recipe=info.recipe,
            licence=info.licence,
            lights={
                light: opened.metadata(row).lights
                for (name, light, paint), row in rows.items()
                if (name, paint) == (names[-1], OWN)
            },
            objects={name: records[name] for name in names},
        )
        return {_SIDE_FILE: record.to_json().encode()}

    units = [ExportUnit(f"data/{name}/mask.png", partial(developed, name)) for name in names]
    units.append(ExportUnit(_SIDE_FILE, side_file, 0))
    recipe = info.recipe.sha256
    return write_export(Path(out), units, "object", to="mit", by=by, set=opened.set_name, recipe=recipe)


def _develop(
    captured: CaptureFrames, name: str, by: IntrinsicMethod
) -> tuple[dict[str, UInt16[ndarray, "..."]], CaptureRecord]:
    """Make the files of one object, and their record."""
    mask = captured[MAIN, OWN].layers["object"] > 0
    paper, passes = by_paper(captured, mask), by_passes(captured, mask)
    made = paper if by == "paper" else passes
    further = {
        light: diffuse(frame, mask)
        for (light, paint), frame in captured.items()
        if paint == OWN and light not in (MAIN, SECOND)
    }
    units = _units(made, further, name)
    radiances = {"original": made.original, "diffuse": made.diffuse, "specular": made.specular, **further}
    images = {image: array * units["radiance"] for image, array in radiances.items()}
    images |= {image: getattr(made, image) * units[image] for image in ("shading", "reflectance")}
    record = CaptureRecord(
        size=(mask.shape[0], mask.shape[1]),
        units=units,
        k=units["reflectance"] * units["shading"] / units["radiance"],
        reconstruction=_reconstruction(made),
        saturated={image: share for image in images if (share := _clipped_share(images[image], mask)) > 0},
        comparison=measure_differences(captured, mask, paper, passes),
    )
    files = {image: np.rint(array).clip(0, 65535).astype(np.uint16) for image, array in images.items()}
    return {**files, "mask": np.where(mask, MIT_WHITE, 0).astype(np.uint16)}, record


def _units(made: Intrinsic, further: dict[str, ColourImage], name: str) -> dict[str, float]:
    """Scale the brightest value to `MIT_WHITE`, but clip highlights above `HEADROOM` x the diffuse light."""
    brightest = max(float(image.max()) for image in (made.diffuse, *further.values()))
    largest = {
        "radiance": min(max(float(made.original.max()), brightest), HEADROOM * brightest),
        "shading": float(made.shading.max()),
        "reflectance": float(made.reflectance.max()),
    }
    if dark := [quantity for quantity, value in largest.items() if value <= 0]:
        raise InputError(f"`{name}` has no {dark[0]} anywhere; light it, or move it into the image")
    return {quantity: MIT_WHITE / value for quantity, value in largest.items()}


def _reconstruction(made: Intrinsic) -> float:
    error = made.diffuse - made.reflectance * made.shading[..., None]
    return float(np.linalg.norm(error) / np.linalg.norm(made.diffuse))


def _clipped_share(image: Float64[ndarray, "height width ..."], mask: ObjectMask) -> float:
    brightest = image.max(axis=-1) if image.ndim == 3 else image
    return float((brightest[mask] > 65535).mean())
