"""Read Shading Annotations in the Wild (Kovacs, Bell, Snavely, Bala, CVPR 2017)."""

from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from pydantic import BaseModel, Field

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.iiw import ComparisonRecord, PointComparisons, PointRecord, valid_comparisons
from candlelight.loaders.public.image_formats import image_tensor, read_rgb8, same_size, to_tensor
from candlelight.loaders.public.public_files import PublicSamples, PublicSource, finite_numbers

SOURCE = PublicSource("https://github.com/kovibalu/saw_release (download_saw.sh)")
LABELS = {0: "discontinuity of normal or depth", 1: "shadow boundary", 2: "smooth", 100: "ignore"}
LABEL_FOLDER = "saw_data-filter_size_0-ignore_border_0.05-normal_gradmag_thres_1.5-depth_gradmag_thres_2.0"
_Split = Literal["train", "val", "test"]
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
    flat: bool | None = Field(default=None, alias="shading_region_flat")
    glossy: bool | None = Field(default=None, alias="shading_region_glossy")
    varying: bool | None = Field(default=None, alias="shading_region_var")


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


class SAW(PublicSamples):
    """Photographs with labels of smooth shading.

    ``data[i]`` is a dict of ``id`` (number of the photograph as text) and

    * ``image``: float32 [3, H, W], the 8-bit sRGB pixels decoded to scene-linear values in [0, 1];
    * ``labels``: int64 [H, W]: 0 not smooth, because normal or depth jump; 1 not smooth, the boundary of a
      shadow; 2 smooth; 100 ignore;
    * ``mask``: bool [H, W], true where the label is not 100.

    The benchmark separates smooth (2) from not smooth (0 and 1). Two conventions of scoring, of SAW and of
    CGIntrinsics, give different numbers.

    Certain: names, splits, labels. Uncertain: whether every number of a split has a file of labels, hence
    ``skip_missing``.

    Example:
        >>> SAW("nowhere", "test")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/saw_splits/test_ids.npy is missing; get it from https://github.com/kovibalu/saw_release (download_saw.sh)
    """  # noqa: E501

    def __init__(self, root: Path | str, split: _Split, skip_missing: bool = False) -> None:
        """Read the list of a split, without reading an image.

        Args:
            root: folder with ``saw_splits``, ``saw_images_512`` and ``saw_pixel_labels``; `annotations` also
                needs ``saw_annotations_json``.
            split: "train" (4142 photographs in the release), "val" (836) or "test" (1699).
            skip_missing: leave out photographs without a file of labels, and list them in ``missing``;
                otherwise reading such a row is an error.

        Raises:
            InputError: the folder is missing, there is no such split, or its list is damaged.
        """
        check_choice("split", split, _Split)
        root = Path(root)
        self._images, self._annotations = root / "saw_images_512", root / "saw_annotations_json"
        self._labels = root / "saw_pixel_labels" / LABEL_FOLDER
        listed = _read_ids(root / "saw_splits" / f"{split}_ids.npy")
        self.missing = tuple(
            key for key in listed if skip_missing and not (self._labels / f"{key}.npy").is_file()
        )
        self.ids = tuple(key for key in listed if key not in {*self.missing})

    def _read(self, number: int) -> dict[str, Any]:
        path = self._labels / f"{self.ids[number]}.npy"
        pixels = read_rgb8(self._images / f"{path.stem}.png", SOURCE)
        labels = SOURCE.numbers(path, "integers", 2)
        if unknown := set(np.unique(labels).tolist()) - LABELS.keys():
            raise InputError(f"{path}: expected the labels 0, 1, 2 and 100, got {sorted(unknown)[0]}")
        same_size({"image": pixels, "labels": labels}, str(path))
        return {
            "image": image_tensor(pixels, linear=True),
            "labels": to_tensor(labels),
            "mask": to_tensor(labels != 100),
        }

    def annotations(self, row: SupportsIndex) -> SAWAnnotations:
        """Read the annotations of one photograph, without the photograph.

        Raises:
            InputError: the file is missing or damaged.
        """
        path = self._annotations / f"{self.ids[row]}.json"
        found = SOURCE.json(path, _Photograph)
        made = {
            quantity: [one for one in found.intrinsic_comparisons if one.compare_what == quantity]
            for quantity in ("R", "S")
        }
        points = found.shadow_boundary_points
        return SAWAnnotations(
            regions=tuple(
                _region(f"{path}: constant_shading_regions.{number}", region)
                for number, region in enumerate(found.constant_shading_regions)
            ),
            shadow_points=np.array([(point.x, point.y) for point in points], np.float64).reshape(-1, 2),
            on_shadow=np.array([-1 if point.osb is None else int(point.osb) for point in points], np.int64),
            reflectance=valid_comparisons(found.intrinsic_points, made["R"], path, SOURCE),
            shading=valid_comparisons(found.intrinsic_points, made["S"], path, SOURCE),
        )


def _read_ids(path: Path) -> tuple[str, ...]:
    ids = SOURCE.numbers(path, "integers", 1)
    if ids.size and ids.min() < 0:
        raise InputError(f"{path}: expected numbers of photographs, got {ids.min()}")
    if len(np.unique(ids)) != len(ids):
        raise InputError(f"{path}: a photograph is listed twice; get it again from {SOURCE}")
    return tuple(map(str, ids.tolist()))


def _region(where: str, region: _Region) -> ShadingRegion:
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
        **region.model_dump(include={"area", "flat", "glossy", "varying"}),
    )


def _numbers(where: str, text: str, shape: tuple[int, int]) -> Float64[ndarray, "n k"]:
    """Read numbers separated by commas."""
    try:
        numbers = finite_numbers(text.split(",") if text else [], shape[0] * shape[1])
    except ValueError:
        numbers = None
    if numbers is None:
        expected = f"expected {shape[0]} x {shape[1]} numbers, got {text[:40]!r}"
        raise InputError(f"{where}: {expected}; get it again from {SOURCE}")
    return np.array(numbers, np.float64).reshape(shape)
