"""Types of views: their items, and protocols (`typing.Protocol`) with the members that an evaluation needs.

A view is any object with the members of a protocol; no base class is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from jaxtyping import Bool, Float32, Float64, Int64
from numpy import ndarray

from candlelight.loaders.schema import FactorInfo, FactorValue

# Importing views must not import torch; tests still check shapes and dtypes.
if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = Any

Explains = Literal["image", "objects"]
Varies = Literal["albedo", "illumination", "camera", "pose"]
Origin = Literal["human", "synthetic"]
ItemOf = TypeVar("ItemOf", covariant=True)


@dataclass(frozen=True)
class DataIdentity:
    """Name, layout, set and split of the data that a view reads.

    Attributes:
        name: name of the data set.
        layout: "frames", "pictures", or a public data set's layout as in ``LAYOUT:PATH``.
        set_name: image set; None for data without sets.
        split: split; None for data without splits, and for a reader that does not name its split.
        recipe: SHA-256 of the recipe of the frames; None for other data.
        image: the image that is decomposed, where it is not the usual one of the data.
        mask: how the masks differ from the usual ones of the data; None if they do not.

    Example:
        >>> DataIdentity("demo", "frames", "tabletop").split is None
        True
    """

    name: str
    layout: str
    set_name: str | None = None
    split: str | None = None
    recipe: str | None = None
    image: str | None = None
    mask: str | None = None


@dataclass(frozen=True, eq=False)
class DecomposedImage:
    """An image and its true decomposition, scene-linear Rec.709, channels first, on the CPU.

    Attributes:
        image: radiance times the exposure, unbounded above; for frames without radiance, the decoded 8-bit
            image, in [0, 1].
        reflectance: true reflectance; in [0, 1] for rendered frames.
        shading: true shading, gray or coloured; times the exposure for rendered frames. It has no channels if
            the data have a reflectance alone, as InteriorVerse and Stanford-ORB (option ``shading``).
        mask: pixels with a known decomposition.
        lights: the same object under other lights; None if not requested or not available.
        shading_known: channels of the shading that are known, as those of a rendered frame are where the
            albedo is not 0; None if all are known inside the mask. Unknown channels of ``shading`` hold the
            mean of the pixel's known ones, and no score may read them (`fill_unknown`).
    """

    image: Float32[Tensor, "3 height width"]
    reflectance: Float32[Tensor, "3 height width"]
    shading: Float32[Tensor, "channels height width"]
    mask: Bool[Tensor, "height width"]
    lights: Float32[Tensor, "lights 3 height width"] | None = None
    shading_known: Bool[Tensor, "channels height width"] | None = None


@dataclass(frozen=True, eq=False)
class LayerImage:
    """An image and the truth of one layer, channels first, on the CPU.

    Attributes:
        image: as `DecomposedImage.image`.
        truth: colours scene-linear; normals in OpenCV's camera axes (x right, y down, z forward), of any
            length but 0; depth along the optical axis, above 0. Values outside the mask mean nothing.
        mask: pixels that are scored.
        layer: name of the layer.
        parts: pixels of parts of the image that are scored apart, by name; the same names in all rows.
    """

    image: Float32[Tensor, "3 height width"]
    truth: Float32[Tensor, "channels height width"]
    mask: Bool[Tensor, "height width"]
    layer: str
    parts: Mapping[str, Bool[Tensor, "height width"]] = field(default_factory=dict)


@dataclass(frozen=True)
class ConceptSet:
    """Images that differ in one concept alone.

    Attributes:
        fixed: factors that all rows of the set share.
        rows: row numbers in the view.
        objects: number of objects in the scene; None if it is unknown or differs between rows.
    """

    fixed: dict[str, FactorValue]
    rows: tuple[int, ...]
    objects: int | None = None


@dataclass(frozen=True, eq=False)
class PartImage:
    """An image with masks of its parts.

    Attributes:
        image: sRGB-encoded, in [0, 1].
        masks: pixels of each part, by the part's name.
        label: type of the objects or class of the image; None if there is not exactly one.
    """

    image: Float32[Tensor, "3 height width"]
    masks: dict[str, Bool[Tensor, "height width"]]
    label: str | None = None


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Valid comparisons of two points of one image, from `public.IIW` or made of a true albedo.

    Attributes:
        points: x and y of both points in [0, 1), relative to width and height: the pixel is
            [int(y * height), int(x * width)].
        darker: 1 or 2 for the darker point, 0 for equal reflectance.
        score: weight of each comparison, above 0.
    """

    points: Float64[Tensor, "n 2 2"]
    darker: Int64[Tensor, " n"]
    score: Float64[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class JudgedImage:
    """A photograph with human judgements, or a rendered frame with synthetic ones.

    Attributes:
        image: scene-linear Rec.709, in [0, 1]; unbounded above for rendered frames.
        comparisons: comparisons of reflectance; None for a data set of labels.
        labels: labels of shading, 0 and 1 not smooth, 2 smooth, 100 to be ignored
            (`candlelight.loaders.public.SAW`); None for a data set of comparisons. Rendered frames have both.
    """

    image: Float32[Tensor, "3 height width"]
    comparisons: Comparisons | None = None
    labels: Int64[Tensor, "height width"] | None = None


@dataclass(frozen=True, eq=False)
class RegionImage:
    """An image with regions of one material each.

    Attributes:
        image: scene-linear Rec.709; as `DecomposedImage.image` for frames.
        regions: 0 outside all regions, else the number of the region, from 1; some numbers may be missing.
        colours: true albedo of region n in row n - 1, scene-linear Rec.709; None if it is not known.
        mask: pixels that show surfaces, for models that take a mask; None for all.
    """

    image: Float32[Tensor, "3 height width"]
    regions: Int64[Tensor, "height width"]
    colours: Float32[Tensor, "n 3"] | None = None
    mask: Bool[Tensor, "height width"] | None = None


@dataclass(frozen=True, eq=False)
class RatedPair:
    """An image, a distorted copy, and human opinions about the copy.

    Attributes:
        reference: sRGB-encoded, in [0, 1].
        distorted: sRGB-encoded, in [0, 1].
        score: mean opinion score, higher is better.
        deviation: standard deviation of the opinions.
    """

    reference: Float32[Tensor, "3 height width"]
    distorted: Float32[Tensor, "3 height width"]
    score: float
    deviation: float


@runtime_checkable
class View(Protocol[ItemOf]):
    """Rows of data for an evaluation."""

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Id of each row, unique."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Scene, object or unit of each row; rows of one group are not independent."""

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of all rows of the data, including rows that ``rows`` and ``limit`` leave out."""

    def __len__(self) -> int:
        """Count the rows."""

    def __getitem__(self, row: int, /) -> ItemOf:
        """Read one row."""


@runtime_checkable
class Decompositions(View[DecomposedImage], Protocol):
    """Images with their true reflectance and shading."""

    @property
    def explains(self) -> Explains:
        """Part of the image that reflectance times shading explains; "objects" over a shadow catcher."""


@runtime_checkable
class ConceptSets(View[Tensor], Protocol):
    """Images, float32 [3, height, width], sRGB-encoded in [0, 1], in sets that differ in one concept."""

    @property
    def sets(self) -> tuple[ConceptSet, ...]:
        """Sets, with their rows in this view."""

    @property
    def varies(self) -> Varies | None:
        """Concept in which the images of a set differ, found from the data; None if it is unclear.

        "camera" and "pose" are controls, in which neither albedo nor illumination changes.
        """


@runtime_checkable
class Parts(View[PartImage], Protocol):
    """Images with masks of their parts."""


@runtime_checkable
class Factors(View[Tensor], Protocol):
    """Images, float32 [3, height, width], sRGB-encoded in [0, 1], with known factors."""

    @property
    def factors(self) -> tuple[FactorInfo, ...]:
        """Descriptions of the factors, one per column of ``table``."""

    @property
    def table(self) -> Float64[ndarray, "n k"]:
        """Class index of each categorical factor and value of each continuous one, one row per image."""


@runtime_checkable
class Judgements(View[JudgedImage], Protocol):
    """Images with comparisons of reflectance, labels of shading, or both."""

    @property
    def origin(self) -> Origin:
        """Origin of the judgements: people, or the ground truth of rendered frames."""


@runtime_checkable
class Regions(View[RegionImage], Protocol):
    """Images with regions of one material; the groups are scenes."""

    @property
    def synthetic(self) -> bool:
        """Whether the images are rendered; results record it."""


@runtime_checkable
class RatedPairs(View[RatedPair], Protocol):
    """Images with distorted copies and opinion scores."""


@runtime_checkable
class Images(View[Tensor], Protocol):
    """Images alone, float32 [3, height, width], sRGB-encoded in [0, 1]."""
