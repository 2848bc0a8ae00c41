"""Read Intrinsic Images in the Wild (Bell, Bala, Snavely, SIGGRAPH 2014): which of two points is darker."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, SupportsIndex

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from pydantic import BaseModel, Field

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.public.image_formats import image_tensor, read_rgb8
from candlelight.loaders.public.public_files import PublicSamples, PublicSource

SOURCE = PublicSource("http://opensurfaces.cs.cornell.edu/publications/intrinsic (iiw-dataset-release-0.zip)")
COUNT = 5230  # photographs of the release
_Split = Literal["all", "train", "test"]
_DARKER = {"E": 0, "1": 1, "2": 2}
_Share = Annotated[float, Field(ge=0, lt=1)]


class PointComparisons(NamedTuple):
    """Valid comparisons of two points of one photograph, the input of WHDR.

    ``points`` holds x and y of both points in [0, 1), relative to width and height: the pixel is
    [int(y * H), int(x * W)]. ``darker`` is 1 or 2 for the darker point and 0 for equal reflectance; ``score``
    is the weight.
    """

    points: Float64[ndarray, "n 2 2"]
    darker: Int64[ndarray, " n"]
    score: Float64[ndarray, " n"]


class PointRecord(BaseModel):
    """A point in the JSON of IIW, SAW and MAW."""

    id: int
    x: _Share
    y: _Share
    opaque: bool | None = None


class ComparisonRecord(BaseModel):
    """A comparison in the JSON of IIW, SAW and MAW."""

    point1: int
    point2: int
    darker: Literal["1", "2", "E"] | None = None
    darker_score: Annotated[float, Field(allow_inf_nan=False)] | None = None


class JudgedPhotograph(BaseModel):
    """The points of a photograph, and their comparisons."""

    intrinsic_points: list[PointRecord]
    intrinsic_comparisons: list[ComparisonRecord]


class _Licence(BaseModel):
    name: str | None = None
    url: str | None = None


class _Photograph(JudgedPhotograph):
    licence: _Licence | None = Field(default=None, alias="license")
    attribution_name: str | None = None
    attribution_url: str | None = None


class IIW(PublicSamples):
    """Photographs with judgements of relative reflectance.

    ``data[i]`` is a dict of ``id`` (the photograph's number as text), ``licence``, ``licence_url``,
    ``attribution`` and ``attribution_url`` (of the photograph; empty if the file has none) and

    * ``image``: float32 [3, H, W], the 8-bit sRGB pixels decoded to scene-linear values in [0, 1];
    * ``points``: float64 [n, 2, 2], ``darker``: int64 [n], ``score``: float64 [n], see `PointComparisons`.

    Only valid comparisons are included: both points judged opaque, one of the three answers, and a positive
    score. A score of null is not valid; the published ``whdr.py`` fails at it on Python 3.

    Certain: schema, names and the split, from published code and lists. Uncertain: the total number of
    comparisons (about 872 000).

    Example:
        >>> IIW("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere is missing; get it from http://opensurfaces.cs.cornell.edu/publications/intrinsic (iiw-dataset-release-0.zip)
    """  # noqa: E501

    def __init__(self, root: Path | str, split: _Split = "all", count: int = COUNT) -> None:
        """List the photographs without reading any.

        Args:
            root: the folder with ``data/<id>.png`` and ``data/<id>.json``, or that ``data`` itself.
            split: "test" is every fifth photograph from the first on, 1046 of them, in order of the numbers
                as text (Narihira, Maire, Yu 2015); "train" is the rest.
            count: number of photographs that a copy must have, so that its splits equal the papers' splits.

        Raises:
            InputError: the folder is missing or has no photograph, or a split is requested and the number of
                photographs differs from ``count``.
        """
        check_choice("split", split, _Split)
        root = SOURCE.require(Path(root))
        self._folder = root / "data" if (root / "data").is_dir() else root
        stems = (Path(name).stem for name in SOURCE.names(self._folder) if name.endswith(".json"))
        ids = sorted(stem for stem in stems if stem.isascii() and stem.isdigit())
        SOURCE.some(ids, f"{self._folder}: expected <id>.json")
        if split != "all" and len(ids) != count:
            raise InputError(
                f"{self._folder}: expected {count} photographs, of which the split is every fifth, got "
                f"{len(ids)}; complete the copy from {SOURCE}, or pass split='all'"
            )
        kept = {"all": ids, "test": ids[::5], "train": [key for row, key in enumerate(ids) if row % 5]}
        self.ids = tuple(kept[split])

    def _read(self, number: int) -> dict[str, Any]:
        import torch

        photograph, judged = self._judged(number)
        licence = photograph.licence or _Licence()
        pixels = read_rgb8(self._folder / f"{self.ids[number]}.png", SOURCE)
        return {
            "licence": licence.name or "",
            "licence_url": licence.url or "",
            "attribution": photograph.attribution_name or "",
            "attribution_url": photograph.attribution_url or "",
            "image": image_tensor(pixels, linear=True),
            **{name: torch.tensor(array) for name, array in judged._asdict().items()},
        }

    def judgements(self, row: SupportsIndex) -> PointComparisons:
        """Read the judgements of one photograph as arrays, without the photograph.

        Raises:
            InputError: the file is missing or damaged.
        """
        return self._judged(row)[1]

    def _judged(self, row: SupportsIndex) -> tuple[_Photograph, PointComparisons]:
        path = self._folder / f"{self.ids[row]}.json"
        found = SOURCE.json(path, _Photograph)
        return found, valid_comparisons(found.intrinsic_points, found.intrinsic_comparisons, path, SOURCE)


def valid_comparisons(
    listed: Sequence[PointRecord], comparisons: Sequence[ComparisonRecord], path: Path, source: PublicSource
) -> PointComparisons:
    """Keep the valid comparisons: both points opaque, an answer, and a positive score.

    Args:
        listed: the points of a photograph.
        comparisons: the answers about pairs of points.
        path: file of the comparisons, for messages.
        source: where to get the data set, for messages.

    Raises:
        InputError: a comparison names a point that is not listed.
    """
    points = {point.id: point for point in listed}
    rows = []
    for made in comparisons:
        if made.point1 not in points or made.point2 not in points:
            raise InputError(
                f"{path}: a comparison names points {made.point1} and {made.point2}, not both listed; "
                f"get it again from {source}"
            )
        one, two = points[made.point1], points[made.point2]
        if made.darker and made.darker_score and made.darker_score > 0 and one.opaque and two.opaque:
            rows.append((one.x, one.y, two.x, two.y, _DARKER[made.darker], made.darker_score))
    table = np.array(rows, np.float64).reshape(-1, 6)
    return PointComparisons(table[:, :4].reshape(-1, 2, 2), table[:, 4].astype(np.int64), table[:, 5].copy())
