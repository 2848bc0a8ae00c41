"""Captures as the MIT Intrinsic Images dataset lies on disk: ``data/<object>/*.png``, 16 bits, linear."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float64, UInt16
from numpy import ndarray
from pydantic import Field

from loaders.errors import InputError
from loaders.exports.capture_frames import (
    MAIN,
    OWN,
    SECOND,
    Comparison,
    Views,
    by_paper,
    by_passes,
    compare,
    diffuse,
    find_views,
    labels,
    read_views,
)
from loaders.exports.export_folder import claim
from loaders.exports.intrinsic_images import Intrinsic, Mask, Rgb
from loaders.files.atomic_files import replacing
from loaders.files.layer_codecs import encode_png
from loaders.open_frames import open_frames
from loaders.schema import LightRecord, RecipeRecord, Record

By = Literal["paper", "passes"]
WHITE = 255 * 255  # the dataset's largest value, also that of its masks
# How far above the brightest diffuse value of any of its lights an object's highlights are kept.
HEADROOM = 2.0
_SIDE_FILE = "captures.json"


class CaptureRecord(Record):
    """What was written of one object.

    ``units`` are 16-bit values per unit of scene radiance (colour files), of shading and of reflectance, and
    ``k`` is such that diffuse = reflectance x shading / k, within ``reconstruction`` (relative RMSE over the
    object). ``saturated`` is the share of object pixels of which a channel is cut off, file by file.
    """

    size: tuple[int, int]
    units: dict[str, float]
    k: float
    reconstruction: float
    saturated: dict[str, float]
    comparison: Comparison


class CapturesRecord(Record):
    """``captures.json``: how the images were made, the lamps of each light, and each object's scales."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1
    by: By
    recipe: RecipeRecord
    licence: str
    lights: dict[str, tuple[LightRecord, ...]]
    objects: dict[str, CaptureRecord]

    def to_json(self) -> str:
        """Text of ``captures.json``."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def export_mit(
    frames: Path | str, out: Path | str, by: By = "paper", set_name: str | None = None
) -> tuple[str, ...]:
    """Write an image set of captures in the layout of the MIT Intrinsic Images dataset.

    ``out/data/<object>/`` holds ``original diffuse reflectance specular light01 .. light10`` (RGB) and
    ``shading mask`` (gray): 16-bit PNG, linear, 0 outside the object. ``out/captures.json`` is a
    `CapturesRecord`, written last.

    Args:
        frames: folder of frames or pack, whose set has the factors ``item``, ``light`` (``main``,
            ``second``, ``light01`` and so on) and ``material`` (``own``, and ``uniform`` under the first
            two).
        out: folder to write, new or one that the same export was started in.
        by: "paper" derives the images by equations 2, 4 and 5 of Grosse et al. 2009 from captures, the
            original being D + 2 G of diffuse light D and gloss G, for no polariser exists in a render;
            "passes" takes them from the frame's layers, the original being D + G.
        set_name: the image set; may be left out where there is only one.

    Returns:
        Names of the objects.

    Raises:
        InputError: a factor, layer or frame is missing, a label is no file name, or ``out`` holds something
            else.

    Example:
        >>> export_mit(Path("frames"), Path("mit"))  # doctest: +SKIP
        ('teapot', 'bunny')
    """
    frames, out = Path(frames), Path(out)
    opened = open_frames(frames, set_name)
    names, lights = labels(opened)
    rows = find_views(opened, names, lights)
    info = opened.info
    claim(out, to="mit", by=by, set=opened.set_name, recipe=info.recipe.sha256)
    records: dict[str, CaptureRecord] = {}
    lamps: dict[str, tuple[LightRecord, ...]] = {}
    for name in names:
        views = read_views(opened, rows, name)
        images, records[name] = _develop(views, name, by)
        lamps = {light: frame.metadata.lights for (light, paint), frame in views.items() if paint == OWN}
        folder = out / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, pixels in images.items():
            with replacing(folder / f"{file}.png") as partial:
                partial.write_bytes(encode_png(pixels))
    record = CapturesRecord(by=by, recipe=info.recipe, licence=info.licence, lights=lamps, objects=records)
    with replacing(out / _SIDE_FILE) as partial:
        partial.write_text(record.to_json(), encoding="utf-8")
    return names


def _develop(views: Views, name: str, by: By) -> tuple[dict[str, UInt16[ndarray, "..."]], CaptureRecord]:
    """Make the files of one object, and say how."""
    mask = views[MAIN, OWN].layers["object"] > 0
    paper, passes = by_paper(views, mask), by_passes(views, mask)
    made = paper if by == "paper" else passes
    further = {
        light: diffuse(frame, mask)
        for (light, paint), frame in views.items()
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
        saturated={image: share for image in images if (share := _cut_off(images[image], mask)) > 0},
        comparison=compare(views, mask, paper, passes),
    )
    files = {image: np.rint(array).clip(0, 65535).astype(np.uint16) for image, array in images.items()}
    return {**files, "mask": np.where(mask, WHITE, 0).astype(np.uint16)}, record


def _units(made: Intrinsic, further: dict[str, Rgb], name: str) -> dict[str, float]:
    """Bring what is brightest to `WHITE`, but highlights no more than `HEADROOM` below the rest."""
    brightest = max(float(image.max()) for image in (made.diffuse, *further.values()))
    largest = {
        "radiance": min(max(float(made.original.max()), brightest), HEADROOM * brightest),
        "shading": float(made.shading.max()),
        "reflectance": float(made.reflectance.max()),
    }
    if dark := [what for what, value in largest.items() if value <= 0]:
        raise InputError(f"`{name}` has no {dark[0]} anywhere; light it, or move it into the picture")
    return {what: WHITE / value for what, value in largest.items()}


def _reconstruction(made: Intrinsic) -> float:
    error = made.diffuse - made.reflectance * made.shading[..., None]
    return float(np.linalg.norm(error) / np.linalg.norm(made.diffuse))


def _cut_off(image: Float64[ndarray, "height width ..."], mask: Mask) -> float:
    over = image > 65535
    return float((over.any(axis=-1) if image.ndim == 3 else over)[mask].mean())
