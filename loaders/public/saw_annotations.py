"""Read the annotations of SAW from its JSON: regions, shadow boundaries and comparisons."""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from pydantic import BaseModel, Field

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.iiw import (
    ComparisonRecord,
    PointComparisons,
    PointRecord,
    read_json,
    valid_comparisons,
)

SOURCE = "https://github.com/kovibalu/saw_release (download_saw.sh)"
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


class ShadingRegion(NamedTuple):
    """A region of constant shading drawn by a person, with other people's judgements, None if not judged.

    ``vertices`` are x and y over width and height; ``triangles`` cover the region and ``segments`` bound it,
    by numbers of vertices. ``area`` is the value in the file.
    """

    vertices: Float64[ndarray, "n 2"]
    triangles: Int64[ndarray, "t 3"]
    segments: Int64[ndarray, "s 2"]
    area: float | None
    flat: bool | None
    glossy: bool | None
    varying: bool | None


class SAWAnnotations(NamedTuple):
    """The annotations of one photograph.

    ``shadow_points`` are x and y over width and height. ``on_shadow`` says whether each point is on the
    boundary of a shadow: 1 yes, 0 no, -1 no answer. ``reflectance`` and ``shading`` are the valid comparisons
    (`candlelight.loaders.public.iiw.PointComparisons`) of reflectance and of shading.
    """

    regions: tuple[ShadingRegion, ...]
    shadow_points: Float64[ndarray, "n 2"]
    on_shadow: Int64[ndarray, " n"]
    reflectance: PointComparisons
    shading: PointComparisons


class _Region(BaseModel):
    vertices: str
    triangles: str
    segments: str
    num_vertices: _Count
    num_triangles: _Count
    num_segments: _Count
    area: _Finite | None = None
    shading_region_flat: bool | None = None
    shading_region_glossy: bool | None = None
    shading_region_var: bool | None = None


class _ShadowPoint(BaseModel):
    x: _Finite
    y: _Finite
    osb: bool | None = None


class _Comparison(ComparisonRecord):
    compare_what: Literal["R", "S"] = "R"


class _Photograph(BaseModel):
    intrinsic_points: list[PointRecord] = []
    intrinsic_comparisons: list[_Comparison] = []
    constant_shading_regions: list[_Region] = []
    shadow_boundary_points: list[_ShadowPoint] = []


def read_saw_annotations(path: Path) -> SAWAnnotations:
    """Read the annotations of one photograph.

    Args:
        path: ``saw_annotations_json/<id>.json``.

    Raises:
        InputError: the file is missing or damaged.

    Example:
        >>> read_saw_annotations(Path("nowhere/54.json"))  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/54.json is missing; get it
            from https://github.com/kovibalu/saw_release (download_saw.sh)
    """
    found = read_json(path, _Photograph, SOURCE)
    reflectance, shading = (
        valid_comparisons(
            found.intrinsic_points,
            [made for made in found.intrinsic_comparisons if made.compare_what == quantity],
            path,
            SOURCE,
        )
        for quantity in ("R", "S")
    )
    points = found.shadow_boundary_points
    return SAWAnnotations(
        regions=tuple(_region(path, i, region) for i, region in enumerate(found.constant_shading_regions)),
        shadow_points=np.array([(point.x, point.y) for point in points], np.float64).reshape(-1, 2),
        on_shadow=np.array([-1 if point.osb is None else int(point.osb) for point in points], np.int64),
        reflectance=reflectance,
        shading=shading,
    )


def _region(path: Path, number: int, region: _Region) -> ShadingRegion:
    where = f"{path}: constant_shading_regions.{number}"
    vertices = _numbers(where, region.vertices, (region.num_vertices, 2))
    triangles = _numbers(where, region.triangles, (region.num_triangles, 3))
    segments = _numbers(where, region.segments, (region.num_segments, 2))
    for corners in (triangles, segments):
        if not np.isin(corners, np.arange(len(vertices))).all():
            raise InputError(
                f"{where}: expected numbers of its {region.num_vertices} vertices; get it again from {SOURCE}"
            )
    return ShadingRegion(
        vertices=vertices,
        triangles=triangles.astype(np.int64),
        segments=segments.astype(np.int64),
        area=region.area,
        flat=region.shading_region_flat,
        glossy=region.shading_region_glossy,
        varying=region.shading_region_var,
    )


def _numbers(where: str, text: str, shape: tuple[int, int]) -> Float64[ndarray, "n k"]:
    """Read numbers separated by commas."""
    try:
        numbers = np.array([float(word) for word in text.split(",")] if text else [], np.float64)
    except ValueError:
        numbers = np.array([np.nan])
    if numbers.size != shape[0] * shape[1] or not np.isfinite(numbers).all():
        expected = f"expected {shape[0]} x {shape[1]} numbers, got {text[:40]!r}"
        raise InputError(f"{where}: {expected}; get it again from {SOURCE}")
    return numbers.reshape(shape)
